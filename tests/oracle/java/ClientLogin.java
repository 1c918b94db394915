import java.nio.file.Files;
import java.nio.file.Path;
import java.security.URIParameter;
import java.util.Map;
import java.util.TreeSet;
import javax.security.auth.login.Configuration;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.JaasContext;

/**
 * Prints what Kafka and Java make of logins: the names of all settings of clients, the prefix of a listener, and a line
 * for each file of the arguments. A file *.jaas is a JAAS file, any other has the value of a sasl.jaas.config.
 */
public class ClientLogin {
    public static void main(String[] files) throws Exception {
        TreeSet<String> names = new TreeSet<>(ProducerConfig.configNames());
        names.addAll(ConsumerConfig.configNames());
        names.addAll(AdminClientConfig.configNames());
        System.out.println(String.join(" ", names));
        ListenerName listener = new ListenerName("CLIENTS");
        System.out.println(listener.saslMechanismConfigPrefix("SCRAM-SHA-512"));
        for (String file : files) {
            System.out.println(judge(Path.of(file)).replace('\n', ' '));
        }
    }

    private static String judge(Path file) {
        try {
            if (file.toString().endsWith(".jaas")) {
                Configuration.getInstance("JavaLoginConfig", new URIParameter(file.toUri()));
                return "accepted";
            }
            Password value = new Password(Files.readString(file));
            JaasContext.loadClientContext(Map.of("sasl.jaas.config", value));
            return "accepted";
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            return "refused: " + cause.getMessage();
        }
    }
}
