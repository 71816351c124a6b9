import java.nio.file.Files;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.UnaryOperator;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;

/** Tests of Kafka Streams with exactly_once_v2 on given brokers: `Streams TEST BOOTSTRAP NAME`. */
public final class Streams {
    private final Tests tests;

    private Streams(String bootstrap) {
        tests = new Tests(bootstrap);
    }

    public static void main(String[] arguments) {
        var streams = new Streams(arguments[1]);
        Map<String, Tests.Test> all =
                Map.of(
                        "commit", streams::commit,
                        "abort", streams::abort,
                        "fenced", streams::fenced,
                        "process", streams::process);
        Tests.run(all, arguments[0], arguments[2]);
    }

    /** An instance of the application NAME, which copies NAME-in to NAME-out. */
    private KafkaStreams started(String name, String instance, UnaryOperator<String> each)
            throws Exception {
        var builder = new StreamsBuilder();
        KStream<String, String> in = builder.stream(name + "-in");
        in.to(name + "-out"); // before `each`, which may fail
        in.foreach((key, value) -> each.apply(value));
        return started(name, instance, builder);
    }

    private KafkaStreams started(String name, String instance, StreamsBuilder builder)
            throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", tests.bootstrap);
        settings.put("application.id", name);
        settings.put("client.id", instance);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("state.dir", Files.createTempDirectory("streams").toString());
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("commit.interval.ms", "100");
        settings.put("num.stream.threads", "1");
        settings.put("producer.linger.ms", "0");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.interval.ms", "3000");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "500");
        var made = new KafkaStreams(builder.build(), settings);
        made.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        made.start();
        return made;
    }

    private void commit(String name) throws Exception {
        tests.create(name + "-in", name + "-out");
        try (var ignored = started(name, "one", value -> value)) {
            tests.write(name + "-in", true, "a", "b");
            tests.write(name + "-in", true, "c");
            tests.expect(name + "-out", true, "a", "b", "c");
        }
    }

    /** A thread fails behind `a`: its transaction is aborted, and another thread processes it. */
    private void abort(String name) throws Exception {
        tests.create(name + "-in", name + "-out");
        tests.write(name + "-in", true, "a");
        var isFirst = new AtomicBoolean(true);
        UnaryOperator<String> fails =
                value -> {
                    if (isFirst.getAndSet(false)) {
                        tests.read(name + "-out", false, 1); // it is in the log
                        throw new IllegalStateException("on purpose");
                    }
                    return value;
                };
        try (var ignored = started(name, "one", fails)) {
            tests.write(name + "-in", true, "b");
            tests.expect(name + "-out", true, "a", "b");
            tests.expect(name + "-out", false, "a", "a", "b");
        }
    }

    /** An instance stops in the middle of a transaction until another one has its partition. */
    private void fenced(String name) throws Exception {
        tests.create(name + "-in", name + "-out");
        tests.write(name + "-in", true, "a");
        var isReached = new CountDownLatch(1);
        var isTaken = new CountDownLatch(1);
        UnaryOperator<String> stops =
                value -> {
                    isReached.countDown();
                    try {
                        isTaken.await();
                    } catch (InterruptedException error) {
                        throw new IllegalStateException(error);
                    }
                    return value;
                };
        try (var older = started(name, "older", stops)) {
            isReached.await();
            try (var newer = started(name, "newer", value -> value)) {
                Tests.eventually(
                        "the newer instance commits", () -> tests.committed(name, name + "-in") >= 1);
                isTaken.countDown();
                tests.write(name + "-in", true, "b");
                tests.expect(name + "-out", true, "a", "b");
                tests.expect(name + "-out", false, "a", "a", "b");
            }
        }
    }

    /** Records are counted in a store, whose changelog is in the transactions. */
    private void process(String name) throws Exception {
        String in = name + "-in", out = name + "-out";
        tests.create(in, out);
        tests.write(in, false, "x");
        tests.write(in, true, "a", "b", "c");
        try (var ignored = started(name, "one", reducing(in, out))) {
            Tests.eventually(
                    "offset 5 of " + in + " is committed", // x and its marker are offsets 0 and 1
                    () -> tests.committed(name, in) >= 5);
        }
        var found = tests.read(out, true, 1);
        if (!found.get(found.size() - 1).equals("abc")) throw new AssertionError("read " + found);
        try (var ignored = started(name, "two", reducing(in, out))) { // its store is that of the changelog
            tests.write(in, true, "d");
            tests.read(out, true, found.size() + 1);
        }
        found = tests.read(out, true, found.size() + 1);
        if (!found.get(found.size() - 1).equals("abcd")) throw new AssertionError("read " + found);
    }

    private static StreamsBuilder reducing(String in, String out) {
        var builder = new StreamsBuilder();
        KStream<String, String> records = builder.stream(in);
        records.groupByKey()
                .reduce((all, value) -> all + value, Materialized.as("all"))
                .toStream()
                .to(out);
        return builder;
    }
}
