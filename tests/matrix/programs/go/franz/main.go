// The scenario with franz-go: BOOTSTRAP NAME RECORDS. It prints what it saw; the test judges it.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	patience   = 120 * time.Second
	partitions = 3
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if err := run(ctx, strings.Split(os.Args[1], ","), os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bootstrap []string, name, number string) error {
	records, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	created, err := admin.CreateTopics(ctx, partitions, 3, nil, name)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		return fmt.Errorf("create the topic: %w", err)
	}
	brokers, err := admin.ListBrokers(ctx)
	if err != nil {
		return fmt.Errorf("list the brokers: %w", err)
	}
	for _, broker := range brokers {
		fmt.Printf("broker %d %s:%d\n", broker.NodeID, broker.Host, broker.Port)
	}

	sent := make([]*kgo.Record, records)
	for i := range sent {
		sent[i] = &kgo.Record{Topic: name, Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "value-%d", i)}
	}
	if err := client.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	topics, err := admin.ListTopics(ctx, name)
	if err != nil || len(topics[name].Partitions) != partitions {
		return fmt.Errorf("the topic has %d partitions: %w", len(topics[name].Partitions), err)
	}

	// Two members of one group, one after the other: the second goes on where the first has committed.
	seen := map[string]bool{}
	total := 0
	for _, until := range []int{records / 2, records} {
		if total, err = consume(ctx, bootstrap, name, until, total, seen); err != nil {
			return err
		}
	}
	fmt.Println("consumed", total, len(seen))

	groups, err := admin.DescribeGroups(ctx, name)
	if err != nil || groups[name].Err != nil || groups[name].State != "Empty" {
		return fmt.Errorf("the group is %+v: %w", groups[name], err)
	}
	offsets, err := admin.FetchOffsets(ctx, name)
	if err != nil {
		return fmt.Errorf("fetch the group's offsets: %w", err)
	}
	var committed int64
	offsets.Each(func(one kadm.OffsetResponse) { committed += one.At })
	if committed != int64(records) {
		return fmt.Errorf("the group has committed %d of %d records", committed, records)
	}
	return nil
}

// One member, until there were so many records in all; it commits what it was given, and leaves.
func consume(ctx context.Context, bootstrap []string, name string, until, total int, seen map[string]bool) (int, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap...),
		kgo.ConsumerGroup(name),
		kgo.ConsumeTopics(name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
	)
	if err != nil {
		return total, err
	}
	defer client.Close()
	for total < until {
		// A few at a time, so that the first member leaves some to the second.
		fetches := client.PollRecords(ctx, 100)
		if err := fetches.Err(); err != nil {
			return total, fmt.Errorf("consume: %w", err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			total++
			seen[string(record.Value)] = true
		})
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			return total, fmt.Errorf("commit: %w", err)
		}
	}
	return total, nil
}
