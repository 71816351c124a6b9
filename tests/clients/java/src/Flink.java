import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Tests of Flink's KafkaSource and KafkaSink in a MiniCluster: `Flink TEST BOOTSTRAP NAME`. */
public final class Flink {
    private static final AtomicBoolean IS_FIRST = new AtomicBoolean(true);
    private static final CountDownLatch IS_REACHED = new CountDownLatch(1);
    private static final CountDownLatch IS_TAKEN = new CountDownLatch(1);
    private final Tests tests;

    private Flink(String bootstrap) {
        tests = new Tests(bootstrap);
    }

    public static void main(String[] arguments) {
        var flink = new Flink(arguments[1]);
        Map<String, Tests.Test> all =
                Map.of(
                        "commit", flink::commit,
                        "abort", flink::abort,
                        "fenced", flink::fenced,
                        "process", flink::process);
        Tests.run(all, arguments[0], arguments[2]);
    }

    /** A job that copies a topic to another one, and ends at the end of the first. */
    private JobClient copy(String name, String from, String to, MapFunction<String, String> each)
            throws Exception {
        var settings = new Configuration();
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "3");
        settings.setString("restart-strategy.fixed-delay.delay", "0 s");
        var environment = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
        environment.enableCheckpointing(200);
        KafkaSource<String> source =
                KafkaSource.<String>builder()
                        .setBootstrapServers(tests.bootstrap)
                        .setTopics(from)
                        .setGroupId(name)
                        .setProperty("isolation.level", "read_committed")
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setBounded(OffsetsInitializer.latest())
                        .setValueOnlyDeserializer(new SimpleStringSchema())
                        .build();
        KafkaSink<String> sink =
                KafkaSink.<String>builder()
                        .setBootstrapServers(tests.bootstrap)
                        .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                        .setTransactionalIdPrefix(name)
                        .setProperty("transaction.timeout.ms", "60000")
                        .setProperty("linger.ms", "0")
                        .setRecordSerializer(
                                KafkaRecordSerializationSchema.<String>builder()
                                        .setTopic(to)
                                        .setValueSerializationSchema(new SimpleStringSchema())
                                        .build())
                        .build();
        environment
                .fromSource(source, WatermarkStrategy.noWatermarks(), "source")
                .map(each)
                .sinkTo(sink);
        return environment.executeAsync(name);
    }

    private void commit(String name) throws Exception {
        String in = name + "-in", out = name + "-out";
        tests.create(in, out);
        tests.write(in, true, "a", "b");
        tests.write(in, true, "c");
        copy(name, in, out, value -> value).getJobExecutionResult().get();
        tests.expect(out, true, "a", "b", "c");
    }

    /** The job fails behind `a`, whose transaction is aborted when it starts again. */
    private void abort(String name) throws Exception {
        String in = name + "-in", out = name + "-out", bootstrap = tests.bootstrap;
        tests.create(in, out);
        tests.write(in, true, "a", "b");
        MapFunction<String, String> fails =
                value -> {
                    if (value.equals("b") && IS_FIRST.getAndSet(false)) {
                        new Tests(bootstrap).read(out, false, 1); // it is in the log
                        throw new IllegalStateException("on purpose");
                    }
                    return value;
                };
        copy(name, in, out, fails).getJobExecutionResult().get();
        tests.expect(out, true, "a", "b");
        tests.expect(out, false, "a", "a", "b");
    }

    /** A job that is stuck in a transaction has a successor, with the same transactional ids. */
    private void fenced(String name) throws Exception {
        String older = name + "-older", newer = name + "-newer", out = name + "-out";
        tests.create(older, newer, out);
        tests.write(older, true, "a", "b");
        tests.write(newer, true, "newer");
        MapFunction<String, String> stops =
                value -> {
                    if (value.equals("b")) {
                        IS_REACHED.countDown();
                        IS_TAKEN.await();
                    }
                    return value;
                };
        copy(name, older, out, stops);
        IS_REACHED.await();
        tests.read(out, false, 1);
        copy(name, newer, out, value -> value).getJobExecutionResult().get();
        tests.expect(out, true, "newer");
        tests.expect(out, false, "a", "newer");
        IS_TAKEN.countDown();
    }

    private void process(String name) throws Exception {
        String in = name + "-in", out = name + "-out";
        tests.create(in, out);
        tests.write(in, false, "x");
        tests.write(in, true, "a", "b", "c");
        copy(name, in, out, value -> value).getJobExecutionResult().get();
        tests.expect(out, true, "a", "b", "c");
        // x and its marker are offsets 0 and 1
        Tests.eventually("offset 5 of " + in + " is committed", () -> tests.committed(name, in) >= 5);
    }
}
