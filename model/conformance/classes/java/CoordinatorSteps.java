import java.lang.reflect.Field;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.HashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.RequestCompletionHandler;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AddPartitionsToTxnResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.requests.WriteTxnMarkersResponse;
import org.mockito.Mockito;
import scala.Function0;
import scala.Function1;
import scala.Function3;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;
import scala.util.Failure;
import scala.util.Success;
import scala.util.Try;

/**
 * The entry of one transactional id, in Kafka's TransactionCoordinator and TransactionStateManager.
 * The log's answers and the producer ids are those of the step; markers aren't sent.
 */
final class CoordinatorSteps implements Host.Steps {
    // A step: the operation, its arguments, and the entry before it.
    private static final int OPERATION = 0, VERSION = 1, OFFERED = 2, ID = 3, EPOCH = 4, COMMITS = 5,
        PARTITIONS = 6, TIMEOUT = 7, LOG = 8, ENTRY = 9;
    private static final int INIT = 0, ADD = 1, VERIFY = 2, END = 3, END_FENCE = 4, TIME_OUT = 5,
        COMPLETE = 6, EXPIRE = 7, RELOAD = 8, MARKER = 9;
    // The outcomes of a marker's answer, as MarkerOutcome has them.
    private static final int IGNORED = 0, DONE = 1, RETRY = 2, CANCEL = 3, ILLEGAL_STATE = 4;
    /** The log doesn't answer: the record is pending. */
    private static final long NO_ANSWER = -1000;
    /** The record is in the log, and another coordinator reads it before it is answered. */
    private static final long FAILOVER = -2000;
    /** The record is in the log, its append fails, and then another coordinator reads it. */
    private static final long LATE_FAILOVER = -3000;
    // A result: how it ended, the answer, and the entry after it.
    private static final int ENDED = 0, ANSWERED = 1, ERROR = 2, ANSWERED_ID = 3, ANSWERED_EPOCH = 4,
        ENTRY_AFTER = 5;
    private static final int THREW = 1;
    private static final Set<Integer> IS_PREPARED = Set.of(2, 3);
    private static final int LEADER = 100, MOST_POLLS = 4;
    private static final String TRANSACTIONAL_ID = "id";
    private static final long NOW = 2_000_000_000L;
    private static final String[][] FIELDS = {
        {"producerId"}, {"prevProducerId", "previousProducerId", "lastProducerId"},
        {"nextProducerId"}, {"producerEpoch"}, {"lastProducerEpoch"}, {"txnTimeoutMs"},
        {"txnStartTimestamp"}, {"txnLastUpdateTimestamp"}, {"hasFailedEpochFence"},
        {"clientTransactionVersion"},
    };
    private static final int VERSION_FIELD = 9;
    private static final String[] STATES = {
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
        "Dead", "PrepareEpochFence",
    };
    private static final String SCALA = "kafka.coordinator.transaction.",
        JAVA = "org.apache.kafka.coordinator.transaction.";

    /** Thrown between a fence and its own end: the step is the fence alone. */
    private static final class Fenced extends RuntimeException {
        Fenced() {
            super(null, null, false, false);
        }
    }

    private record Broker(Object manager, Object markers, Object coordinator) {}

    private final Class<?> metadataType = Kafka.type(
        JAVA + "TransactionMetadata", SCALA + "TransactionMetadata");
    private final Class<?> expectedType = Kafka.type(
        "org.apache.kafka.common.utils.internals.ProducerIdAndEpoch",
        "org.apache.kafka.common.utils.ProducerIdAndEpoch");
    private final Field[] fields = new Field[FIELDS.length];
    private final boolean isJava = metadataType.getName().startsWith(JAVA);
    private final Object[] states = new Object[STATES.length], versions;
    /** Since 3.0; null before. */
    private final Object requestLocal = Kafka.makeIfKnown(
        "org.apache.kafka.server.common.RequestLocal", "kafka.server.RequestLocal");
    private final TransactionLog log = new TransactionLog();
    private final Deque<Long> ids = new ArrayDeque<>();
    /** The one whose steps may fence holds the fence; it is slower. */
    private final Broker plain, fencing;
    private long now = NOW;
    private final String poll;
    private final Network network = new Network(StandIns.time(() -> now));
    private Object manager, markers, coordinator;
    private long[] result;
    private int looks;
    private boolean isTaken;

    CoordinatorSteps() {
        for (int at = 0; at < fields.length; at++) {
            fields[at] = field(metadataType, FIELDS[at]);
        }
        Class<?> known = Kafka.find("org.apache.kafka.server.common.TransactionVersion");
        versions = known == null ? new Object[3] : known.getEnumConstants();
        Class<?> enumerated = Kafka.find(JAVA + "TransactionState");
        for (int at = 0; at < STATES.length; at++) {
            states[at] = enumerated != null && isJava
                ? state(enumerated, STATES[at])
                : Kafka.singleton(SCALA + STATES[at] + "$");
        }
        Object metadata = StandIns.metadata(2), time = StandIns.time(() -> NOW);
        Object scheduler = StandIns.scheduler("transactionalId-expiration");
        Object config = StandIns.transactionConfig();
        Object zooKeeper = Kafka.find("kafka.zk.KafkaZkClient") == null ? null : Kafka.mocked(
            Kafka.type("kafka.zk.KafkaZkClient"), call ->
                call.getMethod().getName().equals("getTopicPartitionCount")
                    ? Option.apply((Object) 1) : Mockito.RETURNS_DEFAULTS.answer(call));
        Object producerIds = producerIds();
        Function<Object, Broker> broker = manager -> {
            Function0<Object> one = () -> 1, makes = () -> producerIds;
            if (Kafka.has(manager, "startup")) { // before 2.8 the constructor asks for the partitions
                Kafka.call(manager, "startup", one, false);
            }
            Class<?> channels = Kafka.type(SCALA + "TransactionMarkerChannelManager");
            Object coordinator = Kafka.make(Kafka.type(SCALA + "TransactionCoordinator"), 0, config,
                scheduler, producerIds, makes, manager,
                Kafka.mocked(channels, Mockito.RETURNS_DEFAULTS), time, StandIns.logContext());
            ((AtomicBoolean) Kafka.call(coordinator, "isActive")).set(true);
            return new Broker(manager, Kafka.make(channels, StandIns.config(), metadata,
                network.client, manager, StandIns.purgatory(), StandIns.time(() -> now)),
                coordinator);
        };
        Class<?> managers = Kafka.type(SCALA + "TransactionStateManager");
        plain = broker.apply(Kafka.make(managers, 0, zooKeeper, scheduler, log.replicaManager(),
            metadata, config, time, StandIns.latest(), new Metrics()));
        poll = Kafka.has(plain.markers, "pollOnce") ? "pollOnce" : "doWork"; // before 2.8
        fencing = broker.apply(Kafka.spy(managers, call -> {
            if (isTaken && call.getMethod().getName().equals("getTransactionState")) {
                Object found = Kafka.inside(call.callRealMethod());
                Object entry = found == null ? null : Kafka.call(found, "transactionMetadata");
                if (++looks > 1 && entry != null && number(pending(entry)) == 7) {
                    throw new Fenced();
                }
            }
            return call.callRealMethod();
        }, 0, zooKeeper, scheduler, log.replicaManager(), metadata, config, time, StandIns.latest(),
            new Metrics()));
    }

    @Override
    public void take(long[] step, long[] into) {
        result = into;
        java.util.Arrays.fill(into, 0);
        looks = 0;
        Broker at = step[OPERATION] == INIT || step[OPERATION] == TIME_OUT ? fencing : plain;
        manager = at.manager;
        markers = at.markers;
        coordinator = at.coordinator;
        log.clear();
        ids.clear();
        boolean isKnown = step[ENTRY] != 0;
        if (!isKnown) {
            ids.add(step[ENTRY + 3]);
        }
        if (step[OFFERED] >= 0) {
            ids.add(step[OFFERED]);
        }
        Object entry = isKnown ? entry(step) : null;
        cache(entry);
        isTaken = true;
        try {
            call(step, entry);
            if (log.isWaiting()) {
                decide(step[LOG]);
            }
        } catch (Fenced e) {
            // the state shows it
        } catch (RuntimeException e) {
            if (System.getProperty("explains") != null) {
                e.printStackTrace();
            }
            result[ENDED] = THREW;
            if (step[OPERATION] != EXPIRE) { // the scheduler's thread has nobody to answer
                answer(Errors.forException(e), -1, -1);
            }
        }
        isTaken = false;
        write(entry());
    }

    private void decide(long answer) {
        if (answer == FAILOVER || answer == LATE_FAILOVER) {
            if (answer == FAILOVER) {
                log.appendUntold();
                log.lose();
            } else {
                log.answerWritten(Errors.NOT_ENOUGH_REPLICAS);
            }
            Kafka.call(coordinator, "onResignation", 0, Option.apply((Object) 0));
            Kafka.call(coordinator, "onElection", 0, 1);
            Object found = entry();
            if (found != null && IS_PREPARED.contains((int) number(Kafka.call(found, "state")))
                    && pending(found) == null) {
                throw new IllegalStateException("a load didn't go on with the decided end");
            }
        } else if (answer != NO_ANSWER) {
            log.answer(Errors.forCode((short) answer));
        }
    }

    private Object entry() {
        Object found = Kafka.inside(Kafka.call(manager, "getTransactionState", TRANSACTIONAL_ID));
        return found == null ? null : Kafka.call(found, "transactionMetadata");
    }

    private void call(long[] step, Object entry) {
        Object version = versions[(int) step[VERSION]];
        TransactionResult ends =
            step[COMMITS] == 1 ? TransactionResult.COMMIT : TransactionResult.ABORT;
        Set<TopicPartition> partitions = partitions(step[PARTITIONS]);
        Function1<Object, Object> error = code -> answer(code, -1, -1);
        Function3<Object, Object, Object, Object> three =
            (code, id, epoch) -> answer(code, (long) id, (short) epoch);
        Function1<Object, Object> fenced = code -> answer(retried(code), -1, -1);
        Function3<Object, Object, Object, Object> fencedThree =
            (code, id, epoch) -> answer(retried(code), -1, -1);
        switch ((int) step[OPERATION]) {
            case INIT -> {
                Option<?> expected = step[EPOCH] < 0 ? Option.empty() : Option.apply(
                    Kafka.make(expectedType, step[ID], (short) step[EPOCH]));
                Function1<Object, Object> initialized = found -> answer(
                    Kafka.call(found, "error"), (long) Kafka.call(found, "producerId"),
                    (short) Kafka.call(found, "producerEpoch"));
                Kafka.call(coordinator, "handleInitProducerId", TRANSACTIONAL_ID,
                    (int) step[TIMEOUT], false, false, expected, initialized, requestLocal);
            }
            case ADD -> Kafka.call(coordinator, "handleAddPartitionsToTransaction",
                TRANSACTIONAL_ID, step[ID], (short) step[EPOCH], partitions,
                error, CollectionConverters.asScala(partitions).toSet(), version, requestLocal);
            case VERIFY -> {
                Function1<Object, Object> verified = found -> {
                    Map<?, ?> all = (Map<?, ?>) Kafka.callStatic(AddPartitionsToTxnResponse.class,
                        "errorsForTransaction", Kafka.call(found, "topicResults"));
                    return answer(all.values().iterator().next(), -1, -1);
                };
                Kafka.call(coordinator, "handleVerifyPartitionsInTransaction", TRANSACTIONAL_ID,
                    step[ID], (short) step[EPOCH], partitions,
                    verified, CollectionConverters.asScala(partitions).toSet());
            }
            case END -> Kafka.call(coordinator, "handleEndTransaction", TRANSACTIONAL_ID, step[ID],
                (short) step[EPOCH], ends, version, error, three, requestLocal);
            // InitProducerId answers CONCURRENT_TRANSACTIONS where its fence has gone well
            case END_FENCE -> Kafka.call(coordinator, Kafka.has(coordinator, "endTransaction")
                    ? "endTransaction" : "handleEndTransaction", TRANSACTIONAL_ID, step[ID],
                (short) step[EPOCH], ends, false, version, fenced, fencedThree, requestLocal);
            case TIME_OUT -> {
                boolean isThree =
                    Kafka.signature(coordinator, "abortTimedOutTransactions").contains("Function3");
                Function1<Object, Object> complete = id -> isThree ? three : error;
                Kafka.call(coordinator, "abortTimedOutTransactions", complete);
            }
            case COMPLETE -> {
                Object transit = Kafka.call(entry, "prepareComplete", NOW);
                Function1<Object, Object> ignored = code -> BoxedUnit.UNIT;
                Function1<Object, Object> never = code -> false;
                Kafka.call(manager, "appendTransactionToLog", TRANSACTIONAL_ID, 0, transit,
                    ignored, never, requestLocal);
            }
            // before 2.8 the scheduler has the whole of it: the stand-in runs it at once
            case EXPIRE -> Kafka.call(manager, Kafka.has(manager, "removeExpiredTransactionalIds")
                ? "removeExpiredTransactionalIds" : "enableTransactionalIdExpiration");
            case RELOAD -> {
                Object transit = Kafka.call(entry, "prepareNoTransit");
                Function1<Object, Object> ignored = code -> BoxedUnit.UNIT;
                Function1<Object, Object> never = code -> false;
                Kafka.call(manager, "appendTransactionToLog", TRANSACTIONAL_ID, 0, transit,
                    ignored, never, requestLocal);
            }
            case MARKER -> {
                Object transit = Kafka.call(entry, "prepareComplete", NOW);
                if (step[EPOCH] == 0) {
                    answerMarker(entry, transit, ends, (int) step[PARTITIONS], (short) step[ID]);
                } else {
                    answerLate(entry, transit, ends, (int) step[PARTITIONS], (short) step[ID]);
                }
            }
            default -> throw new IllegalArgumentException("operation " + step[OPERATION]);
        }
    }

    /** The leader of this partition answers its marker; the others don't. */
    private void answerMarker(
            Object entry, Object transit, TransactionResult ends, int partition, short code) {
        toSend(entry, transit, ends);
        for (Object request : drained()) {
            if (((Node) Kafka.field(request, "destination")).id() != LEADER + partition) {
                continue;
            }
            ClientResponse response = (ClientResponse) Kafka.make(ClientResponse.class,
                new RequestHeader(ApiKeys.WRITE_TXN_MARKERS, (short) 1, "", 0), "",
                answer(entry, partition, code));
            result[ANSWERED] = 1;
            try { // without the NetworkClient, which keeps an exception to itself
                ((RequestCompletionHandler) Kafka.field(request, "handler")).onComplete(response);
            } catch (IllegalStateException e) {
                result[ERROR] = ILLEGAL_STATE;
                return;
            }
            result[ERROR] = isDone(entry, partition) ? DONE : drained().isEmpty() ? CANCEL : RETRY;
        }
    }

    /** It answers once the connection has been replaced, and the marker sent again. */
    private void answerLate(
            Object entry, Object transit, TransactionResult ends, int partition, short code) {
        toSend(entry, transit, ends);
        String leader = String.valueOf(LEADER + partition);
        Network.Sent request = sent(leader);
        now++;
        sent(leader);
        network.answer(request, answer(entry, partition, code));
        Kafka.call(markers, poll, 0L);
        result[ANSWERED] = 1;
        result[ERROR] = isDone(entry, partition) ? DONE : !drained().isEmpty() ? RETRY
            : network.client.inFlightRequestCount(leader) > 0 ? IGNORED : CANCEL;
        network.forget();
        now = NOW;
    }

    private void toSend(Object entry, Object transit, TransactionResult ends) {
        Kafka.call(markers, "removeMarkersForTxnTopicPartition", 0);
        drained();
        Kafka.call(markers, "addTxnMarkersToSend", TRANSACTIONAL_ID, 0, ends, entry, transit);
    }

    private static WriteTxnMarkersResponse answer(Object entry, int partition, short code) {
        return new WriteTxnMarkersResponse(Map.of((Long) Kafka.call(entry, "producerId"),
            Map.of(new TopicPartition("topic", partition), Errors.forCode(code))));
    }

    private static boolean isDone(Object entry, int partition) {
        return (mask(Kafka.call(entry, "topicPartitions")) >> partition & 1) == 0;
    }

    /** The request that the markers' manager sends to this node now. */
    private Network.Sent sent(String node) {
        for (int polls = 0; polls < MOST_POLLS; polls++) {
            Kafka.call(markers, poll, 0L);
            for (Network.Sent request : network.sent()) {
                if (request.node().equals(node)) {
                    return request;
                }
            }
        }
        throw new IllegalStateException("no marker is sent to " + node);
    }

    /** The requests that the markers' manager would send now. */
    private Collection<?> drained() {
        Object found = Kafka.call(markers, "generateRequests");
        return found instanceof Collection<?> java
            ? java : CollectionConverters.asJavaCollection((scala.collection.Iterable<?>) found);
    }

    private static Object retried(Object error) {
        return error == Errors.NONE ? Errors.CONCURRENT_TRANSACTIONS : error;
    }

    private Object answer(Object error, long id, long epoch) {
        result[ANSWERED]++;
        result[ERROR] = ((Errors) error).code();
        result[ANSWERED_ID] = id;
        result[ANSWERED_EPOCH] = epoch;
        return BoxedUnit.UNIT;
    }

    // The entry ---------------------------------------------------------------------------------

    /** Of: known, state, pending, id, previous, next, epoch, last, timeout, partitions, start,
     * update, version, failed fence. */
    private Object entry(long[] step) {
        int at = ENTRY;
        Set<TopicPartition> partitions = new HashSet<>(partitions(step[at + 9]));
        Object made = Kafka.make(metadataType, TRANSACTIONAL_ID, step[at + 3], step[at + 4],
            fields[2] != null ? step[at + 5] : null, (short) step[at + 6], (short) step[at + 7],
            (int) step[at + 8], states[(int) step[at + 1]], partitions,
            CollectionConverters.asScala(partitions), step[at + 10], step[at + 11],
            versions[(int) step[at + 12]]);
        Object pending = step[at + 2] < 0 ? null : states[(int) step[at + 2]];
        if (isJava) {
            Kafka.call(made, "pendingState", Optional.ofNullable(pending));
            Kafka.call(made, "hasFailedEpochFence", step[at + 13] != 0);
        } else {
            Kafka.call(made, "pendingState_$eq", Option.apply(pending));
            if (Kafka.has(made, "hasFailedEpochFence_$eq")) {
                Kafka.call(made, "hasFailedEpochFence_$eq", step[at + 13] != 0);
            }
        }
        return made;
    }

    private void write(Object entry) {
        int at = ENTRY_AFTER;
        result[at] = entry == null ? 0 : 1;
        if (entry == null) {
            return;
        }
        result[at + 1] = number(Kafka.call(entry, "state"));
        result[at + 2] = number(pending(entry));
        result[at + 3] = value(entry, 0);
        result[at + 4] = value(entry, 1);
        result[at + 5] = value(entry, 2);
        result[at + 6] = value(entry, 3);
        result[at + 7] = value(entry, 4);
        result[at + 8] = value(entry, 5);
        result[at + 9] = mask(Kafka.call(entry, "topicPartitions"));
        result[at + 10] = value(entry, 6);
        result[at + 11] = value(entry, 7);
        result[at + 12] = fields[VERSION_FIELD] == null
            ? Host.ABSENT
            : (short) Kafka.call(read(fields[VERSION_FIELD], entry), "featureLevel");
        result[at + 13] = value(entry, 8);
    }

    private long value(Object entry, int field) {
        if (fields[field] == null) {
            return Host.ABSENT;
        }
        Object found = read(fields[field], entry);
        return found instanceof Boolean truth ? (truth ? 1 : 0) : ((Number) found).longValue();
    }

    /** The field with the first of these names; null if there is none. */
    private static Field field(Class<?> type, String... names) {
        for (String name : names) {
            for (Field field : type.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field;
                }
            }
        }
        return null;
    }

    private static Object read(Field field, Object of) {
        try {
            return field.get(of);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Object pending(Object entry) {
        return Kafka.inside(Kafka.call(entry, "pendingState"));
    }

    private long number(Object state) {
        for (int at = 0; at < states.length; at++) {
            if (states[at] == state) {
                return at;
            }
        }
        return -1;
    }

    private static long mask(Object partitions) {
        long mask = 0;
        Collection<?> all = partitions instanceof Collection<?> java
            ? java : CollectionConverters.asJavaCollection((scala.collection.Iterable<?>) partitions);
        for (Object each : all) {
            mask |= 1L << ((TopicPartition) each).partition();
        }
        return mask;
    }

    private static Set<TopicPartition> partitions(long mask) {
        Set<TopicPartition> found = new HashSet<>();
        for (int at = 0; at < 8; at++) {
            if ((mask >> at & 1) == 1) {
                found.add(new TopicPartition("topic", at));
            }
        }
        return found;
    }

    private void cache(Object entry) {
        Class<?> pool = Kafka.find("kafka.utils.Pool");
        Object entries;
        if (isJava || pool == null) {
            ConcurrentMap<String, Object> map = new ConcurrentHashMap<>();
            if (entry != null) {
                map.put(TRANSACTIONAL_ID, entry);
            }
            entries = map;
        } else {
            entries = Kafka.make(pool, Option.empty());
            if (entry != null) {
                Kafka.call(entries, "put", TRANSACTIONAL_ID, entry);
            }
        }
        Kafka.call(manager, "addLoadedTransactionsToCache", 0, 0, entries);
    }

    // What the classes are made with --------------------------------------------------------------

    private static Object state(Class<?> enumerated, String name) {
        for (Object each : enumerated.getEnumConstants()) {
            if (String.valueOf(each).replace("_", "").equalsIgnoreCase(name)
                    || ((Enum<?>) each).name().replace("_", "").toLowerCase(Locale.ROOT)
                        .equals(name.toLowerCase(Locale.ROOT))) {
                return each;
            }
        }
        throw new IllegalStateException(enumerated + " has no " + name);
    }

    private Object producerIds() {
        boolean idsComeFromZooKeeper = // before 3.0
            Kafka.find(JAVA + "RPCProducerIdManager", SCALA + "RPCProducerIdManager") == null;
        return Kafka.mocked(
            Kafka.type(JAVA + "ProducerIdManager", SCALA + "ProducerIdManager"), call -> {
                if (!call.getMethod().getName().equals("generateProducerId")) {
                    return Mockito.RETURNS_DEFAULTS.answer(call);
                }
                boolean tries = call.getMethod().getReturnType() == Try.class;
                Long id = ids.poll();
                if (id != null) {
                    return tries ? new Success<>(id) : id;
                }
                RuntimeException none = idsComeFromZooKeeper
                    ? new KafkaException("no producer ids")
                    : Errors.COORDINATOR_LOAD_IN_PROGRESS.exception();
                if (tries) {
                    return new Failure<>(none);
                }
                throw none;
            });
    }
}
