import java.lang.management.ManagementFactory;

/** Its step works (1) or waits (2) for so many milliseconds, and says when it begins. */
final class Slow implements Host.Steps {
    private static final int WORK = 1;

    @Override
    public void take(long[] step, long[] result) {
        System.err.println("begins");
        if (step[0] == WORK) {
            var times = ManagementFactory.getThreadMXBean();
            long end = times.getCurrentThreadCpuTime() + step[1] * 1_000_000;
            while (times.getCurrentThreadCpuTime() < end) {
                result[1]++;
            }
            return;
        }
        try {
            Thread.sleep(step[1]);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
