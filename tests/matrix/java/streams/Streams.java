package matrix;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * A Streams application that counts words, exactly once: Streams BOOTSTRAP NAME RECORDS [PROPERTY=VALUE...]. It is ended
 * half-way, and its successor finds nothing on its disk: it has the counts from the changelog, and goes on where the
 * other has committed. Each count of each word is put out once: so many records, all different.
 */
public final class Streams {
    private static final int WORDS = 20;

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        String name = args[1];
        int records = Integer.parseInt(args[2]);
        String counts = name + "-counts";
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(properties)) {
            Told.topics(admin, name, counts);
        }
        List<String> seen = new ArrayList<>();
        Properties reader = Told.properties(bootstrap);
        reader.put("group.id", counts);
        reader.put("auto.offset.reset", "earliest");
        reader.put("isolation.level", "read_committed");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reader)) {
            consumer.subscribe(List.of(counts));
            for (int part = 0; part < 2; part++) {
                int from = part * records / 2;
                int to = (part + 1) * records / 2;
                Told.produce(bootstrap, name, from, to, WORDS);
                Path state = Files.createTempDirectory("kproxy-streams-");
                try (KafkaStreams streams = new KafkaStreams(topology(name, counts), settings(args, state))) {
                    streams.start();
                    read(consumer, to, seen);
                    streams.close(Duration.ofMillis(Told.PATIENCE_MS));
                    streams.cleanUp();
                }
                Files.walk(state).sorted((a, b) -> b.compareTo(a)).forEach(path -> path.toFile().delete());
            }
        }
        System.out.println("consumed " + seen.size() + " " + new HashSet<>(seen).size());
    }

    private static Topology topology(String words, String counts) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(words)
                // Another key than that of the record: so there is a topic for repartitioning too.
                .groupBy((key, value) -> key + "!", Grouped.with(Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(counts, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static Properties settings(String[] args, Path state) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        // Each count is put out, not the last one of some.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        // An application that ends does not leave its group: its successor waits until its session is over.
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "10000");
        for (int i = 3; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        return settings;
    }

    private static void read(KafkaConsumer<String, String> consumer, int until, List<String> seen) {
        long end = System.currentTimeMillis() + Told.PATIENCE_MS;
        while (seen.size() < until) {
            if (System.currentTimeMillis() > end) {
                throw Told.late(until + " counts, of which " + seen.size() + " came");
            }
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                seen.add(record.key() + " " + record.value());
            }
        }
    }
}
