// franz-go as a client that goes on: the arguments and the lines are those of tests/harness/clients/java/Going.java.
//
//	produce TOPIC PARTITIONS PAUSE_MS [property=value ...]
//	transact TOPIC PARTITIONS PAUSE_MS SIZE [...]
//	consume TOPIC [...]
//	seek TOPIC PARTITION OFFSET [...]
//	share TOPIC [...]
//	transform FROM TO [...]              copies, with the group's positions: committed N | aborted N | failed N ERROR
//
// Of the properties it knows bootstrap.servers, client.id, group.id, transactional.id, group.protocol=consumer,
// isolation.level=read_committed, always.retry.eof=true, first.number, and ssl.ca.location, with which it uses TLS. It reads metadata each second,
// and says so.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var saying sync.Mutex
var current atomic.Int64 // the number that a producer is at

func say(format string, words ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(strings.ReplaceAll(fmt.Sprintf(format, words...), "\n", " "))
}

// asked says that metadata was read.
type asked struct{}

func (asked) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == 3 && err == nil {
		say("metadata")
	}
}

func main() {
	ends, end := context.WithCancel(context.Background())
	go func() {
		for input := bufio.NewReader(os.Stdin); ; {
			if _, err := input.ReadString('\n'); err != nil {
				end()
				return
			}
			say("sent %d", current.Load())
		}
	}()
	fixed := map[string]int{"produce": 4, "transact": 5, "consume": 2, "share": 2, "seek": 4, "transform": 3}[os.Args[1]]
	words, properties := os.Args[1:1+fixed], map[string]string{}
	for _, pair := range os.Args[1+fixed:] {
		name, value, _ := strings.Cut(pair, "=")
		properties[name] = value
	}
	var err error
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(properties["bootstrap.servers"], ",")...),
		kgo.MetadataMinAge(time.Second), kgo.MetadataMaxAge(time.Second), kgo.WithHooks(asked{})}
	if name := properties["client.id"]; name != "" {
		options = append(options, kgo.ClientID(name))
	}
	if properties["isolation.level"] == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if properties["always.retry.eof"] == "true" {
		options = append(options, kgo.AlwaysRetryEOF())
	}
	begins := 0
	if first := properties["first.number"]; first != "" {
		begins = number(first)
	}
	if file := properties["ssl.ca.location"]; file != "" {
		trusted := x509.NewCertPool()
		pem, err := os.ReadFile(file)
		if err != nil || !trusted.AppendCertsFromPEM(pem) {
			panic(file)
		}
		options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: trusted}))
	}
	switch words[0] {
	case "produce":
		err = produce(ends, words, begins, 0, append(options, kgo.RecordPartitioner(kgo.ManualPartitioner())))
	case "transact":
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.TransactionalID(properties["transactional.id"]))
		err = produce(ends, words, begins, number(words[4]), options)
	case "share":
		err = consume(ends, append(options, kgo.ShareGroup(properties["group.id"]), kgo.ConsumeTopics(words[1])))
	case "transform":
		err = transform(ends, words[2], append(options, kgo.ConsumerGroup(properties["group.id"]),
			kgo.ConsumeTopics(words[1]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.TransactionalID(properties["transactional.id"]), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets()))
	case "consume":
		options = append(options, kgo.ConsumerGroup(properties["group.id"]), kgo.ConsumeTopics(words[1]),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(200*time.Millisecond),
			kgo.OnPartitionsAssigned(told("assigned")), kgo.OnPartitionsRevoked(told("revoked")),
			kgo.OnPartitionsLost(told("lost")))
		if properties["group.protocol"] == "consumer" {
			options = append(options, kgo.ServerSideBalancer())
		}
		err = consume(ends, options)
	case "seek":
		from := map[int32]kgo.Offset{int32(number(words[2])): kgo.NewOffset().At(int64(number(words[3])))}
		err = consume(ends, append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{words[1]: from})))
	}
	if err != nil {
		say("died %v", err)
	}
	say("ended")
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return value
}

func told(word string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
		var found []int
		for _, partitions := range topics {
			for _, one := range partitions {
				found = append(found, int(one))
			}
		}
		sort.Ints(found)
		say("%s %s", word, strings.Trim(fmt.Sprint(found), "[]"))
	}
}

// Records are numbers from `begins` on; with a size, so many in each transaction.
func produce(ends context.Context, words []string, begins, size int, options []kgo.Opt) error {
	topic, partitions, pause := words[1], number(words[2]), time.Duration(number(words[3]))*time.Millisecond
	client, err := kgo.NewClient(append(options, kgo.ProducerLinger(0), kgo.RecordDeliveryTimeout(2*time.Minute))...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := context.Background()
	first, at := begins, begins
	var failed error // of the transaction that is open
	var noting sync.Mutex
	for ; ends.Err() == nil; at++ {
		if size > 0 && at == first {
			failed = nil
			if err := client.BeginTransaction(); err != nil {
				return err
			}
		}
		sent := at
		current.Store(int64(at))
		record := &kgo.Record{Topic: topic, Partition: int32(at % partitions), Value: []byte(strconv.Itoa(at))}
		client.Produce(ctx, record, func(record *kgo.Record, err error) {
			if err != nil {
				noting.Lock()
				failed = err
				noting.Unlock()
				say("failed %d %v", sent, err)
				return
			}
			say("acked %d %d %d", sent, record.Partition, record.Offset)
		})
		if size > 0 && at+1-first >= size {
			if err := client.Flush(ctx); err != nil {
				return err
			}
			noting.Lock()
			wrong := failed
			noting.Unlock()
			if wrong == nil {
				wrong = client.EndTransaction(ctx, kgo.TryCommit)
				if wrong == nil {
					say("committed %d %d", first, at)
				}
			}
			if wrong != nil {
				// What the documentation of BeginTransaction asks for: abort, and go on.
				if err := client.AbortBufferedRecords(ctx); err != nil {
					return err
				}
				if err := client.EndTransaction(ctx, kgo.TryAbort); err != nil {
					return fmt.Errorf("abort: %w", err)
				}
				say("aborted %d %d %v", first, at, wrong)
			}
			first = at + 1
		}
		time.Sleep(pause)
	}
	if size > 0 && at != first {
		if err := client.AbortBufferedRecords(ctx); err != nil {
			return err
		}
		return client.EndTransaction(ctx, kgo.TryAbort)
	}
	return client.Flush(ctx)
}

func consume(ends context.Context, options []kgo.Opt) error {
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	for ends.Err() == nil {
		fetches := client.PollFetches(ends)
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.Canceled) {
				say("error %v", err)
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			say("got %d %d %s", record.Partition, record.Offset, record.Value)
		})
	}
	return nil
}

func transform(ends context.Context, to string, options []kgo.Opt) error {
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return err
	}
	defer session.Close()
	ctx := context.Background()
	for ends.Err() == nil {
		fetches := session.PollFetches(ends)
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.Canceled) {
				say("error %v", err)
			}
		})
		if fetches.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			session.Produce(ctx, &kgo.Record{Topic: to, Partition: record.Partition, Value: record.Value}, nil)
		})
		committed, err := session.End(ctx, kgo.TryCommit)
		if err != nil {
			say("failed %d %v", fetches.NumRecords(), err)
			// It has aborted, unless the answer to EndTxn was the error: then the transaction is open for the client, and
			// Begin would refuse.
			if _, err := session.End(ctx, kgo.TryAbort); err != nil {
				return err
			}
			continue
		}
		say("%s %d", map[bool]string{true: "committed", false: "aborted"}[committed], fetches.NumRecords())
	}
	return nil
}
