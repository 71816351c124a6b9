import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.KafkaException;
import org.mockito.Mockito;
import scala.Function3;
import scala.Option;
import scala.Tuple2;

/** A broker's ProducerIdManager until 2.8. Its ZooKeeper answers as the step's script says. */
final class ZooKeeperIdSteps implements Host.Steps {
    // A step: whether it is a call (or the constructor), the manager before it, ZooKeeper's events.
    private static final int GENERATES = 0, FIRST = 2, NEXT = 3, COUNT = 4, EVENTS = 5;
    // An event: its kind, and the block that a read finds.
    private static final int KIND = 0, LAST_ID = 1, OWNER = 2, VERSION = 3, EVENT = 4;
    private static final int READ = 0, READ_NOTHING = 1, EXPIRE = 2, WRITE = 3, BAD_VERSION = 4;
    // A result: how it ended, the answer, and the manager after it.
    private static final int ENDED = 0, ID = 1, WRITES = 2, WRITTEN = 3, EXPECTED = 4, AFTER = 5;
    private static final int THREW = 1;
    private static final int BROKER = 1, SIZE = 1000;
    private static final long[] FIRST_BLOCK = {READ_NOTHING, -1, 0, 0, WRITE, 0, 0, 0};
    private static final Pattern BLOCK_END = Pattern.compile("\"block_end\":\"(\\d+)\"");
    private static final String PACKAGE = "kafka.coordinator.transaction.";

    private final Class<?> type = Kafka.type(PACKAGE + "ProducerIdManager"),
        blockType = Kafka.type(PACKAGE + "ProducerIdBlock");
    private final Object client;
    private final Field block, next;
    private long[] script, result;
    private int at;

    ZooKeeperIdSteps() {
        client = Kafka.mocked(Kafka.type("kafka.zk.KafkaZkClient"), call -> {
            switch (call.getMethod().getName()) {
                case "getDataAndVersion":
                    return read();
                case "conditionalUpdatePath":
                    return write(call.getArgument(0), call.getArgument(1), call.getArgument(2),
                        call.getArgument(3));
                default:
                    return Mockito.RETURNS_DEFAULTS.answer(call);
            }
        });
        try {
            block = type.getDeclaredField("currentProducerIdBlock");
            next = type.getDeclaredField("nextProducerId");
            block.setAccessible(true);
            next.setAccessible(true);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(type.getName() + " has no " + e.getMessage());
        }
    }

    @Override
    public void take(long[] step, long[] into) {
        result = into;
        Object manager = null;
        try {
            if (step[GENERATES] != 0) {
                play(FIRST_BLOCK);
                manager = Kafka.make(type, BROKER, client);
                block.set(manager, Kafka.make(
                    blockType, BROKER, step[FIRST], step[FIRST] + SIZE - 1));
                next.setLong(manager, step[NEXT]);
            }
            play(Arrays.copyOfRange(step, EVENTS, EVENTS + (int) step[COUNT] * EVENT));
            if (manager == null) {
                manager = Kafka.make(type, BROKER, client);
            } else {
                result[ID] = (long) Kafka.call(manager, "generateProducerId");
            }
        } catch (KafkaException e) {
            result[ENDED] = THREW;
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
        if (at < script.length) {
            result[WRITES] = -1; // the call has left events of ZooKeeper
        }
        if (manager != null) {
            result[AFTER] = 1;
            result[AFTER + 1] = (long) Kafka.call(Kafka.call(manager, "currentProducerIdBlock"),
                "blockStartId");
            result[AFTER + 2] = (long) Kafka.call(manager, "nextProducerId");
        }
    }

    private void play(long[] events) {
        Arrays.fill(result, 0);
        result[ID] = -1;
        script = events;
        at = 0;
    }

    private int event() {
        if (at >= script.length) {
            throw new IllegalStateException("the call has more events than the script");
        }
        int kind = (int) script[at + KIND];
        at += EVENT;
        if (kind == EXPIRE) {
            throw new KafkaException("the session has expired");
        }
        return kind;
    }

    private Tuple2<?, ?> read() {
        boolean isThere = event() == READ;
        int of = at - EVENT;
        long last = script[of + LAST_ID];
        String json = "{\"version\":1,\"broker\":" + script[of + OWNER] + ",\"block_start\":\""
            + (last - SIZE + 1) + "\",\"block_end\":\"" + last + "\"}";
        return new Tuple2<>(isThere
            ? Option.apply(json.getBytes(StandardCharsets.UTF_8)) : Option.empty(),
            (int) script[of + VERSION]);
    }

    /** As KafkaZkClient.conditionalUpdatePath: after another version the checker decides. */
    private Object write(
            String path, byte[] data, int expected,
            Option<Function3<Object, Object, Object, Object>> checker) {
        Matcher end = BLOCK_END.matcher(new String(data, StandardCharsets.UTF_8));
        if (!end.find()) {
            throw new IllegalStateException("a block without an end is written");
        }
        result[WRITES]++;
        result[WRITTEN] = Long.parseLong(end.group(1));
        result[EXPECTED] = expected;
        return event() == BAD_VERSION
            ? checker.get().apply(client, path, data)
            : new Tuple2<>(true, expected + 1);
    }
}
