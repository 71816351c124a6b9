import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DefaultAfterRollbackProcessor;
import org.springframework.kafka.listener.KafkaMessageListenerContainer;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.kafka.transaction.KafkaTransactionManager;
import org.springframework.util.backoff.FixedBackOff;

/** Tests of spring-kafka on given brokers: `Spring TEST BOOTSTRAP NAME`. */
public final class Spring {
    private final Tests tests;

    private Spring(String bootstrap) {
        tests = new Tests(bootstrap);
    }

    public static void main(String[] arguments) {
        var spring = new Spring(arguments[1]);
        Map<String, Tests.Test> all =
                Map.of(
                        "commit", spring::commit,
                        "abort", spring::abort,
                        "fenced", spring::fenced,
                        "process", spring::process);
        Tests.run(all, arguments[0], arguments[2]);
    }

    private DefaultKafkaProducerFactory<String, String> producers(String prefix) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", tests.bootstrap);
        settings.put("key.serializer", StringSerializer.class);
        settings.put("value.serializer", StringSerializer.class);
        var made = new DefaultKafkaProducerFactory<String, String>(settings);
        made.setTransactionIdPrefix(prefix);
        return made;
    }

    private void commit(String name) throws Exception {
        tests.create(name);
        var template = new KafkaTemplate<>(producers(name));
        template.executeInTransaction(
                in -> {
                    in.send(name, "a");
                    return in.send(name, "b");
                });
        template.executeInTransaction(in -> in.send(name, "c"));
        tests.expect(name, true, "a", "b", "c");
    }

    private void abort(String name) throws Exception {
        tests.create(name);
        var template = new KafkaTemplate<>(producers(name));
        try {
            template.executeInTransaction(
                    in -> {
                        in.send(name, "a").join();
                        throw new IllegalStateException("on purpose");
                    });
            throw new AssertionError("the application's exception is lost");
        } catch (IllegalStateException expected) {
            template.executeInTransaction(in -> in.send(name, "b"));
        }
        tests.expect(name, true, "b");
        tests.expect(name, false, "a", "b");
    }

    /** Two applications have one prefix, so their producers have one transactional id. */
    private void fenced(String name) throws Exception {
        tests.create(name);
        var older = new KafkaTemplate<>(producers(name));
        var newer = new KafkaTemplate<>(producers(name));
        boolean isFenced = false;
        try {
            older.executeInTransaction(
                    in -> {
                        in.send(name, "older").join();
                        return newer.executeInTransaction(other -> other.send(name, "newer"));
                    });
        } catch (Exception error) {
            for (Throwable each = error; each != null; each = each.getCause())
                isFenced |=
                        each instanceof ProducerFencedException
                                || each instanceof InvalidProducerEpochException;
            if (!isFenced) throw error;
        }
        if (!isFenced) throw new AssertionError("a fenced producer commits");
        tests.expect(name, true, "newer");
        older.executeInTransaction(in -> in.send(name, "again")); // by another producer
        tests.expect(name, true, "newer", "again");
    }

    /** A listener copies records in transactions. The first one with `b` fails, and is repeated. */
    private void process(String name) throws Exception {
        String in = name + "-in", out = name + "-out";
        tests.create(in, out);
        tests.write(in, false, "x");
        tests.write(in, true, "a", "b", "c");
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", tests.bootstrap);
        settings.put("group.id", name);
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("key.deserializer", StringDeserializer.class);
        settings.put("value.deserializer", StringDeserializer.class);
        var producers = producers(name);
        var template = new KafkaTemplate<>(producers);
        var isFirst = new AtomicBoolean(true);
        var processed = new CountDownLatch(4);
        var properties = new ContainerProperties(in);
        properties.setKafkaAwareTransactionManager(new KafkaTransactionManager<>(producers));
        properties.setMessageListener(
                (MessageListener<String, String>)
                        record -> {
                            template.send(out, record.value()).join();
                            processed.countDown();
                            if (record.value().equals("b") && isFirst.getAndSet(false))
                                throw new IllegalStateException("on purpose");
                        });
        var container =
                new KafkaMessageListenerContainer<>(
                        new DefaultKafkaConsumerFactory<String, String>(settings), properties);
        container.setAfterRollbackProcessor(
                new DefaultAfterRollbackProcessor<>(
                        (ConsumerRecord<?, ?> record, Exception error) -> {}, new FixedBackOff(0, 5)));
        container.start();
        if (!processed.await(Tests.PATIENCE.toSeconds(), TimeUnit.SECONDS))
            throw new AssertionError("not all records are processed");
        // x and its marker are offsets 0 and 1
        Tests.eventually("offset 5 of " + in + " is committed", () -> tests.committed(name, in) >= 5);
        container.stop();
        tests.expect(out, true, "a", "b", "c");
        tests.expect(out, false, "a", "b", "b", "c");
    }
}
