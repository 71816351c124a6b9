import java.util.Arrays;
import org.apache.kafka.common.protocol.Errors;

/** A group's offsets of one partition: what a step and its result have, in each era of the classes. */
abstract class GroupSteps implements Host.Steps {
    // A step: the operation, its arguments, and the group before it.
    static final int OPERATION = 0, VERSION = 1, MEMBER = 2, INSTANCE = 3, NAMED = 4, OFFSET = 5,
        PRODUCER = 6, FLAG = 7, HEARD = 8, STATE = 9;
    static final int COMMIT = 0, COMMIT_IN_TRANSACTION = 1, FETCH = 2, DELETE = 3, END = 4,
        COMPLETE = 5;
    static final int REFUSED = 1, LATE = 2, READ = 1;
    // A result: how it ended, the answer, and the group after it.
    static final int ENDED = 0, ERROR = 1, RECORDS = 2, FETCHED = 3, READ_ALIKE = 4, AFTER = 5;
    // The group: its members, the committed offset, the pending ones of the producers, and the
    // markers whose offsets a thread has yet to put in place.
    static final int KNOWN = 0, STATUS = 1, GENERATION = 2, MEMBERS = 3, HOLDER = 4, OFFSETS = 5,
        SLOT = 3, OPEN = 14, LOG_END = 14, COMPLETIONS = 15, MOST_COMPLETIONS = 2;
    static final int IS_SET = 0, VALUE = 1, PLACE = 2, PRODUCERS = 2;
    static final long FIRST_ID = 1000, NOW = 2_000_000_000L;
    static final String GROUP = "group", TOPIC = "input", NONE = "";
    private static final int THREW = 1;

    private final long[] read = new long[Host.OUT];

    @Override
    public final void take(long[] step, long[] result) {
        Arrays.fill(result, 0);
        result[FETCHED] = -1;
        begin(step);
        try {
            call(step, result);
        } catch (RuntimeException e) {
            if (System.getProperty("explains") != null) {
                e.printStackTrace();
            }
            result[ENDED] = THREW;
            result[ERROR] = Errors.forException(e).code();
        }
        write(result);
        Arrays.fill(read, 0);
        read(read);
        result[READ_ALIKE] = Arrays.equals(
            result, AFTER + OFFSETS, AFTER + OPEN + 1, read, AFTER + OFFSETS, AFTER + OPEN + 1)
            ? 1 : 0;
    }

    /** Makes the group before the step. */
    abstract void begin(long[] step);

    abstract void call(long[] step, long[] result);

    /** Writes the group of the coordinator that took the step. */
    abstract void write(long[] result);

    /** Writes the group of another coordinator, which reads the log. */
    abstract void read(long[] result);

    static String member(long number) {
        return number < 0 ? NONE : "member-" + number;
    }

    static String instance(long number) {
        return number < 0 ? null : "instance-" + number;
    }

    static boolean hasMember(long[] step, int number) {
        return (step[STATE + MEMBERS] >> number & 1) != 0;
    }
}
