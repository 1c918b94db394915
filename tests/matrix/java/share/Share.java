package matrix;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;

/**
 * A share group (KIP-932): Share BOOTSTRAP NAME RECORDS. Two members, one after the other: what the first has
 * accepted, the second does not get, and what the first has released, it does.
 */
public final class Share {
    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        String name = args[1];
        int records = Integer.parseInt(args[2]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(properties)) {
            Told.topics(admin, name);
            AlterConfigOp earliest =
                    new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, name);
            admin.incrementalAlterConfigs(Map.of(group, List.of(earliest))).all().get();
            Told.produce(bootstrap, name, 0, records, records);

            List<String> accepted = new ArrayList<>();
            consume(bootstrap, name, records / 2, accepted, admin);
            consume(bootstrap, name, records, accepted, admin);
            System.out.println("consumed " + accepted.size() + " " + new HashSet<>(accepted).size());
        }
    }

    private static void consume(String bootstrap, String name, int until, List<String> accepted, Admin admin)
            throws Exception {
        Properties properties = Told.properties(bootstrap);
        properties.put("group.id", name);
        properties.put("share.acknowledgement.mode", "explicit");
        long end = System.currentTimeMillis() + Told.PATIENCE_MS;
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties)) {
            consumer.subscribe(Set.of(name));
            while (accepted.size() < until) {
                if (System.currentTimeMillis() > end) {
                    throw Told.late(until + " records, of which " + accepted.size() + " came");
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    boolean wanted = accepted.size() < until;
                    consumer.acknowledge(record, wanted ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE);
                    if (wanted) {
                        accepted.add(record.value());
                    }
                }
                consumer.commitSync().forEach((partition, error) -> error.ifPresent(e -> {
                    throw e;
                }));
            }
            ShareGroupDescription described = admin.describeShareGroups(List.of(name)).all().get().get(name);
            if (described.members().size() != 1) {
                throw new IllegalStateException("the group has " + described.members().size() + " members");
            }
        }
    }
}
