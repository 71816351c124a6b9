// Runs a file of vectors on an implementation: java Runner.java vectors/coordinator.json
// Java 17, without dependencies. Put your own implementation in the place of EndTxnBeforeVersion2.

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Runner {
  static final Implementation IMPLEMENTATION = new EndTxnBeforeVersion2();

  /** Exits with 0 where some pass and none differs, with 2 on bad input, with 1 otherwise. */
  public static void main(String[] arguments) {
    int at = 0, pass = 0, differ = 0;
    for (Object each : vectors(arguments)) {
      var vector = object(each);
      var differences = differences(vector);
      if (differences != null && differences.isEmpty()) {
        pass++;
      } else if (differences != null) {
        differ++;
        System.out.printf("vectors[%d] %s, %s: %s%n", at, vector.get("event"), vector.get("row"),
            String.join("; ", differences));
      }
      at++;
    }
    System.out.printf("%d vectors: %d pass, %d differ, %d not implemented%n",
        at, pass, differ, at - pass - differ);
    System.exit(differ == 0 && pass > 0 ? 0 : 1);
  }

  static List<?> vectors(String[] arguments) {
    try {
      var file = object(Json.read(Path.of(arguments[0])));
      if (file.get("format").equals(1L)) return (List<?>) file.get("vectors");
      System.err.println("vectors of format " + file.get("format") + ": this reads format 1");
    } catch (IOException | RuntimeException wrong) {
      System.err.println("usage: java Runner.java FILE, a file of vectors (" + wrong + ")");
    }
    System.exit(2);
    return List.of();
  }

  /** What is otherwise than the vector says; null where the event isn't implemented. */
  static List<String> differences(Map<String, Object> vector) {
    var expected = new HashMap<>(object(vector.get("before")));
    var state = new HashMap<>(expected);
    expected.putAll(object(vector.get("after")));
    var sent = IMPLEMENTATION.take(new Event((String) vector.get("event"),
        object(vector.get("arguments")), (List<?>) vector.get("without"),
        object(vector.get("outside"))), state);
    if (sent == null) return null;
    var found = new ArrayList<String>();
    var messages = ((List<?>) vector.get("sent")).stream().map(Runner::compared).toList();
    var told = sent.stream().map(Runner::compared).toList();
    if (!told.equals(messages)) found.add("sent " + told + ", not " + messages);
    compared(expected).forEach((name, value) -> {
      var is = state.get(name);
      if (!Objects.equals(is, value)) found.add(name + " is " + is + ", not " + value);
    });
    return found;
  }

  static Map<String, Object> compared(Object fields) {
    var kept = new TreeMap<>(object(fields));
    kept.keySet().removeAll(IMPLEMENTATION.leftOut());
    return kept;
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> object(Object read) {
    return (Map<String, Object>) read;
  }
}

record Event(
    String name, Map<String, Object> arguments, List<?> without, Map<String, Object> outside) {}

interface Implementation {
  /** Fields of states and messages that it has no counterpart of: they aren't compared. */
  Set<String> leftOut();

  /** Sets itself to the state, takes the event, writes the state after back into the map, and
      returns what it sends. Null where it doesn't have the event. Numbers are of type Long. */
  List<Map<String, Object>> take(Event event, Map<String, Object> state);
}

/** What 4.3 does on EndTxn of a client before transaction version 2: the entry of its id. */
class EndTxnBeforeVersion2 implements Implementation {
  public Set<String> leftOut() {
    return Set.of("producer", "connection", "asked_by", "error_code");
  }

  public List<Map<String, Object>> take(Event event, Map<String, Object> entry) {
    boolean older = event.without().contains("transaction_version_2");
    if (!event.name().equals("EndTxn") || !older) return null;
    var error = refusal(event, entry);
    if (error != null) {
      return List.of(Map.of("message", "EndTxnResponse", "error", error,
          "producer_id", entry.get("producer_id"), "producer_epoch", -1L));
    }
    if (entry.get("pending") != null) entry.put("failed_fence", true); // the abort overtakes it
    entry.put("pending", "PREPARE_" + event.arguments().get("result"));
    entry.put("pending_epoch", entry.get("producer_epoch"));
    entry.put("pending_last_epoch", entry.get("last_producer_epoch"));
    entry.put("pending_version", 0L);
    return List.of(); // the answer waits for the log
  }

  /** The error that is answered at once; null where the end is written to the log. */
  static String refusal(Event event, Map<String, Object> entry) {
    var asked = event.arguments();
    var result = asked.get("result");
    var pending = entry.get("pending");
    if (entry.get("producer_epoch").equals(-1L) && pending == null
        || !asked.get("producer_id").equals(entry.get("producer_id"))) {
      return "INVALID_PRODUCER_ID_MAPPING";
    }
    if (!asked.get("producer_epoch").equals(entry.get("producer_epoch"))) {
      boolean named = !event.without().contains("producer_fenced_error");
      return named ? "PRODUCER_FENCED" : "INVALID_PRODUCER_EPOCH";
    }
    if ("PREPARE_EPOCH_FENCE".equals(pending)) {
      return result.equals("ABORT") ? null : "UNKNOWN_SERVER_ERROR";
    }
    if (pending != null) return "CONCURRENT_TRANSACTIONS";
    if (entry.get("state").equals("ONGOING")) return null;
    if (entry.get("state").equals("COMPLETE_" + result)) return "NONE";
    boolean underWay = entry.get("state").equals("PREPARE_" + result);
    return underWay ? "CONCURRENT_TRANSACTIONS" : "INVALID_TXN_STATE";
  }
}

/** JSON as vectors have it: whole numbers, and strings without escapes. */
class Json {
  static final Pattern TOKEN = Pattern.compile("\\s*+(\"[^\"\\\\]*+\"|[-\\w]++|[\\[\\]{}:,])");
  final Matcher tokens;

  Json(String text) {
    tokens = TOKEN.matcher(text);
  }

  static Object read(Path path) throws IOException {
    var json = new Json(Files.readString(path));
    return json.value(json.next());
  }

  String next() {
    if (!tokens.lookingAt()) {
      throw new IllegalArgumentException("no JSON of vectors at " + tokens.regionStart());
    }
    var token = tokens.group(1);
    tokens.region(tokens.end(), tokens.regionEnd());
    return token;
  }

  Object value(String token) {
    switch (token) {
      case "{": {
        var fields = new HashMap<String, Object>();
        for (var at = next(); !at.equals("}"); at = next()) {
          var name = (String) value(at.equals(",") ? next() : at);
          next(); // the colon
          fields.put(name, value(next()));
        }
        return fields;
      }
      case "[": {
        var items = new ArrayList<Object>();
        for (var at = next(); !at.equals("]"); at = next()) {
          items.add(value(at.equals(",") ? next() : at));
        }
        return items;
      }
      case "null":
        return null;
      case "true", "false":
        return Boolean.valueOf(token);
      default:
        boolean isText = token.startsWith("\"");
        return isText ? token.substring(1, token.length() - 1) : Long.valueOf(token);
    }
  }
}
