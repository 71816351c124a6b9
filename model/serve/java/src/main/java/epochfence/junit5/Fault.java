package epochfence.junit5;

import java.time.Duration;
import java.util.Map;
import java.util.function.BooleanSupplier;

/** A fault that was added. */
public final class Fault {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final long PAUSE_MS = 20;

    private final Faults faults;
    private final String name;

    Fault(Faults faults, String name) {
        this.faults = faults;
        this.name = name;
    }

    /** Its name in reports. */
    public String name() {
        return name;
    }

    /** How often it happened. */
    public int timesTriggered() {
        return number("fired");
    }

    /** How many requests or answers it holds. */
    public int waiting() {
        return number("waiting");
    }

    /** Releases everything that it holds. */
    public void release() {
        faults.release(name);
    }

    /** Waits until it holds a request or an answer. Throws AssertionError after 30 seconds. */
    public Fault awaitWaiting() {
        return await("holds nothing", () -> waiting() > 0);
    }

    /** Waits until it has happened. Throws AssertionError after 30 seconds. */
    public Fault awaitTriggered() {
        return await("didn't happen", () -> timesTriggered() > 0);
    }

    private Fault await(String failure, BooleanSupplier isSo) {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!isSo.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("fault " + name + " " + failure + " in 30 s");
            }
            try {
                Thread.sleep(PAUSE_MS);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(error);
            }
        }
        return this;
    }

    private int number(String field) {
        for (Map<String, Object> state : faults.states()) {
            if (name.equals(state.get("name"))) {
                return ((Number) state.get(field)).intValue();
            }
        }
        throw new IllegalStateException("the port has no fault " + name);
    }

    @Override
    public String toString() {
        return name;
    }
}
