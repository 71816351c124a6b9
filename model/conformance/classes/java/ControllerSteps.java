import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.AllocateProducerIdsRequestData;
import org.apache.kafka.common.message.AllocateProducerIdsResponseData;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.ProducerIdsRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.raft.RaftClient;
import org.apache.kafka.raft.internals.MemoryBatchReader;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.fault.FaultHandler;
import org.mockito.Mockito;

/**
 * Two controllers of a quorum, QuorumController with all that it has. Their log is a stand-in for
 * RaftClient: a record is committed when the step says so. The first one is active, and the other
 * one takes over.
 */
final class ControllerSteps implements Host.Steps {
    // A step: the event, its arguments, and the state before: the log, which record each broker
    // waits for, and whether it has closed its connection.
    private static final int OPERATION = 0, BROKER = 1, BROKER_EPOCH = 2, IS_CONNECTED = 3,
        COMMITTED = 4, REGISTERED = 5, COUNT = 7, PLACES = 8, CLOSED = 10;
    private static final int ASK = 0, ASK_STANDBY = 1, COMMIT = 2, KEEP = 3, LOSE = 4;
    // A result: the faults, each broker's answer, both ends of the log, and who waits.
    private static final int FAULTS = 1, ANSWERS = 2, NEXT = 8, STABLE = 9, WAITS = 10;
    private static final int ERROR = 0, FIRST = 1, SIZE = 2, ANSWER = 3;
    private static final int BROKERS = 2, NO_ANSWER = -2, NOBODY = 0;
    private static final int ACTIVE = 0, STANDBY = 1;
    private static final String METADATA_VERSION = "metadata.version",
        CONTROLLER = "org.apache.kafka.controller.QuorumController";
    private static final long NOW = 2_000_000_000L;

    private final Class<?> builderType = Kafka.type(CONTROLLER + "$Builder");
    private final Object context = Kafka.make(
        Kafka.type("org.apache.kafka.controller.ControllerRequestContext"), OptionalLong.empty());
    private final Short level = (Short) Kafka.call(StandIns.latest(), "featureLevel");
    private final Object features = Kafka.make(
        Kafka.type("org.apache.kafka.controller.QuorumFeatures"), 0,
        Map.of(METADATA_VERSION, Kafka.make(
            Kafka.type("org.apache.kafka.metadata.VersionRange"), (short) 1, level)),
        List.of(0, 1));
    private final Object schema = Kafka.mocked(
        Kafka.type("org.apache.kafka.metadata.KafkaConfigSchema"), Mockito.RETURNS_DEFAULTS);
    private final Object bootstrap = Kafka.callStatic(
        Kafka.type("org.apache.kafka.metadata.bootstrap.BootstrapMetadata"), "fromVersion",
        StandIns.latest(), "the host");
    private volatile int faults;
    private final FaultHandler handler = (message, cause) -> {
        faults++;
        return new IllegalStateException(message, cause);
    };
    private final Uuid[] incarnations = {Uuid.randomUuid(), Uuid.randomUuid()};

    private final List<Batch<ApiMessageAndVersion>> log = new ArrayList<>();
    private final List<RaftClient.Listener<ApiMessageAndVersion>> listeners = new ArrayList<>();
    private final List<Waiting> waiting = new ArrayList<>();
    private int committed, epoch;

    /** A request, and the number of its broker from 1 on; 0 if its connection is closed. */
    private record Waiting(int broker, CompletableFuture<AllocateProducerIdsResponseData> answer) {}

    @Override
    public void take(long[] step, long[] result) {
        Arrays.fill(result, 0);
        log.clear();
        listeners.clear();
        waiting.clear();
        faults = committed = 0;
        epoch = 1;
        Object[] controllers = {controller(0), controller(1)};
        try {
            set(step, controllers);
            int active = take(step, controllers);
            write(result, controllers[active], controllers[1 - active]);
        } finally {
            for (Object controller : controllers) {
                Kafka.call(controller, "close");
            }
        }
    }

    /** Takes the step; the number of the active controller after it. */
    private int take(long[] step, Object[] controllers) {
        switch ((int) step[OPERATION]) {
            case ASK, ASK_STANDBY -> {
                int broker = step[IS_CONNECTED] == 0 ? NOBODY : (int) step[BROKER];
                ask(controllers[step[OPERATION] == ASK ? ACTIVE : STANDBY], (int) step[BROKER],
                    step[BROKER_EPOCH], broker);
            }
            case COMMIT -> commit(committed + 1);
            case KEEP, LOSE -> {
                if (step[OPERATION] == LOSE) {
                    log.subList(committed, log.size()).clear();
                }
                epoch++;
                lead(ACTIVE, STANDBY);
                quiet(controllers);
                commit(log.size());
                quiet(controllers);
                lead(STANDBY, STANDBY);
                quiet(controllers);
                return STANDBY;
            }
            default -> throw new IllegalArgumentException("operation " + step[OPERATION]);
        }
        quiet(controllers);
        return ACTIVE;
    }

    // The state before ---------------------------------------------------------------------------

    private void set(long[] step, Object[] controllers) {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        records.add(versioned(new FeatureLevelRecord().setName(METADATA_VERSION)
            .setFeatureLevel(level)));
        for (int broker = 1; broker <= BROKERS; broker++) {
            long registered = step[REGISTERED + broker - 1];
            if (registered >= 0) {
                records.add(versioned(new RegisterBrokerRecord().setBrokerId(broker)
                    .setBrokerEpoch(registered).setIncarnationId(incarnations[broker - 1])));
            }
        }
        if (step[COMMITTED] > 0) {
            records.add(versioned(new ProducerIdsRecord().setNextProducerId(step[COMMITTED])));
        }
        append(records);
        commit(log.size());
        lead(STANDBY, ACTIVE);
        lead(ACTIVE, ACTIVE);
        quiet(controllers);
        commit(log.size()); // what a controller appends as it becomes active
        for (int at = 0; at < step[COUNT]; at++) {
            int owner = owner(step, at);
            int broker = owner != NOBODY ? owner : step[REGISTERED] >= 0 ? 1 : 2;
            ask(controllers[ACTIVE], broker, step[REGISTERED + broker - 1], owner);
        }
        quiet(controllers);
    }

    /** The broker that still waits for this record; 0 if none does. */
    private static int owner(long[] step, int record) {
        for (int broker = 1; broker <= BROKERS; broker++) {
            if (step[PLACES + broker - 1] == record && step[CLOSED + broker - 1] == 0) {
                return broker;
            }
        }
        return NOBODY;
    }

    private static ApiMessageAndVersion versioned(ApiMessage record) {
        return new ApiMessageAndVersion(record, (short) 0);
    }

    @SuppressWarnings("unchecked")
    private void ask(Object controller, int broker, long brokerEpoch, int owner) {
        waiting.add(new Waiting(owner, (CompletableFuture<AllocateProducerIdsResponseData>)
            Kafka.call(controller, "allocateProducerIds", context,
                new AllocateProducerIdsRequestData().setBrokerId(broker)
                    .setBrokerEpoch(brokerEpoch))));
    }

    // The quorum ---------------------------------------------------------------------------------

    private Object controller(int number) {
        Object builder = Kafka.make(builderType, number, "cluster");
        Kafka.call(builder, "setRaftClient", client(number));
        Kafka.call(builder, "setQuorumFeatures", features);
        Kafka.call(builder, "setConfigSchema", schema);
        Kafka.call(builder, "setBootstrapMetadata", bootstrap);
        Kafka.call(builder, "setNonFatalFaultHandler", handler);
        Kafka.call(builder, "setFatalFaultHandler", handler);
        Kafka.call(builder, "setTime", StandIns.time(() -> NOW));
        return Kafka.call(builder, "build");
    }

    private Object client(int number) {
        return Kafka.mocked(RaftClient.class, call -> {
            switch (call.getMethod().getName()) {
                case "register" -> {
                    listeners.add(number, call.getArgument(0));
                    return null;
                }
                case "leaderAndEpoch" -> {
                    return new LeaderAndEpoch(OptionalInt.of(ACTIVE), epoch);
                }
                case "logEndOffset" -> {
                    return end();
                }
                case "prepareAppend", "scheduleAppend", "scheduleAtomicAppend" -> {
                    append(call.getArgument(call.getArguments().length - 1));
                    return end() - 1;
                }
                default -> {
                    return Mockito.RETURNS_DEFAULTS.answer(call);
                }
            }
        });
    }

    private long end() {
        return log.isEmpty() ? 0 : log.get(log.size() - 1).lastOffset() + 1;
    }

    private void append(List<ApiMessageAndVersion> records) {
        log.add(Batch.data(end(), epoch, NOW, 1, List.copyOf(records)));
    }

    /** Both controllers learn that so many batches of the log are committed. */
    private void commit(int count) {
        for (; committed < count; committed++) {
            for (RaftClient.Listener<ApiMessageAndVersion> listener : listeners) {
                listener.handleCommit(MemoryBatchReader.of(
                    List.of(log.get(committed)), reader -> { }));
            }
        }
    }

    private void lead(int learns, int leader) {
        listeners.get(learns).handleLeaderChange(
            new LeaderAndEpoch(OptionalInt.of(leader), epoch));
    }

    /** Waits until both have handled all of their events. */
    private static void quiet(Object[] controllers) {
        for (Object controller : controllers) {
            CountDownLatch done = new CountDownLatch(1);
            Runnable last = done::countDown;
            Kafka.call(controller, "appendControlEvent", "quiet", last);
            try {
                done.await();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    // The result ---------------------------------------------------------------------------------

    private void write(long[] result, Object active, Object standby) {
        for (int broker = 0; broker < BROKERS; broker++) {
            result[ANSWERS + broker * ANSWER + ERROR] = NO_ANSWER;
        }
        for (Waiting each : waiting) {
            if (each.broker == NOBODY) {
                continue;
            }
            if (!each.answer.isDone()) {
                result[WAITS + each.broker - 1]++;
            } else {
                answer(each.answer, result, ANSWERS + (each.broker - 1) * ANSWER);
            }
        }
        result[FAULTS] = faults;
        result[NEXT] = nextBlock(active);
        result[STABLE] = nextBlock(standby);
    }

    private static void answer(
            CompletableFuture<AllocateProducerIdsResponseData> answer, long[] result, int at) {
        try {
            result[at + FIRST] = answer.join().producerIdStart();
            result[at + SIZE] = answer.join().producerIdLen();
            result[at + ERROR] = 0;
        } catch (CompletionException e) {
            result[at + ERROR] = Errors.forException(e.getCause()).code();
        }
    }

    /** A standby has what is committed. */
    private static long nextBlock(Object controller) {
        Object manager = Kafka.inField(controller, "producerIdControlManager");
        return (long) Kafka.call(Kafka.call(manager, "nextProducerBlock"), "firstProducerId");
    }
}
