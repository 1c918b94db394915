package matrix;

import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.ArrayList;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;

/**
 * What tests/matrix/clients.py calls a scenario, for every kafka-clients from 0.11 on:
 *
 *     Scenario BOOTSTRAP NAME RECORDS [CONSUMER_PROPERTY=VALUE...]
 *
 * The topic and the group are called NAME. It prints what it saw; the test judges it.
 */
public final class Scenario {
    private static final long PATIENCE_MS = 120_000;
    private static final int PARTITIONS = 3;

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        String name = args[1];
        int records = Integer.parseInt(args[2]);
        Properties consumer = new Properties();
        for (int i = 3; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            consumer.put(pair[0], pair[1]);
        }
        administer(bootstrap, name);
        produce(bootstrap, name, records);
        Seen seen = consume(bootstrap, name, name, records, "read_uncommitted", consumer);
        System.out.println("consumed " + seen.records + " " + seen.values.size());
        transact(bootstrap, name, records, consumer);
    }

    private static Properties properties(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return properties;
    }

    private static void administer(String bootstrap, String name) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        try (AdminClient admin = AdminClient.create(properties)) {
            List<NewTopic> topics = new ArrayList<>();
            topics.add(new NewTopic(name, PARTITIONS, (short) 3));
            topics.add(new NewTopic(name + "-transactions", PARTITIONS, (short) 3));
            admin.createTopics(topics).all().get();
            for (Node node : admin.describeCluster().nodes().get()) {
                System.out.println("broker " + node.id() + " " + node.host() + ":" + node.port());
            }
        }
    }

    private static void produce(String bootstrap, String topic, int records) throws Exception {
        Properties properties = properties(bootstrap);
        properties.put("acks", "all");
        // Until 2.1 the default was not to try again, and a broker may not have heard of the new topic yet.
        properties.put("retries", "1000000");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            for (int i = 0; i < records; i++) {
                // One record to each partition alone: while a broker has not heard of the new topic, Kafka may
                // take the second of two pipelined batches and refuse the first for ever (KAFKA-15591).
                boolean first = i < PARTITIONS;
                sent.add(producer.send(
                        new ProducerRecord<>(topic, first ? (Integer) i : null, "key-" + i, "value-" + i)));
                if (first) {
                    sent.get(i).get();
                }
            }
        }
        for (Future<RecordMetadata> one : sent) {
            one.get();
        }
    }

    private static Seen consume(
            String bootstrap, String topic, String group, int records, String isolation, Properties extra) {
        Properties properties = properties(bootstrap);
        properties.put("group.id", group);
        properties.put("auto.offset.reset", "earliest");
        properties.put("isolation.level", isolation);
        properties.putAll(extra);
        Seen seen = new Seen();
        long end = System.currentTimeMillis() + PATIENCE_MS;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(Collections.singletonList(topic));
            while (seen.values.size() < records && System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> record : Since.poll(consumer, 500)) {
                    seen.records++;
                    seen.values.add(record.value());
                }
            }
        }
        return seen;
    }

    /** One transaction aborted, one committed that copies all records and commits the offsets of the first group. */
    private static void transact(String bootstrap, String name, int records, Properties extra) throws Exception {
        String topic = name + "-transactions";
        Properties properties = properties(bootstrap);
        properties.put("transactional.id", name);
        properties.put("retries", "1000000");
        Properties source = properties(bootstrap);
        source.put("group.id", name + "-source");
        source.put("auto.offset.reset", "earliest");
        source.put("enable.auto.commit", "false");
        source.putAll(extra);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties);
                KafkaConsumer<String, String> consumer = new KafkaConsumer<>(source)) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>(topic, "aborted", "aborted-" + i));
            }
            producer.flush();
            producer.abortTransaction();

            consumer.subscribe(Collections.singletonList(name));
            int copied = 0;
            long end = System.currentTimeMillis() + PATIENCE_MS;
            while (copied < records && System.currentTimeMillis() < end) {
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                List<ConsumerRecord<String, String>> batch = new ArrayList<>();
                for (ConsumerRecord<String, String> record : Since.poll(consumer, 500)) {
                    batch.add(record);
                    offsets.put(
                            new TopicPartition(record.topic(), record.partition()),
                            new OffsetAndMetadata(record.offset() + 1));
                }
                if (batch.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : batch) {
                    producer.send(new ProducerRecord<>(topic, record.key(), record.value()));
                }
                Since.sendOffsets(producer, offsets, consumer, name + "-source");
                producer.commitTransaction();
                copied += batch.size();
            }
        }
        Seen seen = consume(bootstrap, topic, name + "-copies", records, "read_committed", extra);
        System.out.println("committed " + seen.records + " " + seen.values.size());
    }

    private static final class Seen {
        int records;
        final Set<String> values = new HashSet<>();
    }
}
