import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.message.DeleteGroupsResponseData.DeletableGroupResult;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocol;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocolCollection;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetCommitResponseData;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestGroup;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestTopics;
import org.apache.kafka.common.message.OffsetFetchResponseData.OffsetFetchResponseGroup;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.message.TxnOffsetCommitResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.TransactionResult;

/**
 * A group's offsets of one partition, from 4.0 on: GroupCoordinatorShard with OffsetMetadataManager
 * and GroupMetadataManager. A second coordinator reads the log that the first one has written.
 */
final class GroupOffsetsSteps extends GroupSteps {
    private static final String[] STATUSES = {
        "EMPTY", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE",
    };
    /** After so many steps there are new coordinators: a registry of snapshots grows. */
    private static final int MOST_STEPS = 50, MOST_REVERTED = 100_000;
    private static final String PACKAGE = "org.apache.kafka.coordinator.group.",
        COMMON = "org.apache.kafka.coordinator.common.runtime.";

    private final Class<?> groupType = Kafka.type(PACKAGE + "classic.ClassicGroup"),
        memberType = Kafka.type(PACKAGE + "classic.ClassicGroupMember"),
        offsetType = Kafka.type(PACKAGE + "OffsetAndMetadata"),
        recordHelpers = Kafka.type(PACKAGE + "GroupCoordinatorRecordHelpers");
    private final Object[] statuses =
        Kafka.type(PACKAGE + "classic.ClassicGroupState").getEnumConstants();
    private Coordinator own = new Coordinator(), next = new Coordinator();
    private int taken = 0;

    @Override
    void begin(long[] step) {
        if (++taken % MOST_STEPS == 0) {
            own = new Coordinator();
            next = new Coordinator();
        }
        own.clear();
        next.clear();
        own.setMembers(step);
        if (step[OPERATION] == END && step[HEARD] == READ) {
            own.read(step);
        } else {
            own.setOffsets(step);
        }
        next.read(step);
        Kafka.call(own.snapshots, own.snapshot, step[STATE + LOG_END]);
    }

    @Override
    void write(long[] result) {
        own.write(result);
    }

    @Override
    void read(long[] result) {
        next.write(result);
    }

    @Override
    void call(long[] step, long[] result) {
        long end = step[STATE + LOG_END];
        switch ((int) step[OPERATION]) {
            case COMMIT -> written(
                Kafka.call(own.shard, "commitOffset", context(ApiKeys.OFFSET_COMMIT, step),
                    commit(step)), -1, step, end, result);
            case COMMIT_IN_TRANSACTION -> written(
                Kafka.call(own.shard, "commitTransactionalOffset",
                    context(ApiKeys.TXN_OFFSET_COMMIT, step), commitInTransaction(step)),
                FIRST_ID + step[PRODUCER], step, end, result);
            case FETCH -> {
                boolean isStable = step[FLAG] != 0;
                if (step[HEARD] != 0) { // another offset is in the log, and isn't replicated
                    own.replay(end, -1, record(step[OFFSET], end));
                }
                OffsetFetchRequestGroup request = new OffsetFetchRequestGroup().setGroupId(GROUP)
                    .setTopics(List.of(new OffsetFetchRequestTopics().setName(TOPIC)
                        .setPartitionIndexes(List.of(0))));
                OffsetFetchResponseGroup response = (OffsetFetchResponseGroup) Kafka.call(
                    own.shard, "fetchOffsets", request, isStable ? Long.MAX_VALUE : end);
                var partition = response.topics().get(0).partitions().get(0);
                result[ERROR] = partition.errorCode();
                result[FETCHED] = partition.committedOffset();
                Kafka.call(own.snapshots, "revertToSnapshot", end);
            }
            case DELETE -> written(Kafka.call(own.shard, "deleteGroups",
                context(ApiKeys.DELETE_GROUPS, step), List.of(GROUP)), -1, step, end, result);
            case END -> {
                for (Coordinator each : List.of(own, next)) {
                    Kafka.call(each.shard, "replayEndTransactionMarker",
                        FIRST_ID + step[PRODUCER], (short) 0,
                        step[FLAG] != 0 ? TransactionResult.COMMIT : TransactionResult.ABORT);
                }
            }
            default -> throw new IllegalArgumentException("operation " + step[OPERATION]);
        }
    }

    /** As CoordinatorRuntime: records are replayed, and undone where the log refuses them. */
    private void written(Object made, long producerId, long[] step, long end, long[] result) {
        boolean isRefused = step[FLAG] != 0;
        long at = end;
        for (Object record : (Collection<?>) Kafka.call(made, "records")) {
            result[RECORDS]++;
            own.replay(at, producerId, record);
            if (!isRefused) {
                next.replay(at, producerId, record);
            }
            at++;
        }
        if (isRefused) {
            Kafka.call(own.snapshots, "revertToSnapshot", end);
        }
        Object response = Kafka.call(made, "response");
        if (response instanceof OffsetCommitResponseData data) {
            result[ERROR] = data.topics().get(0).partitions().get(0).errorCode();
        } else if (response instanceof TxnOffsetCommitResponseData data) {
            result[ERROR] = data.topics().get(0).partitions().get(0).errorCode();
        } else {
            result[ERROR] =
                ((DeletableGroupResult) ((Collection<?>) response).iterator().next()).errorCode();
        }
    }

    private static Object context(ApiKeys key, long[] step) {
        return Kafka.make(RequestContext.class,
            new RequestHeader(key, (short) step[VERSION], "client", 0), "connection");
    }

    private static OffsetCommitRequestData commit(long[] step) {
        var partition = new OffsetCommitRequestData.OffsetCommitRequestPartition()
            .setPartitionIndex(0).setCommittedOffset(step[OFFSET]);
        return new OffsetCommitRequestData().setGroupId(GROUP)
            .setMemberId(member(step[MEMBER])).setGroupInstanceId(instance(step[INSTANCE]))
            .setGenerationIdOrMemberEpoch((int) step[NAMED])
            .setTopics(List.of(new OffsetCommitRequestData.OffsetCommitRequestTopic()
                .setName(TOPIC).setPartitions(List.of(partition))));
    }

    private static TxnOffsetCommitRequestData commitInTransaction(long[] step) {
        var partition = new TxnOffsetCommitRequestData.TxnOffsetCommitRequestPartition()
            .setPartitionIndex(0).setCommittedOffset(step[OFFSET]);
        var request = new TxnOffsetCommitRequestData();
        String name = Kafka.has(request, "setGenerationId") // 4.4 calls it after both protocols
            ? "setGenerationId" : "setGenerationIdOrMemberEpoch";
        Kafka.call(request, name, (int) step[NAMED]);
        return request.setGroupId(GROUP)
            .setMemberId(member(step[MEMBER])).setGroupInstanceId(instance(step[INSTANCE]))
            .setProducerId(FIRST_ID + step[PRODUCER]).setProducerEpoch((short) 0)
            .setTopics(List.of(new TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic()
                .setName(TOPIC).setPartitions(List.of(partition))));
    }

    private Object offset(long value, long place) {
        return Kafka.make(offsetType, place, value, OptionalInt.empty(), NONE, NOW,
            OptionalLong.empty(), Uuid.ZERO_UUID);
    }

    private Object record(long value, long place) {
        return Kafka.callStatic(recordHelpers, "newOffsetCommitRecord", GROUP, TOPIC, 0,
            offset(value, place));
    }

    /** The settings of a coordinator, each with its default. */
    private static Object config() {
        Class<?> type = Kafka.type(PACKAGE + "GroupCoordinatorConfig");
        ConfigDef all = new ConfigDef();
        try {
            for (Field field : type.getFields()) {
                if (field.getType() == ConfigDef.class) {
                    for (var key : ((ConfigDef) field.get(null)).configKeys().values()) {
                        if (!all.names().contains(key.name)) {
                            all.define(key);
                        }
                    }
                }
            }
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
        return Kafka.make(type, new AbstractConfig(all, Map.of(), false));
    }

    private static Object silent(String... names) {
        return Kafka.mocked(Kafka.type(names), call -> null);
    }

    /** A coordinator of the group's partition of __consumer_offsets. */
    private final class Coordinator {
        private final Object logContext = StandIns.logContext(), time = StandIns.time(() -> NOW),
            snapshots = Kafka.make(Kafka.type("org.apache.kafka.timeline.SnapshotRegistry"),
                logContext, MOST_REVERTED),
            metrics = silent(PACKAGE + "metrics.GroupCoordinatorMetricsShard"),
            config = config(), timer = silent(COMMON + "CoordinatorTimer"),
            groups, offsets, open, shard;
        private final String snapshot = Kafka.has(snapshots, "idempotentCreateSnapshot")
            ? "idempotentCreateSnapshot" : "getOrCreateSnapshot";
        private final Map<Object, Object> known, pending;

        private Coordinator() {
            Object builder = Kafka.make(Kafka.type(PACKAGE + "GroupMetadataManager$Builder"));
            Kafka.call(builder, "withTimer", timer);
            Kafka.call(builder, "withExecutor", silent(COMMON + "CoordinatorExecutor"));
            Kafka.call(builder, "withConfig", config);
            Kafka.call(builder, "withGroupConfigManager",
                silent(PACKAGE + "GroupConfigManager"));
            groups = built(builder);
            builder = Kafka.make(Kafka.type(PACKAGE + "OffsetMetadataManager$Builder"));
            Kafka.call(builder, "withGroupMetadataManager", groups);
            Kafka.call(builder, "withGroupCoordinatorConfig", config);
            Object manager = built(builder);
            shard = Kafka.make(Kafka.type(PACKAGE + "GroupCoordinatorShard"), logContext, groups,
                manager, time, timer, config);
            offsets = Kafka.inField(manager, "offsets");
            open = Kafka.inField(manager, "openTransactions");
            known = map(groups, "groups");
            pending = map(manager, "pendingTransactionalOffsets");
        }

        private Object built(Object builder) {
            Kafka.call(builder, "withLogContext", logContext);
            Kafka.call(builder, "withSnapshotRegistry", snapshots);
            Kafka.call(builder, "withTime", time);
            Kafka.call(builder, "withGroupCoordinatorMetricsShard", metrics);
            return Kafka.call(builder, "build");
        }

        @SuppressWarnings("unchecked")
        private static Map<Object, Object> map(Object of, String name) {
            return (Map<Object, Object>) Kafka.inField(of, name);
        }

        private void clear() {
            Kafka.call(snapshots, "reset");
        }

        private void replay(long at, long producerId, Object record) {
            Kafka.call(shard, "replay", at, producerId, (short) 0, record);
        }

        private void setMembers(long[] step) {
            int at = STATE;
            if (step[at + KNOWN] == 0) {
                return;
            }
            boolean isSimple = step[at + GENERATION] == 0 && step[at + STATUS] == 0;
            Object status = Arrays.stream(statuses)
                .filter(each -> ((Enum<?>) each).name().equals(STATUSES[(int) step[at + STATUS]]))
                .findFirst().orElseThrow();
            Object group = Kafka.make(groupType, logContext, GROUP, status, time,
                (int) step[at + GENERATION],
                isSimple ? Optional.empty() : Optional.of("consumer"), Optional.empty(),
                Optional.empty(), Optional.of(NOW));
            for (int number = 0; number < PRODUCERS; number++) {
                if (!hasMember(step, number)) {
                    continue;
                }
                var protocols = new JoinGroupRequestProtocolCollection();
                protocols.add(new JoinGroupRequestProtocol().setName("range")
                    .setMetadata(new byte[0]));
                Kafka.call(group, "add", Kafka.make(memberType, member(number),
                    Optional.ofNullable(step[at + HOLDER] == number ? instance(0) : null),
                    "client", "host", 1, 1, "consumer", protocols, new byte[0]));
            }
            known.put(GROUP, group);
        }

        private void setOffsets(long[] step) {
            int at = STATE + OFFSETS;
            if (step[at + IS_SET] != 0) {
                put(offsets, step, at);
            }
            for (int number = 0; number < PRODUCERS; number++) {
                at += SLOT;
                if (step[at + IS_SET] != 0) {
                    Object made = Kafka.make(
                        offsets.getClass(), Kafka.inField(offsets, "this$0"));
                    put(made, step, at);
                    pending.put(FIRST_ID + number, made);
                    Kafka.call(open, "add", GROUP, TOPIC, 0, FIRST_ID + number);
                }
            }
        }

        private void put(Object into, long[] step, int at) {
            Kafka.call(into, "put", GROUP, TOPIC, 0, offset(step[at + VALUE], step[at + PLACE]));
        }

        /** Reads the log that has the group's offsets, record by record. */
        private void read(long[] step) {
            IntStream.rangeClosed(0, PRODUCERS).boxed()
                .filter(slot -> step[STATE + OFFSETS + SLOT * slot + IS_SET] != 0)
                .sorted(Comparator.comparingLong(slot -> step[STATE + OFFSETS + SLOT * slot + PLACE]))
                .forEach(slot -> {
                    int at = STATE + OFFSETS + SLOT * slot;
                    replay(step[at + PLACE], slot == 0 ? -1 : FIRST_ID + slot - 1,
                        record(step[at + VALUE], step[at + PLACE]));
                });
        }

        private void write(long[] result) {
            int at = AFTER;
            Object group = known.get(GROUP);
            if (group != null) {
                String status = ((Enum<?>) Kafka.call(group, "currentState")).name();
                result[at + KNOWN] = 1;
                result[at + STATUS] = List.of(STATUSES).indexOf(status);
                result[at + GENERATION] = (int) Kafka.call(group, "generationId");
                result[at + HOLDER] = -1;
                for (int number = 0; number < PRODUCERS; number++) {
                    if ((boolean) Kafka.call(group, "hasMember", member(number))) {
                        result[at + MEMBERS] |= 1L << number;
                    }
                    if (member(number).equals(Kafka.call(group, "staticMemberId", instance(0)))) {
                        result[at + HOLDER] = number;
                    }
                }
            }
            slot(offsets, result, at + OFFSETS);
            Set<?> ids = (Set<?>) Kafka.call(open, "get", GROUP, TOPIC, 0);
            for (int number = 0; number < PRODUCERS; number++) {
                slot(pending.get(FIRST_ID + number), result, at + OFFSETS + SLOT * (number + 1));
                if (ids != null && ids.contains(FIRST_ID + number)) {
                    result[at + OPEN] |= 1L << number;
                }
            }
        }

        private void slot(Object from, long[] result, int at) {
            Object found = from == null ? null : Kafka.call(from, "get", GROUP, TOPIC, 0);
            if (found != null) {
                result[at + IS_SET] = 1;
                result[at + VALUE] = (long) Kafka.field(found, "committedOffset");
                result[at + PLACE] = (long) Kafka.field(found, "recordOffset");
            }
        }
    }
}
