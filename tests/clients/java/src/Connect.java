import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.util.FutureCallback;

/** Tests of Kafka Connect's exactly-once source on given brokers: `Connect TEST BOOTSTRAP NAME`. */
public final class Connect {
    private static final CountDownLatch IS_STUCK = new CountDownLatch(1);
    private static final CountDownLatch IS_REPLACED = new CountDownLatch(1);
    private static final CountDownLatch HAS_ENDED = new CountDownLatch(1);
    private final Tests tests;

    private Connect(String bootstrap) {
        tests = new Tests(bootstrap);
    }

    public static void main(String[] arguments) {
        var connect = new Connect(arguments[1]);
        Map<String, Tests.Test> all =
                Map.of(
                        "commit", connect::commit,
                        "abort", connect::abort,
                        "fenced", connect::fenced,
                        "process", connect::process);
        Tests.run(all, arguments[0], arguments[2]);
    }

    /** A connector with one task, whose records are the words of its setting `values`. */
    public static final class Source extends SourceConnector {
        private Map<String, String> settings;

        @Override
        public void start(Map<String, String> given) {
            settings = given;
        }

        @Override
        public Class<? extends Task> taskClass() {
            return Words.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return List.of(settings);
        }

        @Override
        public void stop() {}

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public String version() {
            return "1";
        }

        @Override
        public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
            return ExactlyOnceSupport.SUPPORTED;
        }

        @Override
        public ConnectorTransactionBoundaries canDefineTransactionBoundaries(
                Map<String, String> given) {
            return ConnectorTransactionBoundaries.SUPPORTED;
        }
    }

    /**
     * Sends a word at each poll, from the committed offset on. Where the task defines transactions,
     * a word with `+` behind it commits, one with `-` aborts, and at `stuck` the task stops in the
     * middle of a transaction until the connector has other settings.
     */
    public static final class Words extends SourceTask {
        private static final Map<String, String> SOURCE = Map.of("source", "words");
        private String[] words;
        private String topic;
        private int next;

        @Override
        public void start(Map<String, String> settings) {
            words = settings.get("values").split(" ");
            topic = settings.get("topic");
            var offset = context.offsetStorageReader().offset(SOURCE);
            next = offset == null ? 0 : ((Long) offset.get("next")).intValue();
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(200); // the batch before it is sent
            if (next >= words.length) return null;
            String word = words[next++];
            if (word.equals("stuck+")) {
                IS_STUCK.countDown();
                IS_REPLACED.await();
            }
            String value = word.replaceAll("[+-]", "");
            var offset = Map.of("next", (long) next);
            var record =
                    new SourceRecord(SOURCE, offset, topic, 0, Schema.STRING_SCHEMA, value);
            var transaction = context.transactionContext();
            if (transaction != null && word.endsWith("+")) transaction.commitTransaction(record);
            if (transaction != null && word.endsWith("-")) transaction.abortTransaction(record);
            return List.of(record);
        }

        @Override
        public void stop() {
            if (IS_STUCK.getCount() == 0) HAS_ENDED.countDown();
        }

        @Override
        public String version() {
            return "1";
        }
    }

    /** A worker that has joined its cluster, NAME. */
    private org.apache.kafka.connect.runtime.Connect<?> worker(String name) {
        Map<String, String> settings = new HashMap<>();
        settings.put("bootstrap.servers", tests.bootstrap);
        settings.put("group.id", name);
        settings.put("exactly.once.source.support", "enabled");
        settings.put("listeners", "http://127.0.0.1:0");
        settings.put("key.converter", "org.apache.kafka.connect.storage.StringConverter");
        settings.put("value.converter", "org.apache.kafka.connect.storage.StringConverter");
        settings.put("task.shutdown.graceful.timeout.ms", "500");
        settings.put("scheduled.rebalance.max.delay.ms", "0");
        for (String each : List.of("config", "offset", "status")) {
            settings.put(each + ".storage.topic", name + "-" + each);
            settings.put(each + ".storage.replication.factor", "1");
            if (!each.equals("config")) settings.put(each + ".storage.partitions", "1");
        }
        return new ConnectDistributed().startConnect(settings);
    }

    /** Gives the connector its settings. */
    private void configure(
            org.apache.kafka.connect.runtime.Connect<?> worker, String topic, String boundary,
            String values) throws Exception {
        Map<String, String> settings = new HashMap<>();
        settings.put("name", "words");
        settings.put("connector.class", Source.class.getName());
        settings.put("tasks.max", "1");
        settings.put("topic", topic);
        settings.put("values", values);
        settings.put("transaction.boundary", boundary);
        settings.put("exactly.once.support", "required");
        settings.put("producer.override.linger.ms", "0");
        Tests.eventually(
                "the worker takes a connector",
                () -> {
                    var told = new FutureCallback<org.apache.kafka.connect.runtime.Herder.Created<
                            org.apache.kafka.connect.runtime.rest.entities.ConnectorInfo>>();
                    worker.herder().putConnectorConfig("words", settings, true, told);
                    try {
                        told.get();
                        return true;
                    } catch (java.util.concurrent.ExecutionException error) {
                        return false; // it isn't ready, or rebalances
                    }
                });
    }

    private void commit(String name) throws Exception {
        tests.create(name);
        configure(worker(name), name, "poll", "a b c");
        tests.expect(name, true, "a", "b", "c");
    }

    private void abort(String name) throws Exception {
        tests.create(name);
        configure(worker(name), name, "connector", "a+ b x- c+");
        tests.expect(name, true, "a", "c");
        var found = tests.read(name, false, 3);
        if (!found.subList(0, 2).equals(List.of("a", "b")))
            throw new AssertionError("read " + found + ", wanted a, b (uncommitted)");
    }

    /** A task that is stuck in a transaction has a successor, with the same transactional id. */
    private void fenced(String name) throws Exception {
        tests.create(name);
        var worker = worker(name);
        configure(worker, name, "connector", "older stuck+");
        IS_STUCK.await();
        tests.read(name, false, 1);
        configure(worker, name, "connector", "newer+");
        tests.expect(name, true, "newer");
        IS_REPLACED.countDown();
        HAS_ENDED.await();
        Thread.sleep(500);
        configure(worker, name, "connector", "newer+ again+");
        tests.expect(name, true, "newer", "again");
        var found = tests.read(name, false, 3);
        if (!found.get(0).equals("older")) throw new AssertionError("read " + found);
    }

    /** Another worker goes on at the offset that was committed with the records. */
    private void process(String name) throws Exception {
        tests.create(name);
        var first = worker(name);
        configure(first, name, "poll", "a b");
        tests.expect(name, true, "a", "b");
        first.stop();
        first.awaitStop();
        configure(worker(name), name, "poll", "a b c");
        tests.expect(name, true, "a", "b", "c");
    }
}
