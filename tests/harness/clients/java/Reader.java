package harness;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/**
 * What Kafka's own consumer reads of some topics: {@code Reader BOOTSTRAP TOPIC...} prints for each partition
 * "TOPIC PARTITION RECORDS BYTES HASH". The hash is that of tests/harness/clients/truth.py.
 */
public final class Reader {
    private static final long PATIENCE_MS = 120_000;

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        properties.put("isolation.level", "read_committed");
        properties.put("auto.offset.reset", "none");
        properties.put("max.poll.records", "5000");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (int at = 1; at < args.length; at++) {
                for (PartitionInfo one : consumer.partitionsFor(args[at])) {
                    partitions.add(new TopicPartition(one.topic(), one.partition()));
                }
            }
            read(consumer, partitions);
        }
    }

    private static void read(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions) throws Exception {
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        Map<TopicPartition, Sum> sums = new HashMap<>();
        for (TopicPartition one : partitions) {
            sums.put(one, new Sum());
        }
        Set<TopicPartition> left = new HashSet<>(partitions);
        long until = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            left.removeIf(one -> consumer.position(one) >= ends.get(one));
            if (left.isEmpty()) {
                break;
            }
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
            for (ConsumerRecord<byte[], byte[]> record : records) {
                sums.get(new TopicPartition(record.topic(), record.partition())).add(record);
            }
            if (!records.isEmpty()) {
                until = System.currentTimeMillis() + PATIENCE_MS;
            } else if (System.currentTimeMillis() > until) {
                throw new IllegalStateException("nothing more comes of " + left);
            }
        }
        partitions.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition));
        for (TopicPartition one : partitions) {
            System.out.println(one.topic() + " " + one.partition() + " " + sums.get(one));
        }
    }

    private static final class Sum {
        private final MessageDigest digest;
        private final ByteBuffer number = ByteBuffer.allocate(8);
        private long records;
        private long bytes;

        Sum() throws Exception {
            digest = MessageDigest.getInstance("SHA-256");
        }

        void add(ConsumerRecord<byte[], byte[]> record) {
            content(record.key());
            content(record.value());
            int headers = 0;
            for (Header one : record.headers()) {
                headers++;
            }
            length(headers);
            for (Header one : record.headers()) {
                content(one.key().getBytes(StandardCharsets.UTF_8));
                content(one.value());
            }
            number.putLong(0, record.timestamp());
            digest.update(number.array(), 0, 8);
            records++;
        }

        private void content(byte[] content) {
            length(content == null ? -1 : content.length);
            if (content != null) {
                digest.update(content);
                bytes += content.length;
            }
        }

        private void length(int length) {
            number.putInt(0, length);
            digest.update(number.array(), 0, 4);
        }

        @Override
        public String toString() {
            StringBuilder hex = new StringBuilder();
            for (byte one : digest.digest()) {
                hex.append(String.format("%02x", one));
            }
            return records + " " + bytes + " " + hex;
        }
    }
}
