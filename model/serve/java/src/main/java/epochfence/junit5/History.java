package epochfence.junit5;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The history of a test: its requests and answers, and the lines that the test adds. */
public final class History {
    private static final int UNEXPLAINED = 12;

    private final Path folder;

    History() {
        try {
            folder = Files.createTempDirectory("epochfence-");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Requests and answers: a file for {@code epochfence judge}. */
    public Path wire() {
        return folder.resolve("wire.jsonl");
    }

    /** The lines that the test adds: a file for {@code epochfence judge --application}. */
    public Path application() {
        return folder.resolve("application.jsonl");
    }

    /**
     * Adds a line of the application's view, as
     * {@code Map.of("event", "read", "consumer", "c", "partition", "orders-0", "offset", 0, "record", "a")}.
     */
    public synchronized void add(Map<String, ?> line) {
        try {
            Files.writeString(application(), Json.write(line) + "\n",
                StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** What judge found in a file: a violation, or why it couldn't judge. The text is empty if some
     * order explains the history. */
    record Verdict(Path file, boolean isViolation, String text) {
    }

    /** Judges both files. The options are those for requests and answers. */
    List<Verdict> judge(List<String> options) {
        List<Verdict> found = new ArrayList<>();
        if (isWritten(wire())) {
            found.add(judged(wire(), options));
        }
        if (isWritten(application())) {
            found.add(judged(application(), List.of("--application")));
        }
        if (found.isEmpty()) {
            found.add(new Verdict(wire(), false, "no request of the protocol came"));
        }
        return found;
    }

    private static boolean isWritten(Path file) {
        try {
            return Files.exists(file) && Files.size(file) > 0;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Verdict judged(Path file, List<String> options) {
        List<String> arguments = new ArrayList<>(List.of("judge", file.toString()));
        arguments.addAll(options);
        try {
            Process process = ServedKafka.command(arguments).redirectErrorStream(true).start();
            String text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            int code = process.waitFor();
            return new Verdict(file, code == UNEXPLAINED, code == 0 ? "" : text);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    void delete() {
        for (Path path : List.of(wire(), application(), folder)) {
            try {
                Files.deleteIfExists(path);
            } catch (IOException error) {
                return;  // the system cleans its temporary folder
            }
        }
    }
}
