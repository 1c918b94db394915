import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Kafka's own opinion of bytes, for tests in another language: reads commands from stdin, answers on stdout.
 *
 * A command and its answer are each an int32 size and that many bytes, numbers big-endian; text and frames are an int32
 * size and the bytes (text in UTF-8). The first byte of a command says what it is; the first byte of an answer is 0, or 1
 * before a text that says what went wrong.
 *
 * <pre>
 * 'S'                                                  every API as Kafka's classes know it -> JSON
 * 'G' n * (key, version, seed int64, profile byte)     random messages -> n * (request, response; empty if none follows)
 * 'L' n * (key, oldest, newest)                        the versions that ApiVersions responses are capped to
 * 'C' n * (key, version, how byte, original, result,   is the result what it should be -> n * (verdict); see Comparison
 *          m * (kind byte, node id, host, port, local host, local port))
 * 'E' n * (request, error int16)                       what Kafka answers if it refuses a request -> n * (JSON)
 * 'J' n * (key, version, frame)                        a response, or with key -1 a request -> n * (JSON)
 * 'V' n * (newest version, version, response)          an ApiVersions response in an older version -> n * (response)
 * </pre>
 */
public final class Oracle {
    private final Map<Short, short[]> limits = new HashMap<>();

    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(System.out);
        Oracle oracle = new Oracle();
        while (true) {
            byte[] command;
            try {
                command = in.readNBytes(in.readInt());
            } catch (EOFException end) {
                return;
            }
            ByteArrayOutputStream answer = new ByteArrayOutputStream(1 << 16);
            DataOutputStream writer = new DataOutputStream(answer);
            try {
                writer.writeByte(0);
                oracle.obey(new DataInputStream(new java.io.ByteArrayInputStream(command)), writer);
            } catch (Exception | LinkageError problem) {
                java.io.StringWriter trace = new java.io.StringWriter();
                problem.printStackTrace(new java.io.PrintWriter(trace));
                answer.reset();
                writer.writeByte(1);
                writeText(writer, trace.toString());
            }
            out.writeInt(answer.size());
            answer.writeTo(out);
            out.flush();
        }
    }

    private void obey(DataInputStream in, DataOutputStream out) throws Exception {
        char command = (char) in.readByte();
        switch (command) {
            case 'S' -> writeText(out, Schemas.describe());
            case 'G' -> generate(in, out);
            case 'L' -> {
                limits.clear();
                for (int left = in.readInt(); left > 0; left--) {
                    limits.put(in.readShort(), new short[] {in.readShort(), in.readShort()});
                }
            }
            case 'C' -> compare(in, out);
            case 'E' -> {
                for (int left = in.readInt(); left > 0; left--) {
                    byte[] request = readBytes(in);
                    writeText(out, Refusals.expected(request, in.readShort()));
                }
            }
            case 'J' -> {
                for (int left = in.readInt(); left > 0; left--) {
                    short key = in.readShort();
                    short version = in.readShort();
                    byte[] frame = readBytes(in);
                    writeText(out, key < 0 ? Refusals.readRequest(frame) : Refusals.read(key, version, frame));
                }
            }
            case 'V' -> {
                for (int left = in.readInt(); left > 0; left--) {
                    short newestVersion = in.readShort();
                    short version = in.readShort();
                    writeBytes(out, OlderVersions.of(readBytes(in), newestVersion, version));
                }
            }
            default -> throw new IllegalArgumentException("no such command: " + command);
        }
    }

    private void generate(DataInputStream in, DataOutputStream out) throws Exception {
        for (int left = in.readInt(); left > 0; left--) {
            short key = in.readShort();
            short version = in.readShort();
            long seed = in.readLong();
            try {
                Frames.Exchange exchange = Frames.random(key, version, seed, in.readByte());
                writeBytes(out, exchange.request());
                writeBytes(out, exchange.response());
            } catch (Exception problem) {
                throw new IllegalStateException("API " + key + " version " + version + " seed " + seed, problem);
            }
        }
    }

    private void compare(DataInputStream in, DataOutputStream out) throws Exception {
        for (int left = in.readInt(); left > 0; left--) {
            short key = in.readShort();
            short version = in.readShort();
            char how = (char) in.readByte();
            byte[] original = readBytes(in);
            byte[] result = readBytes(in);
            List<Nodes.Replacement> replacements = new ArrayList<>();
            for (int nodes = in.readInt(); nodes > 0; nodes--) {
                replacements.add(new Nodes.Replacement(
                    in.readByte(), in.readInt(), readText(in), in.readInt(), readText(in), in.readInt()));
            }
            String verdict;
            try {
                verdict = new Comparison(key, version, limits).compare(how, original, result, replacements);
            } catch (Exception problem) {
                verdict = "Kafka cannot read it: " + problem;
            }
            writeText(out, verdict);
        }
    }

    private static byte[] readBytes(DataInputStream in) throws IOException {
        return in.readNBytes(in.readInt());
    }

    private static String readText(DataInputStream in) throws IOException {
        return new String(readBytes(in), StandardCharsets.UTF_8);
    }

    private static void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    private static void writeText(DataOutputStream out, String text) throws IOException {
        writeBytes(out, text.getBytes(StandardCharsets.UTF_8));
    }
}
