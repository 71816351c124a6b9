import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A file of vectors: JSON of whole numbers, and of strings without escapes. */
class Vectors {
  static final Pattern TOKEN = Pattern.compile("\\s*+(\"[^\"\\\\]*+\"|[-\\w]++|[\\[\\]{}:,])");
  final Matcher tokens;
  final Set<String> leftOut;

  Vectors(String text, Set<String> leftOut) {
    tokens = TOKEN.matcher(text);
    this.leftOut = leftOut;
  }

  /** The vectors of the file that is named, without these fields. Where it is none, it says so and
      exits with 2. */
  static List<Map<String, Object>> read(String[] arguments, Set<String> leftOut) {
    try {
      var json = new Vectors(Files.readString(Path.of(arguments[0])), leftOut);
      var file = object(json.value(json.next()));
      if (file.get("format").equals(1L)) {
        return ((List<?>) file.get("vectors")).stream().map(Vectors::object).toList();
      }
      System.err.println("vectors of format " + file.get("format") + ": this reads format 1");
    } catch (IOException | RuntimeException wrong) {
      System.err.println("usage: java -cp build Runner FILE, a file of vectors (" + wrong + ")");
    }
    System.exit(2);
    return List.of();
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> object(Object read) {
    return (Map<String, Object>) read;
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
        var fields = new TreeMap<String, Object>();
        for (var at = next(); !at.equals("}"); at = next()) {
          var name = (String) value(at.equals(",") ? next() : at);
          next(); // the colon
          var value = value(next());
          if (!leftOut.contains(name)) fields.put(name, value);
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
