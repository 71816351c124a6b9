package epochfence.junit5;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/** The requests that a fault acts on. The last method of a chain names the fault, and adds it. */
public final class Call {
    private static final int EVERY = 1_000_000_000;

    private final Faults faults;
    private final Map<String, Object> on = new LinkedHashMap<>();
    private final Map<String, Object> fault = new LinkedHashMap<>();

    Call(Faults faults, String api, int n) {
        this.faults = faults;
        on.put("request", api);
        on.put("nth", n);
    }

    /** So many requests, from the first one on. */
    public Call times(int n) {
        on.put("times", n);
        return this;
    }

    /** Every request, from the first one on. */
    public Call everyTime() {
        return times(EVERY);
    }

    /** Only requests of this transactional id. */
    public Call transactionalId(String transactionalId) {
        on.put("transactional_id", transactionalId);
        return this;
    }

    /** Only requests of the client with this client.id. */
    public Call clientId(String clientId) {
        on.put("client_id", clientId);
        return this;
    }

    /** Only requests that name this topic. */
    public Call topic(String topic) {
        on.put("topic", topic);
        return this;
    }

    /** Only requests of this group. */
    public Call groupId(String groupId) {
        on.put("group_id", groupId);
        return this;
    }

    /** The fault's name, for reports. */
    public Call named(String name) {
        fault.put("name", name);
        return this;
    }

    /** A wait ends after this time. */
    public Call until(Duration time) {
        fault.put("until", Map.of("ms", time.toMillis()));
        return this;
    }

    /** A wait ends when the next request of this API is answered. */
    public Call until(Enum<?> api) {
        fault.put("until", Map.of("request", Faults.nameOf(api)));
        return this;
    }

    /** A fault of the cluster acts after the request, not before it. */
    public Call after() {
        fault.put("when", "after");
        return this;
    }

    /** The request is dropped, and its connection is closed. */
    public Fault loseRequest() {
        return add("lose_request");
    }

    /** The request takes effect; its connection is closed in place of an answer. */
    public Fault loseAnswer() {
        return add("lose_answer");
    }

    /** The request waits, until it is released or the given end. */
    public Fault hold() {
        return add("hold");
    }

    /** The request takes effect, and its answer waits. */
    public Fault holdAnswer() {
        return add("hold_answer");
    }

    /** The markers of all transactions wait, from this request on. */
    public Fault holdMarkers() {
        return add("hold_markers");
    }

    /** Answers to Metadata lack this partition (as orders-1), once the request is answered. */
    public Fault hidePartition(String partition) {
        fault.put("partition", partition);
        return add("hide_partition");
    }

    /** The request takes effect later; its connection is closed at once. */
    public Fault delay() {
        return add("delay");
    }

    /** The request takes effect again. */
    public Fault duplicate() {
        return add("duplicate");
    }

    /** The requests behind this one on its connection go first. */
    public Fault reorder() {
        return add("reorder");
    }

    /** The coordinator of the request's transactional id fails over. */
    public Fault failOverCoordinator() {
        return add("fail_over_coordinator");
    }

    /** The transaction of the request's transactional id times out. */
    public Fault timeOutTransaction() {
        return add("time_out_transaction");
    }

    /** A rival sends InitProducerId for the request's transactional id. */
    public Fault bumpEpoch() {
        return add("bump_epoch");
    }

    /** The leaders forget the producer of the request's transactional id. */
    public Fault expireProducer() {
        return add("expire_producer");
    }

    /** The members of the request's group are gone, as after their session's timeout. */
    public Fault expireMembers() {
        return add("expire_members");
    }

    private Fault add(String what) {
        fault.put("do", what);
        fault.put("on", on);
        return faults.add(fault);
    }
}
