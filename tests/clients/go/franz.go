package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct{ bootstrap string }

type franzProducer struct{ client *kgo.Client }

func (f franz) Transactional(ctx context.Context, id string) (Producer, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(f.bootstrap), kgo.TransactionalID(id), kgo.AllowAutoTopicCreation(),
	)
	if err != nil {
		return nil, err
	}
	// InitProducerId is sent here, not at the first record: who comes later fences.
	if _, _, err := client.ProducerID(ctx); err != nil {
		return nil, err
	}
	return franzProducer{client}, nil
}

func (p franzProducer) Begin() error { return p.client.BeginTransaction() }
func (p franzProducer) Close()       { p.client.Close() }
func (p franzProducer) Send(ctx context.Context, topic, value string) error {
	record := &kgo.Record{Topic: topic, Value: []byte(value)}
	return p.client.ProduceSync(ctx, record).FirstErr()
}

func (p franzProducer) Commit(ctx context.Context) error {
	return p.client.EndTransaction(ctx, kgo.TryCommit)
}

func (p franzProducer) Abort(ctx context.Context) error {
	return p.client.EndTransaction(ctx, kgo.TryAbort)
}

func (f franz) Read(
	ctx context.Context, topic string, committed bool, count int,
) ([]string, error) {
	level := kgo.ReadUncommitted()
	if committed {
		level = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(f.bootstrap), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(level),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var found []string
	for len(found) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return found, err
		}
		fetches.EachRecord(func(r *kgo.Record) { found = append(found, string(r.Value)) })
	}
	return found, nil
}

func (f franz) Process(ctx context.Context, id, group, from, to string, count int) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(f.bootstrap), kgo.TransactionalID(id), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(), kgo.AllowAutoTopicCreation(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	for done := 0; done < count; {
		fetches := session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: to, Value: r.Value}, nil)
		})
		committed, err := session.End(ctx, kgo.TryCommit)
		if err != nil {
			return err
		}
		if committed {
			done += fetches.NumRecords()
		}
	}
	return nil
}

func (f franz) Committed(ctx context.Context, group, topic string) (int64, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap))
	if err != nil {
		return -1, err
	}
	defer client.Close()
	offsets, err := kadm.NewClient(client).FetchOffsets(ctx, group)
	if err != nil {
		return -1, err
	}
	found, _ := offsets.Lookup(topic, 0)
	return found.At, found.Err
}
