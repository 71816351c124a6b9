import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.KafkaClient;
import org.apache.kafka.clients.RequestCompletionHandler;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.AllocateProducerIdsResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.AllocateProducerIdsResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.mockito.Mockito;
import scala.Function0;
import scala.util.Try;

/**
 * A broker's RPCProducerIdManager, from 3.6 on, and the thread of its channel to the controller,
 * NodeToControllerRequestThread. Requests stay in the thread until the step answers them.
 */
final class ProducerIdSteps implements Host.Steps {
    // A step: the operation, its arguments, and the manager before it.
    private static final int OPERATION = 0, ERROR_CODE = 1, FIRST_ID = 2, LENGTH = 3, STATE = 4;
    private static final int GENERATE = 0, RECEIVE = 1, TIME_OUT = 2, RESTART = 3, LOSE = 4;
    // A result: how it ended, the answer, and the manager after it.
    private static final int ENDED = 0, ANSWERED = 1, ID = 2, ASKED = 3, AFTER = 4;
    private static final int THREW = 1;
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
    private final Object channel, thread, empty;
    private final Field counter;
    private Object manager;
    private long sentAt;

    ProducerIdSteps() {
        channel = Kafka.mocked(Kafka.type(
            "org.apache.kafka.server.common.NodeToControllerChannelManager",
            "org.apache.kafka.server.NodeToControllerChannelManager",
            "kafka.server.NodeToControllerChannelManager",
            "kafka.server.BrokerToControllerChannelManager"), call -> {
                if (call.getMethod().getName().equals("sendRequest")) {
                    Kafka.call(Kafka.inField(thread(), "requestQueue"), "add", Kafka.make(
                        requestType, sentAt, call.getArgument(0), call.getArgument(1)));
                }
                return Mockito.RETURNS_DEFAULTS.answer(call);
            });
        thread = Kafka.make(Kafka.type("org.apache.kafka.server.NodeToControllerRequestThread",
            "kafka.server.NodeToControllerRequestThread",
            "kafka.server.BrokerToControllerRequestThread"),
            Kafka.mocked(KafkaClient.class, Mockito.RETURNS_DEFAULTS), StandIns.config(),
            StandIns.time(() -> NOW), RETRY_MS);
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
                case RECEIVE, LOSE -> {
                    Kafka.call(manager, "sendRequest");
                    boolean isLost = step[OPERATION] == LOSE;
                    requests().get(0).onComplete(response(step, isLost));
                }
                case TIME_OUT -> Kafka.call(manager, "sendRequest");
                case RESTART -> manager = manager();
                default -> throw new IllegalArgumentException("operation " + step[OPERATION]);
            }
        } catch (RuntimeException e) {
            if (Errors.forException(e) != Errors.COORDINATOR_LOAD_IN_PROGRESS) {
                result[ENDED] = THREW;
                result[ANSWERED] = -1;
            }
        }
        result[ASKED] = requests().size();
        write(result);
    }

    /** The requests that the thread would send to the controller now. */
    private List<RequestCompletionHandler> requests() {
        List<RequestCompletionHandler> found = new ArrayList<>();
        while (true) {
            Kafka.call(Kafka.inField(thread, "activeController"), "set", controller);
            Collection<?> next = (Collection<?>) Kafka.call(thread, "generateRequests");
            if (next.isEmpty()) {
                return found;
            }
            for (Object request : next) {
                found.add((RequestCompletionHandler) Kafka.field(request, "handler"));
            }
        }
    }

    private Object thread() {
        return thread;
    }

    private static ClientResponse response(long[] step, boolean isLost) {
        AbstractResponse body = new AllocateProducerIdsResponse(
            new AllocateProducerIdsResponseData().setErrorCode((short) step[ERROR_CODE])
                .setProducerIdStart(step[FIRST_ID]).setProducerIdLen((int) step[LENGTH]));
        return new ClientResponse(
            new RequestHeader(ApiKeys.ALLOCATE_PRODUCER_IDS, (short) 0, "", 0), null, "", 0L, 0L,
            isLost, (UnsupportedVersionException) null, (AuthenticationException) null, body);
    }

    // The manager -------------------------------------------------------------------------------

    private Object manager() {
        Function0<Object> scala = () -> 1L;
        Supplier<Long> java = () -> 1L;
        return Kafka.make(type, BROKER, StandIns.time(() -> NOW), scala, java, channel);
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
