import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileOutputStream;
import java.io.FileDescriptor;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Takes local steps of one machine on Kafka's classes. Standard input has batches: the number of
 * steps, then so many rows of IN numbers. Each batch is answered on standard output by as many rows
 * of OUT numbers. All are big-endian, of 64 bits but the count, which has 32.
 */
final class Host {
    static final int IN = 48, OUT = 48;
    /** In the place of a field that this release's class doesn't have. */
    static final long ABSENT = Long.MIN_VALUE;
    private static final long LOOK_MS = 100;

    interface Steps {
        void take(long[] step, long[] result);
    }

    private Host() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false);
        System.setOut(System.err); // standard output has results alone
        Steps steps;
        try {
            // by name: the steps of another machine may not compile against this release's jars
            steps = (Steps) Class.forName(arguments[0]).getDeclaredConstructor().newInstance();
        } catch (InvocationTargetException e) {
            Throwable cause = e.getCause();
            if (!(cause instanceof IllegalStateException || cause instanceof LinkageError)) {
                throw e;
            }
            System.err.println("unusable: " + cause.getMessage());
            System.exit(3);
            return;
        } catch (LinkageError e) {
            System.err.println("unusable: " + e.getMessage());
            System.exit(3);
            return;
        }
        AtomicLong since = new AtomicLong();
        watch(Thread.currentThread(), since, Long.parseLong(arguments[1]));
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        long[] step = new long[IN], result = new long[OUT];
        while (true) {
            int count;
            try {
                count = in.readInt();
            } catch (EOFException e) {
                System.exit(0); // Kafka's classes may have threads
                return;
            }
            ByteBuffer results = ByteBuffer.allocate(count * OUT * Long.BYTES);
            ByteBuffer given = ByteBuffer.wrap(in.readNBytes(count * IN * Long.BYTES));
            for (int number = 0; number < count; number++) {
                given.asLongBuffer().get(number * IN, step);
                since.set(System.nanoTime());
                steps.take(step, result);
                since.set(0);
                results.asLongBuffer().put(number * OUT, result);
            }
            out.write(results.array());
            out.flush();
        }
    }

    /**
     * Ends the process where a step works or waits longer than `most` milliseconds, and shows its
     * stack. The time in which the thread could go on and got no processor doesn't count.
     */
    private static void watch(Thread worker, AtomicLong since, long most) {
        ThreadMXBean times = ManagementFactory.getThreadMXBean();
        Thread watcher = new Thread(() -> {
            long step = 0, worked = 0, waited = 0;
            while (true) {
                long began = since.get();
                long now = times.getThreadCpuTime(worker.getId()) / 1_000_000;
                if (began != step) {
                    step = began;
                    worked = now;
                    waited = 0;
                } else if (began != 0 && worker.getState() != Thread.State.RUNNABLE) {
                    waited += LOOK_MS;
                }
                if (began != 0 && now - worked + waited > most) {
                    System.err.println("blocked: a step takes longer than " + most + " ms");
                    for (StackTraceElement at : worker.getStackTrace()) {
                        System.err.println("  at " + at);
                    }
                    Runtime.getRuntime().halt(4);
                }
                try {
                    Thread.sleep(LOOK_MS);
                } catch (InterruptedException e) {
                    return;
                }
            }
        });
        watcher.setDaemon(true);
        watcher.start();
    }
}
