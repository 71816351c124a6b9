package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Driven is a producer that makes the calls of standard input, a reader, and a member of a group:
// see docs/rules.md.
type Driven interface {
	Init() error
	Begin() error
	// Send doesn't wait for the record's answer.
	Send(partition int32, value string) error
	// Flush waits for the answers to all records, and returns the first error among them.
	Flush() error
	Commit() error
	Abort() error
	Values(partition int32) ([]string, error)
	Member
}

// Member reads the topic `input`. It joins its group when it first polls.
type Member interface {
	Poll() ([]string, error)
	SendOffsets() error
	Leave() error
}

// quiet is so long that a member without a record has none.
const quiet = 8 * time.Second

var driven = map[string]func(settings map[string]string) (Driven, error){
	"franz-go": drivenFranz,
	"sarama":   drivenSarama,
	"kafka-go": drivenSegment,
}

// drive makes the calls, one in each line, and prints their outcomes.
func drive(client string, given []string) error {
	settings := map[string]string{}
	for _, each := range given {
		name, value, _ := strings.Cut(each, "=")
		settings[name] = value
	}
	open := driven[client]
	if open == nil {
		return fmt.Errorf("%s isn't driven", client)
	}
	producer, err := open(settings)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		said, err := answerTo(producer, strings.Fields(lines.Text()))
		if err != nil {
			said = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Println(said)
	}
	return lines.Err()
}

func answerTo(p Driven, call []string) (string, error) {
	number := 0
	if len(call) > 1 {
		number, _ = strconv.Atoi(call[1])
	}
	partition := int32(number)
	switch call[0] {
	case "initTransactions":
		return "ok", p.Init()
	case "beginTransaction":
		return "ok", p.Begin()
	case "send":
		return "ok", p.Send(partition, call[2])
	case "flush":
		return "ok", p.Flush()
	case "commitTransaction":
		return "ok", p.Commit()
	case "abortTransaction":
		return "ok", p.Abort()
	case "values":
		found, err := p.Values(partition)
		return strings.Join(found, ","), err
	case "poll":
		found, err := p.Poll()
		return strings.Join(found, ","), err
	case "sendOffsets":
		return "ok", p.SendOffsets()
	case "leave":
		return "ok", p.Leave()
	}
	return "unsupported", nil
}

// failures has the first error of a record since the last flush.
type failures struct {
	lock  sync.Mutex
	first error
}

func (f *failures) add(err error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.first == nil {
		f.first = err
	}
}

func (f *failures) take() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	first := f.first
	f.first = nil
	return first
}

// age is how old metadata may become.
func age(settings map[string]string) time.Duration {
	ms, err := strconv.Atoi(settings["metadata.max.age.ms"])
	if err != nil {
		return 5 * time.Minute
	}
	return time.Duration(ms) * time.Millisecond
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}

type franzDriven struct {
	client   *kgo.Client
	settings map[string]string
	failed   *failures
	session  *kgo.GroupTransactSession // of a member
}

func drivenFranz(settings map[string]string) (Driven, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(settings["bootstrap.servers"], ",")...),
		kgo.ClientID(settings["client.id"]), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.AlwaysRetryEOF(), // a connection that closes at its first request isn't misconfigured
	}
	if id := settings["transactional.id"]; id != "" {
		options = append(options, kgo.TransactionalID(id))
	}
	if _, isSet := settings["metadata.max.age.ms"]; isSet {
		options = append(options, kgo.MetadataMaxAge(age(settings)), kgo.MetadataMinAge(age(settings)))
	}
	if group := settings["group.id"]; group != "" {
		options = append(options, kgo.ConsumerGroup(group), kgo.RequireStableFetchOffsets(),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		session, err := kgo.NewGroupTransactSession(options...)
		if err != nil {
			return nil, err
		}
		return franzDriven{session.Client(), settings, &failures{}, session}, nil
	}
	client, err := kgo.NewClient(options...)
	return franzDriven{client, settings, &failures{}, nil}, err
}

func (f franzDriven) Poll() ([]string, error) {
	f.client.AddConsumeTopics(f.settings["input"]) // with the first topic it joins
	ctx, cancel := context.WithTimeout(context.Background(), quiet)
	defer cancel()
	var found []string
	for len(found) == 0 && ctx.Err() == nil {
		fetches := f.session.PollFetches(ctx)
		if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) { found = append(found, string(r.Value)) })
	}
	return found, nil
}

// SendOffsets leaves it to the end of the transaction, which sends them.
func (f franzDriven) SendOffsets() error { return nil }

func (f franzDriven) Leave() error {
	ctx, cancel := soon()
	defer cancel()
	return f.client.LeaveGroupContext(ctx)
}

func (f franzDriven) end(ctx context.Context, how kgo.TransactionEndTry) error {
	if f.session == nil {
		return f.client.EndTransaction(ctx, how)
	}
	committed, err := f.session.End(ctx, how)
	if err == nil && how == kgo.TryCommit && !committed {
		err = errors.New("it isn't committed")
	}
	return err
}

func (f franzDriven) Init() error {
	ctx, cancel := soon()
	defer cancel()
	_, _, err := f.client.ProducerID(ctx)
	return err
}

func (f franzDriven) Begin() error {
	if f.session != nil {
		return f.session.Begin()
	}
	return f.client.BeginTransaction()
}

func (f franzDriven) Send(partition int32, value string) error {
	record := &kgo.Record{
		Topic: f.settings["topic"], Partition: partition, Value: []byte(value),
	}
	f.client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
		if err != nil {
			f.failed.add(err)
		}
	})
	return nil
}

func (f franzDriven) Flush() error {
	ctx, cancel := soon()
	defer cancel()
	if err := f.client.Flush(ctx); err != nil {
		return err
	}
	return f.failed.take()
}

func (f franzDriven) Commit() error {
	ctx, cancel := soon()
	defer cancel()
	if err := f.client.Flush(ctx); err != nil {
		return err
	}
	return f.end(ctx, kgo.TryCommit)
}

func (f franzDriven) Abort() error {
	ctx, cancel := soon()
	defer cancel()
	if err := f.client.AbortBufferedRecords(ctx); err != nil {
		return err
	}
	f.failed.take()
	return f.end(ctx, kgo.TryAbort)
}

func (f franzDriven) Values(partition int32) ([]string, error) {
	topic := f.settings["topic"]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(f.settings["bootstrap.servers"], ",")...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			topic: {partition: kgo.NewOffset().AtStart()},
		}),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var found []string
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		fetches := client.PollFetches(ctx)
		cancel()
		err := fetches.Err()
		if errors.Is(err, context.DeadlineExceeded) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		fetches.EachRecord(func(r *kgo.Record) { found = append(found, string(r.Value)) })
	}
}

type saramaDriven struct {
	producer sarama.AsyncProducer
	settings map[string]string
	failed   *failures
	pending  *sync.WaitGroup
	member   *saramaMember
}

func drivenSarama(settings map[string]string) (Driven, error) {
	config := saramaClient{}.config()
	config.ClientID = settings["client.id"]
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.Return.Errors = true
	config.Producer.Transaction.ID = settings["transactional.id"]
	config.Metadata.RefreshFrequency = age(settings)
	brokers := strings.Split(settings["bootstrap.servers"], ",")
	producer, err := sarama.NewAsyncProducer(brokers, config)
	if err != nil {
		return nil, err
	}
	s := saramaDriven{producer, settings, &failures{}, &sync.WaitGroup{}, &saramaMember{}}
	go func() {
		for range producer.Successes() {
			s.pending.Done()
		}
	}()
	go func() {
		for failed := range producer.Errors() {
			s.failed.add(failed.Err)
			s.pending.Done()
		}
	}()
	return s, nil
}

// Init does nothing: sarama asks for the producer id when it opens a producer.
func (s saramaDriven) Init() error   { return nil }
func (s saramaDriven) Begin() error  { return s.producer.BeginTxn() }
func (s saramaDriven) Commit() error { return s.producer.CommitTxn() }
func (s saramaDriven) Abort() error {
	s.failed.take()
	return s.producer.AbortTxn()
}

func (s saramaDriven) Send(partition int32, value string) error {
	s.pending.Add(1)
	s.producer.Input() <- &sarama.ProducerMessage{
		Topic: s.settings["topic"], Partition: partition, Value: sarama.StringEncoder(value),
	}
	return nil
}

func (s saramaDriven) Flush() error {
	done := make(chan struct{})
	go func() {
		s.pending.Wait()
		close(done)
	}()
	select {
	case <-done:
		return s.failed.take()
	case <-time.After(30 * time.Second):
		return fmt.Errorf("records are left after 30 s")
	}
}

// saramaMember is a member of a group: its session of now, and the record that it got last.
type saramaMember struct {
	group    sarama.ConsumerGroup
	stop     context.CancelFunc
	messages chan *sarama.ConsumerMessage
	lock     sync.Mutex
	session  sarama.ConsumerGroupSession
	last     *sarama.ConsumerMessage
}

func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session = session
	return nil
}
func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (m *saramaMember) ConsumeClaim(
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
			m.messages <- message
		}
	}
}

func (s saramaDriven) Poll() ([]string, error) {
	m := s.member
	if m.group == nil {
		config := saramaClient{}.config()
		config.ClientID = s.settings["client.id"]
		config.Consumer.IsolationLevel = sarama.ReadCommitted
		config.Consumer.Offsets.AutoCommit.Enable = false
		brokers := strings.Split(s.settings["bootstrap.servers"], ",")
		group, err := sarama.NewConsumerGroup(brokers, s.settings["group.id"], config)
		if err != nil {
			return nil, err
		}
		ctx, stop := context.WithCancel(context.Background())
		m.group, m.stop, m.messages = group, stop, make(chan *sarama.ConsumerMessage)
		go func() {
			for ctx.Err() == nil {
				_ = group.Consume(ctx, []string{s.settings["input"]}, m)
			}
		}()
	}
	select {
	case m.last = <-m.messages:
		return []string{string(m.last.Value)}, nil
	case err := <-m.group.Errors():
		return nil, err
	case <-time.After(quiet):
		return nil, nil
	}
}

func (s saramaDriven) SendOffsets() error {
	s.member.lock.Lock()
	defer s.member.lock.Unlock()
	member := sarama.NewConsumerGroupMetadataFromSession(
		s.member.session, s.settings["group.id"], nil,
	)
	return s.producer.AddMessageToTxnWithGroupMetadata(s.member.last, member, nil)
}

func (s saramaDriven) Leave() error {
	s.member.stop()
	return s.member.group.Close()
}

func (s saramaDriven) Values(partition int32) ([]string, error) {
	config := saramaClient{}.config()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer(strings.Split(s.settings["bootstrap.servers"], ","), config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	from, err := consumer.ConsumePartition(s.settings["topic"], partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	var found []string
	for {
		select {
		case message := <-from.Messages():
			found = append(found, string(message.Value))
		case err := <-from.Errors():
			return found, err
		case <-time.After(2 * time.Second):
			return found, nil
		}
	}
}

// segmentDriven is kafka-go, which has no transactional producer: franz-go writes, kafka-go reads.
type segmentDriven struct{ franzDriven }

func drivenSegment(settings map[string]string) (Driven, error) {
	franz, err := drivenFranz(settings)
	if err != nil {
		return nil, err
	}
	return segmentDriven{franz.(franzDriven)}, nil
}

func (s segmentDriven) Values(partition int32) ([]string, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: strings.Split(s.settings["bootstrap.servers"], ","), Topic: s.settings["topic"],
		Partition: int(partition), IsolationLevel: kafka.ReadCommitted,
	})
	defer reader.Close()
	var found []string
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		message, err := reader.ReadMessage(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		found = append(found, string(message.Value))
	}
}
