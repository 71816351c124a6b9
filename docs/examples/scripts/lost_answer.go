// The answer to a commit is lost. franz-go asks again, and the record is there once.
package main

import (
	"bufio"
	"context"
	"log"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	served := exec.Command(
		"epochfence", "serve", "--port", "0", "--seconds", "60", "--script", "lost-answer.json",
	)
	output, err := served.StdoutPipe()
	check(err)
	check(served.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	check(err)
	_, bootstrap, _ := strings.Cut(strings.TrimSpace(line), "bootstrap.servers=")

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	commit(ctx, bootstrap)
	if found := committed(ctx, bootstrap); found != "one" {
		log.Fatalf("read %q", found)
	}
	check(served.Process.Signal(syscall.SIGTERM))
	check(served.Wait()) // exit code 20 if the answer wasn't lost
}

// commit sends one transaction with one record.
func commit(ctx context.Context, bootstrap string) {
	producer, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID("orders"), kgo.AllowAutoTopicCreation(),
	)
	check(err)
	defer producer.Close()
	check(producer.BeginTransaction())
	record := &kgo.Record{Topic: "orders", Value: []byte("one")}
	check(producer.ProduceSync(ctx, record).FirstErr())
	check(producer.EndTransaction(ctx, kgo.TryCommit))
}

// committed returns the values that a read_committed consumer reads.
func committed(ctx context.Context, bootstrap string) string {
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics("orders"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	check(err)
	defer consumer.Close()
	var found []string
	fetches := consumer.PollFetches(ctx)
	check(fetches.Err())
	fetches.EachRecord(func(record *kgo.Record) { found = append(found, string(record.Value)) })
	return strings.Join(found, " ")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
