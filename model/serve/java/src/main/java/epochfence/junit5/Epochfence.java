package epochfence.junit5;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Each test, or this one, gets a served cluster of its own. A method's annotation replaces that of
 * its class. See {@link EpochfenceExtension}.
 */
@Target({ElementType.TYPE, ElementType.METHOD})
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@ExtendWith(EpochfenceExtension.class)
public @interface Epochfence {
    /** Kafka's release, as 3.6. By default the system property epochfence.release, or the newest. */
    String release() default "";

    /** Topics, each as NAME or NAME:PARTITIONS. */
    String[] topics() default {};

    /** The number of brokers, up to 5. */
    int brokers() default 1;

    /** Whether the history of the test is judged at its end. */
    boolean judged() default true;

    /** Other options of epochfence serve. */
    String[] options() default {};
}
