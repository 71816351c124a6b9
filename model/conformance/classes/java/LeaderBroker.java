import java.lang.reflect.Constructor;
import java.lang.reflect.Parameter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.function.Function;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.clients.RequestCompletionHandler;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AddPartitionsToTxnResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Kafka's ReplicaManager and AddPartitionsToTxnManager, from 3.6 on, before one partition. The
 * partition is a stand-in for kafka.cluster.Partition, and gives each call to its log. Questions to
 * the coordinator stay in the manager until the step answers them.
 */
final class LeaderBroker {
    /** The log of the partition, as Partition calls it. */
    interface Log {
        Object startVerification(long id, int sequence, short epoch, boolean supportsEpochBump);

        Object append(Object records, Object guard);
    }

    private static final int COORDINATOR = 2;
    private static final String TRANSACTIONAL_ID = "id", LED =
        "org.apache.kafka.common.message.UpdateMetadataRequestData$UpdateMetadataPartitionState";
    private static final TopicPartition PARTITION = new TopicPartition("topic", 0);
    private static final String SERVER = "kafka.server.", MANAGER = "AddPartitionsToTxnManager";
    /** Of clients by the transaction's version, 0 and 2: how each release names them. */
    private static final String[][] OPERATIONS = {
        {"GENERIC_ERROR_SUPPORTED", "genericErrorSupported", "genericError"},
        {"ADD_PARTITION", "addPartition"},
    };

    private final Object replicas, questions, requestLocal, client;
    private final Object[] operations = new Object[OPERATIONS.length];
    private final boolean startsAlone, isIdentified;
    private final String ofOne;
    private final Log log;
    private Object guard, appended;
    private Errors error;

    LeaderBroker(Log log, Object requestLocal, Object client) {
        this.log = log;
        this.requestLocal = requestLocal;
        this.client = client;
        long[] now = {0};
        // each look at the clock is a second later: no question is asked again in time
        Object time = StandIns.time(() -> now[0] += 1_000), metadata = metadata(), config = config();
        Class<?> manager =
            Kafka.type("org.apache.kafka.server.transaction." + MANAGER, SERVER + MANAGER);
        Function1<Object, Object> scala = id -> 0;
        Function<Object, Object> java = id -> 0;
        questions = Kafka.make(manager, config,
            Kafka.mocked(NetworkClient.class, Mockito.RETURNS_DEFAULTS), metadata, scala, java, time);
        Constructor<?> makes = Arrays.stream(Kafka.type(SERVER + "ReplicaManager").getConstructors())
            .max(Comparator.comparingInt(Constructor::getParameterCount)).orElseThrow();
        List<Object> given = new ArrayList<>(List.of(config, new Metrics(), time, metadata));
        for (Parameter wanted : makes.getParameters()) {
            String name = wanted.getParameterizedType().getTypeName();
            if (name.startsWith("scala.Option")) {
                given.add(name.contains(MANAGER) ? Option.apply(questions) : Option.empty());
            } else if (name.endsWith("QuotaManagers")) {
                given.add(Kafka.make(wanted.getType()));
            } else if (name.endsWith(".LogManager")) {
                given.add(Kafka.mocked(wanted.getType(), LeaderBroker::nothing));
            }
        }
        replicas = Kafka.make(makes.getDeclaringClass(), given.toArray());
        Kafka.call(Kafka.inField(replicas, "allPartitions"), "put", PARTITION, Kafka.make(
            Kafka.type("org.apache.kafka.server.HostedPartition$Online",
                SERVER + "HostedPartition$Online"), partition()));
        // there are no threads of request handlers
        Kafka.call(Kafka.singleton(SERVER + "KafkaRequestHandler$"), "setBypassThreadCheck", true);
        startsAlone = Kafka.has(replicas, "handleProduceAppend"); // from 3.7 on
        isIdentified = Arrays.stream(replicas.getClass().getMethods()).anyMatch(method ->
            method.getName().equals("getPartitionOrException")
                && method.getParameterTypes()[0] == TopicIdPartition.class); // from 4.1 on
        ofOne = Kafka.has(replicas, "maybeSendPartitionToTransactionCoordinator")
            ? "maybeSendPartitionToTransactionCoordinator"
            : "maybeStartTransactionVerificationForPartition";
        for (int at = 0; at < operations.length && startsAlone; at++) {
            operations[at] = operation(manager, OPERATIONS[at]);
        }
    }

    /** Whether it asks the coordinator about a client's batch; else it answers. */
    boolean asks(Object records, boolean isTransactional, int version) {
        guard = null;
        produce(records, isTransactional, version);
        RequestCompletionHandler asked = asked();
        if (asked != null) {
            answer(asked); // for another transactional id: the connection is free again
        }
        Kafka.call(replicas, "tryCompleteActions");
        return asked != null;
    }

    /** The coordinator answers about a client's batch, for which the log gave this guard. */
    void verified(Object records, Object under, int version, Errors answer) {
        guard = under;
        produce(records, true, version);
        answer(asked(), answer);
        Kafka.call(replicas, "tryCompleteActions");
    }

    /** The coordinator answers about the offsets of a group, for which the log gave this guard. */
    void verified(
            long id, short epoch, int sequence, Object under, int version, Errors answer) {
        guard = under;
        Function1<Object, Object> told = both -> {
            error = (Errors) ((scala.Product) both).productElement(0);
            return BoxedUnit.UNIT;
        };
        Kafka.call(replicas, ofOne, PARTITION, TRANSACTIONAL_ID, id, epoch, sequence, told,
            requestLocal, operations[version == 2 ? 1 : 0]);
        answer(asked(), answer);
    }

    /** The answer to the batch that came last. */
    Errors error() {
        if (error == null) {
            throw new IllegalStateException("the broker gives no answer");
        }
        return error;
    }

    /** What the log has said about the batch that came last. */
    Object appended() {
        return appended;
    }

    private void produce(Object records, boolean isTransactional, int version) {
        appended = null;
        error = null;
        Function1<Object, Object> answered = responses -> {
            Map<?, ?> all = responses instanceof Map<?, ?> java
                ? java : CollectionConverters.asJava((scala.collection.Map<?, ?>) responses);
            error = (Errors) Kafka.field(all.values().iterator().next(), "error");
            return BoxedUnit.UNIT;
        };
        Map<Object, Object> entries = new HashMap<>();
        entries.put(isIdentified
            ? new TopicIdPartition(Uuid.ZERO_UUID, PARTITION) : PARTITION, records);
        Object all = scala.collection.immutable.Map.from(CollectionConverters.asScala(entries));
        String id = isTransactional ? TRANSACTIONAL_ID : null;
        if (startsAlone) {
            Kafka.call(replicas, "handleProduceAppend", 1_000L, (short) 1, false, id, all, answered,
                requestLocal, operations[version == 2 ? 1 : 0]);
        } else {
            Kafka.call(replicas, "appendRecords", 1_000L, (short) 1, false, client, all, answered,
                Option.empty(), requestLocal, id,
                isTransactional ? Option.apply((Object) 0) : Option.empty());
        }
    }

    // The questions -----------------------------------------------------------------------------

    /** The one that waits; null if there is none. */
    private RequestCompletionHandler asked() {
        RequestCompletionHandler asked = null;
        for (Object request : (Collection<?>) Kafka.call(questions, "generateRequests")) {
            asked = (RequestCompletionHandler) Kafka.field(request, "handler");
        }
        return asked;
    }

    private static void answer(RequestCompletionHandler asked, Errors... answers) {
        var results = new AddPartitionsToTxnResponseData.AddPartitionsToTxnResultCollection();
        for (Errors answer : answers) {
            var partitions =
                new AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResultCollection();
            partitions.add(new AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResult()
                .setPartitionIndex(PARTITION.partition()).setPartitionErrorCode(answer.code()));
            var topics =
                new AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResultCollection();
            topics.add(new AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult()
                .setName(PARTITION.topic()).setResultsByPartition(partitions));
            results.add(new AddPartitionsToTxnResponseData.AddPartitionsToTxnResult()
                .setTransactionalId(TRANSACTIONAL_ID).setTopicResults(topics));
        }
        asked.onComplete(new ClientResponse(
            new RequestHeader(ApiKeys.ADD_PARTITIONS_TO_TXN, (short) 4, "", 0), null, "", 0L, 0L,
            false, (UnsupportedVersionException) null, (AuthenticationException) null,
            new AddPartitionsToTxnResponse(
                new AddPartitionsToTxnResponseData().setResultsByTransaction(results))));
    }

    // What the classes are made with --------------------------------------------------------------

    /** A partition that gives each call to its log. */
    private Object partition() {
        return Kafka.mocked(Kafka.type("kafka.cluster.Partition"), call -> {
            Object[] given = call.getArguments();
            return switch (call.getMethod().getName()) {
                case "maybeStartTransactionVerification" -> guard != null ? guard
                    : log.startVerification((long) given[0], (int) given[1], (short) given[2],
                        given.length > 3 && (boolean) given[3]);
                case "appendRecordsToLeader" -> appended = log.append(given[0], given[4]);
                default -> nothing(call);
            };
        });
    }

    private static Object operation(Class<?> manager, String... names) {
        Class<?> known = Kafka.find(manager.getName() + "$TransactionSupportedOperation");
        if (known != null) {
            return Kafka.constant(known, names[0]);
        }
        for (String name : names) {
            Class<?> found = Kafka.find(SERVER + name + "$", manager.getName() + "$" + name + "$");
            if (found != null) {
                return Kafka.singleton(found.getName());
            }
        }
        return null; // before 4.0 there is no version 2
    }

    /** The settings of a broker without ZooKeeper. */
    static Object config() {
        Properties settings = new Properties();
        settings.putAll(Map.of("process.roles", "broker", "node.id", "1",
            "controller.quorum.voters", "2@localhost:9093",
            "controller.listener.names", "CONTROLLER",
            "listeners", "PLAINTEXT://localhost:9092",
            "log.dirs", "/nowhere"));
        return Kafka.callStatic(
            Kafka.type(SERVER + "KafkaConfig"), "fromProps", settings, new Properties(), false);
    }

    /** The coordinator of the transactional id is a broker that is alive. */
    private static Object metadata() {
        Class<?> type =
            Kafka.type("org.apache.kafka.metadata.MetadataCache", SERVER + "MetadataCache");
        Node coordinator = new Node(COORDINATOR, "localhost", 9092);
        Object led = Kafka.mocked(Kafka.type("org.apache.kafka.metadata.LeaderAndIsr", LED), call ->
            call.getMethod().getName().equals("leader")
                ? COORDINATOR : Mockito.RETURNS_DEFAULTS.answer(call));
        var topic = new MetadataResponseData.MetadataResponseTopic().setPartitions(List.of(
            new MetadataResponseData.MetadataResponsePartition().setLeaderId(COORDINATOR)));
        return Kafka.mocked(type, call -> {
            Object found = switch (call.getMethod().getName()) {
                case "getTopicMetadata" -> CollectionConverters.asScala(List.of(topic)).toSeq();
                case "getPartitionInfo", "getLeaderAndIsr" -> led;
                case "getAliveBrokerNode" -> coordinator;
                case "metadataVersion" -> StandIns.latest();
                default -> nothing(call);
            };
            Class<?> wanted = call.getMethod().getReturnType();
            return wanted.isInstance(found) || wanted.isPrimitive() || found == null ? found
                : wanted == Optional.class ? Optional.of(found) : Option.apply(found);
        });
    }

    private static Object nothing(InvocationOnMock call) throws Throwable {
        Class<?> wanted = call.getMethod().getReturnType();
        return wanted == Option.class ? Option.empty() : wanted.isInstance(Nil$.MODULE$)
            ? Nil$.MODULE$ : Mockito.RETURNS_DEFAULTS.answer(call);
    }
}
