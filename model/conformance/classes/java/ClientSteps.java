import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.dynamic.scaffold.subclass.ConstructorStrategy;
import net.bytebuddy.implementation.MethodDelegation;
import net.bytebuddy.matcher.ElementMatchers;
import org.apache.kafka.clients.ClientRequest;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.KafkaClient;
import org.apache.kafka.clients.RequestCompletionHandler;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.internals.BufferPool;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.AddOffsetsToTxnResponseData;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.EndTxnResponseData;
import org.apache.kafka.common.message.FindCoordinatorResponseData;
import org.apache.kafka.common.message.InitProducerIdResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.message.TxnOffsetCommitResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.AddOffsetsToTxnResponse;
import org.apache.kafka.common.requests.AddPartitionsToTxnResponse;
import org.apache.kafka.common.requests.EndTxnResponse;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.apache.kafka.common.requests.InitProducerIdResponse;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.requests.TxnOffsetCommitResponse;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;

/**
 * A client: KafkaProducer's send, TransactionManager, Sender and RecordAccumulator. A step is the
 * last one of a path, which is taken from the start. What the client sends is kept, and answered by
 * the path. Time goes on where the sender waits.
 */
final class ClientSteps implements Host.Steps {
    // A step: the number of operations on the path, the version, and the operations. Each is one
    // number: what it is, the request, the error, and what comes with it.
    private static final int LENGTH = 0, VERSION = 1, PATH = 2;
    private static final int INIT = 1, BEGIN = 2, SEND = 3, COMMIT = 4, ABORT = 5, OFFSETS = 6,
        WAIT = 7, SEND_LARGE = 8, ANSWER = 9, DISCONNECT = 10, MISMATCH = 11, PASS = 12,
        NO_GROUP = 13, NO_MEMBER = 14, MEMBER = 15, CLOSE = 16;
    /** In the place of a version: older brokers, and a client without transactional id. */
    private static final int OLDER = 10, IDEMPOTENT = 20, OLDER_VERSION = 2, PASSED_MS = 121_000;
    private static final Set<ApiKeys> OLDER_APIS =
        Set.of(ApiKeys.INIT_PRODUCER_ID, ApiKeys.TXN_OFFSET_COMMIT);
    private static final byte[] SMALL = new byte[10], LARGE = new byte[2_000_000];
    /** Added to an operation after which the sender runs until it needs an answer. */
    private static final int RUNS = 100;
    // A result: how it ended, the answer, and the client after it.
    private static final int ENDED = 0, RAISED = 1, CAUSE = 2, SENT = 3, AFTER = 8;
    private static final int THREW = 1, MOST_SENT = 4, MOST_ROUNDS = 30, MOST_WAIT_MS = 2_000,
        QUIET_ROUNDS = 3;
    private static final String INTERNALS = "org.apache.kafka.clients.producer.internals.",
        TOPIC = "t", ID = "orders", GROUP = "group";
    private static final TopicPartition PARTITION = new TopicPartition(TOPIC, 0);
    private static final Uuid TOPIC_ID = new Uuid(1, 1);
    private static final int BACKOFF_MS = 100, BATCH_SIZE = 16_384;
    private static final List<String> STATES = List.of(
        "UNINITIALIZED", "INITIALIZING", "READY", "IN_TRANSACTION", "COMMITTING_TRANSACTION",
        "ABORTING_TRANSACTION", "ABORTABLE_ERROR", "FATAL_ERROR");
    private static final Map<String, Integer> CODES = Map.of(
        "IllegalStateException", -101, "IllegalArgumentException", -102, "KafkaException", -103,
        "TimeoutException", -104, "TransactionAbortedException", -105, "CommitFailedException", -106,
        "AuthenticationException", -107, "RuntimeException", -108, "BufferExhaustedException", -109);
    private static final short UNKNOWN_ID = Errors.UNKNOWN_PRODUCER_ID.code();
    private static final Class<?> MANAGER = Kafka.type(INTERNALS + "TransactionManager"),
        SENDER = Kafka.type(INTERNALS + "Sender"),
        ACCUMULATOR = Kafka.type(INTERNALS + "RecordAccumulator");

    private static final Class<?> DRIVEN = driven();
    private static final Method
        CHECKS_GROUP = ofProducer("throwIfInvalidGroupMetadata", ConsumerGroupMetadata.class),
        CHECKS_CLOSED = ofProducer("throwIfProducerClosed");
    private static final Map<String, Field> FIELDS = new HashMap<>();
    private static final Map<Integer, Object> VERSIONS = new HashMap<>();

    private final ProducerConfig config = new ProducerConfig(Map.of(
        "bootstrap.servers", "localhost:9092", "transactional.id", ID,
        "key.serializer", ByteArraySerializer.class, "value.serializer", ByteArraySerializer.class));
    private final Object logContext = StandIns.logContext(), metadata = metadata();

    ClientSteps() {
        new Client(0).run(); // the first one takes seconds, as it loads the classes
    }

    @Override
    public void take(long[] step, long[] result) {
        Client client = new Client((int) step[VERSION]);
        int last = (int) step[LENGTH] - 1;
        try {
            for (int number = 0; number <= last; number++) {
                Arrays.fill(result, 0);
                client.sent.clear();
                client.take(Operation.of(step[PATH + number]), result);
            }
            client.write(result);
        } finally {
            client.leave();
        }
    }

    private record Operation(int number, int request, short error, short extra) {
        static Operation of(long packed) {
            return new Operation((int) (packed >> 40), (int) (packed >> 32) & 0xff,
                (short) (packed >> 16), (short) packed);
        }
    }

    /** The field of TransactionManager with the first of these names that this release has. */
    private static Field declared(String... names) {
        for (String name : names) {
            try {
                Field found = MANAGER.getDeclaredField(name);
                found.setAccessible(true);
                return found;
            } catch (NoSuchFieldException e) {
                continue;
            }
        }
        throw new IllegalStateException("TransactionManager has no " + List.of(names));
    }

    private static Method ofProducer(String name, Class<?>... types) {
        try {
            Method found = KafkaProducer.class.getDeclaredMethod(name, types);
            found.setAccessible(true);
            return found;
        } catch (NoSuchMethodException e) {
            throw new IllegalStateException("KafkaProducer has no " + name);
        }
    }

    private static Class<?> driven() {
        return new ByteBuddy()
            .subclass(MANAGER, ConstructorStrategy.Default.IMITATE_SUPER_CLASS_OPENING)
            .method(ElementMatchers.named("shouldPoisonStateOnInvalidTransition"))
            .intercept(MethodDelegation.to(Turn.class))
            .make().load(MANAGER.getClassLoader()).getLoaded();
    }

    private static int code(Throwable error) {
        Integer known = CODES.get(error.getClass().getSimpleName());
        return known != null ? known : Errors.forException(error).code();
    }

    private static Object versions(int version) {
        List<Object> apis = new ArrayList<>(), finalized = new ArrayList<>();
        for (ApiKeys key : ApiKeys.values()) {
            apis.add(new ApiVersionsResponseData.ApiVersion().setApiKey(key.id)
                .setMinVersion(key.oldestVersion())
                .setMaxVersion(version == OLDER && OLDER_APIS.contains(key)
                    ? OLDER_VERSION : key.latestVersion()));
        }
        if (version > 0 && version < OLDER) {
            finalized.add(new ApiVersionsResponseData.FinalizedFeatureKey()
                .setName("transaction.version").setMaxVersionLevel((short) version)
                .setMinVersionLevel((short) version));
        }
        Object versions = Kafka.make(Kafka.type("org.apache.kafka.clients.ApiVersions"));
        Kafka.call(versions, "update", "0", Kafka.make(
            Kafka.type("org.apache.kafka.clients.NodeApiVersions"), apis, List.of(), finalized,
            1L));
        return versions;
    }

    /** What brokers say of the topic: no step changes it. */
    private Object metadata() {
        Object listeners = Kafka.make(Kafka.type(
            "org.apache.kafka.common.internals.ClusterResourceListeners"));
        Class<?> type = Kafka.type(INTERNALS + "ProducerMetadata");
        Object metadata = Kafka.make(type, (long) BACKOFF_MS, (long) BACKOFF_MS, 1L << 40,
            1L << 40, logContext, listeners, Time.SYSTEM);
        var partition = new MetadataResponseData.MetadataResponsePartition()
            .setPartitionIndex(0).setLeaderId(0).setLeaderEpoch(0)
            .setReplicaNodes(List.of(0)).setIsrNodes(List.of(0));
        var data = new MetadataResponseData().setClusterId("cluster").setControllerId(0);
        data.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(0)
            .setHost("localhost").setPort(9092));
        data.topics().add(new MetadataResponseData.MetadataResponseTopic().setName(TOPIC)
            .setTopicId(TOPIC_ID).setPartitions(List.of(partition)));
        try {
            type.getMethod("add", String.class, long.class).invoke(metadata, TOPIC, 0L);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        Kafka.call(metadata, "updateWithCurrentRequestVersion",
            new MetadataResponse(data, (short) 12), false, 0L);
        return metadata;
    }

    /** Whether what runs is the sender's: from 4.2 on Kafka asks for the thread. */
    public static final class Turn {
        private static boolean isSenders;

        private Turn() {}

        public static boolean isSenders() {
            return isSenders;
        }
    }

    private final class Client implements InvocationHandler {
        private final List<ClientRequest> waiting = new ArrayList<>(), sent = new ArrayList<>();
        private final List<Future<?>> records = new ArrayList<>();
        private final List<Runnable> refused = new ArrayList<>();
        private final Object manager, sender, accumulator, producer;
        private final int version;
        private final Metrics metrics = new Metrics();
        private final Time time = new Clock();
        private long now = 0, delay = Long.MAX_VALUE;
        private int correlation = 0, quiet = 0, rounds = 0, sentBefore = 0;
        private long began = 0;
        /** The sender's thread, once the client is closed. */
        private Shutdown shutdown;
        private Object call;
        /** Whether that is of initTransactions, which learns the version of transactions at its end. */
        private boolean initializes;
        private final Node node = new Node(0, "localhost", 9092);

        private Client(int version) {
            Object versions = VERSIONS.computeIfAbsent(version, ClientSteps::versions);
            manager = Kafka.make(DRIVEN, logContext, ID, 60_000, (long) BACKOFF_MS, versions,
                metadata);
            if (version == IDEMPOTENT) {
                forgetId();
            }
            this.version = version;
            Object compression = Kafka.constant(Kafka.type(
                "org.apache.kafka.common.compress.Compression",
                "org.apache.kafka.common.record.CompressionType"), "NONE");
            accumulator = Kafka.make(ACCUMULATOR, logContext, BATCH_SIZE, compression, 0,
                (long) BACKOFF_MS, (long) BACKOFF_MS, 120_000,
                Kafka.make(Kafka.type(INTERNALS + "RecordAccumulator$PartitionerConfig")), metrics,
                "group", time, versions, manager,
                new BufferPool(33_554_432L, BATCH_SIZE, metrics, time, "group"));
            Object client = Proxy.newProxyInstance(getClass().getClassLoader(),
                new Class<?>[] {KafkaClient.class}, this);
            sender = Kafka.make(SENDER, logContext, client, metadata, accumulator, false,
                1_048_576, (short) -1, Integer.MAX_VALUE,
                Kafka.make(Kafka.type(INTERNALS + "SenderMetricsRegistry"), metrics), time, 30_000,
                (long) BACKOFF_MS, manager, versions);
            producer = Arrays.stream(KafkaProducer.class.getDeclaredConstructors())
                .filter(each -> Arrays.asList(each.getParameterTypes()).contains(SENDER))
                .findFirst().map(each -> made(each)).orElseThrow();
        }

        private Object made(java.lang.reflect.Constructor<?> constructor) {
            Class<?>[] types = constructor.getParameterTypes();
            Object[] arguments = new Object[types.length];
            List<Object> known = new ArrayList<>(List.of(config, logContext, metrics,
                new ByteArraySerializer(), new ByteArraySerializer(), metadata, accumulator,
                manager, sender, Kafka.make(Kafka.type(INTERNALS + "ProducerInterceptors"),
                    List.of(), metrics), time));
            for (int at = 0; at < types.length; at++) {
                Class<?> type = types[at];
                arguments[at] = known.stream().filter(type::isInstance).findFirst().orElse(
                    type == java.util.Optional.class ? java.util.Optional.empty() : null);
                known.remove(arguments[at]);
            }
            constructor.setAccessible(true);
            try {
                return constructor.newInstance(arguments);
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException(e);
            }
        }

        /** The time of this client alone. */
        private final class Clock implements Time {
            @Override
            public long milliseconds() {
                return now;
            }

            @Override
            public long nanoseconds() {
                return now * 1_000_000;
            }

            @Override
            public void sleep(long milliseconds) {
                now += milliseconds;
            }

            @Override
            public void waitObject(Object on, Supplier<Boolean> condition, long deadline) {
                throw new IllegalStateException("nobody waits for an object");
            }
        }

        // The network ---------------------------------------------------------------------------

        @Override
        public Object invoke(Object proxy, Method method, Object[] arguments) {
            switch (method.getName()) {
                case "newClientRequest" -> {
                    boolean isFull = arguments.length == 6;
                    return new ClientRequest((String) arguments[0],
                        (AbstractRequest.Builder<?>) arguments[1], correlation++, "client",
                        (long) arguments[2], (boolean) arguments[3],
                        isFull ? (int) arguments[4] : 30_000,
                        isFull ? (RequestCompletionHandler) arguments[5] : null);
                }
                case "send" -> {
                    send((ClientRequest) arguments[0]);
                    return null;
                }
                case "poll" -> {
                    delay = (long) arguments[0];
                    List<Runnable> due = List.copyOf(refused);
                    refused.clear();
                    due.forEach(Runnable::run);
                    // it is called once more in a round that sends a request
                    if (shutdown != null && due.isEmpty() && rests(QUIET_ROUNDS + 1)) {
                        shutdown.rest();
                    }
                    return List.of();
                }
                case "leastLoadedNode" -> {
                    Class<?> type = method.getReturnType();
                    return type == Node.class ? node : Kafka.make(type, node, true);
                }
                case "inFlightRequestCount" -> {
                    return waiting.size();
                }
                case "isReady", "ready", "hasReadyNodes", "active" -> {
                    return true;
                }
                default -> {
                    Class<?> type = method.getReturnType();
                    return type == boolean.class ? (Object) false
                        : type == int.class ? (Object) 0 : type == long.class ? (Object) 0L : null;
                }
            }
        }

        /** As NetworkClient.doSend: a request that the broker's version can't have comes back. */
        private void send(ClientRequest request) {
            var builder = request.requestBuilder();
            short most = builder.latestAllowedVersion();
            try {
                builder.build(version == OLDER && OLDER_APIS.contains(request.apiKey())
                    ? (short) Math.min(most, OLDER_VERSION) : most);
            } catch (UnsupportedVersionException e) {
                refused.add(() -> answer(request, null, e));
                return;
            }
            waiting.add(request);
            sent.add(request);
        }

        private void forgetId() {
            try {
                declared("transactionalId").set(manager, null);
            } catch (IllegalAccessException e) {
                throw new IllegalStateException(e);
            }
        }

        /** The sender works until every further round needs an answer. */
        private void run() {
            quiet = 0;
            rounds = 0;
            sentBefore = sent.size();
            began = now;
            if (shutdown != null) {
                shutdown.goOn();
                return;
            }
            do {
                try {
                    Kafka.call(sender, "runOnce");
                } catch (RuntimeException e) { // as Sender.run, which only logs it
                    if (System.getProperty("explains") != null) {
                        e.printStackTrace();
                    }
                }
            } while (!rests(QUIET_ROUNDS));
        }

        /** Whether nothing came of so many rounds. Before that, time goes on where it brings more. */
        private boolean rests(int most) {
            quiet = sentBefore == sent.size() && began == now ? quiet + 1 : 0;
            boolean isUndrained = (boolean) Kafka.call(accumulator, "hasUndrained");
            if (quiet == most && isUndrained && delay > 0 && delay < MOST_WAIT_MS
                    && !(boolean) Kafka.call(manager, "hasInFlightRequest")
                    && !(boolean) Kafka.call(manager, "hasFatalError")) {
                now += delay;
                quiet = 0;
            }
            sentBefore = sent.size();
            began = now;
            rounds++;
            return quiet >= most || rounds >= MOST_ROUNDS;
        }

        private void leave() {
            if (shutdown != null) {
                shutdown.leave();
            }
        }

        /** Sender.run of a closed client: it works while the host's thread waits, and rests then. */
        private final class Shutdown extends Thread {
            private final Semaphore turn = new Semaphore(0), rest = new Semaphore(0);
            private boolean isOver, isLeft;

            @Override
            public void run() {
                turn.acquireUninterruptibly();
                try {
                    if (!isLeft) {
                        ((Runnable) sender).run();
                    }
                } catch (Left e) {
                    // no step needs it any more
                } finally {
                    isOver = true;
                    rest.release();
                }
            }

            private void goOn() {
                if (!isOver) {
                    turn.release();
                    rest.acquireUninterruptibly();
                }
            }

            private void rest() {
                rest.release();
                turn.acquireUninterruptibly();
                if (isLeft) {
                    throw new Left();
                }
            }

            private void leave() {
                isLeft = true;
                goOn();
            }
        }

        /** Sender.run catches each Exception. */
        private static final class Left extends Error {}

        private void answer(ClientRequest request, AbstractResponse body,
                UnsupportedVersionException mismatch) {
            waiting.remove(request);
            short version = request.requestBuilder().latestAllowedVersion();
            request.callback().onComplete(new ClientResponse(request.makeHeader(version),
                request.callback(), request.destination(), request.createdTimeMs(), now,
                body == null && mismatch == null, mismatch, (AuthenticationException) null, body));
        }

        private AbstractResponse response(ClientRequest request, short error, long extra) {
            switch (request.apiKey()) {
                case FIND_COORDINATOR -> {
                    return new FindCoordinatorResponse(new FindCoordinatorResponseData()
                        .setCoordinators(List.of(new FindCoordinatorResponseData.Coordinator()
                            .setKey(ID).setNodeId(0).setHost("localhost").setPort(9092)
                            .setErrorCode(error))));
                }
                case INIT_PRODUCER_ID -> {
                    return new InitProducerIdResponse(new InitProducerIdResponseData()
                        .setErrorCode(error).setProducerId(error == 0 ? 7 : -1)
                        .setProducerEpoch((short) (error == 0 ? extra : -1)));
                }
                case ADD_PARTITIONS_TO_TXN -> {
                    var data = new AddPartitionsToTxnResponseData();
                    var topic = new AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult()
                        .setName(TOPIC);
                    topic.resultsByPartition().add(
                        new AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResult()
                            .setPartitionIndex(0).setPartitionErrorCode(error));
                    data.resultsByTopicV3AndBelow().add(topic);
                    return new AddPartitionsToTxnResponse(data);
                }
                case ADD_OFFSETS_TO_TXN -> {
                    return new AddOffsetsToTxnResponse(
                        new AddOffsetsToTxnResponseData().setErrorCode(error));
                }
                case TXN_OFFSET_COMMIT -> {
                    var partition = new TxnOffsetCommitResponseData.TxnOffsetCommitResponsePartition()
                        .setPartitionIndex(0).setErrorCode(error);
                    return new TxnOffsetCommitResponse(new TxnOffsetCommitResponseData().setTopics(
                        List.of(new TxnOffsetCommitResponseData.TxnOffsetCommitResponseTopic()
                            .setName(TOPIC).setPartitions(List.of(partition)))));
                }
                case END_TXN -> {
                    var data = new EndTxnResponseData().setErrorCode(error);
                    if (extra >= 0) {
                        Kafka.call(data, "setProducerId", 7L);
                        Kafka.call(data, "setProducerEpoch", (short) extra);
                    }
                    return new EndTxnResponse(data);
                }
                case PRODUCE -> {
                    var partition = new ProduceResponseData.PartitionProduceResponse().setIndex(0)
                        .setErrorCode(error).setBaseOffset(error == 0 ? extra : -1)
                        .setLogStartOffset(error == UNKNOWN_ID ? extra : -1);
                    var topic = new ProduceResponseData.TopicProduceResponse().setName(TOPIC)
                        .setPartitionResponses(List.of(partition));
                    if (Kafka.has(topic, "setTopicId")) {
                        Kafka.call(topic, "setTopicId", TOPIC_ID);
                    }
                    var data = new ProduceResponseData();
                    data.responses().add(topic);
                    return new ProduceResponse(data);
                }
                default -> throw new IllegalArgumentException("" + request.apiKey());
            }
        }

        // The path ------------------------------------------------------------------------------

        private void take(Operation operation, long[] result) {
            try {
                call(operation);
            } catch (RuntimeException e) {
                result[RAISED] = code(e);
                result[CAUSE] = e.getCause() == null ? 0 : code(e.getCause());
                if (System.getProperty("explains") != null) {
                    e.printStackTrace();
                }
            }
            if (operation.number >= RUNS) {
                onSender(this::run);
            }
        }

        /** Kafka's client fails for good where its sender's thread leaves the order of states. */
        private void onSender(Runnable work) {
            boolean isByName = Kafka.has(manager, "setPoisonStateOnInvalidTransition");
            Turn.isSenders = true;
            if (isByName) {
                Kafka.call(manager, "setPoisonStateOnInvalidTransition", true);
            }
            try {
                work.run();
            } catch (RuntimeException e) { // as Sender.run, which only logs it
                if (System.getProperty("explains") != null) {
                    e.printStackTrace();
                }
            } finally {
                Turn.isSenders = false;
                if (isByName) {
                    Kafka.call(manager, "setPoisonStateOnInvalidTransition", false);
                }
            }
        }

        private void call(Operation operation) {
            switch (operation.number % RUNS) {
                case INIT -> {
                    check(CHECKS_CLOSED);
                    call = initialized();
                    initializes = true;
                }
                case BEGIN -> {
                    check(CHECKS_CLOSED);
                    Kafka.call(manager, "beginTransaction");
                }
                case SEND -> records.add(send(SMALL));
                case SEND_LARGE -> send(LARGE);
                case COMMIT -> {
                    check(CHECKS_CLOSED);
                    called(Kafka.call(manager, "beginCommit"));
                }
                case ABORT -> {
                    check(CHECKS_CLOSED);
                    called(Kafka.call(manager, "beginAbort"));
                }
                case OFFSETS -> offsets(new ConsumerGroupMetadata(GROUP));
                case NO_GROUP -> offsets(null);
                case NO_MEMBER ->
                    offsets(new ConsumerGroupMetadata(GROUP, 1, "", Optional.empty()));
                case MEMBER ->
                    offsets(new ConsumerGroupMetadata(GROUP, 1, "member", Optional.empty()));
                case WAIT -> {
                    Kafka.call(call, "await", 1L, TimeUnit.MILLISECONDS);
                    if (initializes && Kafka.has(manager, "maybeUpdateTransactionV2Enabled")) {
                        Kafka.call(manager, "maybeUpdateTransactionV2Enabled", true);
                    }
                }
                case PASS -> now += PASSED_MS;
                case CLOSE -> {
                    ((KafkaProducer<?, ?>) producer).close(); // it has no thread to wait for
                    shutdown = new Shutdown();
                    shutdown.start();
                }
                case ANSWER -> {
                    ClientRequest request = waiting.get(operation.request);
                    AbstractResponse body = response(request, operation.error, operation.extra);
                    onSender(() -> answer(request, body, null));
                }
                case DISCONNECT ->
                    onSender(() -> answer(waiting.get(operation.request), null, null));
                case MISMATCH -> onSender(() -> answer(waiting.get(operation.request), null,
                    new UnsupportedVersionException("of another release")));
                default -> throw new IllegalArgumentException("operation " + operation.number);
            }
        }

        @SuppressWarnings("unchecked")
        private Future<?> send(byte[] value) {
            return ((KafkaProducer<byte[], byte[]>) producer).send(
                new ProducerRecord<>(TOPIC, 0, null, value));
        }

        /** A check that KafkaProducer's own call makes; that call waits for the result. */
        private void check(Method method, Object... given) {
            try {
                method.invoke(producer, given);
            } catch (InvocationTargetException e) {
                throw (RuntimeException) e.getCause();
            } catch (IllegalAccessException e) {
                throw new IllegalStateException(e);
            }
        }

        private void offsets(ConsumerGroupMetadata group) {
            check(CHECKS_GROUP, group);
            check(CHECKS_CLOSED);
            called(Kafka.call(manager, "sendOffsetsToTransaction",
                Map.of(PARTITION, new OffsetAndMetadata(5)), group));
        }

        private void called(Object result) {
            call = result;
            initializes = false;
        }

        private Object initialized() {
            for (Class<?>[] types : new Class<?>[][] {{boolean.class}, {}}) { // from 4.2 on, before
                try {
                    return MANAGER.getMethod("initializeTransactions", types)
                        .invoke(manager, types.length == 0 ? new Object[0] : new Object[] {false});
                } catch (NoSuchMethodException e) {
                    continue;
                } catch (InvocationTargetException e) {
                    throw (RuntimeException) e.getCause();
                } catch (IllegalAccessException e) {
                    throw new IllegalStateException(e);
                }
            }
            throw new IllegalStateException("TransactionManager has no initializeTransactions");
        }

        private void write(long[] result) {
            result[SENT] = sent.size();
            for (int at = 0; at < Math.min(sent.size(), MOST_SENT); at++) {
                result[SENT + 1 + at] = sent.get(at).apiKey().id;
            }
            int at = AFTER;
            result[at++] = STATES.indexOf(((Enum<?>) field("currentState")).name());
            Throwable error = (Throwable) field("lastError");
            result[at++] = error == null ? 0 : code(error);
            Object id = Kafka.call(manager, "producerIdAndEpoch");
            result[at++] = (long) Kafka.field(id, "producerId");
            result[at++] = (short) Kafka.field(id, "epoch");
            for (String name : List.of("newPartitionsInTransaction",
                    "pendingPartitionsInTransaction", "partitionsInTransaction")) {
                result[at++] = ((Collection<?>) field(name)).size();
            }
            result[at++] = (boolean) field("transactionStarted") ? 1 : 0;
            result[at++] = isPending() ? 1 : 0;
            result[at++] = (boolean) Kafka.call(manager, "hasInFlightRequest") ? 1 : 0;
            result[at++] = field("transactionCoordinator") == null ? 0 : 1;
            result[at++] = field("consumerGroupCoordinator") == null ? 0 : 1;
            result[at++] = (boolean) field("clientSideEpochBumpRequired", "epochBumpRequired")
                ? 1 : 0;
            result[at++] = ((Collection<?>) field("pendingRequests")).size();
            result[at++] = ((Map<?, ?>) field("pendingTxnOffsetCommits")).size();
            result[at++] = (int) sequence("sequenceNumber");
            Object acked = sequence("lastAckedSequence");
            result[at++] = ((java.util.OptionalInt) acked).orElse(-1);
            result[at++] = (boolean) Kafka.call(accumulator, "hasUndrained") ? 1 : 0;
            result[at++] = (boolean) Kafka.call(accumulator, "hasIncomplete") ? 1 : 0;
            result[at++] = waiting.size();
            result[at++] = call == null || !(boolean) Kafka.call(call, "isCompleted") ? 0 : 1;
            Throwable failed = call == null ? null : (Throwable) Kafka.call(call, "error");
            result[at++] = failed == null ? 0 : code(failed);
            for (Future<?> record : records) {
                if (at < Host.OUT) {
                    result[at++] = of(record);
                }
            }
        }

        /** Whether a call's result is still to be acknowledged: the next call clears it then. */
        private boolean isPending() {
            Object pending = field("pendingTransition");
            return pending != null
                && !(boolean) Kafka.call(Kafka.inField(pending, "result"), "isAcked");
        }

        private Object sequence(String name) {
            return Kafka.call(manager, name, PARTITION);
        }

        private Object field(String... names) {
            try {
                return FIELDS.computeIfAbsent(names[0], key -> declared(names)).get(manager);
            } catch (IllegalAccessException e) {
                throw new IllegalStateException(e);
            }
        }

        /** 1: sent, a code: why not, 0: the record waits. */
        private static long of(Future<?> record) {
            if (!record.isDone()) {
                return 0;
            }
            try {
                record.get();
                return 1;
            } catch (ExecutionException e) {
                return 1000 + code(e.getCause());
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
