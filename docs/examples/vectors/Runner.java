// Runs a file of vectors on an implementation, in Java 17 without dependencies:
// javac -d build docs/examples/vectors/*.java && java -cp build Runner vectors/coordinator.json
import java.util.*;

public class Runner {
  /** What is tried: put your own in the place of EndTxnBeforeVersion2. Numbers are of type Long. */
  interface Implementation {
    Set<String> leftOut(); // fields that it has no counterpart of: they aren't read

    /** Takes a vector's event in this state, and writes the state after it into the map. Returns
        what it sends; null where it doesn't have the event. */
    List<Map<String, Object>> take(Map<String, Object> vector, Map<String, Object> state);
  }

  static final Implementation IMPLEMENTATION = new EndTxnBeforeVersion2();

  public static void main(String[] arguments) {
    int pass = 0, differ = 0, left = 0;
    for (var vector : Vectors.read(arguments, IMPLEMENTATION.leftOut())) {
      var found = differences(vector);
      if (found == null) left++;
      else if (found.isEmpty()) pass++;
      else System.out.println("vectors[" + (pass + left + differ++) + "] " + found);
    }
    System.out.printf("%d vectors: %d pass, %d differ, %d not implemented%n",
        pass + differ + left, pass, differ, left);
    System.exit(differ == 0 && pass > 0 ? 0 : 1);
  }

  /** What is otherwise than the vector says; null where the event isn't implemented. */
  static String differences(Map<String, Object> vector) {
    var state = Vectors.object(vector.get("before"));
    var expected = new TreeMap<>(state);
    expected.putAll(Vectors.object(vector.get("after")));
    var sent = IMPLEMENTATION.take(vector, state);
    if (sent == null) return null;
    expected.put("sent", vector.get("sent"));
    state.put("sent", sent);
    var row = vector.get("event") + ", " + vector.get("row") + ": ";
    var found = new StringJoiner("; ", row, "").setEmptyValue("");
    expected.forEach((name, value) -> {
      var is = state.get(name);
      if (!Objects.equals(is, value)) found.add(name + " is " + is + ", not " + value);
    });
    return found.toString();
  }
}
