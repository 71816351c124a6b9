import java.lang.reflect.Proxy;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.LongSupplier;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.utils.Time;
import org.mockito.Mockito;
import scala.Function0;
import scala.Option;

/** What a coordinator is made with, where a release has it: metadata, settings, a scheduler. */
final class StandIns {
    private StandIns() {}

    /** Tasks with these names run at once, and so does a load; others never run. */
    static Object scheduler(String... names) {
        Class<?> type =
            Kafka.type("org.apache.kafka.server.util.Scheduler", "kafka.utils.Scheduler");
        return Kafka.mocked(type, call -> {
            if (call.getMethod().getName().startsWith("schedule") && call.getArguments().length > 1
                    && call.getArgument(0) instanceof String name
                    && (name.startsWith("load-txns") || Set.of(names).contains(name))) {
                for (Object argument : call.getArguments()) {
                    if (argument instanceof Runnable java) {
                        java.run();
                    } else if (argument instanceof Function0<?> scala) {
                        scala.apply();
                    }
                }
            }
            return Mockito.RETURNS_DEFAULTS.answer(call);
        });
    }

    /** Each partition has a leader of its own, so that its markers have a request of their own. */
    static Object metadata(int version) {
        Class<?> type =
            Kafka.type("org.apache.kafka.metadata.MetadataCache", "kafka.server.MetadataCache");
        return Kafka.mocked(type, call -> switch (call.getMethod().getName()) {
            case "getPartitionLeaderEndpoint" -> {
                int partition = call.getArgument(1);
                Node leader = new Node(100 + partition, "localhost", 9092);
                yield call.getMethod().getReturnType() == Optional.class
                    ? Optional.of(leader) : Option.apply(leader);
            }
            case "features" -> Kafka.make(call.getMethod().getReturnType(),
                Map.of("transaction.version", (short) version), latest());
            case "metadataVersion" -> latest();
            default -> Mockito.RETURNS_DEFAULTS.answer(call);
        });
    }

    static Object config() {
        return Kafka.mocked(Kafka.type("kafka.server.KafkaConfig"), call ->
            call.getMethod().getName().equals("interBrokerProtocolVersion")
                ? latest() : Mockito.RETURNS_DEFAULTS.answer(call));
    }

    /** The settings of a coordinator, each with its default. */
    static Object transactionConfig() {
        Class<?> type = Kafka.type(
            "org.apache.kafka.coordinator.transaction.TransactionConfig",
            "kafka.coordinator.transaction.TransactionConfig");
        try {
            return type.getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException e) {
            return Kafka.make(type); // Scala has the defaults beside the constructor
        }
    }

    /** A clock that gives this time, in milliseconds. */
    static Time time(LongSupplier now) {
        return (Time) Proxy.newProxyInstance(
            StandIns.class.getClassLoader(), new Class<?>[] {Time.class},
            (proxy, method, arguments) -> switch (method.getName()) {
                case "milliseconds", "hiResClockMs" -> now.getAsLong();
                case "nanoseconds" -> now.getAsLong() * 1_000_000;
                default -> null;
            });
    }

    static Object logContext() {
        return Kafka.make(Kafka.type(
            "org.apache.kafka.common.utils.internals.LogContext",
            "org.apache.kafka.common.utils.LogContext"));
    }

    /** The newest version that brokers speak among themselves. */
    static Object latest() {
        Class<?> old = Kafka.find("kafka.api.ApiVersion");
        if (old != null) {
            return Kafka.callStatic(old, "latestVersion");
        }
        Object[] versions =
            Kafka.type("org.apache.kafka.server.common.MetadataVersion").getEnumConstants();
        return versions[versions.length - 1];
    }

    /** What waits for markers before 2.6, without a clock of its own. */
    static Object purgatory() {
        Class<?> waits = Kafka.find("kafka.coordinator.transaction.DelayedTxnMarker");
        return waits == null ? null
            : Kafka.make(Kafka.type("kafka.server.DelayedOperationPurgatory"), "markers", false, false);
    }
}
