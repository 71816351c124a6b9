import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer that makes the calls of standard input, one in each line, and prints their outcomes. */
public class Driven {
    private static String topic = "orders";

    /** The topic that a member of a group reads. */
    private static String input;

    /** The member, once it has polled. */
    private static KafkaConsumer<String, String> member;

    /** A member that gets no record for so long has none. */
    private static final Duration QUIET = Duration.ofSeconds(8);

    /** The first error of a record since the last flush. */
    private static final AtomicReference<Exception> failed = new AtomicReference<>();

    /** The outcome of the commit in another thread. */
    private static CompletableFuture<String> commit;

    /** So many batches wait at once: enough for a client to have the most of them in flight. */
    private static final int WAITING = 20;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // of a logger, whose default is standard output
        Properties settings = new Properties();
        for (String each : arguments) {
            String[] parts = each.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        topic = (String) settings.getOrDefault("topic", topic);
        settings.remove("topic");
        input = (String) settings.remove("input");
        var group = (String) settings.remove("group.id");
        var in = new BufferedReader(new InputStreamReader(System.in));
        try (var producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            out.println("ready");
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                out.println(told(producer, line.split(" "), settings, group));
                out.flush();
            }
            producer.close(Duration.ZERO);
        }
    }

    /** Sends a record so many times, and waits until each is refused as too large; how many were. */
    private static int refused(
            KafkaProducer<String, String> producer, int partition, String value, int times)
            throws InterruptedException {
        var waiting = new Semaphore(WAITING);
        var refused = new AtomicInteger();
        for (int sent = 0; sent < times; sent++) {
            waiting.acquire();
            producer.send(new ProducerRecord<>(topic, partition, null, value), (to, error) -> {
                if (error instanceof RecordTooLargeException) refused.incrementAndGet();
                waiting.release();
            });
        }
        waiting.acquire(WAITING);
        return refused.get();
    }

    /** The values of a partition's committed records, in the order of the log. */
    private static String values(Properties settings, int partition) {
        var from = new Properties();
        from.put("bootstrap.servers", settings.get("bootstrap.servers"));
        from.put("isolation.level", "read_committed");
        from.put("auto.offset.reset", "earliest");
        from.put("enable.auto.commit", "false");
        var values = new ArrayList<String>();
        var decode = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(from, decode, decode)) {
            var read = new TopicPartition(topic, partition);
            consumer.assign(List.of(read));
            long end = consumer.endOffsets(List.of(read)).get(read);
            while (consumer.position(read) < end)
                consumer.poll(Duration.ofMillis(100)).forEach(one -> values.add(one.value()));
        }
        return String.join(",", values);
    }

    /** The values that come next to a member of the group; it joins with its first call. */
    private static String polled(Properties settings, String group) {
        if (member == null) {
            var from = new Properties();
            from.put("bootstrap.servers", settings.get("bootstrap.servers"));
            from.put("client.id", settings.get("client.id"));
            from.put("group.id", group);
            from.put("isolation.level", "read_committed");
            from.put("auto.offset.reset", "earliest");
            from.put("enable.auto.commit", "false");
            var decode = new StringDeserializer();
            member = new KafkaConsumer<>(from, decode, decode);
            member.subscribe(List.of(input));
        }
        var values = new ArrayList<String>();
        long until = System.nanoTime() + QUIET.toNanos();
        while (values.isEmpty() && System.nanoTime() < until)
            member.poll(Duration.ofMillis(100)).forEach(one -> values.add(one.value()));
        return String.join(",", values);
    }

    /** The offsets behind the records that the member has got. */
    private static Map<TopicPartition, OffsetAndMetadata> positions() {
        var positions = new HashMap<TopicPartition, OffsetAndMetadata>();
        for (var each : member.assignment())
            positions.put(each, new OffsetAndMetadata(member.position(each)));
        return positions;
    }

    private static String committed(KafkaProducer<String, String> producer) {
        try {
            producer.commitTransaction();
            return "ok";
        } catch (KafkaException | IllegalStateException error) {
            return name(error);
        }
    }

    private static String told(
            KafkaProducer<String, String> producer, String[] call, Properties settings,
            String group) throws InterruptedException {
        try {
            switch (call[0]) {
                case "initTransactions" -> producer.initTransactions();
                case "beginTransaction" -> producer.beginTransaction();
                case "commitTransaction" -> producer.commitTransaction();
                case "abortTransaction" -> producer.abortTransaction();
                case "sendOffsetsToTransaction" -> producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(topic, Integer.parseInt(call[1])),
                        new OffsetAndMetadata(1)), new ConsumerGroupMetadata(call[2]));
                case "commitAside" -> commit = CompletableFuture.supplyAsync(
                    () -> committed(producer));
                case "outcome" -> {
                    return commit.join();
                }
                case "poll" -> {
                    return polled(settings, group);
                }
                case "sendOffsets" -> producer.sendOffsetsToTransaction(
                    positions(), member.groupMetadata());
                case "leave" -> member.close();
                case "values" -> {
                    return values(settings, Integer.parseInt(call[1]));
                }
                case "refused" -> {
                    return Integer.toString(refused(
                        producer, Integer.parseInt(call[1]), call[2], Integer.parseInt(call[3])));
                }
                case "flush" -> {
                    producer.flush();
                    Exception error = failed.getAndSet(null);
                    if (error != null) return name(error);
                }
                case "send", "drain" -> producer.send(
                    new ProducerRecord<>(topic, Integer.parseInt(call[1]), null, call[2]),
                    (to, error) -> failed.compareAndSet(null, error));
                default -> {
                    return "unsupported";
                }
            }
            return "ok";
        } catch (KafkaException | IllegalStateException error) {
            return name(error);
        }
    }

    private static String name(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause())
            if (cause instanceof ApiException) error = cause;
        return error.getClass().getSimpleName();
    }
}
