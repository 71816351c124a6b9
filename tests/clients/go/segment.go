package main

import (
	"context"
	"strings"

	"github.com/segmentio/kafka-go"
)

// segment is kafka-go, which has no transactional producer: franz-go writes, and kafka-go reads.
type segment struct {
	franz
	bootstrap string
}

func (s segment) Read(
	ctx context.Context, topic string, committed bool, count int,
) ([]string, error) {
	level := kafka.ReadUncommitted
	if committed {
		level = kafka.ReadCommitted
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: strings.Split(s.bootstrap, ","), Topic: topic, IsolationLevel: level,
	})
	defer reader.Close()
	var found []string
	for len(found) < count {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return found, err
		}
		found = append(found, string(message.Value))
	}
	return found, nil
}

func (s segment) Committed(ctx context.Context, group, topic string) (int64, error) {
	client := &kafka.Client{Addr: kafka.TCP(strings.Split(s.bootstrap, ",")...)}
	found, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{topic: {0}},
	})
	if err != nil {
		return -1, err
	}
	return found.Topics[topic][0].CommittedOffset, found.Error
}
