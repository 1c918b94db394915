package harness;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Records of all kinds, for every kafka-clients from 0.10 on: a line of stdin is
 *
 *     TOPIC PARTITION COUNT LARGEST SEED HEADERS [PROPERTY=VALUE...]
 *
 * HEADERS is "headers" or "none"; clients before 0.11 have none. It answers "sent COUNT".
 */
public final class Writer {
    private static final byte[] POOL = pool();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            write(args[0], line.trim().split(" "));
        }
    }

    /** Random bytes, and such as compress well, by turns. */
    private static byte[] pool() {
        byte[] made = new byte[1 << 21];
        Random chance = new Random(7);
        byte[] some = new byte[256];
        for (int at = 0; at < made.length; at += some.length) {
            if (chance.nextBoolean()) {
                chance.nextBytes(some);
            }
            System.arraycopy(some, 0, made, at, some.length);
        }
        return made;
    }

    private static void write(String bootstrap, String[] words) throws Exception {
        String topic = words[0];
        int partition = Integer.parseInt(words[1]);
        int count = Integer.parseInt(words[2]);
        int largest = Integer.parseInt(words[3]);
        Random chance = new Random(Long.parseLong(words[4]));
        boolean headers = words[5].equals("headers");
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("acks", "all");
        properties.put("retries", "1000000");
        properties.put("linger.ms", "5");
        for (int i = 6; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        final AtomicReference<Exception> failed = new AtomicReference<>();
        Callback noted = new Callback() {
            @Override
            public void onCompletion(RecordMetadata metadata, Exception error) {
                if (error != null) {
                    failed.set(error);
                }
            }
        };
        long now = System.currentTimeMillis();
        double scale = Math.log(largest);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (int at = 0; at < count; at++) {
                byte[] key = key(chance);
                byte[] value = value(chance, largest, scale);
                long timestamp = now - chance.nextInt(5000);
                boolean some = headers && chance.nextInt(4) == 0;
                producer.send(record(topic, partition, timestamp, key, value, some), noted);
            }
            producer.flush();
        }
        if (failed.get() != null) {
            throw failed.get();
        }
        System.out.println("sent " + count);
    }

    private static byte[] key(Random chance) {
        switch (chance.nextInt(8)) {
            case 0:
                return null;
            case 1:
                return new byte[0];
            default:
                return ("k" + chance.nextInt(1000)).getBytes(StandardCharsets.UTF_8);
        }
    }

    /** One in 32 is null, one is empty; the others have 1 byte up to the largest: evenly, or as many of each size. */
    private static byte[] value(Random chance, int largest, double scale) {
        int kind = chance.nextInt(32);
        if (kind == 0) {
            return null;
        }
        int size = largest <= 10_000 ? 1 + chance.nextInt(largest) : (int) Math.exp(scale * chance.nextDouble());
        if (kind == 1) {
            size = 0;
        } else if (largest > 10_000 && kind == 2) {
            size = largest;
        }
        int from = chance.nextInt(POOL.length - size);
        return Arrays.copyOfRange(POOL, from, from + size);
    }

    private static final Constructor<?> WITH_HEADERS = withHeaders();
    private static final List<Object> HEADERS = new ArrayList<>();

    private static Constructor<?> withHeaders() {
        for (Constructor<?> one : ProducerRecord.class.getConstructors()) {
            if (one.getParameterTypes().length == 6) {
                return one;
            }
        }
        return null;
    }

    @SuppressWarnings("unchecked")
    private static ProducerRecord<byte[], byte[]> record(
            String topic, int partition, long timestamp, byte[] key, byte[] value, boolean headers) throws Exception {
        if (!headers || WITH_HEADERS == null) {
            return new ProducerRecord<>(topic, partition, timestamp, key, value);
        }
        if (HEADERS.isEmpty()) {
            Constructor<?> made = Class.forName("org.apache.kafka.common.header.internals.RecordHeader")
                    .getConstructor(String.class, byte[].class);
            HEADERS.add(made.newInstance("a", new byte[] {1}));
            HEADERS.add(made.newInstance("ключ", null));
            HEADERS.add(made.newInstance("a", new byte[0]));
        }
        return (ProducerRecord<byte[], byte[]>)
                WITH_HEADERS.newInstance(topic, partition, timestamp, key, value, HEADERS);
    }
}
