import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * What Kafka makes of each line of the input, in hexadecimal digits of UTF-8. "S NAME" is an encoded X.500 name, which Java
 * prints; "R RULES SUBJECT" are rules and a subject, of which Kafka makes a name. "!" stands for an exception.
 */
public final class Principals {
    public static void main(String[] arguments) throws Exception {
        StringBuilder out = new StringBuilder();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            try {
                String made = words[0].equals("S")
                    ? new X500Principal(bytes(words[1])).getName()
                    : SslPrincipalMapper.fromRules(text(words[1])).getName(text(words[2]));
                out.append(HexFormat.of().formatHex(made.getBytes(StandardCharsets.UTF_8)));
            } catch (Exception | StackOverflowError wrong) {
                out.append('!');
            }
            out.append('\n');
        }
        System.out.print(out);
    }

    private static byte[] bytes(String digits) {
        return HexFormat.of().parseHex(digits);
    }

    private static String text(String digits) {
        return new String(bytes(digits), StandardCharsets.UTF_8);
    }
}
