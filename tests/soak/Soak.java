import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringSerializer;

/** What worker.py is for the other clients: BOOTSTRAP NAME START_MS SLOT_S PARTITIONS SEED TIMEOUT_MS. */
public class Soak {
    private static String name;
    private static double startMs;
    private static double slotMs;
    private static int partitions;
    private static Random random;
    private static int number;

    public static void main(String[] given) throws Exception {
        name = given[1];
        startMs = Double.parseDouble(given[2]);
        slotMs = 1000 * Double.parseDouble(given[3]);
        partitions = Integer.parseInt(given[4]);
        random = new Random(given[5].hashCode());
        while (true) {
            int slot = slot();
            Properties settings = new Properties();
            settings.put("bootstrap.servers", given[0]);
            settings.put("transactional.id", "Java-" + slot);
            settings.put("transaction.timeout.ms", given[6]);
            settings.put("linger.ms", "0");
            settings.put("max.block.ms", "30000");
            var producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
            try {
                producer.initTransactions();
                while (slot() == slot) {
                    transaction(producer, slot);
                    Thread.sleep(random.nextInt(100));
                }
            } catch (RuntimeException error) {
                tell("error " + error.getClass().getSimpleName());
                Thread.sleep(100);
            }
            producer.close(java.time.Duration.ZERO);
        }
    }

    private static int slot() {
        return (int) ((System.currentTimeMillis() - startMs) / slotMs);
    }

    private static void tell(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void transaction(KafkaProducer<String, String> producer, int slot)
            throws Exception {
        String transaction = name + "/" + ++number;
        boolean commits = random.nextDouble() >= 0.2;
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int n = 0, count = 1 + random.nextInt(3); n < count; n++) {
            int partition = (2 * slot + random.nextInt(2)) % partitions;
            records.add(new ProducerRecord<>("soak", partition, null, transaction + "/" + n));
            tell("send " + transaction + " " + transaction + "/" + n + " soak-" + partition);
        }
        producer.beginTransaction();
        try {
            for (var record : records) {
                producer.send(record, (told, error) ->
                    tell((error == null ? "ack " : "fail ") + record.value()));
            }
            producer.flush();
            if (commits) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException
                error) {
            throw error; // behind which the producer is to be closed
        } catch (org.apache.kafka.common.KafkaException error) {
            producer.abortTransaction();
            commits = false;
        }
        tell("end " + transaction + (commits ? " committed" : " aborted"));
    }
}
