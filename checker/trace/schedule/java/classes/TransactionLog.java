import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.common.protocol.Errors;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;

/** One partition of __transaction_state in memory, which the coordinators of all terms write. */
final class TransactionLog {
    /** What a record says of a transactional id. */
    record Entry(long producerId, short producerEpoch, byte status) {
        boolean isPrepared() {
            return status == 2 || status == 3; // TransactionState: PrepareCommit, PrepareAbort
        }
    }

    private static final Class<?> RECORDS = Kafka.type(
        "org.apache.kafka.common.record.internal.MemoryRecords",
        "org.apache.kafka.common.record.MemoryRecords");
    /** What each version of TransactionLogValue begins with: version, id, epoch, timeout, status. */
    private static final int ID_AT = 2, EPOCH_AT = 10, STATUS_AT = 16;
    private final List<Object> written = new ArrayList<>();
    private final Deque<Object> waiting = new ArrayDeque<>();
    private final Deque<Consumer<Errors>> callbacks = new ArrayDeque<>();
    final List<Entry> entries = new ArrayList<>();

    /** A ReplicaManager whose appends wait for `append` or `fail`. */
    Object replicaManager() {
        return Kafka.mocked(Kafka.type("kafka.server.ReplicaManager"), call -> {
            switch (call.getMethod().getName()) {
                case "appendRecords" -> take(call);
                case "getLog" -> {
                    return scala.Option.apply(log());
                }
                case "topicIdPartition" -> {
                    return Kafka.make(
                        call.getMethod().getReturnType(), (Object) call.getArgument(0),
                        Kafka.callStatic(Kafka.type("org.apache.kafka.common.Uuid"), "randomUuid"));
                }
                case "getLogConfig" -> {
                    return scala.Option.apply(Kafka.make(Kafka.type(
                        "org.apache.kafka.storage.internals.log.LogConfig", "kafka.log.LogConfig"),
                        Map.of(), java.util.Set.of()));
                }
                case "getLogEndOffset" -> {
                    return scala.Option.apply((Object) (long) written.size());
                }
                default -> { }
            }
            return Mockito.RETURNS_DEFAULTS.answer(call);
        });
    }

    boolean isWaiting() {
        return !callbacks.isEmpty();
    }

    /** The record that waits longest is in the log, and whoever wrote it has the answer. */
    void append() {
        Object records = waiting.remove();
        for (Object batch : batches(records)) {
            Kafka.call(batch, "setLastOffset", (long) written.size());
            entries.add(entry(batch));
        }
        written.add(records);
        callbacks.remove().accept(Errors.NONE);
    }

    /** The record that waits longest isn't written. */
    void fail() {
        answer(Errors.NOT_ENOUGH_REPLICAS);
    }

    /** Whoever waits longest gets this answer, and the record is dropped. */
    void answer(Errors error) {
        waiting.remove();
        callbacks.remove().accept(error);
    }

    /** Whoever waits longest gets this error, although the record is in the log. */
    void answerWritten(Errors error) {
        Consumer<Errors> callback = callbacks.remove();
        callbacks.addFirst(any -> { });
        append();
        callback.accept(error);
    }

    /** Nobody waits any more, and the log is empty. */
    void clear() {
        waiting.clear();
        callbacks.clear();
        written.clear();
        entries.clear();
    }

    /** Has the only record say another epoch. */
    void rewriteEpoch(short epoch) {
        for (Object batch : batches(written.get(0))) {
            value(batch).putShort(EPOCH_AT, epoch);
            entries.set(0, entry(batch));
        }
    }

    /** The record that waits longest is in the log, and nobody has the answer yet. */
    void appendUntold() {
        Consumer<Errors> callback = callbacks.remove();
        callbacks.addFirst(error -> { });
        append();
        callbacks.addFirst(callback);
    }

    /** Whoever waits gets the answer that this is no leader any more. */
    void lose() {
        waiting.clear();
        while (isWaiting()) {
            callbacks.remove().accept(Errors.forCode((short) 6)); // its name differs by release
        }
    }

    private void take(InvocationOnMock call) {
        for (Object argument : call.getArguments()) {
            Map<?, ?> map = asJava(argument);
            boolean isFilled = map != null && !map.isEmpty();
            if (isFilled && RECORDS.isInstance(map.values().iterator().next())) {
                Object partition = map.keySet().iterator().next();
                waiting.add(map.get(partition));
                callbacks.add(error -> tell(call, partition, error));
                return;
            }
        }
        throw new IllegalStateException("ReplicaManager.appendRecords has no records");
    }

    /** Its callback is the first function; that takes Java's map in the newest releases. */
    @SuppressWarnings("unchecked")
    private static void tell(InvocationOnMock call, Object partition, Errors error) {
        Map<Object, Object> answer = Map.of(partition, Kafka.make(
            Kafka.type("org.apache.kafka.common.requests.ProduceResponse$PartitionResponse"), error));
        Type[] types = call.getMethod().getGenericParameterTypes();
        for (int at = 0; at < types.length; at++) {
            if (types[at].getTypeName().startsWith("scala.Function1<")) {
                scala.Function1<Object, Object> callback = call.getArgument(at);
                callback.apply(types[at].getTypeName().startsWith("scala.Function1<java.util.Map")
                    ? answer : scala.jdk.javaapi.CollectionConverters.asScala(answer));
                return;
            }
        }
        throw new IllegalStateException("ReplicaManager.appendRecords has no callback");
    }

    private static Map<?, ?> asJava(Object map) {
        if (map instanceof scala.collection.Map<?, ?> of) {
            return scala.jdk.javaapi.CollectionConverters.asJava(of);
        }
        return map instanceof Map<?, ?> java ? java : null;
    }

    /** The log as a coordinator that loads it reads it. */
    private Object log() {
        Class<?> type = Kafka.type(
            "kafka.log.UnifiedLog", "kafka.log.Log",
            "org.apache.kafka.storage.internals.log.UnifiedLog");
        return Kafka.mocked(type, call -> switch (call.getMethod().getName()) {
            case "read" -> Kafka.make(call.getMethod().getReturnType(), Kafka.make(Kafka.type(
                "org.apache.kafka.storage.internals.log.LogOffsetMetadata",
                "kafka.server.LogOffsetMetadata"), 0L), read((long) call.getArgument(0)));
            case "logEndOffset" -> (long) written.size();
            default -> Mockito.RETURNS_DEFAULTS.answer(call);
        });
    }

    private Object read(long from) {
        ByteBuffer all = ByteBuffer.allocate(1 << 20);
        for (Object records : written.subList((int) from, written.size())) {
            all.put(((ByteBuffer) Kafka.call(records, "buffer")).duplicate());
        }
        return Kafka.callStatic(RECORDS, "readableRecords", all.flip());
    }

    private static Iterable<?> batches(Object records) {
        return (Iterable<?>) Kafka.call(records, "batches");
    }

    private static Entry entry(Object batch) {
        ByteBuffer value = value(batch);
        if (value == null) { // a tombstone
            return new Entry(-1, (short) -1, (byte) 6);
        }
        return new Entry(value.getLong(ID_AT), value.getShort(EPOCH_AT), value.get(STATUS_AT));
    }

    private static ByteBuffer value(Object batch) {
        Iterator<?> records = (Iterator<?>) Kafka.call(batch, "iterator");
        ByteBuffer value = (ByteBuffer) Kafka.call(records.next(), "value");
        return value == null ? null : value.slice();
    }
}
