import static org.apache.kafka.common.protocol.ApiKeys.END_TXN;
import static org.apache.kafka.common.protocol.ApiKeys.PRODUCE;
import static org.junit.jupiter.api.Assertions.assertEquals;

import epochfence.junit5.Epochfence;
import epochfence.junit5.Fault;
import epochfence.junit5.Faults;
import epochfence.junit5.History;
import epochfence.junit5.ServedKafka;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

/** Tests of a transactional producer on a cluster in memory. */
@Epochfence(topics = "orders:1")
class OrdersTest {
    private static final TopicPartition ORDERS = new TopicPartition("orders", 0);

    private static KafkaProducer<String, String> producer(ServedKafka kafka) {
        KafkaProducer<String, String> made = new KafkaProducer<>(
            Map.of("bootstrap.servers", kafka.bootstrapServers(), "transactional.id", "orders"),
            new StringSerializer(), new StringSerializer());
        made.initTransactions();
        return made;
    }

    /** Sends a record in a transaction of its own. */
    private static void send(KafkaProducer<String, String> producer, String value) {
        producer.beginTransaction();
        producer.send(new ProducerRecord<>("orders", value));
        producer.commitTransaction();
    }

    private static KafkaConsumer<String, String> consumer(ServedKafka kafka) {
        KafkaConsumer<String, String> made = new KafkaConsumer<>(
            Map.of("bootstrap.servers", kafka.bootstrapServers(),
                "isolation.level", "read_committed"),
            new StringDeserializer(), new StringDeserializer());
        made.assign(List.of(ORDERS));
        made.seekToBeginning(List.of(ORDERS));
        return made;
    }

    /** At least so many records. */
    private static List<ConsumerRecord<String, String>> read(
            KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        for (long end = System.nanoTime() + 30_000_000_000L;
                found.size() < count && System.nanoTime() < end;) {
            consumer.poll(Duration.ofMillis(100)).forEach(found::add);
        }
        return found;
    }

    /** The values of the first records that a read_committed consumer reads. */
    private static List<String> committed(ServedKafka kafka, int count) {
        try (var consumer = consumer(kafka)) {
            return read(consumer, count).stream().map(ConsumerRecord::value).toList();
        }
    }

    @Test
    @Epochfence(release = "3.6", topics = "orders:1")
    void aLostAnswerToACommit(ServedKafka kafka, Faults faults) {
        Fault lost = faults.onCall(END_TXN, 2).loseAnswer();
        try (var orders = producer(kafka)) {
            send(orders, "a");
            send(orders, "b");
        }
        assertEquals(1, lost.timesTriggered());
        assertEquals(List.of("a", "b"), committed(kafka, 2));
    }

    @Test
    void aMarkerIsLate(ServedKafka kafka, Faults faults) {
        Fault held = faults.on(END_TXN).holdMarkers();
        try (var orders = producer(kafka); var consumer = consumer(kafka)) {
            send(orders, "a");
            held.awaitWaiting();
            assertEquals(0, consumer.endOffsets(List.of(ORDERS)).get(ORDERS));  // the last stable
            held.release();
            assertEquals(List.of("a"), committed(kafka, 1));
        }
    }

    /** The trace is written by: epochfence bugs KIP-890c --trace late-end.itf.json. */
    @Test
    @Epochfence(release = "3.9", topics = "orders:1")
    void anEndTxnIsLateAndCommitsTheNextTransaction(ServedKafka kafka, Faults faults) {
        faults.replay("late-end.itf.json");
        try (var orders = producer(kafka)) {
            send(orders, "a");
            orders.beginTransaction();
            orders.send(new ProducerRecord<>("orders", "nobody commits it"));
            assertEquals(List.of("a", "nobody commits it"), committed(kafka, 2));
        }
    }

    @Test
    void aBatchIsSentAgain(ServedKafka kafka, Faults faults, History history) {
        faults.on(PRODUCE).loseAnswer();
        try (var orders = producer(kafka)) {
            send(orders, "a");
        }
        history.add(Map.of("event", "send", "producer", "orders", "partition", "orders-0",
            "record", "a", "outcome", "acknowledged"));
        try (var consumer = consumer(kafka)) {
            read(consumer, 1).forEach(record -> history.add(Map.of("event", "read",
                "consumer", "reader", "partition", "orders-0", "offset", record.offset(),
                "record", record.value())));
        }
    }
}
