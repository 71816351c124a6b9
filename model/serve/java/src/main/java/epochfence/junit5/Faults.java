package epochfence.junit5;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Injects faults through the control port of {@code epochfence serve} or {@code epochfence proxy}.
 *
 * <pre>{@code
 * faults.onCall(END_TXN, 2).loseAnswer();
 * Fault held = faults.on(PRODUCE).transactionalId("orders").hold();
 * held.release();
 * faults.failOverCoordinator("orders");
 * faults.replay(Path.of("hanging.itf.json"));
 * }</pre>
 *
 * <p>It has the form of KafkaProtocolFaultProxy, which Kafka's own tests have. A request is named by
 * a constant of Kafka's {@code ApiKeys}, or of another enum with these names, or by its name in
 * Kafka's protocol ({@code "EndTxn"}). A wrong fault throws IllegalArgumentException, whose message
 * is the port's.
 */
public final class Faults {
    /** Faults that a history can't show. After one of them judge may find no explanation. */
    private static final Set<String> UNSEEN =
        Set.of("time_out_transaction", "skip_to_epoch", "expire_producer", "expire_members");
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    private final URI control;
    private final HttpClient http = HttpClient.newHttpClient();
    private volatile boolean hasUnseen;

    private Faults(URI control) {
        this.control = control;
    }

    /** The faults of a control port, given as {@code http://HOST:PORT}. */
    public static Faults at(String control) {
        return new Faults(URI.create(control));
    }

    /** The first request of this API. */
    public Call on(Enum<?> api) {
        return onCall(api, 1);
    }

    /** The first request of this API, by its name in Kafka's protocol. */
    public Call on(String api) {
        return onCall(api, 1);
    }

    /** The n-th request of this API from now on. */
    public Call onCall(Enum<?> api, int n) {
        return onCall(nameOf(api), n);
    }

    /** The n-th request of this API from now on, by its name in Kafka's protocol. */
    public Call onCall(String api, int n) {
        return new Call(this, api, n);
    }

    /** Holds the first request of this API until {@link Fault#release()}. */
    public Fault hold(Enum<?> api) {
        return on(api).hold();
    }

    /** The coordinator of a transactional id fails over now. */
    public void failOverCoordinator(String transactionalId) {
        now("fail_over_coordinator", transactionalId, Map.of());
    }

    /** The transaction of a transactional id times out now. */
    public void timeOutTransaction(String transactionalId) {
        now("time_out_transaction", transactionalId, Map.of());
    }

    /** A rival sends InitProducerId for a transactional id now. */
    public void bumpEpoch(String transactionalId) {
        now("bump_epoch", transactionalId, Map.of());
    }

    /** A transactional id gets this producer epoch now. */
    public void skipToEpoch(String transactionalId, int producerEpoch) {
        now("skip_to_epoch", transactionalId, Map.of("producer_epoch", producerEpoch));
    }

    /** The leaders forget the producer of a transactional id now. */
    public void expireProducer(String transactionalId) {
        now("expire_producer", transactionalId, Map.of());
    }

    /** Whether a fault happened that a history can't show. */
    boolean hasUnseen() {
        return hasUnseen || states().stream().anyMatch(
            state -> UNSEEN.contains(state.get("do")) && ((Number) state.get("fired")).intValue() > 0);
    }

    private void now(String what, String transactionalId, Map<String, ?> more) {
        hasUnseen |= UNSEEN.contains(what);
        Map<String, Object> fault = new LinkedHashMap<>(more);
        fault.put("do", what);
        fault.put("transactional_id", transactionalId);
        Object failed = object(send("POST", "/faults", Json.write(fault))).get("failed");
        if (failed != null) {
            throw new IllegalStateException(what + ": " + failed);
        }
    }

    /**
     * Adds the faults of a counterexample: a trace in ITF, as {@code epochfence check --trace}
     * writes it. Returns the calls that the clients have to make.
     */
    public String replay(Path trace) {
        try {
            return (String) object(send("POST", "/replay", Files.readString(trace))).get("clients");
        } catch (IllegalArgumentException error) {
            throw new IllegalArgumentException(trace + ": " + error.getMessage());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** {@link #replay(Path)} of a file by its name. */
    public String replay(String trace) {
        return replay(Path.of(trace));
    }

    /** Every fault of the port, in the order of their addition. */
    public List<Fault> all() {
        return states().stream().map(state -> new Fault(this, (String) state.get("name"))).toList();
    }

    List<Map<String, Object>> states() {
        return ((List<?>) send("GET", "/faults", null)).stream().map(Faults::object).toList();
    }

    Fault add(Map<String, Object> fault) {
        return new Fault(this, (String) object(send("POST", "/faults", Json.write(fault))).get("name"));
    }

    void release(String name) {
        send("POST", "/faults/" + name + "/release", "{}");
    }

    private Object send(String method, String path, String body) {
        HttpRequest.BodyPublisher publisher = body == null
            ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body);
        HttpRequest request = HttpRequest.newBuilder(control.resolve(path)).timeout(PATIENCE)
            .header("Content-Type", "application/json").method(method, publisher).build();
        try {
            HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
            Object found = Json.read(answer.body());
            if (answer.statusCode() != 200) {
                throw new IllegalArgumentException(String.valueOf(object(found).get("error")));
            }
            return found;
        } catch (IOException error) {
            throw new UncheckedIOException("no answer from the control port " + control, error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object json) {
        return (Map<String, Object>) json;
    }

    /** The API's name in Kafka's protocol: EndTxn for END_TXN. */
    static String nameOf(Enum<?> api) {
        StringBuilder found = new StringBuilder();
        for (String word : api.name().split("_")) {
            found.append(word.charAt(0)).append(word.substring(1).toLowerCase(java.util.Locale.ROOT));
        }
        return found.toString();
    }
}
