package matrix;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * A Streams application that counts: Moved BOOTSTRAP APPLICATION FROM TO COUNTS [RESET [GUARANTEE [COMMIT_MS]]]
 * [PROPERTY=VALUE ...].
 *
 * It ends when the topic TO has so many counts, and says them. Nothing is left on its disk: the next one has the counts from
 * the changelog. With 0 counts it goes on until its standard input ends, and says its states, and at what a thread of it
 * ends.
 */
public final class Moved {
    public static void main(String[] words) throws Exception {
        String[] args = Arrays.stream(words).filter(word -> !word.contains("=")).toArray(String[]::new);
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
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args.length > 6 ? args[6] : StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, args.length > 7 ? Integer.parseInt(args[7]) : 100);
        // With no position it would stop, not begin anew.
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), args.length > 5 ? args[5] : "none");
        for (String word : words) {
            String[] pair = word.split("=", 2);
            if (pair.length == 2) {
                settings.put(pair[0], pair[1]);
            }
        }
        if (!"streams".equals(settings.get("group.protocol"))) { // else the broker has the timeout
            settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "10000");
        }
        if (wanted == 0) {
            goOn(builder, settings);
            delete(state);
            return;
        }
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
        delete(state);
        seen.forEach(line -> System.out.println("count " + line));
    }

    private static void delete(Path state) throws IOException {
        try (Stream<Path> paths = Files.walk(state)) {
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        }
    }

    private static void goOn(StreamsBuilder builder, Properties settings) throws IOException {
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.setStateListener((now, before) -> System.out.println("state " + now));
            streams.setUncaughtExceptionHandler(error -> {
                System.out.println("died " + error.toString().replace('\n', ' '));
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            while (System.in.read() >= 0) {}
            streams.close(Duration.ofMillis(Told.PATIENCE_MS));
            streams.cleanUp();
        }
        System.out.println("ended");
    }
}
