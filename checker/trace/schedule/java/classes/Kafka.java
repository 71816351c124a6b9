import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.withSettings;

import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.mockito.stubbing.Answer;

/**
 * Kafka's own classes, of whichever release is there: they move between packages, and what their
 * constructors and methods take changes. An argument is chosen by its type, in the order in which
 * they are given; what isn't given has Scala's default, or is empty, or a mock.
 */
final class Kafka {
    private static final Map<Class<?>, Object> ZEROS = Map.of(
        boolean.class, false, int.class, 0, long.class, 0L, short.class, (short) 0,
        byte.class, (byte) 0, double.class, 0.0);
    private static final Map<Class<?>, Class<?>> BOXES = Map.of(
        boolean.class, Boolean.class, int.class, Integer.class, long.class, Long.class,
        short.class, Short.class, byte.class, Byte.class, double.class, Double.class);

    private static final Map<List<Object>, Boolean> NAMES = new ConcurrentHashMap<>();
    private static final Map<List<Object>, Method> CHOSEN = new ConcurrentHashMap<>();

    private Kafka() {}

    /** The class with the first of these names that this release has; null if it has none. */
    static Class<?> find(String... names) {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException e) {
                continue;
            }
        }
        return null;
    }

    /** As find; a release without it can't take the run. */
    static Class<?> type(String... names) {
        Class<?> found = find(names);
        if (found == null) {
            throw new IllegalStateException("this release has none of " + List.of(names));
        }
        return found;
    }

    /** A new object, by its constructor with the most parameters. */
    static Object make(Class<?> type, Object... given) {
        Constructor<?> constructor = constructor(type);
        Object[] arguments = arguments(constructor, type, null, "$lessinit$greater", given);
        return attempt(() -> open(constructor).newInstance(arguments));
    }

    /** As make, of the first of these classes; null if the release has none of them. */
    static Object makeIfKnown(String... names) {
        Class<?> found = find(names);
        return found == null ? null : make(found);
    }

    /** As make; its methods are its own, but what `answer` does with a call comes first. */
    static Object spy(Class<?> type, Answer<?> answer, Object... given) {
        Constructor<?> constructor = constructor(type);
        Object[] arguments = arguments(constructor, type, null, "$lessinit$greater", given);
        return mock(type, withSettings().useConstructor(arguments).defaultAnswer(answer).stubOnly());
    }

    static Object mocked(Class<?> type, Answer<?> answer) {
        return mock(type, withSettings().defaultAnswer(answer).stubOnly());
    }

    /**
     * What the method of this name answers; of several, the one with the most parameters, or with
     * none if nothing is given.
     */
    static Object call(Object on, String name, Object... given) {
        Method method = method(on.getClass(), name, given.length == 0);
        Object[] arguments = arguments(method, on.getClass(), on, name, given);
        return attempt(() -> open(method).invoke(on, arguments));
    }

    static Object callStatic(Class<?> type, String name, Object... given) {
        Method method = method(type, name, given.length == 0);
        return attempt(() -> open(method).invoke(null, arguments(method, type, null, name, given)));
    }

    /** What its field has; in Scala that is a method. */
    static Object field(Object of, String name) {
        if (has(of, name)) {
            return call(of, name);
        }
        return attempt(() -> of.getClass().getField(name).get(of));
    }

    /** What its field of this name has, even if it is private and has no method. */
    static Object inField(Object of, String name) {
        return attempt(() -> open(of.getClass().getDeclaredField(name)).get(of));
    }

    /** A constant of a class, of an enumeration or not. */
    static Object constant(Class<?> type, String name) {
        return attempt(() -> open(type.getDeclaredField(name)).get(null));
    }

    /** An object of Scala. */
    static Object singleton(String name) {
        return constant(type(name), "MODULE$");
    }

    /** The types that a method of this name takes. */
    static String signature(Object of, String name) {
        return method(of.getClass(), name, false).toGenericString();
    }

    static boolean has(Object on, String name) {
        return NAMES.computeIfAbsent(List.of(on.getClass(), name), key ->
            methods(on.getClass()).anyMatch(method -> method.getName().equals(name)));
    }

    /** What an Option, an Optional or a Right holds; null where it is empty. */
    static Object inside(Object held) {
        if (held instanceof scala.Option<?> option) {
            return option.isDefined() ? option.get() : null;
        }
        if (held instanceof Optional<?> optional) {
            return optional.orElse(null);
        }
        if (held instanceof scala.util.Right<?, ?> right) {
            return inside(right.value());
        }
        return held instanceof scala.util.Either<?, ?> ? null : held;
    }

    private static Constructor<?> constructor(Class<?> type) {
        return choose(Arrays.stream(type.getDeclaredConstructors()), type.getName(), false);
    }

    private static Method method(Class<?> type, String name, boolean isShort) {
        return CHOSEN.computeIfAbsent(List.of(type, name, isShort), key ->
            choose(methods(type).filter(method -> method.getName().equals(name)), name, isShort));
    }

    private static <E extends Executable> E choose(Stream<E> of, String name, boolean isShort) {
        Comparator<E> shorter = Comparator.comparingInt(Executable::getParameterCount);
        return of.max(isShort ? shorter.reversed() : shorter)
            .orElseThrow(() -> new IllegalStateException("this release has no " + name));
    }

    private static Stream<Method> methods(Class<?> type) {
        Stream<Method> own = Stream.empty();
        for (Class<?> at = type; at != null; at = at.getSuperclass()) {
            own = Stream.concat(own, Arrays.stream(at.getDeclaredMethods()));
        }
        return Stream.concat(own, Arrays.stream(type.getMethods()))
            .filter(method -> !method.isBridge());
    }

    private static Object[] arguments(
            Executable of, Class<?> type, Object on, String name, Object... given) {
        List<Object> left = new ArrayList<>(Arrays.asList(given));
        Class<?>[] wanted = of.getParameterTypes();
        Object[] found = new Object[wanted.length];
        for (int at = 0; at < wanted.length; at++) {
            Class<?> boxed = BOXES.getOrDefault(wanted[at], wanted[at]);
            int index = 0;
            while (index < left.size() && !boxed.isInstance(left.get(index))) {
                index++;
            }
            found[at] = index < left.size()
                ? left.remove(index) : standard(wanted[at], type, on, name + "$default$" + (at + 1));
        }
        return found;
    }

    private static Object standard(Class<?> wanted, Class<?> type, Object on, String accessor) {
        Optional<Method> standard = methods(type)
            .filter(method -> method.getName().equals(accessor) && method.getParameterCount() == 0)
            .findFirst();
        if (standard.isPresent()
                && (on != null || Modifier.isStatic(standard.get().getModifiers()))) {
            return attempt(() -> open(standard.get()).invoke(on));
        }
        if (ZEROS.containsKey(wanted)) {
            return ZEROS.get(wanted);
        }
        if (wanted == scala.Option.class) {
            return scala.Option.empty();
        }
        if (wanted == Optional.class) {
            return Optional.empty();
        }
        if (wanted == String.class) {
            return "";
        }
        return Modifier.isFinal(wanted.getModifiers())
            ? null : mock(wanted, withSettings().stubOnly());
    }

    private static <A extends AccessibleObject> A open(A object) {
        object.setAccessible(true);
        return object;
    }

    private interface Reflected {
        Object get() throws ReflectiveOperationException;
    }

    private static Object attempt(Reflected what) {
        try {
            return what.get();
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof RuntimeException cause) {
                throw cause;
            }
            throw new IllegalStateException(e.getCause());
        } catch (NoSuchFieldException e) {
            throw new IllegalStateException("this release has no " + e.getMessage());
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }
}
