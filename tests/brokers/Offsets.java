import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.generated.*;

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
        short zero = 0;
        for (ApiMessage value : List.of(
                Assigned.consumerGroup(), Assigned.consumerTopics(), Assigned.consumerMember(),
                Assigned.consumerTarget(), Assigned.consumerTargetOfMember(),
                Assigned.consumerMemberHas(), Assigned.shareMember(), Assigned.shareGroup(),
                Assigned.shareTarget(), Assigned.shareTargetOfMember(), Assigned.shareMemberHas(),
                Assigned.shareState(), Assigned.regularExpression(), Assigned.streamsGroup(),
                Assigned.streamsMember(), Assigned.streamsTarget(),
                Assigned.streamsTargetOfMember(), Assigned.streamsMemberHas(),
                Assigned.topology())) {
            tell("value " + value.apiKey(), value, zero, zero);
        }
        tell("bare 3", new ConsumerGroupMetadataValue().setEpoch(1), zero, zero);
        tell("bare 5", Assigned.consumerMember().setInstanceId(null).setRackId(null)
            .setSubscribedTopicRegex(null).setServerAssignor(null).setClassicMemberMetadata(null),
            zero, zero);
        tell("bare 17", Assigned.streamsGroup().setValidatedTopologyEpoch(-1)
            .setLastAssignmentConfigs(null), zero, zero);
        tell("bare 19", Assigned.streamsMember().setUserEndpoint(null), zero, zero);
    }

    /** A value of each type that groups have in which the broker assigns. */
    private static final class Assigned {
        private static final Uuid TOPIC = new Uuid(1, 2);

        static ConsumerGroupMetadataValue consumerGroup() {
            return new ConsumerGroupMetadataValue().setEpoch(3).setMetadataHash(4);
        }

        static ConsumerGroupPartitionMetadataValue consumerTopics() {
            return new ConsumerGroupPartitionMetadataValue().setTopics(List.of(
                new ConsumerGroupPartitionMetadataValue.TopicMetadata()
                    .setTopicId(TOPIC).setTopicName("orders").setNumPartitions(2)
                    .setPartitionMetadata(List.of(
                        new ConsumerGroupPartitionMetadataValue.PartitionMetadata()
                            .setPartition(1).setRacks(List.of("a", "b"))))));
        }

        static ConsumerGroupMemberMetadataValue consumerMember() {
            return new ConsumerGroupMemberMetadataValue()
                .setInstanceId("instance").setRackId("rack").setClientId("client")
                .setClientHost("/127.0.0.1").setSubscribedTopicNames(List.of("orders", "bills"))
                .setSubscribedTopicRegex("o.*").setRebalanceTimeoutMs(5)
                .setServerAssignor("uniform").setClassicMemberMetadata(
                    new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata()
                        .setSessionTimeoutMs(6).setSupportedProtocols(List.of(
                            new ConsumerGroupMemberMetadataValue.ClassicProtocol()
                                .setName("range").setMetadata(new byte[] {7}))));
        }

        static ConsumerGroupTargetAssignmentMetadataValue consumerTarget() {
            return new ConsumerGroupTargetAssignmentMetadataValue()
                .setAssignmentEpoch(8).setAssignmentTimestamp(9);
        }

        static ConsumerGroupTargetAssignmentMemberValue consumerTargetOfMember() {
            return new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(List.of(
                new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                    .setTopicId(TOPIC).setPartitions(List.of(0, 1))));
        }

        static ConsumerGroupCurrentMemberAssignmentValue consumerMemberHas() {
            return new ConsumerGroupCurrentMemberAssignmentValue()
                .setMemberEpoch(3).setPreviousMemberEpoch(2).setState((byte) 1)
                .setAssignedPartitions(List.of(
                    new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions()
                        .setTopicId(TOPIC).setPartitions(List.of(0, 1))
                        .setAssignmentEpochs(List.of(2, 3))))
                .setPartitionsPendingRevocation(List.of(
                    new ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions()
                        .setTopicId(TOPIC).setPartitions(List.of(2))));
        }

        static ShareGroupMemberMetadataValue shareMember() {
            return new ShareGroupMemberMetadataValue()
                .setRackId(null).setClientId("client").setClientHost("/127.0.0.1")
                .setSubscribedTopicNames(List.of("orders"));
        }

        static ShareGroupMetadataValue shareGroup() {
            return new ShareGroupMetadataValue().setEpoch(3).setMetadataHash(4);
        }

        static ShareGroupTargetAssignmentMetadataValue shareTarget() {
            return new ShareGroupTargetAssignmentMetadataValue().setAssignmentEpoch(8);
        }

        static ShareGroupTargetAssignmentMemberValue shareTargetOfMember() {
            return new ShareGroupTargetAssignmentMemberValue().setTopicPartitions(List.of(
                new ShareGroupTargetAssignmentMemberValue.TopicPartition()
                    .setTopicId(TOPIC).setPartitions(List.of(0, 1))));
        }

        static ShareGroupCurrentMemberAssignmentValue shareMemberHas() {
            return new ShareGroupCurrentMemberAssignmentValue()
                .setMemberEpoch(3).setPreviousMemberEpoch(2).setState((byte) 0)
                .setAssignedPartitions(List.of(
                    new ShareGroupCurrentMemberAssignmentValue.TopicPartitions()
                        .setTopicId(TOPIC).setPartitions(List.of(0))));
        }

        static ShareGroupStatePartitionMetadataValue shareState() {
            ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo topic =
                new ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo()
                    .setTopicId(TOPIC).setTopicName("orders").setPartitions(List.of(1));
            return new ShareGroupStatePartitionMetadataValue()
                .setInitializingTopics(List.of(topic)).setInitializedTopics(List.of())
                .setDeletingTopics(List.of(new ShareGroupStatePartitionMetadataValue.TopicInfo()
                    .setTopicId(TOPIC).setTopicName("bills")));
        }

        static ConsumerGroupRegularExpressionValue regularExpression() {
            return new ConsumerGroupRegularExpressionValue()
                .setTopics(List.of("orders")).setVersion(10).setTimestamp(11);
        }

        static StreamsGroupMetadataValue streamsGroup() {
            return new StreamsGroupMetadataValue()
                .setEpoch(3).setMetadataHash(4).setValidatedTopologyEpoch(5)
                .setLastAssignmentConfigs(List.of(
                    new StreamsGroupMetadataValue.LastAssignmentConfig()
                        .setKey("num.standby.replicas").setValue("1")));
        }

        static StreamsGroupMemberMetadataValue streamsMember() {
            return new StreamsGroupMemberMetadataValue()
                .setInstanceId(null).setRackId("rack").setClientId("client")
                .setClientHost("/127.0.0.1").setRebalanceTimeoutMs(5).setTopologyEpoch(6)
                .setProcessId("process").setUserEndpoint(
                    new StreamsGroupMemberMetadataValue.Endpoint().setHost("host").setPort(65535))
                .setClientTags(List.of(
                    new StreamsGroupMemberMetadataValue.KeyValue().setKey("zone").setValue("z")));
        }

        static StreamsGroupTargetAssignmentMetadataValue streamsTarget() {
            return new StreamsGroupTargetAssignmentMetadataValue()
                .setAssignmentEpoch(8).setAssignmentTimestamp(9);
        }

        static StreamsGroupTargetAssignmentMemberValue streamsTargetOfMember() {
            return new StreamsGroupTargetAssignmentMemberValue()
                .setActiveTasks(List.of(new StreamsGroupTargetAssignmentMemberValue.TaskIds()
                    .setSubtopologyId("0").setPartitions(List.of(0, 1))))
                .setStandbyTasks(List.of()).setWarmupTasks(List.of());
        }

        static StreamsGroupCurrentMemberAssignmentValue streamsMemberHas() {
            return new StreamsGroupCurrentMemberAssignmentValue()
                .setMemberEpoch(3).setPreviousMemberEpoch(2).setState((byte) 2)
                .setActiveTasks(List.of(new StreamsGroupCurrentMemberAssignmentValue.TaskIds()
                    .setSubtopologyId("0").setPartitions(List.of(0))
                    .setAssignmentEpochs(List.of(3))))
                .setStandbyTasks(List.of()).setWarmupTasks(List.of())
                .setActiveTasksPendingRevocation(List.of(
                    new StreamsGroupCurrentMemberAssignmentValue.TaskIds()
                        .setSubtopologyId("1").setPartitions(List.of(2))))
                .setStandbyTasksPendingRevocation(List.of())
                .setWarmupTasksPendingRevocation(List.of());
        }

        static StreamsGroupTopologyValue topology() {
            StreamsGroupTopologyValue.TopicInfo changelog = new StreamsGroupTopologyValue.TopicInfo()
                .setName("store-changelog").setPartitions(2).setReplicationFactor((short) 3)
                .setTopicConfigs(List.of(new StreamsGroupTopologyValue.TopicConfig()
                    .setKey("cleanup.policy").setValue("compact")));
            return new StreamsGroupTopologyValue().setEpoch(1).setSubtopologies(List.of(
                new StreamsGroupTopologyValue.Subtopology()
                    .setSubtopologyId("0").setSourceTopics(List.of("orders"))
                    .setSourceTopicRegex(List.of("o.*"))
                    .setStateChangelogTopics(List.of(changelog))
                    .setRepartitionSinkTopics(List.of("sink"))
                    .setRepartitionSourceTopics(List.of())
                    .setCopartitionGroups(List.of(new StreamsGroupTopologyValue.CopartitionGroup()
                        .setSourceTopics(List.of((short) 0))
                        .setSourceTopicRegex(List.of((short) 0))
                        .setRepartitionSourceTopics(List.of())))));
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
