import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.requests.OffsetFetchResponse;
import org.apache.kafka.common.requests.TransactionResult;
import org.mockito.MockMakers;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;
import org.mockito.stubbing.Answer;
import scala.Function0;
import scala.Function1;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * A group's offsets of one partition, before 4.0: GroupCoordinator with its GroupMetadataManager and
 * GroupMetadata. A second GroupMetadataManager loads the log that the first one has written.
 */
final class GroupCoordinatorSteps extends GroupSteps {
    private static final String PACKAGE = "kafka.coordinator.group.";
    private static final String[] STATUSES = {
        "Empty", "PreparingRebalance", "CompletingRebalance", "Stable",
    };
    private static final TopicPartition LOG = new TopicPartition("__consumer_offsets", 0),
        INPUT = new TopicPartition(TOPIC, 0);
    private static final String PROTOCOL = "range", PROTOCOL_TYPE = "connect";
    private static final byte MAGIC = 2;

    /** A marker whose offsets a thread of the scheduler has yet to put in place. */
    private record Completion(long producer, boolean commits, Runnable task) {}

    private final Class<?> groupType = Kafka.type(PACKAGE + "GroupMetadata"),
        memberType = Kafka.type(PACKAGE + "MemberMetadata"),
        managerType = Kafka.type(PACKAGE + "GroupMetadataManager"),
        placedType = Kafka.type(PACKAGE + "CommitRecordMetadataAndOffset"),
        offsetType = Kafka.type("kafka.common.OffsetAndMetadata");
    private final Object[] statuses = Arrays.stream(STATUSES)
        .map(name -> Kafka.singleton(PACKAGE + name + "$")).toArray();
    private final boolean memberKnowsGroup = // before 2.7
        Arrays.stream(memberType.getMethods()).anyMatch(each -> each.getName().equals("groupId"));
    private final Object time = StandIns.time(() -> NOW), latest = StandIns.latest(),
        compression = Kafka.find("org.apache.kafka.common.compress.Compression") == null
            ? Kafka.constant(Kafka.type("org.apache.kafka.common.record.CompressionType"), "NONE")
            : Kafka.constant(Kafka.type("org.apache.kafka.common.compress.Compression"), "NONE"),
        requestLocal = Kafka.makeIfKnown("kafka.server.RequestLocal"), key = inputKey();
    private final Log log = new Log();
    private final Deque<Completion> completions = new ArrayDeque<>();
    private final Object config = offsetConfig(), own = manager(), reader = manager(), coordinator;
    private final boolean isAsked, isCompletedAtOnce;
    private long[] known = new long[0];
    private List<MemoryRecords> records = List.of();
    private Completion ending;

    GroupCoordinatorSteps() {
        coordinator = Kafka.make(Kafka.type(PACKAGE + "GroupCoordinator"), 0,
            Kafka.make(Kafka.type(PACKAGE + "GroupConfig"), 1, 1, Integer.MAX_VALUE, 0), config,
            own, silent("kafka.server.DelayedOperationPurgatory"),
            silent("kafka.server.DelayedOperationPurgatory"), time, new Metrics());
        ((AtomicBoolean) Kafka.inField(coordinator, "isActive")).set(true);
        isAsked = Arrays.stream(coordinator.getClass().getMethods()) // it has the transactional id
            .filter(each -> each.getName().equals("handleTxnCommitOffsets"))
            .flatMap(each -> Arrays.stream(each.getParameterTypes()))
            .filter(String.class::equals).count() > 2;
        if (isAsked) {
            Kafka.callStatic(
                Kafka.type("kafka.server.KafkaRequestHandler"), "setBypassThreadCheck", true);
        }
        isCompletedAtOnce = Kafka.signature(coordinator, "scheduleHandleTxnCompletion")
            .contains("CompletableFuture"); // that the answer to the marker waits for
    }

    @Override
    void begin(long[] step) {
        clear(own);
        log.clear();
        completions.clear();
        long[] state = Arrays.copyOfRange(step, STATE, STATE + LOG_END);
        if (!Arrays.equals(state, known)) {
            known = state;
            records = written(step);
        }
        log.records.addAll(records);
        boolean isRead = step[OPERATION] == END && step[HEARD] == READ;
        if (step[STATE + KNOWN] != 0 && !isRead) {
            Object group = group(step);
            setOffsets(group, step);
            Kafka.call(own, "addGroup", group);
        }
        for (int at = 0; at < MOST_COMPLETIONS; at++) {
            long one = step[STATE + COMPLETIONS + at];
            if (one != 0) {
                end((one - 1) / 2, (one - 1) % 2 != 0);
            }
        }
    }

    @Override
    void call(long[] step, long[] result) {
        Function1<Object, Object> committed = answers -> {
            result[ERROR] = error(((scala.collection.Map<?, ?>) answers).values().head());
            return BoxedUnit.UNIT;
        };
        switch ((int) step[OPERATION]) {
            case COMMIT -> {
                Kafka.call(coordinator, "handleCommitOffsets", GROUP, member(step[MEMBER]),
                    Option.apply(instance(step[INSTANCE])), (int) step[NAMED],
                    offsets(step[OFFSET]), committed, requestLocal);
                append(step, result);
            }
            case COMMIT_IN_TRANSACTION -> {
                List<Object> given = new ArrayList<>(List.of(GROUP));
                if (isAsked) {
                    given.add("id");
                }
                given.addAll(Arrays.asList(FIRST_ID + step[PRODUCER], (short) 0,
                    member(step[MEMBER]), Option.apply(instance(step[INSTANCE])),
                    (int) step[NAMED], offsets(step[OFFSET]), committed, requestLocal));
                Kafka.call(coordinator, "handleTxnCommitOffsets", given.toArray());
                append(step, result);
            }
            case FETCH -> {
                Object group = Kafka.inside(Kafka.call(own, "getGroup", GROUP));
                if (step[HEARD] != 0 && group != null) { // another offset isn't replicated
                    Kafka.call(group, "prepareOffsetCommit", offsets(step[OFFSET]));
                }
                Tuple2<?, ?> answer = (Tuple2<?, ?>) Kafka.call(coordinator, "handleFetchOffsets",
                    GROUP, step[FLAG] != 0, Option.apply(list(INPUT)));
                var found = (OffsetFetchResponse.PartitionData)
                    ((scala.collection.Map<?, ?>) answer._2()).values().head();
                result[ERROR] = error(answer._1()) != 0 ? error(answer._1()) : found.error.code();
                result[FETCHED] = found.offset;
            }
            case DELETE -> {
                Object answers = Kafka.call(coordinator, "handleDeleteGroups",
                    CollectionConverters.asScala(Set.of(GROUP)).toSet(), requestLocal);
                result[ERROR] = error(((scala.collection.Map<?, ?>) answers).values().head());
            }
            case END -> {
                boolean commits = step[FLAG] != 0;
                log.records.add(MemoryRecords.withEndTransactionMarker(
                    log.end(), NOW, 0, FIRST_ID + step[PRODUCER], (short) 0,
                    new EndTransactionMarker(
                        commits ? ControlRecordType.COMMIT : ControlRecordType.ABORT, 0)));
                if (step[HEARD] == READ) {
                    load(own);
                    return;
                }
                end(step[PRODUCER], commits);
                if (isCompletedAtOnce) {
                    completions.remove().task().run();
                }
            }
            case COMPLETE -> completions.remove().task().run();
            default -> throw new IllegalArgumentException("operation " + step[OPERATION]);
        }
    }

    /** A marker is replicated: the coordinator has the scheduler complete its offsets. */
    private void end(long producer, boolean commits) {
        ending = new Completion(producer, commits, null);
        Kafka.call(coordinator, "scheduleHandleTxnCompletion", FIRST_ID + producer, list(LOG),
            commits ? TransactionResult.COMMIT : TransactionResult.ABORT);
    }

    /** The log takes the offset, or refuses it. */
    private void append(long[] step, long[] result) {
        if (log.waiting == null) {
            return;
        }
        result[RECORDS] = 1;
        long place = step[FLAG] == LATE ? 0 : step[STATE + LOG_END];
        if (step[FLAG] == REFUSED) {
            log.answer(Errors.NOT_ENOUGH_REPLICAS, -1);
        } else {
            for (MutableRecordBatch batch : log.waiting.batches()) {
                batch.setLastOffset(place);
            }
            log.records.add(place == 0 ? 0 : log.records.size(), log.waiting);
            log.answer(Errors.NONE, place);
        }
    }

    @Override
    void write(long[] result) {
        write(own, result);
        int at = AFTER + COMPLETIONS;
        for (Completion each : completions) {
            result[at++] = 1 + 2 * each.producer() + (each.commits() ? 1 : 0);
        }
    }

    @Override
    void read(long[] result) {
        clear(reader);
        load(reader);
        write(reader, result);
    }

    private void write(Object manager, long[] result) {
        Object group = Kafka.inside(Kafka.call(manager, "getGroup", GROUP));
        if (group == null) {
            return;
        }
        int at = AFTER;
        result[at + KNOWN] = 1;
        result[at + STATUS] = Arrays.asList(statuses).indexOf(Kafka.call(group, "currentState"));
        result[at + GENERATION] = (int) Kafka.call(group, "generationId");
        result[at + HOLDER] = -1;
        for (int number = 0; number < PRODUCERS; number++) {
            if ((boolean) Kafka.call(group, "has", member(number))) {
                result[at + MEMBERS] |= 1L << number;
            }
            if (member(number).equals(holder(group))) {
                result[at + HOLDER] = number;
            }
        }
        slot(Kafka.inside(Kafka.call(group, "offsetWithRecordMetadata", INPUT)), result, OFFSETS);
        var pending = (scala.collection.Map<?, ?>)
            Kafka.inField(group, "pendingTransactionalOffsetCommits");
        for (int number = 0; number < PRODUCERS; number++) {
            Object found = in(pending, FIRST_ID + number);
            Object offset = found == null ? null : in((scala.collection.Map<?, ?>) found, INPUT);
            slot(offset, result, OFFSETS + SLOT * (number + 1));
            // a group stays open for a producer whose offset was refused or deleted
            if (offset != null && (boolean) Kafka.call(
                    manager, "isGroupOpenForProducer", FIRST_ID + number, GROUP)) {
                result[at + OPEN] |= 1L << number;
            }
        }
    }

    private static Object holder(Object group) {
        if (Kafka.has(group, "currentStaticMemberId")) {
            return Kafka.inside(Kafka.call(group, "currentStaticMemberId", instance(0)));
        }
        Option<String> instance = Option.apply(instance(0));
        return (boolean) Kafka.call(group, "hasStaticMember", instance)
            ? Kafka.call(group, "getStaticMemberId", instance) : null;
    }

    private static void slot(Object found, long[] result, int at) {
        if (found != null) {
            Object place = Kafka.inside(Kafka.call(found, "appendedBatchOffset"));
            result[AFTER + at + IS_SET] = 1;
            result[AFTER + at + VALUE] =
                (long) Kafka.call(Kafka.call(found, "offsetAndMetadata"), "offset");
            result[AFTER + at + PLACE] = place == null ? -1 : (long) place;
        }
    }

    // The group before a step -----------------------------------------------------------------

    private Object group(long[] step) {
        Object group =
            Kafka.make(groupType, GROUP, statuses[(int) step[STATE + STATUS]], time);
        Kafka.call(group, "generationId_$eq", (int) step[STATE + GENERATION]);
        for (int number = 0; number < PRODUCERS; number++) {
            if (!hasMember(step, number)) {
                continue;
            }
            Option<String> instance =
                Option.apply(step[STATE + HOLDER] == number ? instance(0) : null);
            Object protocols = list(new Tuple2<>(PROTOCOL, new byte[0]));
            Object member = memberKnowsGroup
                ? Kafka.make(memberType, member(number), GROUP, instance, "client", "host", 1, 1,
                    PROTOCOL_TYPE, protocols)
                : Kafka.make(memberType, member(number), instance, "client", "host", 1, 1,
                    PROTOCOL_TYPE, protocols, new byte[0]);
            Kafka.call(group, "add", member);
            if (instance.isDefined() && Kafka.has(group, "addStaticMember")) { // before 3.0
                Kafka.call(group, "addStaticMember", instance, member(number));
            }
            Kafka.call(group, "protocolName_$eq", Option.apply(PROTOCOL));
        }
        return group;
    }

    private void setOffsets(Object group, long[] step) {
        Map<Object, Object> committed = new HashMap<>(), pending = new HashMap<>();
        int at = STATE + OFFSETS;
        if (step[at + IS_SET] != 0) {
            committed.put(INPUT, placed(step, at));
        }
        for (int number = 0; number < PRODUCERS; number++) {
            at += SLOT;
            if (step[at + IS_SET] != 0) {
                Map<Object, Object> one = new HashMap<>();
                one.put(INPUT, placed(step, at));
                pending.put(FIRST_ID + number, CollectionConverters.asScala(one));
                Kafka.call(own, "addProducerGroup", FIRST_ID + number, GROUP);
            }
        }
        Kafka.call(group, "initializeOffsets", CollectionConverters.asScala(committed),
            immutable(pending));
    }

    private Object placed(long[] step, int at) {
        return Kafka.make(placedType, Option.apply((Object) step[at + PLACE]),
            offset(step[at + VALUE]));
    }

    private Object offset(long value) {
        return Kafka.make(offsetType, value, "", NOW);
    }

    private Object offsets(long value) {
        return immutable(Map.of(key, offset(value)));
    }

    /** The log that has the group and its offsets, in their order. */
    private List<MemoryRecords> written(long[] step) {
        List<MemoryRecords> made = new ArrayList<>();
        if (step[STATE + MEMBERS] != 0 || step[STATE + GENERATION] != 0) {
            Map<Object, Object> assignment = new HashMap<>();
            for (int number = 0; number < PRODUCERS; number++) {
                assignment.put(member(number), new byte[0]);
            }
            made.add(record(0, -1,
                (byte[]) Kafka.callStatic(managerType, "groupMetadataKey", GROUP),
                (byte[]) Kafka.callStatic(managerType, "groupMetadataValue", group(step),
                    immutable(assignment), latest)));
        }
        IntStream.rangeClosed(0, PRODUCERS).map(slot -> STATE + OFFSETS + SLOT * slot).boxed()
            .filter(at -> step[at + IS_SET] != 0)
            .sorted(Comparator.comparingLong(at -> step[at + PLACE]))
            .forEach(at -> {
                long slot = (at - STATE - OFFSETS) / SLOT;
                made.add(record(step[at + PLACE], slot == 0 ? -1 : FIRST_ID + slot - 1,
                    (byte[]) Kafka.callStatic(managerType, "offsetCommitKey", GROUP, INPUT),
                    (byte[]) Kafka.callStatic(
                        managerType, "offsetCommitValue", offset(step[at + VALUE]), latest)));
            });
        return made;
    }

    private MemoryRecords record(long place, long producerId, byte[] key, byte[] value) {
        boolean isTransactional = producerId >= 0;
        return (MemoryRecords) Kafka.callStatic(MemoryRecords.class, "withRecords", MAGIC, place,
            compression, TimestampType.CREATE_TIME, producerId, (short) (isTransactional ? 0 : -1),
            isTransactional ? 0 : -1, 0, isTransactional,
            new SimpleRecord[] {new SimpleRecord(NOW, key, value)});
    }

    private static void clear(Object manager) {
        Kafka.call(Kafka.inField(manager, "groupMetadataCache"), "clear");
        Kafka.call(Kafka.inField(manager, "openGroupsForProducer"), "clear");
    }

    private static void load(Object manager) {
        Function1<Object, Object> loaded = group -> BoxedUnit.UNIT;
        try {
            Kafka.call(manager, "doLoadGroupsAndOffsets", LOG, loaded);
        } catch (IllegalStateException e) {
            // the log has pending offsets of a group that is deleted; Kafka only logs it then
            if (!e.getMessage().startsWith("Unexpected unload of active group")) {
                throw e;
            }
        }
    }

    // What the classes are made with ----------------------------------------------------------

    private Object manager() {
        Object zooKeeper = // before 2.8 the constructor asks for the partitions
            Kafka.mocked(Kafka.type("kafka.zk.KafkaZkClient"), call ->
                call.getMethod().getName().equals("getTopicPartitionCount")
                    ? Option.apply((Object) 1) : Mockito.RETURNS_DEFAULTS.answer(call));
        Object made = Kafka.make(
            managerType, 0, latest, config, log.replicas, zooKeeper, time, new Metrics());
        try {
            var scheduler = managerType.getDeclaredField("scheduler");
            scheduler.setAccessible(true);
            scheduler.set(made, Kafka.mocked(scheduler.getType(), this::schedule));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
        Function0<Object> one = () -> 1;
        Kafka.call(made, "startup", one, false);
        Kafka.call(made, Kafka.has(made, "addOwnedPartition")
            ? "addOwnedPartition" : "addPartitionOwnership", 0);
        return made;
    }

    private Object schedule(InvocationOnMock call) throws Throwable {
        if (call.getArguments().length > 1 && call.getArgument(0) instanceof String name
                && name.startsWith("handleTxnCompletion")) {
            Runnable task = call.getArgument(1) instanceof Runnable java
                ? java : ((Function0<?>) call.getArgument(1))::apply;
            completions.add(new Completion(ending.producer(), ending.commits(), task));
        }
        return Mockito.RETURNS_DEFAULTS.answer(call);
    }

    private static Object offsetConfig() {
        Class<?> java = Kafka.find("org.apache.kafka.coordinator.group.OffsetConfig");
        return java == null
            ? Kafka.make(Kafka.type(PACKAGE + "OffsetConfig"))
            : Kafka.make(java, 4096, 1 << 20, 1L, 1L, 1, 1 << 20, (short) 1, Kafka.constant(
                Kafka.type("org.apache.kafka.common.record.CompressionType"), "NONE"), 1,
                (short) -1);
    }

    /** The name of the input's partition in a request: since 3.2 its topic has an id. */
    private Object inputKey() {
        boolean hasId = Arrays.stream(groupType.getMethods())
            .filter(each -> each.getName().equals("failPendingOffsetWrite"))
            .anyMatch(each -> each.getParameterTypes()[0] != TopicPartition.class);
        if (!hasId) {
            return INPUT;
        }
        return Kafka.make(Kafka.type("org.apache.kafka.common.TopicIdPartition"),
            Kafka.callStatic(Kafka.type("org.apache.kafka.common.Uuid"), "randomUuid"), 0, TOPIC);
    }

    /** A mock of a subclass: Mockito's own way looks each called method up by reflection. */
    private static Object quick(Class<?> type, Answer<?> answer) {
        return Mockito.mock(type, Mockito.withSettings().mockMaker(MockMakers.SUBCLASS)
            .defaultAnswer(answer).stubOnly());
    }

    private static Object silent(String name) {
        return Kafka.mocked(Kafka.type(name), Mockito.RETURNS_DEFAULTS);
    }

    private static long error(Object error) {
        return ((Errors) error).code();
    }

    private static Object list(Object one) {
        return CollectionConverters.asScala(List.of(one)).toList();
    }

    private static Object immutable(Map<?, ?> map) {
        return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(map));
    }

    private static Object in(scala.collection.Map<?, ?> map, Object key) {
        @SuppressWarnings("unchecked")
        var found = ((scala.collection.Map<Object, Object>) map).get(key);
        return Kafka.inside(found);
    }

    /** The partition of __consumer_offsets in memory, in the place of a ReplicaManager. */
    private static final class Log {
        private final List<MemoryRecords> records = new ArrayList<>();
        private final Class<?> answerType =
            Kafka.type("org.apache.kafka.common.requests.ProduceResponse$PartitionResponse");
        private final Object partition =
            quick(Kafka.type("kafka.cluster.Partition"), call -> {
                if (call.getMethod().getName().equals("appendRecordsToLeader")) {
                    MemoryRecords tombstones = call.getArgument(0);
                    for (MutableRecordBatch batch : tombstones.batches()) {
                        batch.setLastOffset(end() + batch.lastOffset() - batch.baseOffset());
                    }
                    records().add(tombstones);
                }
                return Mockito.RETURNS_DEFAULTS.answer(call);
            });
        private final Object log =
            quick(Kafka.type("kafka.log.UnifiedLog", "kafka.log.Log"), call ->
                call.getMethod().getName().equals("read")
                    ? Kafka.make(call.getMethod().getReturnType(), Kafka.make(Kafka.type(
                        "org.apache.kafka.storage.internals.log.LogOffsetMetadata",
                        "kafka.server.LogOffsetMetadata"), 0L), all())
                    : Mockito.RETURNS_DEFAULTS.answer(call));
        private final Object replicas =
            quick(Kafka.type("kafka.server.ReplicaManager"), call ->
                switch (call.getMethod().getName()) {
                    case "appendRecords" -> {
                        take(call);
                        yield null;
                    }
                    case "getMagic" -> Option.apply((Object) MAGIC);
                    case "getLog" -> Option.apply(logs());
                    case "getLogEndOffset" -> Option.apply((Object) end());
                    case "onlinePartition", "nonOfflinePartition" -> Option.apply(partitions());
                    case "maybeStartTransactionVerificationForPartition" -> {
                        verify(call);
                        yield null;
                    }
                    default -> Mockito.RETURNS_DEFAULTS.answer(call);
                });
        private MemoryRecords waiting;
        private Function1<Object, Object> told;

        private List<MemoryRecords> records() {
            return records;
        }

        private Object logs() {
            return log;
        }

        private Object partitions() {
            return partition;
        }

        private void clear() {
            records.clear();
            waiting = null;
        }

        /** The place of the next record. */
        private long end() {
            long end = 1;
            for (MemoryRecords each : records) {
                for (MutableRecordBatch batch : each.batches()) {
                    end = Math.max(end, batch.nextOffset());
                }
            }
            return end;
        }

        private MemoryRecords all() {
            int size = records.stream().mapToInt(MemoryRecords::sizeInBytes).sum();
            ByteBuffer all = ByteBuffer.allocate(size);
            records.forEach(each -> all.put(each.buffer().duplicate()));
            return MemoryRecords.readableRecords(all.flip());
        }

        @SuppressWarnings("unchecked")
        private void take(InvocationOnMock call) {
            for (Object argument : call.getArguments()) {
                if (argument instanceof scala.collection.Map<?, ?> entries) {
                    if (waiting == null && entries.values().head() instanceof MemoryRecords made) {
                        waiting = made;
                    }
                } else if (argument instanceof Function1<?, ?> callback) {
                    told = (Function1<Object, Object>) callback;
                    return;
                }
            }
        }

        /** The transaction's coordinator says that it has the partition. */
        @SuppressWarnings("unchecked")
        private static void verify(InvocationOnMock call) {
            Object guard = Kafka.make(
                Kafka.type("org.apache.kafka.storage.internals.log.VerificationGuard"));
            for (Object argument : call.getArguments()) {
                if (argument instanceof Function1<?, ?> callback) {
                    ((Function1<Object, Object>) callback).apply(new Tuple2<>(Errors.NONE, guard));
                    return;
                }
            }
        }

        private void answer(Errors error, long place) {
            waiting = null;
            told.apply(immutable(Map.of(LOG, Kafka.make(answerType, error, place))));
        }
    }
}
