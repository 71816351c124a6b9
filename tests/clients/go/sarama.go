package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/IBM/sarama"
)

type saramaClient struct{ bootstrap string }

type saramaProducer struct{ sarama.SyncProducer }

func (s saramaClient) brokers() []string { return strings.Split(s.bootstrap, ",") }

func (s saramaClient) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_5_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Return.Errors = true
	return config
}

func (s saramaClient) Transactional(_ context.Context, id string) (Producer, error) {
	config := s.config()
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Return.Errors = true
	config.Producer.Transaction.ID = id
	producer, err := sarama.NewSyncProducer(s.brokers(), config)
	if err != nil {
		return nil, err
	}
	return saramaProducer{producer}, nil
}

func (p saramaProducer) Begin() error                   { return p.BeginTxn() }
func (p saramaProducer) Close()                         { _ = p.SyncProducer.Close() }
func (p saramaProducer) Commit(_ context.Context) error { return p.CommitTxn() }
func (p saramaProducer) Abort(_ context.Context) error  { return p.AbortTxn() }
func (p saramaProducer) Send(_ context.Context, topic, value string) error {
	_, _, err := p.SendMessage(
		&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)},
	)
	return err
}

func (s saramaClient) Read(
	ctx context.Context, topic string, committed bool, count int,
) ([]string, error) {
	config := s.config()
	if committed {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer(s.brokers(), config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	var found []string
	for len(found) < count {
		select {
		case message := <-partition.Messages():
			found = append(found, string(message.Value))
		case err := <-partition.Errors():
			return found, err
		case <-ctx.Done():
			return found, ctx.Err()
		}
	}
	return found, nil
}

type saramaCopy struct {
	producer saramaProducer
	group    string
	to       string
	left     int
	stop     func()
	failed   error
}

func (c *saramaCopy) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (c *saramaCopy) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (c *saramaCopy) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	for {
		select {
		case <-session.Context().Done():
			return nil
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			if c.failed = c.copy(session.Context(), message); c.failed != nil {
				c.stop()
				return c.failed
			}
			if c.left--; c.left == 0 {
				c.stop()
				return nil
			}
		}
	}
}

func (c *saramaCopy) copy(ctx context.Context, message *sarama.ConsumerMessage) error {
	if err := c.producer.Begin(); err != nil {
		return err
	}
	if err := c.producer.Send(ctx, c.to, string(message.Value)); err != nil {
		return err
	}
	if err := c.producer.AddMessageToTxn(message, c.group, nil); err != nil {
		return err
	}
	return c.producer.CommitTxn()
}

func (s saramaClient) Process(
	ctx context.Context, id, group, from, to string, count int,
) error {
	producer, err := s.Transactional(ctx, id)
	if err != nil {
		return err
	}
	defer producer.Close()
	config := s.config()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.Offsets.AutoCommit.Enable = false
	member, err := sarama.NewConsumerGroup(s.brokers(), group, config)
	if err != nil {
		return err
	}
	defer member.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	handler := &saramaCopy{
		producer: producer.(saramaProducer), group: group, to: to, left: count, stop: cancel,
	}
	for ctx.Err() == nil {
		if err := member.Consume(ctx, []string{from}, handler); err != nil && ctx.Err() == nil {
			return err
		}
	}
	if handler.failed == nil && handler.left > 0 {
		return fmt.Errorf("%d records are left", handler.left)
	}
	return handler.failed
}

func (s saramaClient) Committed(_ context.Context, group, topic string) (int64, error) {
	admin, err := sarama.NewClusterAdmin(s.brokers(), s.config())
	if err != nil {
		return -1, err
	}
	defer admin.Close()
	found, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
	if err != nil {
		return -1, err
	}
	return found.GetBlock(topic, 0).Offset, nil
}
