package epochfence.junit5;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * A running {@code epochfence serve} or {@code epochfence proxy}. The command is on the path, or
 * named by the system property {@code epochfence.command}.
 */
public final class ServedKafka implements AutoCloseable {
    private static final int UNFIRED = 20;
    private static final String BOOTSTRAP = "bootstrap.servers=";
    private static final String CONTROL = "faults at ";

    private final Process process;
    private final BufferedReader output;
    private final Thread hook;
    private final StringBuilder report = new StringBuilder();
    private final String bootstrapServers;
    private final Faults faults;

    private ServedKafka(List<String> arguments) {
        try {
            process = command(arguments).redirectErrorStream(true).start();
        } catch (IOException error) {
            throw new UncheckedIOException(
                "can't start epochfence: put it on the path, or set -Depochfence.command", error);
        }
        hook = new Thread(process::destroyForcibly);
        Runtime.getRuntime().addShutdownHook(hook);
        output = process.inputReader(StandardCharsets.UTF_8);
        bootstrapServers = await(BOOTSTRAP);
        faults = Faults.at(await(CONTROL).replaceFirst("/faults$", ""));
    }

    /** A cluster in memory. The options are those of {@code epochfence serve}. */
    public static ServedKafka serve(String... options) {
        return started(List.of("serve", "--port", "0", "--control", "0"), options);
    }

    /**
     * A proxy in front of brokers, as of a container. The options are those of
     * {@code epochfence proxy}.
     */
    public static ServedKafka inFrontOf(String bootstrapServers, String... options) {
        return started(List.of("proxy", "--upstream", bootstrapServers, "--listen", "127.0.0.1:0",
            "--control", "0"), options);
    }

    private static ServedKafka started(List<String> arguments, String[] options) {
        return new ServedKafka(Stream.concat(arguments.stream(), Stream.of(options)).toList());
    }

    static ProcessBuilder command(List<String> arguments) {
        List<String> command = new ArrayList<>();
        command.add(System.getProperty("epochfence.command", "epochfence"));
        command.addAll(arguments);
        return new ProcessBuilder(command);
    }

    /** The value for a client's bootstrap.servers. */
    public String bootstrapServers() {
        return bootstrapServers;
    }

    /** Injects faults. */
    public Faults faults() {
        return faults;
    }

    /** The rest of the line that has this text. */
    private String await(String text) {
        try {
            for (String line = output.readLine(); line != null; line = output.readLine()) {
                report.append(line).append('\n');
                if (line.contains(text)) {
                    return line.substring(line.indexOf(text) + text.length());
                }
            }
        } catch (IOException error) {
            report.append(error);
        }
        close();
        throw new IllegalStateException("epochfence doesn't start:\n" + report);
    }

    /**
     * Ends it, and returns its failure: the faults that didn't fire, or its output where it ended
     * otherwise than by itself. Returns an empty text if there is none.
     */
    String end() {
        process.toHandle().destroy();  // Process.destroy() would close its output
        try {
            String rest = String.join("\n", output.lines().toList());
            int code = process.waitFor();
            Runtime.getRuntime().removeShutdownHook(hook);
            if (code == UNFIRED) {
                return String.join("\n", rest.lines().filter(line -> line.contains("DID NOT FIRE")).toList());
            }
            return code == 0 ? "" : "epochfence ended with code " + code + ":\n" + report + rest;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            process.destroyForcibly();
            return "interrupted";
        }
    }

    /** Ends it. It says nothing about faults that didn't fire. */
    @Override
    public void close() {
        if (process.isAlive()) {
            end();
        }
    }
}
