package matrix;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * A Streams application that counts, exactly once: Moved BOOTSTRAP APPLICATION FROM TO COUNTS. It ends when the topic TO
 * has so many counts, and says them. Nothing is left on its disk: the next one has the counts from the changelog.
 */
public final class Moved {
    public static void main(String[] args) throws Exception {
        int wanted = Integer.parseInt(args[4]);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(args[2])
                // Another key than that of the record: so there is a topic for repartitioning too.
                .groupBy((key, value) -> key + "!", Grouped.with("by-word", Serdes.String(), Serdes.String()))
                .count()
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(args[3], Produced.with(Serdes.String(), Serdes.String()));
        Path state = Files.createTempDirectory("kproxy-streams-");
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        // With no position it would stop, not begin anew.
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), args.length > 5 ? args[5] : "none");
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "10000");
        Properties reader = Told.properties(args[0]);
        reader.put("group.id", args[1] + "-reader-" + System.nanoTime());
        reader.put("auto.offset.reset", "earliest");
        reader.put("enable.auto.commit", "false");
        reader.put("isolation.level", "read_committed");
        List<String> seen = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reader);
                KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            consumer.subscribe(List.of(args[3]));
            streams.start();
            long end = System.currentTimeMillis() + Told.PATIENCE_MS;
            while (seen.size() < wanted) {
                if (System.currentTimeMillis() > end || streams.state() == KafkaStreams.State.ERROR) {
                    throw Told.late(wanted + " counts, of which " + seen.size() + " came; " + streams.state());
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    seen.add(record.key() + " " + record.value());
                }
            }
            streams.close(Duration.ofMillis(Told.PATIENCE_MS));
            streams.cleanUp();
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(2000))) {
                seen.add(record.key() + " " + record.value());
            }
        }
        Files.walk(state).sorted((a, b) -> b.compareTo(a)).forEach(path -> path.toFile().delete());
        seen.forEach(line -> System.out.println("count " + line));
    }
}
