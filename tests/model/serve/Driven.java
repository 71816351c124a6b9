import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer that does what standard input says, a call in each line, and tells how each ended. */
public class Driven {
    /** So many batches wait at once: enough for a client to have the most of them in flight. */
    private static final int WAITING = 20;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (String each : arguments) {
            String[] parts = each.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        var in = new BufferedReader(new InputStreamReader(System.in));
        try (var producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            System.out.println("ready");
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                System.out.println(told(producer, line.split(" ")));
                System.out.flush();
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
            producer.send(new ProducerRecord<>("orders", partition, null, value), (to, error) -> {
                if (error instanceof RecordTooLargeException) refused.incrementAndGet();
                waiting.release();
            });
        }
        waiting.acquire(WAITING);
        return refused.get();
    }

    private static String told(KafkaProducer<String, String> producer, String[] call)
            throws InterruptedException {
        try {
            switch (call[0]) {
                case "initTransactions" -> producer.initTransactions();
                case "beginTransaction" -> producer.beginTransaction();
                case "commitTransaction" -> producer.commitTransaction();
                case "abortTransaction" -> producer.abortTransaction();
                case "sendOffsetsToTransaction" -> producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition("orders", Integer.parseInt(call[1])),
                        new OffsetAndMetadata(1)), new ConsumerGroupMetadata(call[2]));
                case "refused" -> {
                    return Integer.toString(refused(
                        producer, Integer.parseInt(call[1]), call[2], Integer.parseInt(call[3])));
                }
                default -> producer.send(
                    new ProducerRecord<>("orders", Integer.parseInt(call[1]), null, call[2]));
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
