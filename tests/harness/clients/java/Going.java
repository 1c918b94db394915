package harness;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A client that goes on until its standard input ends, and says in lines what happens to it.
 *
 * <pre>
 * produce TOPIC PARTITIONS PAUSE_MS [property=value ...]      acked N P OFFSET | failed N ERROR
 * transact TOPIC PARTITIONS PAUSE_MS SIZE [...]               the same, and committed N M | aborted N M ERROR
 * consume TOPIC [...]                                         got P OFFSET VALUE | assigned P... | lost P... | revoked P...
 * seek TOPIC P OFFSET [...]                                   the same, without a group: assigned by hand
 * share TOPIC [...]                                           got P OFFSET VALUE
 * </pre>
 *
 * Records are numbers from 0 on, as text. A producer that is given a line says "sent N": the number that it is at.
 * The property `first.number` says where it begins.
 */
public final class Going {
    private static volatile boolean ends;
    private static volatile int at;

    public static void main(String[] args) throws Exception {
        Thread waits = new Thread(Going::waitForEnd);
        waits.setDaemon(true);
        waits.start();
        int fixed = List.of("transact").contains(args[0]) ? 5 : List.of("produce", "seek").contains(args[0]) ? 4 : 2;
        Properties properties = new Properties();
        for (String pair : Arrays.asList(args).subList(fixed, args.length)) {
            String[] parts = pair.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        switch (args[0]) {
            case "produce" -> produce(args[1], Integer.parseInt(args[2]), Long.parseLong(args[3]), 0, properties);
            case "transact" ->
                produce(args[1], Integer.parseInt(args[2]), Long.parseLong(args[3]), Integer.parseInt(args[4]), properties);
            case "consume" -> consume(args[1], -1, -1, properties);
            case "seek" -> consume(args[1], Integer.parseInt(args[2]), Long.parseLong(args[3]), properties);
            case "share" -> share(args[1], properties);
            default -> throw new IllegalArgumentException(args[0]);
        }
        say("ended");
    }

    private static void waitForEnd() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            while (lines.readLine() != null) {
                say("sent " + at);
            }
        } catch (java.io.IOException error) {
            // as if it had ended
        }
        ends = true;
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void produce(String topic, int partitions, long pause, int size, Properties properties)
            throws Exception {
        int begins = Integer.parseInt((String) properties.getOrDefault("first.number", "0"));
        properties.remove("first.number");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            if (size > 0) {
                producer.initTransactions();
            }
            int first = begins;
            boolean open = false;
            for (int number = begins; !ends; number++) {
                if (size > 0 && number == first) {
                    producer.beginTransaction();
                    open = true;
                }
                int sent = at = number;
                try {
                    producer.send(
                            new ProducerRecord<>(topic, number % partitions, null, Integer.toString(number)),
                            (there, error) -> say(
                                    error == null
                                            ? "acked " + sent + " " + there.partition() + " " + there.offset()
                                            : "failed " + sent + " " + error));
                    if (size > 0 && number + 1 - first >= size) {
                        producer.commitTransaction();
                        open = false;
                        say("committed " + first + " " + number);
                        first = number + 1;
                    }
                } catch (Exception error) {
                    if (size == 0) {
                        throw error;
                    }
                    say("aborted " + first + " " + number + " " + error);
                    producer.abortTransaction();
                    open = false;
                    first = number + 1;
                }
                Thread.sleep(pause);
            }
            if (open) {
                producer.abortTransaction();
            } else {
                producer.flush();
            }
        } catch (Exception error) {
            say("died " + error);
        }
    }

    private static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(one -> " " + one.partition()).sorted().collect(Collectors.joining());
    }

    private static void consume(String topic, int partition, long offset, Properties properties) {
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            if (partition >= 0) {
                consumer.assign(List.of(new TopicPartition(topic, partition)));
                consumer.seek(new TopicPartition(topic, partition), offset);
            } else {
                consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                    @Override
                    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                        say("assigned" + numbers(partitions));
                    }

                    @Override
                    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                        say("revoked" + numbers(partitions));
                    }

                    @Override
                    public void onPartitionsLost(Collection<TopicPartition> partitions) {
                        say("lost" + numbers(partitions));
                    }
                });
            }
            while (!ends) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> record : records) {
                    say("got " + record.partition() + " " + record.offset() + " " + record.value());
                }
            }
        } catch (Exception error) {
            say("died " + error);
        }
    }

    private static void share(String topic, Properties properties) {
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!ends) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    say("got " + record.partition() + " " + record.offset() + " " + record.value());
                }
            }
        } catch (Exception error) {
            say("died " + error);
        }
    }
}
