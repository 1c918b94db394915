package matrix;

import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/** What changed its signature: as kafka-clients 2.5 and newer have it. */
final class Since {
    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer, long ms) {
        return consumer.poll(Duration.ofMillis(ms));
    }

    static void sendOffsets(
            KafkaProducer<String, String> producer,
            Map<TopicPartition, OffsetAndMetadata> offsets,
            KafkaConsumer<String, String> consumer,
            String group) {
        // consumer.groupMetadata() would need brokers of version 2.5 or newer.
        producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(group));
    }
}
