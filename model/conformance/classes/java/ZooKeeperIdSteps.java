import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.KafkaException;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.data.Stat;
import org.mockito.Mockito;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A broker's ProducerIdManager until 2.8, with its KafkaZkClient. ZooKeeper answers as the step's
 * script says.
 */
final class ZooKeeperIdSteps implements Host.Steps {
    // A step: the constructor, a call or the shutdown; the manager before it; ZooKeeper's events.
    private static final int OPERATION = 0, FIRST = 2, NEXT = 3, COUNT = 4, EVENTS = 5;
    private static final int CONSTRUCT = 0, SHUT_DOWN = 2;
    // An event: its kind, and the block that a read finds.
    private static final int KIND = 0, LAST_ID = 1, OWNER = 2, VERSION = 3, EVENT = 4;
    private static final int READ = 0, READ_NOTHING = 1, EXPIRE = 2, WRITE = 3, BAD_VERSION = 4,
        LOSE = 5;
    private static final Code[] CODES = {
        Code.OK, Code.OK, Code.SESSIONEXPIRED, Code.OK, Code.BADVERSION, Code.CONNECTIONLOSS,
    };
    // A result: how it ended, the answer, and the manager after it.
    private static final int ENDED = 0, ID = 1, WRITES = 2, WRITTEN = 3, EXPECTED = 4, AFTER = 5;
    private static final int THREW = 1;
    private static final int BROKER = 1, SIZE = 1000;
    private static final long[] FIRST_BLOCK = {READ_NOTHING, -1, 0, 0, WRITE, 0, 0, 0};
    private static final Pattern BLOCK_END = Pattern.compile("\"block_end\":\"(\\d+)\"");
    private static final String PACKAGE = "kafka.coordinator.transaction.",
        ZOOKEEPER = "kafka.zookeeper.";

    private final Class<?> type = Kafka.type(PACKAGE + "ProducerIdManager"),
        blockType = Kafka.type(PACKAGE + "ProducerIdBlock");
    private final Object timing = Kafka.make(Kafka.type(ZOOKEEPER + "ResponseMetadata"));
    private final Object client;
    private final Field block, next;
    private long[] script, result;
    private int at;

    ZooKeeperIdSteps() {
        Object network = Kafka.mocked(Kafka.type(ZOOKEEPER + "ZooKeeperClient"), call ->
            call.getMethod().getName().equals("handleRequests")
                ? CollectionConverters.asScala(List.of(answer(
                    ((scala.collection.Seq<?>) call.getArgument(0)).apply(0)))).toSeq()
                : Mockito.RETURNS_DEFAULTS.answer(call));
        client = Kafka.make(
            Kafka.type("kafka.zk.KafkaZkClient"), network, StandIns.time(() -> 0));
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
            if (step[OPERATION] != CONSTRUCT) {
                play(FIRST_BLOCK);
                manager = Kafka.make(type, BROKER, client);
                block.set(manager, Kafka.make(
                    blockType, BROKER, step[FIRST], step[FIRST] + SIZE - 1));
                next.setLong(manager, step[NEXT]);
            }
            play(Arrays.copyOfRange(step, EVENTS, EVENTS + (int) step[COUNT] * EVENT));
            if (manager == null) {
                manager = Kafka.make(type, BROKER, client);
            } else if (step[OPERATION] == SHUT_DOWN) {
                Kafka.call(manager, "shutdown");
                manager = null;
            } else {
                result[ID] = (long) Kafka.call(manager, "generateProducerId");
            }
        } catch (KafkaException e) {
            result[ENDED] = THREW;
        } catch (IllegalStateException e) {
            if (!(e.getCause() instanceof KeeperException)) {
                throw e;
            }
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

    private Object answer(Object request) {
        if (at >= script.length) {
            throw new IllegalStateException("the call has more events than the script");
        }
        int of = at;
        at += EVENT;
        Code code = CODES[(int) script[of + KIND]];
        Stat stat = new Stat();
        stat.setCzxid(1); // one of zeros stands for no node
        if (Kafka.has(request, "data")) {
            write(request);
            stat.setVersion((int) Kafka.call(request, "version") + 1);
            return Kafka.make(Kafka.type(ZOOKEEPER + "SetDataResponse"), code, stat, timing);
        }
        stat.setVersion((int) script[of + VERSION]);
        long last = script[of + LAST_ID];
        String json = "{\"version\":1,\"broker\":" + script[of + OWNER] + ",\"block_start\":\""
            + (last - SIZE + 1) + "\",\"block_end\":\"" + last + "\"}";
        byte[] data = script[of + KIND] == READ ? json.getBytes(StandardCharsets.UTF_8) : null;
        return Kafka.make(Kafka.type(ZOOKEEPER + "GetDataResponse"), code, data, stat, timing);
    }

    private void write(Object request) {
        Matcher end = BLOCK_END.matcher(
            new String((byte[]) Kafka.call(request, "data"), StandardCharsets.UTF_8));
        if (!end.find()) {
            throw new IllegalStateException("a block without an end is written");
        }
        result[WRITES]++;
        result[WRITTEN] = Long.parseLong(end.group(1));
        result[EXPECTED] = (int) Kafka.call(request, "version");
    }
}
