import java.io.File;
import java.io.IOException;
import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.kafka.common.protocol.Errors;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A partition with one producer id, in Kafka's UnifiedLog and ProducerStateManager. The log is on a
 * folder. A step begins at its end: offset 0 of the step is the end offset of the log before it.
 */
final class LeaderSteps implements Host.Steps {
    // A step: the operation, its arguments, and the partition before it.
    private static final int OPERATION = 0, VERSION = 1, EPOCH = 2, SEQUENCE = 3, DELTA = 4,
        TRANSACTIONAL = 5, ORIGIN = 6, ASKS = 7, GUARDED = 8, COORDINATOR_EPOCH = 9, COMMITS = 10,
        OFFSET = 11, ANSWER = 12, STATE = 13;
    private static final int PRODUCE = 0, VERIFIED = 1, MARKER = 2, EXPIRE = 3, DELETE = 4;
    private static final int CLIENT = 0, COORDINATOR = 1, REPLICATION = 2;
    // A result: how it ended, the answer, and the partition after it.
    private static final int ENDED = 0, ANSWERED = 1, ERROR = 2, FIRST = 3, LAST = 4, DUPLICATE = 5,
        GUARD = 6, AFTER = 7;
    private static final int THREW = 1;
    // The partition: the producer, its batches, the question, the offsets.
    private static final int KNOWN = 0, PRODUCER_EPOCH = 1, MARKED_BY = 2, TXN_FIRST = 3, USED = 4,
        BATCHES = 5, BATCH = 6, IS_ASKED = 26, ASKED_EPOCH = 27, LOWEST = 28, ASKED_AT = 29,
        SUPPORTS = 30, START = 31, END = 32, WATERMARK = 33, STABLE = 33;
    private static final int MOST_BATCHES = 5, BATCH_FIELDS = 4;
    private static final int EXPIRATION_MS = 86_400_000;
    private static final long PRODUCER_ID = 1000, NOW = 2_000_000_000L;
    private static final byte MAGIC = 2;
    private static final int LEADER_EPOCH = 0;
    /** A file system in memory, where there is one. */
    private static final Path MEMORY = Path.of("/dev/shm");
    /** A segment has so many bytes; the ones before are deleted. */
    private static final int SEGMENT_BYTES = 1 << 24;
    private static final String LOGS = "org.apache.kafka.storage.internals.log.",
        SCALA = "kafka.log.", RECORDS = "org.apache.kafka.common.record.";

    private final Class<?> records = record("MemoryRecords"), simple = record("SimpleRecord"),
        marker = record("EndTransactionMarker"), control = record("ControlRecordType"),
        stampType = record("TimestampType"), entryType = Kafka.type(LOGS + "ProducerStateEntry", SCALA + "ProducerStateEntry"),
        guardType = Kafka.find(LOGS + "VerificationGuard");
    private final Object uncompressed, created, requestLocal, log, states, sentinel;
    /** Null before 3.6, where no leader asks. */
    private final LeaderBroker broker;
    private final Object[] origins;
    private final boolean takesVersion, verifies;
    private final Field lastTimestamp;
    private final Method moves;
    private final Constructor<?> makesRecord;
    private final Object deletion;
    private final Path folder;
    private long now = NOW;
    private short version;

    LeaderSteps() {
        Class<?> compression = Kafka.find("org.apache.kafka.common.compress.Compression");
        uncompressed = compression == null
            ? Kafka.constant(record("CompressionType"), "NONE")
            : Kafka.constant(compression, "NONE");
        created = Kafka.constant(stampType, "CREATE_TIME");
        origins = new Object[] {origin("Client"), origin("Coordinator")};
        requestLocal = Kafka.makeIfKnown(
            "org.apache.kafka.server.common.RequestLocal", "kafka.server.RequestLocal");
        try {
            folder = Files.isWritable(MEMORY)
                ? Files.createTempDirectory(MEMORY, "epochfence-classes")
                : Files.createTempDirectory("epochfence-classes");
        } catch (IOException e) {
            throw new IllegalStateException("can't make a folder for the log: " + e.getMessage());
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> delete(folder)));
        log = log();
        states = Kafka.call(log, "producerStateManager");
        verifies = Kafka.has(states, "verificationStateEntry"); // from 3.6 on
        sentinel = guardType == null ? null : Kafka.constant(guardType, "SENTINEL");
        takesVersion = Kafka.signature(log, "appendAsLeader").contains(",short)");
        try {
            lastTimestamp = entryType.getDeclaredField("lastTimestamp");
            lastTimestamp.setAccessible(true);
            moves = log.getClass().getMethod("updateHighWatermark", long.class);
            makesRecord = simple.getConstructor(long.class, byte[].class);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("this release has no " + e.getMessage());
        }
        Class<?> reason = Kafka.find(LOGS + "LogStartOffsetIncrementReason");
        deletion = reason != null
            ? Kafka.constant(reason, "ClientRecordDeletion")
            : Kafka.find(SCALA + "ClientRecordDeletion") == null // before 2.7 no reason is given
                ? null : Kafka.singleton(SCALA + "ClientRecordDeletion$");
        broker = verifies ? new LeaderBroker(new LeaderBroker.Log() {
            @Override
            public Object startVerification(
                    long id, int sequence, short epoch, boolean supportsEpochBump) {
                return guard(sequence, epoch, supportsEpochBump);
            }

            @Override
            public Object append(Object records, Object guard) {
                return LeaderSteps.this.append(records, CLIENT, version, guard);
            }
        }, requestLocal, origins[CLIENT]) : null;
    }

    @Override
    public void take(long[] step, long[] result) {
        Arrays.fill(result, 0);
        long base = end();
        set(step, base);
        long before = end();
        try {
            call(step, base, result);
        } catch (RuntimeException e) {
            if (System.getProperty("explains") != null) {
                e.printStackTrace();
            }
            result[ENDED] = THREW;
            answer(result, Errors.forException(e), -1, -1);
        }
        if (result[FIRST] >= 0 && result[ERROR] == 0 && end() == before) {
            result[DUPLICATE] = 1;
        }
        write(result, base);
    }

    private void call(long[] step, long base, long[] result) {
        short epoch = (short) step[EPOCH];
        int sequence = (int) step[SEQUENCE];
        version = (short) step[VERSION];
        switch ((int) step[OPERATION]) {
            case PRODUCE -> {
                if (broker != null && step[ORIGIN] == CLIENT) {
                    boolean asks = broker.asks(
                        batch(step), step[TRANSACTIONAL] != 0, (int) step[VERSION]);
                    answer(result, base, asks);
                } else if (step[ASKS] != 0 && isGuard(guard(sequence, epoch, step[VERSION] == 2))) {
                    answer(result, base, true);
                } else {
                    append(step, base, sentinel, result);
                }
            }
            case VERIFIED -> {
                Object guard = step[GUARDED] != 0
                    ? Kafka.call(log, "verificationGuard", PRODUCER_ID) : otherGuard();
                Errors answer = Errors.forCode((short) step[ANSWER]);
                if (step[ORIGIN] == CLIENT) {
                    broker.verified(batch(step), guard, (int) step[VERSION], answer);
                    answer(result, base, false);
                } else if (answer != Errors.NONE) {
                    broker.verified(
                        PRODUCER_ID, epoch, sequence, guard, (int) step[VERSION], answer);
                    answer(result, broker.error(), -1, -1);
                } else {
                    append(step, base, guard, result);
                }
            }
            case MARKER -> {
                Object made = Kafka.make(marker, Kafka.constant(control,
                    step[COMMITS] != 0 ? "COMMIT" : "ABORT"), (int) step[COORDINATOR_EPOCH]);
                Object batch = Kafka.callStatic(records, "withEndTransactionMarker",
                    step[ORIGIN] == REPLICATION ? end() : 0L, NOW,
                    LEADER_EPOCH, PRODUCER_ID, epoch, made);
                append(batch, (int) step[ORIGIN], (short) step[VERSION], sentinel);
                answer(result, Errors.NONE, -1, -1);
            }
            case EXPIRE -> Kafka.call(
                Kafka.has(log, "removeExpiredProducers") ? log : states, "removeExpiredProducers",
                NOW);
            case DELETE -> start(base + step[OFFSET]);
            default -> throw new IllegalArgumentException("operation " + step[OPERATION]);
        }
    }

    /** Who appends gets this answer of the broker; a question is under a guard. */
    private void answer(long[] result, long base, boolean asks) {
        if (asks) {
            answer(result, Errors.NONE, -1, -1);
            result[GUARD] = 1;
        } else if (broker.error() != Errors.NONE) {
            answer(result, broker.error(), -1, -1);
        } else {
            appended(result, base, broker.appended());
        }
    }

    private void append(long[] step, long base, Object guard, long[] result) {
        appended(result, base,
            append(batch(step), (int) step[ORIGIN], (short) step[VERSION], guard));
    }

    private void appended(long[] result, long base, Object found) {
        Object first = Kafka.inside(Kafka.call(found, "firstOffset"));
        if (!(first instanceof Long)) {
            first = number(first, "messageOffset");
        }
        answer(result, Errors.NONE, (long) first - base, number(found, "lastOffset") - base);
    }

    private Object guard(int sequence, short epoch, boolean supportsEpochBump) {
        return Kafka.call(log, "maybeStartTransactionVerification", PRODUCER_ID, sequence, epoch,
            supportsEpochBump);
    }

    private boolean isGuard(Object guard) {
        return guard != null && guard != sentinel;
    }

    private Object append(Object batch, int origin, short version, Object guard) {
        if (origin == REPLICATION) {
            return Kafka.call(log, "appendAsFollower", batch, LEADER_EPOCH);
        }
        return takesVersion
            ? Kafka.call(log, "appendAsLeader", batch, LEADER_EPOCH, origins[origin], requestLocal,
                guard, version)
            : Kafka.call(log, "appendAsLeader", batch, LEADER_EPOCH, origins[origin], requestLocal,
                guard);
    }

    private Object batch(long[] step) {
        return batch(step[ORIGIN] == REPLICATION ? end() : 0L, (int) step[DELTA] + 1, PRODUCER_ID,
            (short) step[EPOCH], (int) step[SEQUENCE], step[TRANSACTIONAL] != 0);
    }

    private Object batch(
            long offset, int count, long id, short epoch, int sequence,
            boolean isTransactional) {
        Object all = Array.newInstance(simple, count);
        for (int at = 0; at < count; at++) {
            Array.set(all, at, record());
        }
        return Kafka.callStatic(records, "withRecords", MAGIC, offset, uncompressed, created, id,
            epoch, sequence, LEADER_EPOCH, isTransactional, all);
    }

    private Object record() {
        try {
            return makesRecord.newInstance(NOW, new byte[1]);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void answer(long[] result, Errors error, long first, long last) {
        result[ANSWERED]++;
        result[ERROR] = error.code();
        result[FIRST] = first;
        result[LAST] = last;
    }

    private Object otherGuard() {
        try {
            return guardType == null ? new Object() : guardType.getConstructor().newInstance();
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    // The partition -----------------------------------------------------------------------------

    private void set(long[] step, long base) {
        int at = STATE;
        Kafka.call(states, Kafka.has(states, "truncateFullyAndStartAt")
            ? "truncateFullyAndStartAt" : "truncate", base);
        if (verifies) {
            Kafka.call(states, "clearVerificationStateEntry", PRODUCER_ID);
        }
        moveHighWatermark(base);
        start(base);
        if ((long) Kafka.call(Kafka.call(log, "activeSegment"), "baseOffset") < base
                && number(Kafka.call(log, "activeSegment"), "size") > SEGMENT_BYTES) {
            Kafka.call(log, "roll");
            Kafka.call(log, "deleteOldSegments");
        }
        for (long count = step[at + END]; count > 0; count--) {
            append(batch(0, 1, -1, (short) -1, -1, false), CLIENT, (short) 0, sentinel);
        }
        if (step[at + KNOWN] != 0) {
            Kafka.call(states, "loadProducerEntry", entry(step, base));
        }
        moveHighWatermark(base + step[at + WATERMARK]);
        start(base + step[at + START]);
        if (step[at + IS_ASKED] != 0) {
            now = step[at + ASKED_AT];
            Kafka.call(states, "maybeCreateVerificationStateEntry", PRODUCER_ID,
                (int) step[at + LOWEST], (short) step[at + ASKED_EPOCH], step[at + SUPPORTS] != 0);
            now = NOW;
        }
    }

    private Object entry(long[] step, long base) {
        int at = STATE;
        OptionalLong first = step[at + TXN_FIRST] < 0
            ? OptionalLong.empty() : OptionalLong.of(base + step[at + TXN_FIRST]);
        short epoch = (short) step[at + PRODUCER_EPOCH];
        Object made = Kafka.make(entryType, PRODUCER_ID, epoch, (int) step[at + MARKED_BY],
            step[at + USED], first, new scala.collection.mutable.Queue<>(MOST_BATCHES),
            first.isPresent() ? Option.apply((Object) first.getAsLong()) : Option.empty());
        for (int batch = 0; batch < step[at + BATCHES]; batch++) {
            int of = at + BATCH + batch * BATCH_FIELDS;
            Kafka.call(made, "addBatch", epoch, (int) step[of], base + step[of + 1],
                (int) step[of + 2], step[of + 3]);
        }
        try {
            lastTimestamp.setLong(made, step[at + USED]);
        } catch (IllegalAccessException e) {
            throw new IllegalStateException(e);
        }
        return made;
    }

    private void write(long[] result, long base) {
        int at = AFTER;
        Object entry = Kafka.inside(Kafka.call(states, "lastEntry", PRODUCER_ID));
        if (entry != null) {
            result[at + KNOWN] = 1;
            result[at + PRODUCER_EPOCH] = number(entry, "producerEpoch");
            result[at + MARKED_BY] = number(entry, "coordinatorEpoch");
            Object first = Kafka.inside(Kafka.call(entry, "currentTxnFirstOffset"));
            if (first instanceof OptionalLong java) {
                first = java.isPresent() ? java.getAsLong() : null;
            }
            result[at + TXN_FIRST] = first == null ? -1 : (long) first - base;
            result[at + USED] = number(entry, "lastTimestamp");
            int count = 0;
            Object batches = Kafka.call(entry, "batchMetadata");
            for (Object batch : batches instanceof Collection<?> java ? java
                    : CollectionConverters.asJavaCollection((scala.collection.Iterable<?>) batches)) {
                int of = at + BATCH + count++ * BATCH_FIELDS;
                result[of] = number(batch, "lastSeq");
                result[of + 1] = number(batch, "lastOffset") - base;
                result[of + 2] = number(batch, "offsetDelta");
                result[of + 3] = number(batch, "timestamp");
            }
            result[at + BATCHES] = count;
        }
        Object asked = verifies ? Kafka.call(states, "verificationStateEntry", PRODUCER_ID) : null;
        if (asked != null) {
            result[at + IS_ASKED] = 1;
            result[at + ASKED_EPOCH] = number(asked, "epoch");
            result[at + LOWEST] = number(asked, "lowestSequence");
            result[at + ASKED_AT] = number(asked, "timestamp");
            result[at + SUPPORTS] = Kafka.has(asked, "supportsEpochBump")
                ? ((boolean) Kafka.call(asked, "supportsEpochBump") ? 1 : 0) : Host.ABSENT;
        }
        result[at + START] = number(log, "logStartOffset") - base;
        result[at + END] = end() - base;
        result[at + STABLE] = number(log, "lastStableOffset") - base;
    }

    private long end() {
        return (long) Kafka.call(log, "logEndOffset");
    }

    private void start(long offset) {
        Kafka.call(log, "maybeIncrementLogStartOffset", offset, deletion);
    }

    private void moveHighWatermark(long offset) {
        try {
            moves.invoke(log, offset);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static long number(Object of, String name) {
        return ((Number) Kafka.field(of, name)).longValue();
    }

    // What the classes are made with --------------------------------------------------------------

    private Object log() {
        Class<?> type = Kafka.type(LOGS + "UnifiedLog", SCALA + "UnifiedLog", SCALA + "Log");
        if (Arrays.stream(type.getMethods()).noneMatch(
                method -> Set.of("create", "apply").contains(method.getName()))) {
            type = Kafka.type(SCALA + "UnifiedLog");
        }
        // from 3.4 on the state manager has settings of its own; before, these are two numbers
        Class<?> manager =
            Kafka.find(LOGS + "ProducerStateManagerConfig", SCALA + "ProducerStateManagerConfig");
        Map<String, String> settings = Map.of("segment.bytes", "1073741824");
        Class<?> listener = Kafka.find(LOGS + "LogOffsetsListener");
        File of = folder.resolve("topic-0").toFile();
        return Kafka.callStatic(type, type.getName().startsWith("kafka") ? "apply" : "create", of,
            Kafka.make(Kafka.type(LOGS + "LogConfig", SCALA + "LogConfig"), settings, Set.of()),
            0L, 0L,
            idle(Kafka.type("org.apache.kafka.server.util.Scheduler", "kafka.utils.Scheduler")),
            Kafka.make(Kafka.type("org.apache.kafka.storage.log.metrics.BrokerTopicStats",
                "kafka.server.BrokerTopicStats")),
            StandIns.time(() -> now), manager == null ? EXPIRATION_MS : 900_000,
            manager == null ? null : Kafka.make(manager, EXPIRATION_MS, true), 600_000,
            Kafka.make(
                Kafka.type(LOGS + "LogDirFailureChannel", "kafka.server.LogDirFailureChannel"), 1),
            true, Optional.empty(), false, new ConcurrentHashMap<String, Integer>(), false,
            listener == null ? null : idle(listener));
    }

    /** Who sends a batch: a constant, or an object of Scala. */
    private static Object origin(String name) {
        Class<?> known = Kafka.find(LOGS + "AppendOrigin");
        return known != null
            ? Kafka.constant(known, name.toUpperCase(Locale.ROOT))
            : Kafka.singleton(SCALA + "AppendOrigin$" + name + "$");
    }

    /** It does nothing: what is scheduled isn't done. A mock takes longer. */
    private static Object idle(Class<?> type) {
        return Proxy.newProxyInstance(
            Host.class.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) ->
                method.isDefault() ? InvocationHandler.invokeDefault(proxy, method, arguments) : null);
    }

    private static Class<?> record(String name) {
        return Kafka.type(RECORDS + name, RECORDS + "internal." + name);
    }

    private static void delete(Path folder) {
        try (Stream<Path> all = Files.walk(folder)) {
            all.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        } catch (IOException e) {
            System.err.println("can't delete " + folder);
        }
    }
}
