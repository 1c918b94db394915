package matrix;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Each line of the file is a login: write a record with kafka-clients, and read it. */
public final class Login {
    private static final int PATIENCE_S = 60;
    private static final String SECURITY = "org.apache.kafka.common.security.";

    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] cell = line.split("\t", -1);
            try {
                run(cell[0], cell[2], settings(cell));
                System.out.println(cell[0] + " ok");
            } catch (Exception error) {
                System.out.println(cell[0] + " " + error + " " + error.getCause());
            }
        }
    }

    private static Properties settings(String[] cell) {
        String mechanism = cell[3], user = cell[4], password = cell[5], token = cell[6];
        Properties made = new Properties();
        made.put("bootstrap.servers", cell[1]);
        made.put("ssl.truststore.type", "PEM");
        made.put("ssl.truststore.location", cell[7]);
        for (String side : List.of("key", "value")) {
            made.put(side + ".serializer", "org.apache.kafka.common.serialization.StringSerializer");
            made.put(side + ".deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        }
        if (mechanism.equals("certificate")) {
            made.put("security.protocol", "SSL");
            made.put("ssl.keystore.type", "PEM");
            made.put("ssl.keystore.location", cell[8]);
            return made;
        }
        made.put("security.protocol", "SASL_SSL");
        made.put("sasl.mechanism", mechanism);
        String module = SECURITY + (mechanism.equals("PLAIN") ? "plain.Plain" : "scram.Scram") + "LoginModule";
        String options = " username=\"" + user + "\" password=\"" + password + "\"";
        if (mechanism.equals("OAUTHBEARER")) {
            String url = Path.of(token).toUri().toString();
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", url);
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", token);
            made.put("sasl.oauthbearer.token.endpoint.url", url);
            made.put("sasl.login.callback.handler.class", SECURITY + "oauthbearer.OAuthBearerLoginCallbackHandler");
            module = SECURITY + "oauthbearer.OAuthBearerLoginModule";
            options = "";
        }
        made.put("sasl.jaas.config", module + " required" + options + ";");
        return made;
    }

    private static void run(String name, String topic, Properties settings) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.send(new ProducerRecord<>(topic, name)).get(PATIENCE_S, TimeUnit.SECONDS);
        }
        settings.put("group.id", topic + "-" + name);
        settings.put("auto.offset.reset", "earliest");
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            while (System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    if (record.value().equals(name)) {
                        return;
                    }
                }
            }
        }
        throw new IllegalStateException("not read");
    }
}
