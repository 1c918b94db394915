import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.utils.Utils;

/** What Kafka reads from each client.properties that is named: module and options of its sasl.jaas.config. */
public final class ClientProperties {
    public static void main(String[] files) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String file : files) {
            Properties properties = Utils.loadProps(file);
            TreeMap<String, String> shown = new TreeMap<>();
            try {
                Map<String, Object> config =
                    Map.of("sasl.jaas.config", new Password(properties.getProperty("sasl.jaas.config").trim()));
                var entry = JaasContext.loadClientContext(config).configurationEntries().get(0);
                shown.put(" module", entry.getLoginModuleName());
                entry.getOptions().forEach((key, value) -> shown.put(key, String.valueOf(value)));
            } catch (RuntimeException wrong) {
                shown.put(" wrong", "");
            }
            shown.forEach((key, value) -> out.append(hex(key)).append('=').append(hex(value)).append(' '));
            out.append('\n');
        }
        System.out.print(out);
    }

    private static String hex(String text) {
        StringBuilder digits = new StringBuilder();
        text.chars().forEach(unit -> digits.append(String.format("%04x", unit)));
        return digits.toString();
    }
}
