import static org.junit.jupiter.api.Assertions.assertEquals;

import epochfence.junit5.Epochfence;
import epochfence.junit5.EpochfenceExtension;
import epochfence.junit5.Fault;
import epochfence.junit5.Faults;
import epochfence.junit5.History;
import epochfence.junit5.ServedKafka;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Tests that fail, but for those whose names say that they pass. */
class WrongTest {
    private static final ServedKafka BROKERS = ServedKafka.serve("--topic", "orders");

    @AfterAll
    static void stop() {
        BROKERS.close();
    }

    private static void commit(ServedKafka kafka, String id) {
        try (var producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", kafka.bootstrapServers(), "transactional.id", id),
                new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", "a"));
            producer.commitTransaction();
        }
    }

    @Test
    @Epochfence
    void unfired(Faults faults) {
        faults.onCall("EndTxn", 2).loseAnswer();
    }

    @Test
    @Epochfence
    void readTwice(History history) {
        history.add(Map.of("event", "send", "producer", "a", "record", "r", "partition", "p-0",
            "outcome", "acknowledged"));
        for (int offset = 0; offset < 2; offset++) {
            history.add(Map.of("event", "read", "consumer", "c", "record", "r", "partition", "p-0",
                "offset", offset));
        }
    }

    @Test
    @Epochfence
    void wrongFault(Faults faults) {
        faults.on("EndTransaction").hold();
    }

    @Test
    @Epochfence
    void otherRelease(Faults faults) {
        faults.replay("late-end.itf.json");
    }

    @Test
    @Epochfence(release = "4.4.9")
    void unknownRelease(Faults faults) {
    }

    @Test
    @Epochfence(judged = false, options = {"--broker-config", "nonsense"})
    void wrongOption(Faults faults) {
    }

    /** Behind a proxy, as in front of a container. */
    @Nested
    class Proxied {
        @RegisterExtension
        final EpochfenceExtension kafka = EpochfenceExtension.inFrontOf(BROKERS::bootstrapServers);

        @Test
        void passes(ServedKafka kafka, Faults faults) {
            Fault lost = faults.on("EndTxn").loseAnswer();
            commit(kafka, "first");
            assertEquals(1, lost.timesTriggered());
        }

        @Test
        void passesAgain(ServedKafka kafka) {
            commit(kafka, "second");
        }
    }

    /** The history isn't one of the release at which it is judged. */
    @Nested
    class OfAnotherRelease {
        @RegisterExtension
        final EpochfenceExtension kafka =
            EpochfenceExtension.inFrontOf(BROKERS::bootstrapServers).release("3.6");

        @Test
        void unexplained(ServedKafka kafka) {
            commit(kafka, "third");
            commit(kafka, "third");
        }
    }
}
