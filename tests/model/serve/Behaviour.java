import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions of a record each (VALUE=commit or VALUE=abort), and what their client says of them. */
public class Behaviour {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", "id");
        settings.put("max.block.ms", "10000");
        settings.put("delivery.timeout.ms", "10000");
        settings.put("request.timeout.ms", "5000");
        settings.put("linger.ms", "0");
        var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        try {
            producer.initTransactions();
            for (int n = 1; n < arguments.length; n++) {
                String[] step = arguments[n].split("=");
                System.out.println(told(producer, step[0], step[1]));
            }
        } catch (KafkaException error) {
            System.out.println("F:" + name(error));
        }
        Runtime.getRuntime().halt(0); // without waiting for what can't be sent any more
    }

    private static String told(KafkaProducer<String, String> producer, String value, String end) {
        producer.beginTransaction(); // throws what is fatal
        try {
            producer.send(new ProducerRecord<>("orders", value)).get();
            for (int tries = 0; ; tries++) {
                try {
                    if (end.equals("commit")) producer.commitTransaction();
                    else producer.abortTransaction();
                    return end.equals("commit") ? "C" : "A";
                } catch (TimeoutException error) { // which may be asked again
                    if (tries == 3) throw error;
                }
            }
        } catch (ExecutionException | KafkaException | InterruptedException error) {
            producer.abortTransaction(); // throws where the error was fatal
            return "A:" + name(error instanceof ExecutionException ? error.getCause() : error);
        }
    }

    private static String name(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause())
            if (cause instanceof ApiException) error = cause;
        return error.getClass().getSimpleName();
    }
}
