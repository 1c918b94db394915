import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.Set;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.Schema;

/** Whole frames: an int32 size, a header and a body, read and written by Kafka's own classes. */
final class Frames {
    static final short API_VERSIONS = 18;
    static final short UNSUPPORTED_VERSION = 35;

    /** A request and the response that a broker could give; the response is empty if none follows. */
    record Exchange(byte[] request, byte[] response) {}

    /** A response, read; the body's version differs from the request's for a refused ApiVersions request (KIP-511). */
    record Response(ResponseHeaderData header, short headerVersion, ApiMessage body, short bodyVersion) {
        byte[] frame() {
            return Frames.frame(header, headerVersion, body, bodyVersion);
        }
    }

    private Frames() {}

    static Exchange random(short key, short version, long seed, byte profile) {
        ApiMessageType api = ApiMessageType.fromApiKey(key);
        Generator generator = new Generator(seed);
        short headerVersion = api.requestHeaderVersion(version);
        RequestHeaderData header = new RequestHeaderData();
        fill(header, generator, RequestHeaderData.SCHEMAS[headerVersion], headerVersion, Generator.SMALL);
        int correlationId = generator.anyInt();
        header.setRequestApiKey(key).setRequestApiVersion(version).setCorrelationId(correlationId);
        ApiMessage request = api.newRequest();
        byte requestProfile = generator.oneIn(3) ? profile : Generator.SMALL;
        fill(request, generator, api.requestSchemas()[version], version, requestProfile);
        byte[] requestFrame = frame(header, headerVersion, request, version);
        if (request instanceof ProduceRequestData produce && produce.acks() == 0) {
            return new Exchange(requestFrame, new byte[0]);
        }
        return new Exchange(requestFrame, response(api, version, generator, correlationId, profile).frame());
    }

    private static Response response(
        ApiMessageType api, short version, Generator generator, int correlationId, byte profile) {
        short headerVersion = api.responseHeaderVersion(version);
        ResponseHeaderData header = new ResponseHeaderData();
        fill(header, generator, ResponseHeaderData.SCHEMAS[headerVersion], headerVersion, Generator.SMALL);
        header.setCorrelationId(correlationId);
        ApiMessage body = api.newResponse();
        short bodyVersion = version;
        boolean refused = api.apiKey() == API_VERSIONS && generator.oneIn(8);
        if (refused) {
            bodyVersion = 0;
        }
        fill(body, generator, api.responseSchemas()[bodyVersion], bodyVersion, profile);
        if (body instanceof ApiVersionsResponseData versions) {
            if (refused) {
                versions.setErrorCode(UNSUPPORTED_VERSION);
            } else if (versions.errorCode() == UNSUPPORTED_VERSION || !generator.oneIn(8)) {
                versions.setErrorCode((short) 0);
            }
            Set<Short> seen = new HashSet<>();  // no broker names an API twice
            versions.apiKeys().removeIf(range -> !seen.add(range.apiKey()));
            // Nor a feature that begins above its end.
            versions.supportedFeatures().forEach(f -> f.setMinVersion(smaller(f.minVersion(), f.maxVersion())));
            versions.finalizedFeatures().forEach(f -> f.setMinVersionLevel(smaller(f.minVersionLevel(), f.maxVersionLevel())));
        }
        return new Response(header, headerVersion, body, bodyVersion);
    }

    private static short smaller(short one, short other) {
        return (short) Math.min(one, other);
    }

    /** Random bytes that fit the schema, read by the message itself: so it has only what this version can have. */
    private static void fill(Message message, Generator generator, Schema schema, short version, byte profile) {
        ByteBuffer bytes = ByteBuffer.wrap(generator.bytes(schema, profile));
        message.read(new ByteBufferAccessor(bytes), version);
        if (bytes.hasRemaining()) {
            throw new IllegalStateException("the schema says more than " + message.getClass() + " reads");
        }
    }

    /** Read a response. Throws if there is a byte too few or too many. */
    static Response read(short key, short version, byte[] frame) {
        ApiMessageType api = ApiMessageType.fromApiKey(key);
        ByteBuffer bytes = ByteBuffer.wrap(frame);
        int size = bytes.getInt();
        if (size != bytes.remaining()) {
            throw new IllegalArgumentException("the size says " + size + ", there are " + bytes.remaining() + " bytes");
        }
        ByteBufferAccessor accessor = new ByteBufferAccessor(bytes);
        short headerVersion = api.responseHeaderVersion(version);
        ResponseHeaderData header = new ResponseHeaderData(accessor, headerVersion);
        short bodyVersion = version;
        if (key == API_VERSIONS && bytes.getShort(bytes.position()) == UNSUPPORTED_VERSION) {
            bodyVersion = 0;
        }
        ApiMessage body = api.newResponse();
        body.read(accessor, bodyVersion);
        if (bytes.hasRemaining()) {
            throw new IllegalArgumentException(bytes.remaining() + " bytes stand behind the last field");
        }
        return new Response(header, headerVersion, body, bodyVersion);
    }

    private static byte[] frame(Message header, short headerVersion, ApiMessage body, short bodyVersion) {
        ObjectSerializationCache headerCache = new ObjectSerializationCache();
        ObjectSerializationCache bodyCache = new ObjectSerializationCache();
        int size = header.size(headerCache, headerVersion) + body.size(bodyCache, bodyVersion);
        ByteBuffer bytes = ByteBuffer.allocate(4 + size);
        bytes.putInt(size);
        ByteBufferAccessor accessor = new ByteBufferAccessor(bytes);
        header.write(accessor, headerCache, headerVersion);
        body.write(accessor, bodyCache, bodyVersion);
        if (bytes.hasRemaining()) {
            throw new IllegalStateException(body.getClass() + " states another size than it has");
        }
        return bytes.array();
    }
}
