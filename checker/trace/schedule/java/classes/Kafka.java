import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.withSettings;

import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
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

    private record Named(Class<?> type, String name, boolean isShort) {}

    private record Parameter(Class<?> type, Class<?> boxed, Method accessor) {}

    private record Chosen<E extends Executable>(E of, Parameter[] parameters) {}

    private static final Map<Named, Boolean> NAMES = new ConcurrentHashMap<>();
    private static final Map<Named, Field> FIELDS = new ConcurrentHashMap<>();
    private static final Map<Named, Chosen<Method>> METHODS = new ConcurrentHashMap<>();
    private static final Map<Class<?>, Chosen<Constructor<?>>> CONSTRUCTORS =
        new ConcurrentHashMap<>();
    private static final Map<Class<?>, Object> MOCKS = new ConcurrentHashMap<>();

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
        Chosen<Constructor<?>> constructor = constructor(type);
        Object[] arguments = arguments(constructor, null, given);
        return attempt(() -> constructor.of().newInstance(arguments));
    }

    /** As make, of the first of these classes; null if the release has none of them. */
    static Object makeIfKnown(String... names) {
        Class<?> found = find(names);
        return found == null ? null : make(found);
    }

    /** As make; its methods are its own, but what `answer` does with a call comes first. */
    static Object spy(Class<?> type, Answer<?> answer, Object... given) {
        Object[] arguments = arguments(constructor(type), null, given);
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
        Chosen<Method> method = method(on.getClass(), name, given.length == 0);
        Object[] arguments = arguments(method, on, given);
        return attempt(() -> method.of().invoke(on, arguments));
    }

    static Object callStatic(Class<?> type, String name, Object... given) {
        Chosen<Method> method = method(type, name, given.length == 0);
        Object[] arguments = arguments(method, null, given);
        return attempt(() -> method.of().invoke(null, arguments));
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
        Field field = FIELDS.computeIfAbsent(new Named(of.getClass(), name, false), key ->
            (Field) attempt(() -> open(of.getClass().getDeclaredField(name))));
        return attempt(() -> field.get(of));
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
        return method(of.getClass(), name, false).of().toGenericString();
    }

    static boolean has(Object on, String name) {
        return NAMES.computeIfAbsent(new Named(on.getClass(), name, false), key ->
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

    private static Chosen<Constructor<?>> constructor(Class<?> type) {
        return CONSTRUCTORS.computeIfAbsent(type, key -> {
            Constructor<?> of =
                choose(Arrays.stream(type.getDeclaredConstructors()), type.getName(), false);
            return new Chosen<>(open(of), parameters(of, type, "$lessinit$greater"));
        });
    }

    private static Chosen<Method> method(Class<?> type, String name, boolean isShort) {
        return METHODS.computeIfAbsent(new Named(type, name, isShort), key -> {
            Method of = choose(
                methods(type).filter(method -> method.getName().equals(name)), name, isShort);
            return new Chosen<>(open(of), parameters(of, type, name));
        });
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

    private static Parameter[] parameters(Executable of, Class<?> type, String name) {
        Class<?>[] types = of.getParameterTypes();
        Parameter[] found = new Parameter[types.length];
        for (int at = 0; at < types.length; at++) {
            String accessor = name + "$default$" + (at + 1);
            Method standard = methods(type)
                .filter(method ->
                    method.getName().equals(accessor) && method.getParameterCount() == 0)
                .findFirst().map(Kafka::open).orElse(null);
            found[at] = new Parameter(types[at], BOXES.getOrDefault(types[at], types[at]), standard);
        }
        return found;
    }

    private static Object[] arguments(Chosen<?> of, Object on, Object... given) {
        Parameter[] wanted = of.parameters();
        Object[] found = new Object[wanted.length];
        long taken = 0; // a bit for each argument
        for (int at = 0; at < wanted.length; at++) {
            int index = 0;
            while (index < given.length
                    && ((taken >> index & 1) != 0 || !wanted[at].boxed().isInstance(given[index]))) {
                index++;
            }
            found[at] = index < given.length ? given[index] : standard(wanted[at], on);
            taken |= 1L << index;
        }
        return found;
    }

    private static Object standard(Parameter parameter, Object on) {
        Class<?> wanted = parameter.type();
        Method standard = parameter.accessor();
        if (standard != null && (on != null || Modifier.isStatic(standard.getModifiers()))) {
            return attempt(() -> standard.invoke(on));
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
            ? null
            : MOCKS.computeIfAbsent(wanted, type -> mock(type, withSettings().stubOnly()));
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
