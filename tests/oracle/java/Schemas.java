import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.CompactArrayOf;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/** What Kafka's classes know, as JSON: of each API its versions, and of each version header versions and fields. */
final class Schemas {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Schemas() {}

    static String describe() {
        ArrayNode apis = JSON.createArrayNode();
        for (ApiMessageType type : ApiMessageType.values()) {
            ObjectNode api = apis.addObject();
            api.put("key", type.apiKey());
            api.put("name", type.name);
            api.put("listeners", type.listeners().toString());
            ObjectNode versions = api.putObject("versions");
            for (int version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(true); version++) {
                ObjectNode one = versions.putObject(String.valueOf(version));
                one.put("stable", version <= type.highestSupportedVersion(false));
                one.put("request_header", type.requestHeaderVersion((short) version));
                one.put("response_header", type.responseHeaderVersion((short) version));
                fields(one.putArray("request"), type.requestSchemas()[version]);
                fields(one.putArray("response"), type.responseSchemas()[version]);
            }
        }
        return apis.toString();
    }

    private static void fields(ArrayNode list, Schema schema) {
        for (BoundField field : schema.fields()) {
            if (field.def.type instanceof TaggedFields tagged) {
                for (Map.Entry<Integer, Field> known : known(tagged).entrySet()) {
                    field(list.addObject(), known.getValue()).put("tag", known.getKey());
                }
            } else {
                field(list.addObject(), field.def);
            }
        }
    }

    /** The type as message definitions write it: `string`, `[]int32`, and `struct` or `[]struct` with fields. */
    private static ObjectNode field(ObjectNode node, Field field) {
        Type type = field.type;
        node.put("name", field.name);
        node.put("nullable", type.isNullable());
        node.put("compact", type instanceof CompactArrayOf || type.toString().startsWith("COMPACT_"));
        String prefix = "";
        if (type.isArray()) {
            prefix = "[]";
            type = type.arrayElementType().orElseThrow();
        }
        if (type instanceof Schema schema) {
            node.put("type", prefix + "struct");
            fields(node.putArray("fields"), schema);
        } else {
            String name = baseName(type).toLowerCase();
            node.put("type", prefix + (name.equals("boolean") ? "bool" : name));
        }
        return node;
    }

    /** The tagged fields that the schema knows, by number. Kafka 3.9 has no accessor yet, but the same member. */
    @SuppressWarnings("unchecked")
    static Map<Integer, Field> known(TaggedFields tagged) {
        try {
            java.lang.reflect.Field member = TaggedFields.class.getDeclaredField("fields");
            member.setAccessible(true);
            return (Map<Integer, Field>) member.get(tagged);
        } catch (ReflectiveOperationException changed) {
            throw new IllegalStateException(changed);
        }
    }

    /** A primitive type's name, whether compact, nullable or not. */
    static String baseName(Type type) {
        String name = type.toString();
        name = name.startsWith("COMPACT_") ? name.substring(8) : name;
        return name.startsWith("NULLABLE_") ? name.substring(9) : name;
    }
}
