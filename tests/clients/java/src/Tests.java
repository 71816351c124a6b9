import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The part that the tests of all frameworks have: topics of one partition, a source of records, and
 * a reader. A test passes with exit code 0. Otherwise the reason is the last line on standard error.
 */
final class Tests {
    static final Duration PATIENCE = Duration.ofSeconds(60);

    /** A test of a framework: it throws if it fails. */
    interface Test {
        void run(String name) throws Exception;
    }

    final String bootstrap;

    Tests(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** Runs one of the tests by its name, and ends the process. */
    static void run(Map<String, Test> tests, String test, String name) {
        int code = 0;
        try {
            tests.get(test).run(name);
        } catch (Throwable error) {
            System.err.println();
            System.err.println(String.valueOf(error).lines().findFirst().orElse("failed"));
            code = 1;
        }
        Runtime.getRuntime().halt(code); // without waiting for threads of the framework
    }

    /** Makes topics with one partition each. */
    void create(String... names) throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            List<NewTopic> topics = new ArrayList<>();
            for (String name : names) topics.add(new NewTopic(name, 1, (short) 1));
            admin.createTopics(topics).all().get();
        }
    }

    /** Sends values in one transaction, and commits or aborts it. */
    void write(String topic, boolean commits, String... values) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", topic + "-source");
        try (var producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            for (String value : values) producer.send(new ProducerRecord<>(topic, "k", value));
            producer.flush();
            if (commits) producer.commitTransaction();
            else producer.abortTransaction();
        }
    }

    /** The values from the start of a topic, until there are so many. */
    List<String> read(String topic, boolean committed, int count) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", committed ? "read_committed" : "read_uncommitted");
        var strings = new StringDeserializer();
        List<String> found = new ArrayList<>();
        try (var consumer = new KafkaConsumer<>(settings, strings, strings)) {
            var partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long until = System.nanoTime() + PATIENCE.toNanos();
            while (found.size() < count && System.nanoTime() < until)
                consumer.poll(Duration.ofMillis(100)).forEach(each -> found.add(each.value()));
        }
        return found;
    }

    /** Fails if a topic doesn't have these values. */
    void expect(String topic, boolean committed, String... wanted) {
        List<String> found = read(topic, committed, wanted.length);
        if (!found.equals(List.of(wanted)))
            throw new AssertionError(
                    "read " + found + ", wanted " + List.of(wanted) + " (committed: " + committed + ")");
    }

    /** The offset that a group has committed. */
    long committed(String group, String topic) throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            var offset = offsets.get(new TopicPartition(topic, 0));
            return offset == null ? -1 : offset.offset();
        }
    }

    /** Fails if something doesn't become true in time. */
    static void eventually(String what, Callable<Boolean> isTrue) throws Exception {
        long until = System.nanoTime() + PATIENCE.toNanos();
        while (!isTrue.call()) {
            if (System.nanoTime() > until) throw new AssertionError(what);
            Thread.sleep(50);
        }
    }
}
