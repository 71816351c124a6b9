import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ManualMetadataUpdater;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.common.network.ChannelState;
import org.apache.kafka.common.network.NetworkReceive;
import org.apache.kafka.common.network.Selectable;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.utils.Time;
import org.mockito.Mockito;

/**
 * Kafka's NetworkClient over a stand-in for its Selectable. As a socket does, a connection loses
 * what comes after it is closed.
 */
final class Network {
    /** A request on its way: its node, the number of the connection, and the header. */
    record Sent(String node, int connection, RequestHeader header) {}

    private static final int TIMEOUT_MS = 1_000;

    final NetworkClient client;
    private final List<Sent> sent = new ArrayList<>();
    private final Map<String, Integer> open = new HashMap<>();
    private int connections;
    // what the next poll finds
    private List<String> connected = new ArrayList<>();
    private Map<String, ChannelState> lost = new HashMap<>();
    private List<NetworkReceive> received = new ArrayList<>();

    Network(Time time) {
        Class<?> telemetry = Kafka.find(
            "org.apache.kafka.common.telemetry.internals.ClientTelemetrySender");
        client = (NetworkClient) Kafka.make(NetworkClient.class, new ManualMetadataUpdater(),
            Kafka.mocked(Selectable.class, call -> {
                Object[] given = call.getArguments();
                switch (call.getMethod().getName()) {
                    case "connect" -> {
                        open.put((String) given[0], connections++);
                        connected.add((String) given[0]);
                    }
                    case "close" -> {
                        if (given.length == 1) {
                            open.remove((String) given[0]);
                        }
                    }
                    case "send" -> sent.add(sent(given[0]));
                    case "connected" -> {
                        return taken(connected, connected = new ArrayList<>());
                    }
                    case "disconnected" -> {
                        return taken(lost, lost = new HashMap<>());
                    }
                    case "completedReceives" -> {
                        return taken(received, received = new ArrayList<>());
                    }
                    case "isChannelReady" -> {
                        return open.containsKey((String) given[0]);
                    }
                    default -> {
                        return Mockito.RETURNS_DEFAULTS.answer(call);
                    }
                }
                return null;
            }),
            "host", 1, 0L, 0L, 0, 0, TIMEOUT_MS, 10_000L, 10_000L, time, false, new ApiVersions(),
            StandIns.logContext(),
            Kafka.makeIfKnown("org.apache.kafka.clients.DefaultHostResolver"),
            ifKnown("ClientDnsLookup", "USE_ALL_DNS_IPS"),
            ifKnown("MetadataRecoveryStrategy", "NONE"),
            ifKnown("BootstrapConfiguration", "DISABLED"),
            telemetry == null ? null : Kafka.mocked(telemetry, call ->
                call.getMethod().getName().equals("timeToNextUpdate")
                    ? Long.MAX_VALUE : Mockito.RETURNS_DEFAULTS.answer(call)));
    }

    private static Object ifKnown(String name, String constant) {
        Class<?> type = Kafka.find("org.apache.kafka.clients." + name);
        return type == null ? null : Kafka.constant(type, constant);
    }

    private static <T> T taken(T found, T next) {
        return found;
    }

    private Sent sent(Object send) {
        String node = (String) (Kafka.has(send, "destinationId")
            ? Kafka.call(send, "destinationId") : Kafka.call(send, "destination"));
        Map<?, ?> requests = (Map<?, ?>) Kafka.inField(
            Kafka.inField(client, "inFlightRequests"), "requests");
        Object newest = ((Deque<?>) requests.get(node)).peekFirst();
        return new Sent(node, open.get(node), (RequestHeader) Kafka.inField(newest, "header"));
    }

    /** The requests that were sent since the last look. */
    List<Sent> sent() {
        List<Sent> found = List.copyOf(sent);
        sent.clear();
        return found;
    }

    /** The other side answers on the connection of the request, which may be closed. */
    void answer(Sent request, AbstractResponse response) {
        if (Integer.valueOf(request.connection).equals(open.get(request.node))) {
            RequestHeader header = request.header;
            ByteBuffer bytes = (ByteBuffer) (Kafka.has(response, "serializeWithHeader")
                ? Kafka.call(response, "serializeWithHeader", header.toResponseHeader(),
                    header.apiVersion())
                : Kafka.call(response, "serialize", header.apiKey(), header.apiVersion(),
                    header.correlationId()));
            received.add(new NetworkReceive(request.node, bytes));
        }
    }

    /** The connection breaks. */
    void lose(String node) {
        open.remove(node);
        lost.put(node, ChannelState.READY);
    }

    /** Closes every connection, and forgets what is on its way. */
    void forget() {
        for (String node : List.copyOf(open.keySet())) {
            client.close(node);
        }
        connected.clear();
        lost.clear();
        received.clear();
        sent.clear();
    }
}
