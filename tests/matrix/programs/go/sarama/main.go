// The scenario with Sarama: BOOTSTRAP NAME RECORDS KAFKA_VERSION. It prints what it saw; the test judges it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	patience   = 120 * time.Second
	partitions = 3
)

func main() {
	if err := run(strings.Split(os.Args[1], ","), os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Retry.Max = 50
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	return config
}

func run(bootstrap []string, name, number string) error {
	records, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	admin, err := sarama.NewClusterAdmin(bootstrap, settings())
	if err != nil {
		return fmt.Errorf("ask the cluster: %w", err)
	}
	defer admin.Close()
	if err := admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 3}, false); err != nil {
		return fmt.Errorf("create the topic: %w", err)
	}
	brokers, _, err := admin.DescribeCluster()
	if err != nil {
		return fmt.Errorf("list the brokers: %w", err)
	}
	for _, broker := range brokers {
		fmt.Println("broker", broker.ID(), broker.Addr())
	}

	producer, err := sarama.NewSyncProducer(bootstrap, settings())
	if err != nil {
		return err
	}
	defer producer.Close()
	sent := make([]*sarama.ProducerMessage, records)
	for i := range sent {
		sent[i] = &sarama.ProducerMessage{
			Topic: name,
			Key:   sarama.StringEncoder(fmt.Sprintf("key-%d", i)),
			Value: sarama.StringEncoder(fmt.Sprintf("value-%d", i)),
		}
	}
	if err := producer.SendMessages(sent); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	topics, err := admin.DescribeTopics([]string{name})
	if err != nil || len(topics) != 1 || len(topics[0].Partitions) != partitions {
		return fmt.Errorf("describe the topic: %v: %w", topics, err)
	}

	// Two members of one group, one after the other: the second goes on where the first has committed.
	seen := &reader{seen: map[string]bool{}}
	for _, until := range []int{records / 2, records} {
		if err := seen.consume(bootstrap, name, until); err != nil {
			return err
		}
	}
	fmt.Println("consumed", seen.total, len(seen.seen))

	groups, err := admin.DescribeConsumerGroups([]string{name})
	if err != nil || len(groups) != 1 || groups[0].State != "Empty" {
		return fmt.Errorf("describe the group: %v: %w", groups, err)
	}
	offsets, err := admin.ListConsumerGroupOffsets(name, map[string][]int32{name: {0, 1, 2}})
	if err != nil {
		return fmt.Errorf("fetch the group's offsets: %w", err)
	}
	var committed int64
	for _, block := range offsets.Blocks[name] {
		committed += block.Offset
	}
	if committed != int64(records) {
		return fmt.Errorf("the group has committed %d of %d records", committed, records)
	}
	return nil
}

// What both members saw. Sarama calls it for each partition at the same time.
type reader struct {
	mutex sync.Mutex
	seen  map[string]bool
	total int
	until int
	done  context.CancelFunc
}

// One member, until there were so many records in all; it commits each that it was given, and leaves.
func (r *reader) consume(bootstrap []string, name string, until int) error {
	group, err := sarama.NewConsumerGroup(bootstrap, name, settings())
	if err != nil {
		return err
	}
	defer group.Close()
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ctx, done := context.WithCancel(limited)
	defer done()
	r.until, r.done = until, done
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{name}, r); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("consume: %w", err)
		}
	}
	return limited.Err()
}

func (r *reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case <-session.Context().Done():
			return nil
		case message, open := <-claim.Messages():
			if !open || !r.take(session, message) {
				return nil
			}
		}
	}
}

// Whether it was wanted: what comes after enough is the next member's.
func (r *reader) take(session sarama.ConsumerGroupSession, message *sarama.ConsumerMessage) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.total >= r.until {
		return false
	}
	r.total++
	r.seen[string(message.Value)] = true
	session.MarkMessage(message, "")
	if r.total == r.until {
		session.Commit()
		r.done()
	}
	return true
}
