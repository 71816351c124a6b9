import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.TransactionDescription;

/** Epochs as the coordinator tells them, by clients from 3.0 on. */
final class Epochs {
    private Epochs() {
    }

    /** After so many decisions on transactions, the epoch is at most so large. */
    static void inTurn(Run run, int decisions) throws Exception {
        try (AdminClient admin = AdminClient.create(run.broker())) {
            String id = run.transactionalId();
            TransactionDescription description =
                admin.describeTransactions(List.of(id)).description(id).get();
            assertTrue(description.producerEpoch() <= decisions,
                "epoch " + description.producerEpoch() + " after " + decisions + " decisions: "
                    + description);
        }
    }
}
