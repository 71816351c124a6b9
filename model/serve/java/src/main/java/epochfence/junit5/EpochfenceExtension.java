package epochfence.junit5;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolutionException;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;

/**
 * Gives each test a served cluster, its faults and its history: parameters of the types
 * {@link ServedKafka}, {@link Faults} and {@link History}.
 *
 * <p>{@link Epochfence} sets it up, or a builder, which also puts it in front of other brokers:
 *
 * <pre>{@code
 * @RegisterExtension
 * final EpochfenceExtension kafka = EpochfenceExtension.inFrontOf(container::getBootstrapServers);
 * }</pre>
 *
 * A test fails if one of its faults didn't fire, or if no order explains its history.
 */
public final class EpochfenceExtension
        implements BeforeEachCallback, AfterEachCallback, ParameterResolver {
    private static final ExtensionContext.Namespace STORE =
        ExtensionContext.Namespace.create(EpochfenceExtension.class);

    private final Supplier<String> upstream;
    private final List<String> options = new ArrayList<>();
    private String release = System.getProperty("epochfence.release", "");
    private boolean isJudged = true;

    /** For {@link Epochfence}, or a cluster without topics at the newest release. */
    public EpochfenceExtension() {
        this(null);
    }

    private EpochfenceExtension(Supplier<String> upstream) {
        this.upstream = upstream;
    }

    /** A cluster in memory. */
    public static EpochfenceExtension serve() {
        return new EpochfenceExtension();
    }

    /** A proxy in front of brokers. The address is asked for when a test begins. */
    public static EpochfenceExtension inFrontOf(Supplier<String> bootstrapServers) {
        return new EpochfenceExtension(bootstrapServers);
    }

    /** The release of the cluster, or of the brokers behind the proxy, as 3.6. */
    public EpochfenceExtension release(String release) {
        this.release = release;
        return this;
    }

    /** A topic of a cluster in memory. */
    public EpochfenceExtension topic(String name, int partitions) {
        return options("--topic", name + ":" + partitions);
    }

    /** The number of brokers of a cluster in memory, up to 5. */
    public EpochfenceExtension brokers(int brokers) {
        return options("--brokers", String.valueOf(brokers));
    }

    /** Other options of {@code epochfence serve}, or of {@code epochfence proxy}. */
    public EpochfenceExtension options(String... options) {
        this.options.addAll(List.of(options));
        return this;
    }

    /** Whether the history of a test is judged at its end, as it is by default. */
    public EpochfenceExtension judged(boolean isJudged) {
        this.isJudged = isJudged;
        return this;
    }

    private static EpochfenceExtension of(Epochfence annotation) {
        EpochfenceExtension found = serve().brokers(annotation.brokers())
            .options(annotation.options()).judged(annotation.judged());
        if (!annotation.release().isEmpty()) {
            found.release(annotation.release());
        }
        for (String topic : annotation.topics()) {
            found.options("--topic", topic);
        }
        return found;
    }

    private record Running(EpochfenceExtension settings, ServedKafka kafka, History history) {
    }

    private static ExtensionContext.Store store(ExtensionContext context) {
        return context.getStore(STORE);
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        if (store(context).get(Running.class) == null) {
            EpochfenceExtension settings = annotation(context).map(EpochfenceExtension::of).orElse(this);
            store(context).put(Running.class, settings.start());
        }
    }

    private static Optional<Epochfence> annotation(ExtensionContext context) {
        return AnnotationSupport.findAnnotation(context.getTestMethod(), Epochfence.class)
            .or(() -> AnnotationSupport.findAnnotation(context.getTestClass(), Epochfence.class));
    }

    private Running start() {
        History history = new History();
        List<String> all = new ArrayList<>(options);
        all.addAll(List.of("--history", history.wire().toString()));
        if (upstream != null) {
            String[] given = all.toArray(String[]::new);
            return new Running(this, ServedKafka.inFrontOf(upstream.get(), given), history);
        }
        if (!release.isEmpty()) {
            all.addAll(List.of("--protocol", release));
        }
        return new Running(this, ServedKafka.serve(all.toArray(String[]::new)), history);
    }

    @Override
    public void afterEach(ExtensionContext context) {
        Running running = (Running) store(context).remove(Running.class);
        if (running == null) {
            return;  // it didn't start
        }
        boolean isPartial = isPartial(running.kafka().faults());
        String unfired = running.kafka().end();
        List<String> failures = new ArrayList<>(unfired.isEmpty() ? List.of() : List.of(unfired));
        for (History.Verdict verdict : running.settings().verdicts(running.history())) {
            boolean isUnseen = isPartial && verdict.file().equals(running.history().wire());
            if (verdict.isViolation() && !isUnseen) {
                failures.add(verdict.text());
            } else if (!verdict.text().isEmpty()) {
                context.publishReportEntry("the history isn't judged", verdict.text());
            }
        }
        if (!failures.isEmpty()) {
            throw new AssertionError(String.join("\n", failures));
        }
        running.history().delete();
    }

    private List<History.Verdict> verdicts(History history) {
        List<String> judging = new ArrayList<>();
        if (!release.isEmpty()) {
            judging.addAll(List.of("--protocol", release));
        }
        if (upstream != null) {
            judging.add("--excerpt");  // the brokers may have had other clients before
        }
        return isJudged ? history.judge(judging) : List.of();
    }

    private static boolean isPartial(Faults faults) {
        try {
            return faults.hasUnseen();
        } catch (RuntimeException error) {
            return false;  // it has ended, and its output says why
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return Set.of(ServedKafka.class, Faults.class, History.class)
            .contains(parameter.getParameter().getType());
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        Running running = (Running) store(context).get(Running.class);
        if (running == null) {
            throw new ParameterResolutionException("there is no cluster yet: take it in a test method");
        }
        Class<?> type = parameter.getParameter().getType();
        return type == History.class ? running.history()
            : type == Faults.class ? running.kafka().faults() : running.kafka();
    }
}
