import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.CompactArrayOf;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/** Random bytes that fit a schema of Kafka's. The same seed gives the same bytes. */
final class Generator {
    /** Small; with one array of a thousand elements and more; with one field of 70 KB and more. */
    static final byte SMALL = 0, WIDE = 1, HEAVY = 2;

    private static final String[] HOSTS = {
        "broker-1.kafka.svc.cluster.local", "b-2.demo.x1y2z3.c4.kafka.eu-central-1.example.com", "localhost", "k",
        "10.0.12.7", "192.168.100.200", "::1", "2001:db8::8a2e:370:7334", "fe80::1%eth0", "2001:0db8:0000:0000:0000:8a2e:0370:7334",
        "br\u00f6ker-\u00fc.example", "\u4ee3\u7406\u5668.\u4f8b\u5b50", "\ud83d\udc22.example", "xn--brker-jua.example",
    };

    private final Random random;
    private byte enlarge = SMALL;
    private ByteArrayOutputStream out = new ByteArrayOutputStream();
    private int depth;
    private boolean distinct;  // in an array of thousands; Kafka's collections take ages over equal keys

    Generator(long seed) {
        random = new Random(seed);
    }

    int anyInt() {
        return random.nextInt();
    }

    boolean oneIn(int many) {
        return random.nextInt(many) == 0;
    }

    /** Bytes that fit the schema, of a profile: SMALL, WIDE or HEAVY where the schema has something to enlarge. */
    byte[] bytes(Schema schema, byte profile) {
        enlarge = profile;
        out.reset();
        fields(schema);
        return out.toByteArray();
    }

    private void fields(Schema schema) {
        depth++;
        for (BoundField field : schema.fields()) {
            value(field.def.name, field.def.type);
        }
        depth--;
    }

    private void value(String name, Type type) {
        if (type instanceof TaggedFields tagged) {
            tags(tagged);
        } else if (type instanceof Schema schema) {
            if (type.isNullable()) {  // a byte says whether it is there (KIP-893)
                boolean there = !oneIn(4);
                out.write(there ? 1 : -1);
                if (!there) {
                    return;
                }
            }
            fields(schema);
        } else if (type.isArray()) {
            array(name, type);
        } else {
            primitive(name, type);
        }
    }

    private void array(String name, Type type) {
        boolean compact = type instanceof CompactArrayOf;
        if (type.isNullable() && oneIn(6)) {
            length(-1, compact, 4);
            return;
        }
        Type element = type.arrayElementType().orElseThrow();
        int count = oneIn(4) ? 0 : 1 + random.nextInt(depth > 3 ? 2 : 4);
        if (enlarge == WIDE && oneIn(3)) {
            enlarge = SMALL;
            count = 1000 + random.nextInt(oneIn(4) ? 3000 : 200);
            depth += 3;  // its elements stay small
            distinct = true;
            elements(name, element, count, compact);
            distinct = false;
            depth -= 3;
        } else {
            elements(name, element, oneIn(50) ? 127 + random.nextInt(3) : count, compact);
        }
    }

    private void elements(String name, Type element, int count, boolean compact) {
        length(count, compact, 4);
        for (int at = 0; at < count; at++) {
            value(name, element);
        }
    }

    /** Tagged fields in the order of their numbers; those that nobody knows have numbers that Kafka does not use. */
    private void tags(TaggedFields type) {
        TreeMap<Integer, byte[]> tags = new TreeMap<>();
        for (Map.Entry<Integer, Field> known : Schemas.known(type).entrySet()) {
            if (!oneIn(3)) {
                tags.put(known.getKey(), apart(known.getValue()));
            }
        }
        if (oneIn(depth > 2 ? 6 : 2)) {
            for (int left = 1 + random.nextInt(3); left > 0; left--) {
                int number = oneIn(8) ? 2000 + random.nextInt(Integer.MAX_VALUE - 2000) : 10 + random.nextInt(118);
                tags.put(number, randomBytes(oneIn(30) ? 300 : random.nextInt(12)));
            }
        }
        if (enlarge == HEAVY && depth == 1) {
            tags.put(1000, randomBytes(heavy()));
        }
        varint(tags.size());
        tags.forEach((number, content) -> {
            varint(number);
            varint(content.length);
            out.writeBytes(content);
        });
    }

    private byte[] apart(Field field) {
        ByteArrayOutputStream around = out;
        out = new ByteArrayOutputStream();
        value(field.name, field.type);
        byte[] content = out.toByteArray();
        out = around;
        return content;
    }

    private void primitive(String name, Type type) {
        String base = Schemas.baseName(type);
        boolean compact = type.toString().startsWith("COMPACT_");
        switch (base) {
            case "BOOLEAN" -> out.write(random.nextInt(2));
            case "INT8" -> number(name.equals("endpoint_type") ? 1 + random.nextInt(oneIn(9) ? 120 : 2) : integer(), 1);
            case "INT16" -> number(int16(name), 2);
            case "UINT16" -> number(random.nextInt(65536), 2);
            case "INT32" -> number(name.equals("port") ? port() : integer(), 4);
            case "UINT32" -> number(random.nextInt(), 4);
            case "INT64" -> number(oneIn(2) ? integer() : random.nextLong(), 8);
            case "FLOAT64" -> number(Double.doubleToLongBits(random.nextGaussian()), 8);
            case "UUID" -> out.writeBytes(randomBytes(16));
            case "STRING" -> {
                byte[] text = type.isNullable() && oneIn(5) ? null : string(name);
                sized(text, compact, 2);
            }
            case "BYTES", "RECORDS" -> {
                byte[] bytes = type.isNullable() && oneIn(5) ? null : bytes(base.equals("RECORDS"));
                sized(bytes, compact, 4);
            }
            default -> throw new IllegalStateException("no way to write " + name + " of type " + type);
        }
    }

    private int int16(String name) {
        return switch (name) {
            case "acks" -> random.nextInt(3) - 1;
            case "api_key" -> random.nextInt(distinct || oneIn(9) ? 32768 : 100);  // of ApiVersions
            case "min_version" -> oneIn(4) ? random.nextInt(8) : 0;
            case "max_version" -> random.nextInt(24);
            case "max_version_level", "min_version_level" -> random.nextInt(6) - 1;
            case "error_code" -> oneIn(3) ? 0 : random.nextInt(140) - 1;
            default -> (short) integer();
        };
    }

    private int integer() {
        return distinct || oneIn(3) ? random.nextInt() : random.nextInt(10) - 1;
    }

    private int port() {
        return oneIn(20) ? random.nextInt() : oneIn(20) ? -1 : oneIn(3) ? 9092 : random.nextInt(65536);
    }

    private byte[] string(String name) {
        int length = distinct ? 6 + random.nextInt(9) : oneIn(8) ? 0 : 1 + random.nextInt(20);
        if (oneIn(40) && depth < 4) {
            length = oneIn(10) ? 16_000 + random.nextInt(400) : 120 + random.nextInt(20);
        }
        if (name.equals("host") && (distinct ? !oneIn(20) : !oneIn(5))) {
            return HOSTS[random.nextInt(HOSTS.length)].getBytes(StandardCharsets.UTF_8);
        }
        if (name.equals("name") && !distinct && oneIn(4)) {
            return "transaction.version".getBytes(StandardCharsets.UTF_8);  // the feature that kproxy knows
        }
        boolean ascii = !oneIn(4);
        StringBuilder text = new StringBuilder();
        for (int left = length; left > 0; left--) {
            text.appendCodePoint(ascii || oneIn(2) ? 'a' + random.nextInt(26) : 0xa1 + random.nextInt(0x500));
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    private byte[] bytes(boolean records) {
        if (enlarge == HEAVY && (records || oneIn(3))) {
            enlarge = SMALL;
            return randomBytes(heavy());
        }
        return randomBytes(oneIn(3) ? 0 : random.nextInt(records && oneIn(4) ? 2000 : 40));
    }

    private int heavy() {
        return 70_000 + random.nextInt(100_000);
    }

    private byte[] randomBytes(int length) {
        byte[] bytes = new byte[length];
        random.nextBytes(bytes);
        return bytes;
    }

    /** Bytes behind their length; null is length -1. */
    private void sized(byte[] bytes, boolean compact, int width) {
        length(bytes == null ? -1 : bytes.length, compact, width);
        if (bytes != null) {
            out.writeBytes(bytes);
        }
    }

    private void length(int length, boolean compact, int width) {
        if (compact) {
            varint(length + 1);
        } else {
            number(length, width);
        }
    }

    private void number(long value, int width) {
        for (int shift = 8 * (width - 1); shift >= 0; shift -= 8) {
            out.write((int) (value >> shift));
        }
    }

    /** Kafka's own writer of these moved to another package in 4.4. */
    private void varint(int value) {
        int left = value;
        while ((left & ~0x7f) != 0) {
            out.write(left & 0x7f | 0x80);
            left >>>= 7;
        }
        out.write(left);
    }
}
