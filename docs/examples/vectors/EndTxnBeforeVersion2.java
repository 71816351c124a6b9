import java.util.List;
import java.util.Map;
import java.util.Set;

/** What 4.3 does on EndTxn of a client before transaction version 2: the entry of its id. */
class EndTxnBeforeVersion2 implements Runner.Implementation {
  public Set<String> leftOut() {
    return Set.of("producer", "connection", "asked_by", "error_code");
  }

  public List<Map<String, Object>> take(Map<String, Object> vector, Map<String, Object> entry) {
    var without = (List<?>) vector.get("without");
    boolean older = without.contains("transaction_version_2");
    if (!vector.get("event").equals("EndTxn") || !older) return null;
    var asked = Vectors.object(vector.get("arguments"));
    boolean fencedIsNamed = !without.contains("producer_fenced_error");
    var error = refusal(asked, entry, fencedIsNamed);
    if (error != null) {
      return List.of(Map.of("message", "EndTxnResponse", "error", error,
          "producer_id", entry.get("producer_id"), "producer_epoch", -1L));
    }
    if (entry.get("pending") != null) entry.put("failed_fence", true); // the abort overtakes it
    entry.put("pending", "PREPARE_" + asked.get("result"));
    entry.put("pending_epoch", entry.get("producer_epoch"));
    entry.put("pending_last_epoch", entry.get("last_producer_epoch"));
    entry.put("pending_version", 0L);
    return List.of(); // the answer waits for the log
  }

  /** The error that is answered at once; null where the end is written to the log. */
  static String refusal(
      Map<String, Object> asked, Map<String, Object> entry, boolean fencedIsNamed) {
    var result = asked.get("result");
    var pending = entry.get("pending");
    if (entry.get("producer_epoch").equals(-1L) && pending == null
        || !asked.get("producer_id").equals(entry.get("producer_id"))) {
      return "INVALID_PRODUCER_ID_MAPPING";
    }
    if (!asked.get("producer_epoch").equals(entry.get("producer_epoch"))) {
      return fencedIsNamed ? "PRODUCER_FENCED" : "INVALID_PRODUCER_EPOCH";
    }
    if ("PREPARE_EPOCH_FENCE".equals(pending)) {
      return result.equals("ABORT") ? null : "UNKNOWN_SERVER_ERROR";
    }
    if (pending != null) return "CONCURRENT_TRANSACTIONS";
    if (entry.get("state").equals("ONGOING")) return null;
    if (entry.get("state").equals("COMPLETE_" + result)) return "NONE";
    boolean inProgress = entry.get("state").equals("PREPARE_" + result);
    return inProgress ? "CONCURRENT_TRANSACTIONS" : "INVALID_TXN_STATE";
  }
}
