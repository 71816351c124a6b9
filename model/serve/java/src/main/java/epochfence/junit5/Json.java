package epochfence.junit5;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads and writes JSON: maps, lists, strings, numbers, booleans and null. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** The value of a text. Throws IllegalArgumentException. */
    static Object read(String text) {
        Json reader = new Json(text);
        try {
            Object value = reader.value();
            if (reader.next() == 0) {
                return value;
            }
        } catch (StringIndexOutOfBoundsException | NumberFormatException error) {
            // it ends too early, or a number is none
        }
        throw new IllegalArgumentException("not valid JSON: " + text);
    }

    /** The next character that isn't space, or 0 at the end. */
    private char next() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
        return at < text.length() ? text.charAt(at) : 0;
    }

    private boolean take(String token) {
        next();
        boolean isThere = text.startsWith(token, at);
        at += isThere ? token.length() : 0;
        return isThere;
    }

    private void need(String token) {
        if (!take(token)) {
            throw new IllegalArgumentException("not valid JSON at " + at + ": " + text);
        }
    }

    private Object value() {
        if (take("{")) {
            Map<String, Object> found = new LinkedHashMap<>();
            while (!take("}")) {
                if (!found.isEmpty()) {
                    need(",");
                }
                need("\"");
                String name = string();
                need(":");
                found.put(name, value());
            }
            return found;
        }
        if (take("[")) {
            List<Object> found = new ArrayList<>();
            while (!take("]")) {
                if (!found.isEmpty()) {
                    need(",");
                }
                found.add(value());
            }
            return found;
        }
        if (take("\"")) {
            return string();
        }
        if (take("null")) {
            return null;
        }
        if (take("true")) {
            return true;
        }
        if (take("false")) {
            return false;
        }
        int start = at;
        while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String number = text.substring(start, at);
        return number.matches("-?\\d+") ? (Object) Long.valueOf(number) : Double.valueOf(number);
    }

    /** The rest of a string, behind its first quotation mark. */
    private String string() {
        StringBuilder found = new StringBuilder();
        for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) {
            if (c != '\\') {
                found.append(c);
                continue;
            }
            char escaped = text.charAt(at++);
            int which = "bfnrt".indexOf(escaped);
            if (escaped == 'u') {
                found.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                at += 4;
            } else {
                found.append(which < 0 ? escaped : "\b\f\n\r\t".charAt(which));
            }
        }
        return found.toString();
    }

    /** The text of a value. */
    static String write(Object value) {
        if (value instanceof Map<?, ?> map) {
            List<String> parts = new ArrayList<>();
            map.forEach((name, part) -> parts.add(write(name.toString()) + ": " + write(part)));
            return "{" + String.join(", ", parts) + "}";
        }
        if (value instanceof Iterable<?> list) {
            List<String> parts = new ArrayList<>();
            list.forEach(part -> parts.add(write(part)));
            return "[" + String.join(", ", parts) + "]";
        }
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        StringBuilder found = new StringBuilder("\"");
        for (char c : value.toString().toCharArray()) {
            if (c == '"' || c == '\\') {
                found.append('\\').append(c);
            } else if (c < ' ') {
                found.append(String.format("\\u%04x", (int) c));
            } else {
                found.append(c);
            }
        }
        return found.append('"').toString();
    }
}
