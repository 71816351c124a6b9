import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.clients.RequestCompletionHandler;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.requests.WriteTxnMarkersResponse;
import org.apache.kafka.common.utils.MockTime;
import org.mockito.Mockito;
import scala.Function0;
import scala.Function1;
import scala.Function3;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;
import scala.util.Success;
import scala.util.Try;

/**
 * Two brokers' TransactionCoordinators, with their TransactionStateManagers and
 * TransactionMarkerChannelManagers, over one log. Clients, leaders and the network are the test's. A
 * run is followed as long as the release does what it says: where a release departs from it, what a
 * property says is looked at there.
 */
final class Coordinators {
    static final short LARGEST_EPOCH = Short.MAX_VALUE;
    private static final String ID = "id";
    private static final int TIMEOUT_MS = 60_000;
    private static final long PATIENCE_S = 20, FIRST_ID = 1000;

    private static final Set<String> RETRIED = Set.of(
        "CONCURRENT_TRANSACTIONS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR",
        "COORDINATOR_LOAD_IN_PROGRESS");
    private static final ThreadLocal<Fence> FENCE = new ThreadLocal<>();

    /** A client's request, and the answer to it. */
    static final class Request {
        final String api, client;
        final Integer partition;
        final TransactionResult result;
        final long id;
        final short epoch;
        String error = "";
        long answeredId;
        short answeredEpoch;

        Request(String api, Client from, Integer partition, TransactionResult result) {
            this.api = api;
            this.client = from.name;
            this.partition = partition;
            this.result = result;
            this.id = from.id;
            this.epoch = from.epoch;
        }

        void answer(Object code, long id, short epoch) {
            error = code.toString();
            answeredId = id;
            answeredEpoch = epoch;
        }
    }

    private static final class Client {
        final String name;
        long id = -1;
        short epoch = -1;

        Client(String name) {
            this.name = name;
        }
    }

    /** The release does otherwise than the run that is followed. */
    private static final class Departure extends RuntimeException {
        Departure(String why) {
            super(why);
        }
    }

    private final TransactionLog log = new TransactionLog();
    private final MockTime time = new MockTime();
    private final Map<String, Client> clients = new HashMap<>();
    private final List<Broker> brokers;
    private final Deque<Fence> fences = new ArrayDeque<>();
    private final List<String> leaps = new ArrayList<>(), fatal = new ArrayList<>();
    private final Object version;
    private final String release;
    private long nextId = FIRST_ID;
    private int term;
    private int step;

    /** `version` is the version of transactions; what the run is of is `release`. */
    Coordinators(int version, String release) {
        Class<?> versions = Kafka.find("org.apache.kafka.server.common.TransactionVersion");
        this.version = versions == null ? null : versions.getEnumConstants()[version];
        this.release = release;
        brokers = List.of(new Broker(0, version), new Broker(1, version));
        Kafka.call(coordinator(), "onElection", 0, term);
    }

    // What a run is made of ---------------------------------------------------------------------

    interface Steps {
        void take() throws Exception;
    }

    /** Takes the steps of a run, or those before the first that the release doesn't take. */
    void follow(Steps steps) throws Exception {
        try {
            steps.take();
            System.out.println("the whole run was taken");
        } catch (Departure departure) {
            String used = System.getProperty("kafka.version", "");
            if (used.equals(release) || used.startsWith(release + ".")) {
                throw new AssertionError(
                    "step " + step + ": " + departure.getMessage() + ", which " + release
                        + " should not: its declaration and Kafka's classes differ");
            }
            System.out.println("step " + step + ": " + departure.getMessage());
        }
    }

    /** The steps from here on are those of the run's step with this number. */
    void step(int number) {
        step = number;
    }

    /** Has epochs begin so late that this many are left behind the first one that is given out. */
    void beginBefore(int left) throws Exception {
        Request first = initProducerId("before");
        takes(first);
        log.append();
        log.rewriteEpoch((short) (LARGEST_EPOCH - left - 1));
        failOver(false);
        failOver(false);
        clients.clear();
    }

    Request initProducerId(String client) {
        return new Request("InitProducerId", client(client), null, null);
    }

    Request addPartitions(String client, int partition) {
        return new Request("AddPartitionsToTxn", client(client), partition, null);
    }

    Request endTxn(String client, TransactionResult result) {
        return new Request("EndTxn", client(client), null, result);
    }

    /** The coordinator takes a request. */
    void takes(Request request) {
        Function1<Object, Object> error = code -> {
            request.answer(code, request.id, request.epoch);
            return BoxedUnit.UNIT;
        };
        Function3<Object, Object, Object, Object> pair = (code, id, epoch) -> {
            request.answer(code, (long) id, (short) epoch);
            return BoxedUnit.UNIT;
        };
        Object on = coordinator();
        switch (request.api) {
            case "InitProducerId" -> {
                Function1<Object, Object> initialized = found -> {
                    request.answer(Kafka.call(found, "error"),
                        (long) Kafka.call(found, "producerId"),
                        (short) Kafka.call(found, "producerEpoch"));
                    return BoxedUnit.UNIT;
                };
                start(() -> Kafka.call(
                    on, "handleInitProducerId", ID, TIMEOUT_MS, expected(request), initialized));
            }
            case "AddPartitionsToTxn" -> {
                Set<TopicPartition> partitions = Set.of(partition(request.partition));
                Kafka.call(on, "handleAddPartitionsToTransaction", ID, request.id, request.epoch,
                    partitions, error, CollectionConverters.asScala(partitions).toSet(), version);
            }
            default -> Kafka.call(on, "handleEndTransaction", ID, request.id, request.epoch,
                request.result, version, error, pair);
        }
    }

    /** What a client that has an epoch says of it; before 2.5 coordinators don't hear of that. */
    private static Option<?> expected(Request request) {
        Class<?> type = Kafka.find("org.apache.kafka.common.utils.ProducerIdAndEpoch");
        return type == null || request.id < 0
            ? Option.empty() : Option.apply(Kafka.make(type, request.id, request.epoch));
    }

    /** A client takes the answer to its request. */
    void told(Request request, String error) {
        if (request.error.isEmpty()) {
            throw new Departure(request.api + " isn't answered yet, and not " + error);
        }
        Client client = client(request.client);
        boolean taken = request.error.equals("NONE");
        if (taken && !request.api.equals("AddPartitionsToTxn") && request.answeredId >= 0) {
            if (client.id == request.answeredId && client.epoch >= 0
                    && request.answeredEpoch > client.epoch + 1) {
                leaps.add(client.name + " had epoch " + client.epoch + ", and has "
                    + request.answeredEpoch);
            }
            client.id = request.answeredId;
            client.epoch = request.answeredEpoch;
        }
        if (!taken && !RETRIED.contains(request.error)) {
            fatal.add(request.client + "'s " + request.api + " is answered " + request.error);
        }
        if (!request.error.equals(error)) {
            throw new Departure(
                request.api + " is answered " + request.error + ", and not " + error);
        }
    }

    void logAppend() {
        waitsForLog();
        log.append();
    }

    void appendFailure() {
        waitsForLog();
        log.fail();
    }

    private void waitsForLog() {
        if (!log.isWaiting()) {
            throw new Departure("nothing waits to be in the log");
        }
    }

    /** The coordinator sends its markers for a partition; `number` is how they are called. */
    void sendMarker(int number, int partition) {
        if (!broker().send(number, partition)) {
            throw new Departure("no marker is to be sent to partition " + partition);
        }
    }

    /** The coordinator takes the answer of the leader that has the marker written. */
    void markerWritten(int number) {
        for (Broker broker : brokers) {
            Marker marker = broker.sent.remove(number);
            if (marker != null) {
                broker.answer(marker, Errors.NONE);
            }
        }
    }

    /** An answer comes to a marker of an earlier term of the broker that coordinates once more. */
    void lateAnswer() {
        Optional<Map.Entry<Integer, Marker>> late = broker().sent.entrySet().stream()
            .filter(entry -> entry.getValue().term < term).findFirst();
        if (late.isEmpty()) {
            throw new Departure("no marker of an earlier term is in flight");
        }
        broker().sent.remove(late.get().getKey());
        broker().answer(late.get().getValue(), Errors.NONE);
    }

    /** The other broker's coordinator takes over; what waits is in the log then, or it isn't. */
    void failOver(boolean isWritten) {
        if (isWritten) {
            waitsForLog();
            log.appendUntold();
        }
        Kafka.call(coordinator(), "onResignation", 0, Option.apply((Object) term));
        log.lose();
        term++;
        Kafka.call(coordinator(), "onElection", 0, term);
    }

    /** What has timed out is fenced; its end waits for continueFence, where there is one. */
    void timeOut() {
        time.sleep(TIMEOUT_MS + 1);
        Function3<Object, Object, Object, Object> three = (code, id, epoch) -> BoxedUnit.UNIT;
        Function1<Object, Object> one = code -> BoxedUnit.UNIT;
        Object on = coordinator();
        boolean isPair = Kafka.signature(on, "abortTimedOutTransactions").contains("Function3");
        Function1<Object, Object> complete = id -> isPair ? three : one;
        start(() -> Kafka.call(on, "abortTimedOutTransactions", complete));
    }

    /** Whoever fenced the transaction, and waits longest, goes on to end it. */
    void continueFence() throws InterruptedException {
        if (fences.isEmpty()) {
            throw new Departure("no fence is to be continued");
        }
        fences.remove().goOn();
    }

    // What is looked at in the end ---------------------------------------------------------------

    void epochsNotWasted() {
        short last = log.entries.get(log.entries.size() - 1).producerEpoch();
        check(epoch() <= last + 1, "the log has epoch " + last + ", the coordinator " + epoch());
    }

    void oneEpochForADecision() {
        for (int at = 1; at < log.entries.size(); at++) {
            TransactionLog.Entry before = log.entries.get(at - 1), entry = log.entries.get(at);
            check(!entry.isPrepared() || before.isPrepared()
                || entry.producerId() != before.producerId()
                || entry.producerEpoch() <= before.producerEpoch() + 1,
                "a decision leads from epoch " + before.producerEpoch() + " to "
                    + entry.producerEpoch());
        }
    }

    void reservedEpoch() {
        for (Client client : clients.values()) {
            check(client.epoch < LARGEST_EPOCH, client.name + " has the largest epoch");
        }
    }

    void bumpedOnce() {
        check(leaps.isEmpty(), String.join("; ", leaps));
    }

    void notFencedByItself() {
        check(fatal.isEmpty(), String.join("; ", fatal));
    }

    /** What the coordinator has decided is completed once all that is in flight has arrived. */
    void prepareCompletes() throws InterruptedException {
        settle();
        check(!state().contains("prepare"), "the transaction is " + state() + " for good");
    }

    /** A client that was given its producer id and epoch has those. */
    void answerStands() throws InterruptedException {
        settle();
        for (Client client : clients.values()) {
            boolean stands = client.id < id() || client.id == id() && client.epoch <= epoch();
            check(client.epoch < 0 || stands,
                client.name + " was told " + client.id + ", " + client.epoch
                    + ", and the coordinator has " + id() + ", " + epoch());
        }
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    /** Lets all that is in flight arrive. */
    private void settle() throws InterruptedException {
        while (!fences.isEmpty()) {
            fences.remove().goOn();
        }
        for (int round = 0; round < 10; round++) {
            while (log.isWaiting()) {
                log.append();
            }
            for (int partition = 0; partition < 3; partition++) {
                broker().send(-1 - round * 3 - partition, partition);
            }
            for (Broker broker : brokers) {
                for (int number : List.copyOf(broker.sent.keySet())) {
                    markerWritten(number);
                }
            }
        }
    }

    private Object entry() {
        Object found = Kafka.inside(Kafka.call(broker().states, "getTransactionState", ID));
        return found == null ? null : Kafka.call(found, "transactionMetadata");
    }

    private long id() {
        return (long) Kafka.call(entry(), "producerId");
    }

    private short epoch() {
        return (short) Kafka.call(entry(), "producerEpoch");
    }

    /** The state of the entry, in small letters: releases write its name differently. */
    private String state() {
        return words(Kafka.call(entry(), "state"));
    }

    private static String words(Object state) {
        return String.valueOf(state).replace("_", "").toLowerCase(Locale.ROOT);
    }

    private Client client(String name) {
        return clients.computeIfAbsent(name, Client::new);
    }

    private Broker broker() {
        return brokers.get(term % 2);
    }

    private Object coordinator() {
        return broker().coordinator;
    }

    private static TopicPartition partition(int number) {
        return new TopicPartition("topic", number);
    }

    // Fences ------------------------------------------------------------------------------------

    /** A thread of a coordinator that may fence, which holds before it ends what it fenced. */
    private static final class Fence {
        final Semaphore held = new Semaphore(0), going = new Semaphore(0);
        int looks;
        boolean isHeld;
        Thread thread;
        Throwable failed;

        /** The entry is looked at: the second time, what was fenced is to be ended. */
        void looks(boolean isFenced) {
            looks++;
            if (looks > 1 && isFenced && !isHeld) {
                isHeld = true;
                held.release();
                going.acquireUninterruptibly();
            }
        }

        void goOn() throws InterruptedException {
            going.release();
            thread.join(TimeUnit.SECONDS.toMillis(PATIENCE_S));
            if (failed != null) {
                throw new IllegalStateException(failed);
            }
        }
    }

    private void start(Runnable what) {
        Fence fence = new Fence();
        fence.thread = new Thread(() -> {
            FENCE.set(fence);
            try {
                what.run();
            } catch (Throwable e) {
                fence.failed = e;
            } finally {
                fence.held.release();
            }
        });
        fence.thread.setDaemon(true);
        fence.thread.start();
        try {
            if (!fence.held.tryAcquire(PATIENCE_S, TimeUnit.SECONDS)) {
                throw new IllegalStateException("a coordinator's thread hangs");
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        if (fence.failed != null) {
            throw new IllegalStateException(fence.failed);
        }
        if (fence.isHeld) {
            fences.add(fence);
        }
    }

    // Kafka's classes ---------------------------------------------------------------------------

    private record Marker(RequestCompletionHandler handler, int term, int partition) {}

    private final class Broker {
        final Object states, markers, coordinator;
        final Map<Integer, Marker> sent = new LinkedHashMap<>();
        private final Map<Integer, Deque<RequestCompletionHandler>> outbox = new HashMap<>();

        Broker(int number, int version) {
            Object metadata = StandIns.metadata(version), scheduler = StandIns.scheduler();
            Object config = StandIns.transactionConfig();
            Object zooKeeper = Kafka.find("kafka.zk.KafkaZkClient") == null ? null : Kafka.mocked(
                Kafka.type("kafka.zk.KafkaZkClient"), call ->
                    call.getMethod().getName().equals("getTopicPartitionCount")
                        ? Option.apply((Object) 1) : Mockito.RETURNS_DEFAULTS.answer(call));
            Object broker = StandIns.latest();
            states = Kafka.spy(
                Kafka.type("kafka.coordinator.transaction.TransactionStateManager"), call -> {
                    String name = call.getMethod().getName();
                    if (name.equals("getTransactionState") && FENCE.get() != null) {
                        Object entry = Kafka.inside(call.callRealMethod());
                        Object pending = entry == null ? null : Kafka.inside(
                            Kafka.call(Kafka.call(entry, "transactionMetadata"), "pendingState"));
                        FENCE.get().looks(words(pending).equals("prepareepochfence"));
                    }
                    return call.callRealMethod();
                },
                number, zooKeeper, scheduler, log.replicaManager(), metadata, config, time, broker,
                new Metrics());
            Function0<Object> one = () -> 1;
            if (Kafka.has(states, "startup")) {
                Kafka.call(states, "startup", one, false);
            }
            markers = Kafka.make(
                Kafka.type("kafka.coordinator.transaction.TransactionMarkerChannelManager"),
                StandIns.config(), metadata,
                Mockito.mock(NetworkClient.class), states, StandIns.purgatory(), time);
            Object ids = ids();
            Function0<Object> makes = () -> ids;
            coordinator = Kafka.make(
                Kafka.type("kafka.coordinator.transaction.TransactionCoordinator"), number, config,
                scheduler, ids, makes, states, markers, time, StandIns.logContext());
            ((AtomicBoolean) Kafka.call(coordinator, "isActive")).set(true);
        }

        /** Sends what is to be sent, and says whether the partition has something of it. */
        boolean send(int number, int partition) {
            for (Object request : drained()) {
                Node node = (Node) Kafka.field(request, "destination");
                outbox.computeIfAbsent(node.id() - 100, any -> new ArrayDeque<>())
                    .add((RequestCompletionHandler) Kafka.field(request, "handler"));
            }
            RequestCompletionHandler next =
                outbox.getOrDefault(partition, new ArrayDeque<>()).poll();
            if (next != null) {
                sent.put(number, new Marker(next, term, partition));
            }
            return next != null;
        }

        private Collection<?> drained() {
            Object found = Kafka.call(markers, "generateRequests");
            return found instanceof Collection<?> java
                ? java : CollectionConverters.asJavaCollection((scala.collection.Iterable<?>) found);
        }

        void answer(Marker marker, Errors error) {
            Map<TopicPartition, Errors> partitions = new HashMap<>();
            partitions.put(partition(marker.partition), error);
            Map<Long, Map<TopicPartition, Errors>> answers = new HashMap<>();
            for (long id = FIRST_ID; id <= nextId; id++) {
                answers.put(id, partitions);
            }
            marker.handler.onComplete((ClientResponse) Kafka.make(ClientResponse.class,
                new RequestHeader(ApiKeys.WRITE_TXN_MARKERS, (short) 1, "", 0), "",
                new WriteTxnMarkersResponse(answers)));
        }
    }

    private Object ids() {
        return Kafka.mocked(Kafka.type("org.apache.kafka.coordinator.transaction.ProducerIdManager",
            "kafka.coordinator.transaction.ProducerIdManager"), call -> {
                if (!call.getMethod().getName().equals("generateProducerId")) {
                    return Mockito.RETURNS_DEFAULTS.answer(call);
                }
                Object id = nextId++;
                return call.getMethod().getReturnType() == Try.class ? new Success<>(id) : id;
            });
    }
}
