import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.message.AllocateProducerIdsResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.AllocateProducerIdsRequest;
import org.apache.kafka.common.requests.AllocateProducerIdsResponse;
import org.mockito.Mockito;
import scala.Function0;
import scala.util.Try;

/**
 * A broker's RPCProducerIdManager, from 3.6 on, and the thread of its channel to the controller,
 * NodeToControllerRequestThread, with its NetworkClient. A request is on its way until the step
 * answers it.
 */
final class ProducerIdSteps implements Host.Steps {
    // A step: the operation, its arguments, and the manager before it.
    private static final int OPERATION = 0, ERROR_CODE = 1, FIRST_ID = 2, LENGTH = 3, STATE = 4;
    private static final int GENERATE = 0, RECEIVE = 1, TIME_OUT = 2, RESTART = 3, LOSE = 4,
        RECEIVE_LATE = 5, REGISTER = 6;
    // A result: how it ended, the answer, and the manager after it.
    private static final int ENDED = 0, ANSWERED = 1, ID = 2, ASKED = 3, EPOCH = 4, AFTER = 5;
    private static final int THREW = 1, MOST_POLLS = 4;
    // The manager: its block, the next id, the prefetched block, the flag, the deadline.
    private static final int FIRST = 0, SIZE = 1, NEXT = 2, IS_PREFETCHED = 3, NEXT_FIRST = 4,
        NEXT_SIZE = 5, IN_FLIGHT = 6, DEADLINE = 7;
    private static final int BROKER = 1;
    private static final long NOW = 2_000_000_000L, RETRY_MS = 60_000;
    private static final String SCALA = "kafka.coordinator.transaction.RPCProducerIdManager",
        JAVA = "org.apache.kafka.coordinator.transaction.RPCProducerIdManager",
        BLOCK = "org.apache.kafka.server.common.ProducerIdsBlock";

    private final Class<?> type = Kafka.type(JAVA, SCALA), blockType = Kafka.type(BLOCK);
    private final Class<?> requestType = Kafka.type(
        "org.apache.kafka.server.NodeToControllerQueueItem",
        "kafka.server.NodeToControllerQueueItem", "kafka.server.BrokerToControllerQueueItem");
    private final Node controller = new Node(2, "localhost", 9093);
    private final Class<?> channelType;
    private final Object channel, thread, empty;
    private final Field counter;
    private long now = NOW, sentAt;
    private final Network network = new Network(StandIns.time(() -> now));
    private Object manager;
    private AbstractRequest.Builder<?> asked;
    private long brokerEpoch = 1;

    ProducerIdSteps() {
        channelType = Kafka.type(
            "org.apache.kafka.server.common.NodeToControllerChannelManager",
            "org.apache.kafka.server.NodeToControllerChannelManager",
            "kafka.server.NodeToControllerChannelManager",
            "kafka.server.BrokerToControllerChannelManager");
        channel = Kafka.mocked(channelType, call -> {
            if (call.getMethod().getName().equals("sendRequest")) {
                asked = call.getArgument(0);
                Kafka.call(Kafka.inField(thread(), "requestQueue"), "add", Kafka.make(
                    requestType, sentAt, asked, call.getArgument(1)));
            }
            return Mockito.RETURNS_DEFAULTS.answer(call);
        });
        thread = Kafka.make(Kafka.type("org.apache.kafka.server.NodeToControllerRequestThread",
            "kafka.server.NodeToControllerRequestThread",
            "kafka.server.BrokerToControllerRequestThread"),
            network.client, StandIns.config(), StandIns.time(() -> now), RETRY_MS);
        empty = Kafka.constant(blockType, "EMPTY");
        try {
            counter = blockType.getDeclaredField("producerIdCounter");
            counter.setAccessible(true);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(BLOCK + " has no " + e.getMessage());
        }
        if (Arrays.stream(type.getDeclaredFields())
                .noneMatch(field -> field.getName().equals("backoffDeadlineMs"))) {
            throw new IllegalStateException(type.getName() + " before 3.6 waits for its block");
        }
        manager = manager();
    }

    @Override
    public void take(long[] step, long[] result) {
        Arrays.fill(result, 0);
        set(step);
        sentAt = step[OPERATION] == TIME_OUT ? NOW - RETRY_MS : NOW;
        result[ID] = -1;
        try {
            switch ((int) step[OPERATION]) {
                case GENERATE -> {
                    result[ANSWERED] = 1;
                    Object id = Kafka.call(manager, "generateProducerId");
                    result[ID] = (long) (id instanceof Try<?> tried ? tried.get() : id);
                }
                case RECEIVE, RECEIVE_LATE, LOSE -> {
                    Kafka.call(manager, "sendRequest");
                    Network.Sent request = sent().get(0);
                    if (step[OPERATION] == LOSE) {
                        network.lose(request.node());
                    } else {
                        if (step[OPERATION] == RECEIVE_LATE) {
                            now++; // the client closes the connection, and sends the request again
                            sent();
                        }
                        network.answer(request, response(step));
                    }
                }
                case TIME_OUT -> Kafka.call(manager, "sendRequest");
                case RESTART -> manager = manager();
                case REGISTER -> register(step[ERROR_CODE]);
                default -> throw new IllegalArgumentException("operation " + step[OPERATION]);
            }
        } catch (RuntimeException e) {
            if (Errors.forException(e) != Errors.COORDINATOR_LOAD_IN_PROGRESS) {
                result[ENDED] = THREW;
                result[ANSWERED] = -1;
            }
        }
        result[ASKED] = sent().size();
        write(result);
        if (step[OPERATION] == REGISTER) {
            Kafka.call(manager, "sendRequest");
            result[EPOCH] = ((AllocateProducerIdsRequest) asked.build()).data().brokerEpoch();
        }
        now = NOW;
        network.forget();
        Kafka.call(Kafka.inField(thread, "requestQueue"), "clear");
    }

    /** The broker registers with the epoch after this one. Its requests have that epoch then. */
    private void register(long epoch) {
        try (Registration registration = new Registration(channelType, StandIns.time(() -> now))) {
            for (long given = 0; given <= epoch + 1; given++) {
                registration.register(given);
            }
            brokerEpoch = registration.epoch();
        }
    }

    /** The requests that the thread sends to the controller now. */
    private List<Network.Sent> sent() {
        List<Network.Sent> found = List.of();
        for (int poll = 0; poll < MOST_POLLS && found.isEmpty(); poll++) {
            Kafka.call(Kafka.inField(thread, "activeController"), "set", controller);
            Kafka.call(thread, "pollOnce", 0L);
            found = network.sent();
        }
        return found;
    }

    private Object thread() {
        return thread;
    }

    private static AbstractResponse response(long[] step) {
        return new AllocateProducerIdsResponse(
            new AllocateProducerIdsResponseData().setErrorCode((short) step[ERROR_CODE])
                .setProducerIdStart(step[FIRST_ID]).setProducerIdLen((int) step[LENGTH]));
    }

    // The manager -------------------------------------------------------------------------------

    private Object manager() {
        Function0<Object> scala = () -> brokerEpoch;
        Supplier<Long> java = () -> brokerEpoch;
        return Kafka.make(type, BROKER, StandIns.time(() -> now), scala, java, channel);
    }

    private void set(long[] step) {
        int at = STATE;
        Object block = step[at + FIRST] < 0
            ? empty : block(step[at + FIRST], step[at + SIZE], step[at + NEXT]);
        this.<AtomicReference<Object>>part("currentProducerIdBlock").set(block);
        this.<AtomicReference<Object>>part("nextProducerIdBlock").set(step[at + IS_PREFETCHED] == 0
            ? null : block(step[at + NEXT_FIRST], step[at + NEXT_SIZE], step[at + NEXT_FIRST]));
        this.<AtomicBoolean>part("requestInFlight").set(step[at + IN_FLIGHT] != 0);
        this.<AtomicLong>part("backoffDeadlineMs").set(step[at + DEADLINE]);
    }

    private void write(long[] result) {
        int at = AFTER;
        Object block = this.<AtomicReference<Object>>part("currentProducerIdBlock").get();
        result[at + FIRST] = block == empty ? -1 : first(block);
        result[at + SIZE] = size(block);
        result[at + NEXT] = counter(block).get();
        Object next = this.<AtomicReference<Object>>part("nextProducerIdBlock").get();
        if (next != null) {
            result[at + IS_PREFETCHED] = 1;
            result[at + NEXT_FIRST] = first(next);
            result[at + NEXT_SIZE] = size(next);
        }
        result[at + IN_FLIGHT] = this.<AtomicBoolean>part("requestInFlight").get() ? 1 : 0;
        result[at + DEADLINE] = this.<AtomicLong>part("backoffDeadlineMs").get();
    }

    private Object block(long first, long size, long next) {
        Object made = Kafka.make(blockType, BROKER, first, (int) size);
        counter(made).set(next);
        return made;
    }

    private AtomicLong counter(Object block) {
        try {
            return (AtomicLong) counter.get(block);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
    }

    private static long first(Object block) {
        return (long) Kafka.call(block, "firstProducerId");
    }

    private static int size(Object block) {
        return (int) Kafka.call(block, "size");
    }

    @SuppressWarnings("unchecked")
    private <P> P part(String name) {
        try {
            Field field = type.getDeclaredField(name);
            field.setAccessible(true);
            return (P) field.get(manager);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(type + " has no " + name);
        }
    }
}
