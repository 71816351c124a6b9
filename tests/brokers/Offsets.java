import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.LegacyOffsetCommitValue;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;

/** Records of __consumer_offsets as Kafka's own serializers write them: a line of hexadecimal digits
 * for each version of a value, and for each type of a key. */
public final class Offsets {
    public static void main(String[] arguments) {
        OffsetCommitKey offset = new OffsetCommitKey()
            .setGroup("group").setTopic("orders").setPartition(3);
        tell("key 1", offset, (short) 0, (short) 1);
        for (CoordinatorRecordType type : CoordinatorRecordType.values()) {
            tell("type " + type.id() + " " + type, type.newRecordKey(), (short) 0, type.id());
        }
        tell("offset 0", new LegacyOffsetCommitValue().setOffset(7).setMetadata("m")
            .setCommitTimestamp(11), (short) 0, (short) 0);
        for (short version = 1; version <= 4; version++) {
            OffsetCommitValue value = new OffsetCommitValue()
                .setOffset(7).setLeaderEpoch(5).setMetadata("m").setCommitTimestamp(11);
            if (version == 1) {
                value.setExpireTimestamp(13);
            }
            if (version == 4) {
                value.setTopicId(new Uuid(1, 2));
            }
            tell("offset " + version, value, version, version);
        }
        for (short version = 0; version <= 4; version++) {
            GroupMetadataValue.MemberMetadata member = new GroupMetadataValue.MemberMetadata()
                .setMemberId("member").setClientId("client").setClientHost("/127.0.0.1")
                .setSessionTimeout(10).setSubscription(new byte[] {1}).setAssignment(new byte[0]);
            if (version >= 1) {
                member.setRebalanceTimeout(20);
            }
            if (version >= 3) {
                member.setGroupInstanceId("instance");
            }
            GroupMetadataValue value = new GroupMetadataValue()
                .setProtocolType("consumer").setGeneration(2).setProtocol("range")
                .setLeader(version == 2 ? null : "member").setMembers(List.of(member));
            if (version >= 2) {
                value.setCurrentStateTimestamp(17);
            }
            tell("group " + version, value, version, version);
        }
    }

    /** A message of `version`, behind the number that stands before it. */
    private static void tell(String what, ApiMessage message, short version, short prefix) {
        ByteBuffer body = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[2 + body.remaining()];
        ByteBuffer.wrap(bytes).putShort(prefix).put(body);
        System.out.println(what + "\t" + HexFormat.of().formatHex(bytes));
    }
}
