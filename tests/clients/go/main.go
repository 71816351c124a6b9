// Tests of Kafka's clients in Go on given brokers: `clients CLIENT TEST BOOTSTRAP NAME`.
//
// A test passes with exit code 0. Otherwise the reason is the last line on standard error.
// NAME begins the names of its topics, groups and transactional ids.
// `clients CLIENT rules NAME=VALUE...` makes the calls of standard input (docs/rules.md).
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"time"
)

const patience = 20 * time.Second

// Client is the part of a library that a test needs. Topics have one partition.
type Client interface {
	// Transactional opens a producer with a transactional id.
	Transactional(ctx context.Context, id string) (Producer, error)
	// Read returns the values from the start of a topic, until there are so many.
	Read(ctx context.Context, topic string, committed bool, count int) ([]string, error)
	// Process copies a topic to another one in transactions, as a member of a group, until it
	// has copied so many records.
	Process(ctx context.Context, id, group, from, to string, count int) error
	// Committed returns the offset that a group has committed.
	Committed(ctx context.Context, group, topic string) (int64, error)
}

// Producer is an open transactional producer.
type Producer interface {
	Begin() error
	Send(ctx context.Context, topic, value string) error
	Commit(ctx context.Context) error
	Abort(ctx context.Context) error
	Close()
}

var clients = map[string]func(bootstrap string) Client{
	"franz-go": func(bootstrap string) Client { return franz{bootstrap} },
	"sarama":   func(bootstrap string) Client { return saramaClient{bootstrap} },
	"kafka-go": func(bootstrap string) Client { return segment{franz{bootstrap}, bootstrap} },
}

var tests = map[string]func(ctx context.Context, client Client, name string) error{
	"commit":  commit,
	"abort":   abort,
	"fenced":  fenced,
	"process": process,
}

func main() {
	if len(os.Args) > 3 && os.Args[2] == "rules" {
		if err := drive(os.Args[1], os.Args[3:]); err != nil {
			fail(err)
		}
		return
	}
	if len(os.Args) != 5 {
		fail(fmt.Errorf("usage: clients CLIENT TEST BOOTSTRAP NAME"))
	}
	open, test := clients[os.Args[1]], tests[os.Args[2]]
	if open == nil || test == nil {
		fail(fmt.Errorf("no such client or test"))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := test(ctx, open(os.Args[3]), os.Args[4]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// write sends values in one transaction, and ends it.
func write(ctx context.Context, p Producer, topic string, commits bool, values ...string) error {
	if err := p.Begin(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for _, value := range values {
		if err := p.Send(ctx, topic, value); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	if !commits {
		return p.Abort(ctx)
	}
	return p.Commit(ctx)
}

func expect(ctx context.Context, c Client, topic string, committed bool, wanted ...string) error {
	found, err := c.Read(ctx, topic, committed, len(wanted))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if !reflect.DeepEqual(found, wanted) {
		return fmt.Errorf("read %v, wanted %v (committed: %v)", found, wanted, committed)
	}
	return nil
}

func commit(ctx context.Context, c Client, name string) error {
	p, err := c.Transactional(ctx, name)
	if err != nil {
		return err
	}
	defer p.Close()
	for _, values := range [][]string{{"a", "b"}, {"c"}} {
		if err := write(ctx, p, name, true, values...); err != nil {
			return err
		}
	}
	return expect(ctx, c, name, true, "a", "b", "c")
}

func abort(ctx context.Context, c Client, name string) error {
	p, err := c.Transactional(ctx, name)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := write(ctx, p, name, false, "a"); err != nil {
		return err
	}
	if err := write(ctx, p, name, true, "b"); err != nil {
		return err
	}
	if err := expect(ctx, c, name, true, "b"); err != nil {
		return err
	}
	return expect(ctx, c, name, false, "a", "b")
}

func fenced(ctx context.Context, c Client, name string) error {
	older, err := c.Transactional(ctx, name)
	if err != nil {
		return err
	}
	defer older.Close()
	if err := older.Begin(); err != nil {
		return err
	}
	if err := older.Send(ctx, name, "older"); err != nil {
		return err
	}
	newer, err := c.Transactional(ctx, name)
	if err != nil {
		return fmt.Errorf("the newer instance: %w", err)
	}
	defer newer.Close()
	if err := write(ctx, newer, name, true, "newer"); err != nil {
		return fmt.Errorf("the newer instance: %w", err)
	}
	if err := older.Commit(ctx); err == nil {
		return fmt.Errorf("a fenced producer commits")
	}
	return expect(ctx, c, name, true, "newer")
}

func process(ctx context.Context, c Client, name string) error {
	from, to, group := name+"-in", name+"-out", name+"-group"
	p, err := c.Transactional(ctx, name+"-source")
	if err != nil {
		return err
	}
	defer p.Close()
	if err := write(ctx, p, from, false, "x"); err != nil {
		return err
	}
	if err := write(ctx, p, from, true, "a", "b", "c"); err != nil {
		return err
	}
	if err := c.Process(ctx, name, group, from, to, 3); err != nil {
		return fmt.Errorf("process: %w", err)
	}
	if err := expect(ctx, c, to, true, "a", "b", "c"); err != nil {
		return err
	}
	// x and its marker are offsets 0 and 1
	if offset, err := c.Committed(ctx, group, from); err != nil || offset < 5 {
		return fmt.Errorf("committed offset %d: %v", offset, err)
	}
	return nil
}
