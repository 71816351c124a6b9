import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Supplier;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.BrokerHeartbeatResponseData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.BrokerRegistrationResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.BrokerHeartbeatResponse;
import org.apache.kafka.common.requests.BrokerRegistrationResponse;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.utils.Time;
import org.mockito.Mockito;
import scala.Function0;

/** A broker's BrokerLifecycleManager, whose channel to the controller the step answers. */
final class Registration implements AutoCloseable {
    /** From 3.7 on a broker registers again, without a restart. */
    private static final List<String> AGAIN = List.of(
        "resendBrokerRegistration", "resendBrokerRegistrationUnlessZkMode");

    private final LinkedBlockingQueue<Object> handlers = new LinkedBlockingQueue<>();
    private final Object manager;

    Registration(Class<?> channelType, Time time) {
        Supplier<Boolean> no = () -> false;
        manager = Kafka.make(Kafka.type("org.apache.kafka.server.BrokerLifecycleManager",
            "kafka.server.BrokerLifecycleManager"), LeaderBroker.config(), time, "host", Map.of(),
            no, scala.collection.immutable.Set$.MODULE$.empty());
        Object channel = Kafka.mocked(channelType, call -> {
            if (call.getMethod().getName().equals("sendRequest")) {
                handlers.add(call.getArgument(1));
            }
            return Mockito.RETURNS_DEFAULTS.answer(call);
        });
        Supplier<Long> java = () -> 0L;
        Function0<Object> scala = () -> 0L;
        Kafka.call(manager, "start", java, scala, channel, "cluster",
            new BrokerRegistrationRequestData.ListenerCollection(), Map.of(), OptionalLong.empty());
    }

    /** The epoch that the broker has; -1 before its first registration. */
    long epoch() {
        return (long) Kafka.call(manager, "brokerEpoch");
    }

    /** The controller gives the broker this epoch. */
    void register(long epoch) {
        if (epoch() >= 0) {
            String again = AGAIN.stream().filter(name -> Kafka.has(manager, name)).findFirst()
                .orElseThrow(() -> new IllegalStateException("a broker registers only once"));
            Kafka.call(manager, again);
            answer(ApiKeys.BROKER_HEARTBEAT,
                new BrokerHeartbeatResponse(new BrokerHeartbeatResponseData()));
        }
        answer(ApiKeys.BROKER_REGISTRATION, new BrokerRegistrationResponse(
            new BrokerRegistrationResponseData().setBrokerEpoch(epoch)));
        handlers.add(next()); // the heartbeat after it: the manager has the epoch
    }

    private void answer(ApiKeys key, AbstractResponse response) {
        Kafka.call(next(), "onComplete", new ClientResponse(
            new RequestHeader(key, (short) 0, "", 0), null, "", 0L, 0L, false,
            (UnsupportedVersionException) null, (AuthenticationException) null, response));
    }

    private Object next() {
        try {
            return handlers.take();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public void close() {
        Kafka.call(manager, "close");
    }
}
