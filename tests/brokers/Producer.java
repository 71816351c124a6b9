import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.internals.BufferPool;
import org.apache.kafka.clients.producer.internals.SenderMetricsRegistry;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.MetricNameTemplate;
import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.stats.Avg;
import org.apache.kafka.common.metrics.stats.Max;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;

/** What Kafka's own producer measures, how its statistics count, and what it refuses to send. The
 * argument is a broker; lines of standard input are values at times, and the time to measure at. */
public final class Producer {
    public static void main(String[] arguments) throws Exception {
        tellNames(arguments[0]);
        tellRefusals(arguments[0]);
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            tellStatistics(lines.nextLine().split(" "));
        }
        System.exit(0);
    }

    private static KafkaProducer<byte[], byte[]> producer(String broker, String... settings) {
        Map<String, Object> all = new HashMap<>();
        all.put("bootstrap.servers", broker);
        all.put("enable.idempotence", "true");
        for (int at = 0; at < settings.length; at += 2) {
            all.put(settings[at], settings[at + 1]);
        }
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void tellNames(String broker) {
        TreeSet<String> names = new TreeSet<>();
        KafkaProducer<byte[], byte[]> producer = producer(broker);
        for (MetricName name : producer.metrics().keySet()) {
            if (!name.group().equals("producer-node-metrics")) {
                names.add(name.group() + " " + name.name());
            }
        }
        producer.close(Duration.ZERO);
        for (MetricNameTemplate name : new SenderMetricsRegistry(new Metrics()).allTemplates()) {
            names.add(name.group() + " " + name.name());
        }
        names.forEach(name -> System.out.println("name\t" + name));
    }

    private static void tellRefusals(String broker) throws Exception {
        tellSend("request", producer(broker, "max.request.size", "1000"), 2000);
        tellSend("buffer", producer(broker, "buffer.memory", "1000", "batch.size", "100"), 2000);
        tellSend("batch", producer(broker, "buffer.memory", "1000"), 10);
        tellSend("topic", producer(broker, "max.block.ms", "200"), 10, "none");
        BufferPool pool = new BufferPool(2500, 1000, new Metrics(), Time.SYSTEM, "group");
        pool.allocate(1000, 0);
        try {
            pool.allocate(2000, 10);
        } catch (KafkaException error) {
            System.out.println("send\tmemory\t" + error.getClass().getSimpleName() + "\t"
                + pool.availableMemory());
        }
    }

    private static void tellSend(
            String what, KafkaProducer<byte[], byte[]> producer, int bytes, String... topic) {
        String told = "sent";
        try {
            String to = topic.length > 0 ? topic[0] : "orders";
            producer.send(new ProducerRecord<>(to, 0, null, new byte[bytes])).get();
        } catch (ExecutionException error) {
            Throwable cause = error.getCause();
            told = cause.getClass().getSimpleName() + "\t" + cause.getMessage();
        } catch (RuntimeException | InterruptedException error) {
            told = "thrown " + error.getClass().getSimpleName();
        }
        System.out.println("send\t" + what + "\t" + told);
        producer.close(Duration.ZERO);
    }

    private static void tellStatistics(String[] numbers) {
        MetricConfig config = new MetricConfig();
        MeasurableStat[] all = {new Avg(), new Max(), new Rate()};
        StringBuilder told = new StringBuilder("measured");
        for (MeasurableStat stat : all) {
            for (int at = 0; at + 1 < numbers.length; at += 2) {
                stat.record(config, Double.parseDouble(numbers[at + 1]),
                    Long.parseLong(numbers[at]));
            }
            told.append("\t");
            told.append(stat.measure(config, Long.parseLong(numbers[numbers.length - 1])));
        }
        System.out.println(told);
    }
}
