import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.ApiVersionsResponseData.ApiVersion;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/**
 * Whether a response that went through kproxy is what it should be.
 *
 * The verdict is one word when it is: `replaced` (all addresses, perhaps none, were), `emptied` (the frame had to keep its
 * length and the local addresses did not fit), `capped` (ApiVersions). Anything else says what is wrong.
 */
final class Comparison {
    // Produce, EndTxn, TxnOffsetCommit; and InitProducerId.
    private static final Set<Short> NEEDED_BY_TWO = Set.of((short) 0, (short) 26, (short) 28);
    private static final Set<Short> NEEDED_BY_LATER = Set.of((short) 0, (short) 22, (short) 26, (short) 28);

    private final short key;
    private final short version;
    private final Map<Short, short[]> limits;

    Comparison(short key, short version, Map<Short, short[]> limits) {
        this.key = key;
        this.version = version;
        this.limits = limits;
    }

    /** `how`: 'h' the frame was held, so it may have any length; 's' it streamed; 'v' it is an ApiVersions response. */
    String compare(char how, byte[] original, byte[] result, List<Nodes.Replacement> replacements) throws Exception {
        Frames.Response expected = Frames.read(key, version, original);
        if (how == 'v') {
            ApiVersionsResponseData versions = (ApiVersionsResponseData) expected.body();
            if (versions.errorCode() == 0 || versions.errorCode() == Frames.UNSUPPORTED_VERSION) {
                cap(versions);
            }  // another error names no versions that a client would use, and stays as it is
            return differs(expected, result, "capped");
        }
        List<Nodes.Node> nodes = Nodes.of(expected.body(), version).stream().filter(n -> !n.host().isEmpty()).toList();
        if (nodes.size() != replacements.size()) {
            return "the message names " + nodes.size() + " nodes, kproxy saw " + replacements.size();
        }
        for (int at = 0; at < nodes.size(); at++) {
            Nodes.Replacement replacement = replacements.get(at);
            String difference = nodes.get(at).differs(replacement);
            if (difference != null) {
                return difference;
            }
            nodes.get(at).set().accept(replacement.localHost(), replacement.localPort());
        }
        return how == 's' ? compareStreamed(original, result, expected) : differs(expected, result, "replaced");
    }

    private String compareStreamed(byte[] original, byte[] result, Frames.Response expected) throws Exception {
        if (result.length != original.length) {
            return "the frame streamed, but became " + result.length + " bytes long instead of " + original.length;
        }
        String verdict = "replaced";
        if (expected.frame().length > original.length) {
            Nodes.clear(expected.body());
            verdict = "emptied";
        }
        Frames.Response got = Frames.read(key, version, result);
        String difference = withoutFilling(got.body(), expected.body());
        return difference == null ? differs(expected, got.frame(), verdict) : difference;
    }

    /** Take the one tagged field away that fills the frame up; null if it is as it should be. */
    private static String withoutFilling(ApiMessage got, ApiMessage expected) {
        List<RawTaggedField> before = expected.unknownTaggedFields();
        if (got.unknownTaggedFields().size() == before.size()) {
            return null;
        }
        Iterator<RawTaggedField> fields = got.unknownTaggedFields().iterator();
        while (fields.hasNext()) {
            RawTaggedField field = fields.next();
            if (before.stream().noneMatch(other -> other.tag() == field.tag())) {
                for (byte one : field.data()) {
                    if (one != 0) {
                        return "the tagged field " + field.tag() + " that fills the frame up is not empty";
                    }
                }
                fields.remove();
                return null;
            }
        }
        return "a tagged field occurs twice";
    }

    private void cap(ApiVersionsResponseData versions) {
        Set<Short> lowered = new HashSet<>();
        Set<Short> gone = new HashSet<>();
        for (Iterator<ApiVersion> each = versions.apiKeys().iterator(); each.hasNext(); ) {
            ApiVersion range = each.next();
            short[] limit = limits.get(range.apiKey());
            if (limit == null || range.minVersion() > limit[1] || range.maxVersion() < limit[0]) {
                each.remove();
                gone.add(range.apiKey());
            } else {
                if (range.maxVersion() > limit[1]) {
                    lowered.add(range.apiKey());
                }
                range.setMinVersion((short) Math.max(range.minVersion(), limit[0]));
                range.setMaxVersion((short) Math.min(range.maxVersion(), limit[1]));
            }
        }
        lowered.addAll(gone);
        // Level 2 needs versions of these APIs that kproxy does not cap; a level above may need any later one.
        boolean noTwo = !Collections.disjoint(gone, NEEDED_BY_TWO);
        boolean noThree = !Collections.disjoint(lowered, NEEDED_BY_LATER);
        versions.supportedFeatures().forEach(feature -> {
            int limit = transactionVersion(feature.name(), feature.maxVersion(), noTwo, noThree);
            feature.setMinVersion((short) Math.min(feature.minVersion(), limit));
            feature.setMaxVersion((short) Math.min(feature.maxVersion(), limit));
        });
        versions.finalizedFeatures().forEach(feature -> {
            int limit = transactionVersion(feature.name(), feature.maxVersionLevel(), noTwo, noThree);
            feature.setMinVersionLevel((short) Math.min(feature.minVersionLevel(), limit));
            feature.setMaxVersionLevel((short) Math.min(feature.maxVersionLevel(), limit));
        });
    }

    /** The highest level to be told of a feature (KIP-890). */
    private static int transactionVersion(String name, int highest, boolean noTwo, boolean noThree) {
        if (!name.equals("transaction.version") || highest < 2 || (highest == 2 ? !noTwo : !noThree)) {
            return Short.MAX_VALUE;
        }
        return noTwo ? 1 : 2;
    }

    /** Equal as objects, with all tagged fields, and equal when Kafka writes them again. */
    private String differs(Frames.Response expected, byte[] result, String verdict) throws Exception {
        Frames.Response got = Frames.read(key, version, result);
        if (got.header().equals(expected.header())
            && got.body().equals(expected.body())
            && Arrays.equals(got.frame(), expected.frame())) {
            return verdict;
        }
        return "expected " + show(expected) + ", got " + show(got);
    }

    private static String show(Frames.Response response) throws Exception {
        Class<?> type = response.body().getClass();
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        JsonNode body = (JsonNode) converter.getMethod("write", type, short.class)
            .invoke(null, response.body(), response.bodyVersion());
        String text = body + " with tagged fields " + response.body().unknownTaggedFields() + " and header " + response.header();
        return text.length() > 3000 ? text.substring(0, 3000) + "..." : text;
    }
}
