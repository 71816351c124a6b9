import java.lang.reflect.Field;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What Kafka's own classes say of settings: the defaults of consumer and broker, and what becomes
 * of a consumer for each line of standard input. */
public final class Settings {
    public static void main(String[] arguments) throws Exception {
        tell("consumer", ConsumerConfig.configDef());
        Class<?> broker = Class.forName("kafka.server.KafkaConfig$");
        for (Field field : broker.getDeclaredFields()) {
            if (field.getType() == ConfigDef.class) {
                field.setAccessible(true);
                Object of = broker.getField("MODULE$").get(null);
                tell("broker", (ConfigDef) field.get(of));
            }
        }
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            System.out.println("case\t" + made(lines.nextLine()));
        }
        System.exit(0);
    }

    private static void tell(String kind, ConfigDef defined) {
        for (ConfigDef.ConfigKey key : defined.configKeys().values()) {
            System.out.println(kind + "\t" + key.name + "\t" + key.type + "\t" + key.defaultValue);
        }
    }

    private static String made(String line) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", "127.0.0.1:1");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        for (String setting : line.isEmpty() ? new String[0] : line.split("\t")) {
            String[] parts = setting.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        try {
            new KafkaConsumer<byte[], byte[]>(settings).close(Duration.ZERO);
            return "ACCEPTED";
        } catch (KafkaException | IllegalArgumentException error) {
            boolean wraps = error.getClass() == KafkaException.class && error.getCause() != null;
            Throwable cause = wraps ? error.getCause() : error;
            return cause.getClass().getSimpleName() + "\t" + cause.getMessage();
        }
    }
}
