import java.util.Arrays;
import java.util.Collection;
import org.apache.kafka.common.protocol.Errors;
import org.mockito.Mockito;

/**
 * The controller's producer ids: ProducerIdControlManager, with a ClusterControlManager that knows
 * one broker. A record that it makes is replayed at once, as the active controller does.
 */
final class ControllerSteps implements Host.Steps {
    // A step: the request, the registration of its broker, and the next block.
    private static final int BROKER_EPOCH = 0, REGISTERED = 1, NEXT = 2;
    // A result: how it ended, the answer, and the next block.
    private static final int ENDED = 0, ERROR = 1, RECORDS = 2, FIRST = 3, SIZE = 4, AFTER = 5;
    private static final int THREW = 1, BROKER = 1;
    /** What some releases ask for; no step needs it. */
    private static final String[] OTHERS = {
        "setBrokerShutdownHandler", "setBrokerUncleanShutdownHandler", "setMetrics",
    };
    private static final String CONTROLLER = "org.apache.kafka.controller.",
        TIMELINE = "org.apache.kafka.timeline.";

    private final Class<?> type = Kafka.type(CONTROLLER + "ProducerIdControlManager"),
        clusterType = Kafka.type(CONTROLLER + "ClusterControlManager"),
        blockType = Kafka.type("org.apache.kafka.server.common.ProducerIdsBlock");
    private final Object manager, cluster, registrations;

    ControllerSteps() {
        Object logContext = StandIns.logContext();
        Object registry = Kafka.make(Kafka.type(TIMELINE + "SnapshotRegistry"), logContext, 100);
        Object builder = Kafka.make(Kafka.type(clusterType.getName() + "$Builder"));
        Kafka.call(builder, "setSnapshotRegistry", registry);
        Kafka.call(builder, "setClusterId", "cluster");
        Kafka.call(builder, "setFeatureControlManager", Kafka.mocked(
            Kafka.type(CONTROLLER + "FeatureControlManager"), call -> null));
        for (String name : OTHERS) {
            if (Kafka.has(builder, name)) {
                Kafka.call(builder, name);
            }
        }
        cluster = Kafka.call(builder, "build");
        registrations = Kafka.inField(cluster, "brokerRegistrations");
        builder = Kafka.make(Kafka.type(type.getName() + "$Builder"));
        Kafka.call(builder, "setSnapshotRegistry", registry);
        Kafka.call(builder, "setClusterControlManager", cluster);
        manager = Kafka.call(builder, "build");
    }

    @Override
    public void take(long[] step, long[] result) {
        Arrays.fill(result, 0);
        Kafka.call(registrations, "clear");
        if (step[REGISTERED] >= 0) {
            long epoch = step[REGISTERED];
            Object registration = Kafka.mocked(
                Kafka.type("org.apache.kafka.metadata.BrokerRegistration"), call ->
                    call.getMethod().getName().equals("epoch")
                        ? epoch : Mockito.RETURNS_DEFAULTS.answer(call));
            Kafka.call(registrations, "put", BROKER, registration);
        }
        Kafka.call(Kafka.inField(manager, "nextProducerBlock"), "set",
            Kafka.make(blockType, BROKER, step[NEXT], 1000));
        result[FIRST] = -1;
        try {
            Object made =
                Kafka.call(manager, "generateNextProducerId", BROKER, step[BROKER_EPOCH]);
            Object block = Kafka.call(made, "response");
            for (Object record : (Collection<?>) Kafka.call(made, "records")) {
                result[RECORDS]++;
                Kafka.call(manager, "replay", Kafka.call(record, "message"));
            }
            result[FIRST] = (long) Kafka.call(block, "firstProducerId");
            result[SIZE] = (int) Kafka.call(block, "size");
        } catch (RuntimeException e) {
            result[ENDED] = THREW;
            result[ERROR] = Errors.forException(e).code();
        }
        result[AFTER] = (long) Kafka.call(Kafka.call(manager, "nextProducerBlock"),
            "firstProducerId");
    }
}
