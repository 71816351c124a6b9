import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.BufferedReader;
import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Producers of one transactional id, behind a proxy that brings about the faults of a script. */
final class Run implements AutoCloseable {
    private static final String BROKER = System.getProperty("kafka.bootstrap", "127.0.0.1:9092");
    private static final String COMMAND = System.getProperty("epochfence.command", "epochfence");
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    private static final long SETTLING_MS = 3_000;

    final String topic = "epochfence-" + UUID.randomUUID();
    private final String id = topic + "-id";
    private final int partitions;
    private final Map<String, String> settings;
    private final Process proxy;
    private final BufferedReader output;
    private final String bootstrap;
    private final Map<String, KafkaProducer<String, String>> producers = new TreeMap<>();
    private final Map<String, ExecutorService> threads = new HashMap<>();
    private final Map<String, Future<?>> last = new HashMap<>();
    private final Map<String, List<Future<RecordMetadata>>> records = new HashMap<>();
    private final Map<String, Map<String, Future<RecordMetadata>>> written = new TreeMap<>();
    private final Map<String, String> current = new HashMap<>();
    private final Map<String, String> outcomes = new TreeMap<>();
    private final List<String> errors = new ArrayList<>();
    private final List<Throwable> fatal = new ArrayList<>();
    private boolean ended;

    Run(String script, int partitions, Map<String, String> settings) throws Exception {
        this.partitions = partitions;
        this.settings = settings;
        try (AdminClient admin = AdminClient.create(properties(BROKER))) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
        File faults = new File(getClass().getResource(script).toURI());
        proxy = new ProcessBuilder(COMMAND, "proxy", "--upstream", BROKER,
                "--listen", "127.0.0.1:0", "--script", faults.getPath())
            .redirectErrorStream(true).start();
        output = proxy.inputReader();
        String line = output.readLine();
        if (line == null || !line.contains("bootstrap.servers=")) {
            throw new IllegalStateException("the proxy doesn't start: " + line);
        }
        bootstrap = line.substring(line.indexOf('=') + 1);
    }

    private static Properties properties(String servers) {
        Properties found = new Properties();
        found.put("bootstrap.servers", servers);
        return found;
    }

    // What the application does ------------------------------------------------------------------

    void initTransactions(String client) {
        call(client, producer -> producer.initTransactions());
    }

    void beginTransaction(String client, String transaction) {
        call(client, producer -> {
            producer.beginTransaction();
            current.put(client, transaction);
            outcomes.put(transaction, "NOT ASKED");
        });
    }

    /** Its value is the name of the transaction, and the number of the record in it. */
    void send(String client, int partition) {
        call(client, producer -> {
            Map<String, Future<RecordMetadata>> in =
                written.computeIfAbsent(current.get(client), name -> new TreeMap<>());
            String value = current.get(client) + "/" + in.size();
            Future<RecordMetadata> sent =
                producer.send(new ProducerRecord<>(topic, partition, null, value));
            in.put(value, sent);
            records.computeIfAbsent(client, name -> new ArrayList<>()).add(sent);
        });
    }

    void commitTransaction(String client) {
        call(client, producer -> end(client, "COMMITTED", producer::commitTransaction));
    }

    void abortTransaction(String client) {
        call(client, producer -> end(client, "ABORTED", producer::abortTransaction));
    }

    private void end(String client, String outcome, Runnable ending) {
        outcomes.put(current.get(client), outcome.equals("ABORTED") ? outcome : "ASKED");
        ending.run();
        outcomes.put(current.get(client), outcome);
    }

    /** Waits until the records that a client has sent are acknowledged, or given up. */
    void awaitRecords(String client) throws Exception {
        await(client);
        for (Future<RecordMetadata> record : records.getOrDefault(client, List.of())) {
            try {
                record.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
            } catch (java.util.concurrent.ExecutionException error) {
                note(client, error.getCause());
            }
        }
    }

    /** Waits until the last call of a client is done. */
    void await(String client) throws Exception {
        Future<?> done = last.get(client);
        if (done != null) {
            done.get(2 * PATIENCE.toSeconds(), TimeUnit.SECONDS);
        }
    }

    private interface Work {
        void with(KafkaProducer<String, String> producer);
    }

    private void call(String client, Work work) {
        ExecutorService thread = threads.computeIfAbsent(client, name ->
            Executors.newSingleThreadExecutor(made -> {
                Thread found = new Thread(made, name);
                found.setDaemon(true);
                return found;
            }));
        last.put(client, thread.submit(() -> {
            try {
                work.with(producers.computeIfAbsent(client, this::producer));
            } catch (RuntimeException error) {
                note(client, error);
            }
        }));
    }

    private synchronized void note(String client, Throwable error) {
        errors.add(client + ": " + error);
        if (error instanceof ProducerFencedException || error instanceof AuthorizationException
                || error instanceof OutOfOrderSequenceException) {
            fatal.add(error);
        }
    }

    private KafkaProducer<String, String> producer(String client) {
        Properties found = properties(bootstrap);
        found.put("client.id", client);
        found.put("transactional.id", id);
        found.put("linger.ms", "0");
        found.put("max.block.ms", "30000");
        found.putAll(settings);
        return new KafkaProducer<>(found, new StringSerializer(), new StringSerializer());
    }

    // What is looked at in the end -----------------------------------------------------------------

    /** No client has met an error behind which it has to be closed, as KafkaProducer tells. */
    void nothingFatal() throws Exception {
        for (String client : producers.keySet()) {
            awaitRecords(client);
        }
        for (Throwable error : fatal) {
            throw new AssertionError("a client has failed for good: " + errors, error);
        }
    }

    /** Ends the proxy, when the clients have done what they can; each fault has to have fired. */
    void allFired() throws Exception {
        for (Future<?> done : last.values()) {
            try {
                done.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
            } catch (java.util.concurrent.TimeoutException error) {
                errors.add("a call doesn't come to its end");
            }
        }
        Thread.sleep(SETTLING_MS);
        proxy.toHandle().destroy();  // what it tells at its end can still be read
        StringBuilder report = new StringBuilder();
        for (String line = output.readLine(); line != null; line = output.readLine()) {
            report.append(line).append('\n');
        }
        ended = true;
        assertEquals(0, proxy.waitFor(), "the run isn't the one of the script:\n" + report + errors);
    }

    /** No transaction is open once its client has gone: the last stable offset is the end. */
    void nothingHangs() throws Exception {
        for (KafkaProducer<String, String> producer : producers.values()) {
            producer.close(Duration.ofSeconds(5));
        }
        long until = System.nanoTime() + PATIENCE.toNanos();
        while (!ends("read_committed").equals(ends("read_uncommitted"))) {
            if (System.nanoTime() > until) {
                fail("a transaction hangs: last stable offsets " + ends("read_committed")
                    + ", ends " + ends("read_uncommitted") + "; outcomes " + outcomes + errors);
            }
            Thread.sleep(200);
        }
    }

    /** Read as committed is what was reported so, and nothing that nobody has asked to commit. */
    void committedAsTold() {
        Set<String> read = read();
        outcomes.forEach((transaction, outcome) -> {
            written.getOrDefault(transaction, Map.of()).forEach((value, sent) -> {
                boolean isRead = read.contains(value);
                if (outcome.equals("COMMITTED") && !isRead) {
                    fail(value + " was told to be committed, and isn't read: " + read + errors);
                }
                if ((outcome.equals("ABORTED") || outcome.equals("NOT ASKED")) && isRead) {
                    fail(value + " (" + outcome + ") is read as committed: " + read + errors);
                }
            });
        });
    }

    String transactionalId() {
        return id;
    }

    Properties broker() {
        return properties(BROKER);
    }

    private KafkaConsumer<String, String> consumer(String isolation) {
        Properties found = properties(BROKER);
        found.put("isolation.level", isolation);
        return new KafkaConsumer<>(found, new StringDeserializer(), new StringDeserializer());
    }

    private List<TopicPartition> all() {
        List<TopicPartition> found = new ArrayList<>();
        for (int number = 0; number < partitions; number++) {
            found.add(new TopicPartition(topic, number));
        }
        return found;
    }

    private Map<TopicPartition, Long> ends(String isolation) {
        try (KafkaConsumer<String, String> consumer = consumer(isolation)) {
            return consumer.endOffsets(all());
        }
    }

    private Set<String> read() {
        Set<String> found = new TreeSet<>();
        try (KafkaConsumer<String, String> consumer = consumer("read_committed")) {
            consumer.assign(all());
            consumer.seekToBeginning(all());
            long until = System.nanoTime() + Duration.ofSeconds(5).toNanos();
            while (System.nanoTime() < until) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    found.add(record.value());
                }
            }
        }
        return found;
    }

    @Override
    public void close() throws Exception {
        producers.values().forEach(producer -> producer.close(Duration.ZERO));
        threads.values().forEach(ExecutorService::shutdownNow);
        if (!ended) {
            proxy.destroy();
        }
        try (AdminClient admin = AdminClient.create(properties(BROKER))) {
            admin.deleteTopics(List.of(topic)).all().get();
        }
    }
}
