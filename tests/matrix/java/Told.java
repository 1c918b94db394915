package matrix;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;

/** What the programs of today's Java clients share: topics, records, and which brokers they were told of. */
final class Told {
    static final long PATIENCE_MS = 120_000;

    private Told() {}

    static Properties properties(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return properties;
    }

    static void topics(Admin admin, String... names) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (String name : names) {
            topics.add(new NewTopic(name, 3, (short) 3));
        }
        admin.createTopics(topics).all().get();
        for (Node node : admin.describeCluster().nodes().get()) {
            System.out.println("broker " + node.id() + " " + node.host() + ":" + node.port());
        }
    }

    /** Records number `from` to `to`: each of `keys` keys in its turn. */
    static void produce(String bootstrap, String topic, int from, int to, int keys) throws Exception {
        Properties properties = properties(bootstrap);
        properties.put("acks", "all");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            for (int i = from; i < to; i++) {
                sent.add(producer.send(new ProducerRecord<>(topic, "key-" + i % keys, "value-" + i)));
            }
        }
        for (Future<RecordMetadata> one : sent) {
            one.get();
        }
    }

    /** Nothing came in time. */
    static IllegalStateException late(String what) {
        return new IllegalStateException("not within " + PATIENCE_MS / 1000 + " s: " + what);
    }
}
