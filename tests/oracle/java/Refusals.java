import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestAndSize;

/** What Kafka's own request classes answer if a request is refused, and responses as JSON. */
final class Refusals {
    private Refusals() {}

    /**
     * The body of the answer to this request, a whole frame, that refuses it with an error: "" if it has none, and "false"
     * if these classes refuse the request itself, as a random one may have values that Kafka does not know.
     */
    static String expected(byte[] frame, short error) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(frame, 4, frame.length - 4);
        ApiKeys key = ApiKeys.forId(bytes.getShort(4));
        short version = bytes.getShort(6);
        new RequestHeaderData(new ByteBufferAccessor(bytes), key.requestHeaderVersion(version));
        AbstractResponse response;
        try {
            response = parse(key, version, bytes).request.getErrorResponse(0, Errors.forCode(error).exception());
        } catch (IllegalArgumentException | NullPointerException unknown) {
            return "false";
        }
        return response == null ? "" : json(response.data(), version);
    }

    /** Kafka 4 takes a Readable, Kafka 3 a buffer. */
    private static RequestAndSize parse(ApiKeys key, short version, ByteBuffer bytes) throws Exception {
        for (Method method : AbstractRequest.class.getMethods()) {
            if (method.getName().equals("parseRequest")) {
                boolean buffer = method.getParameterTypes()[2] == ByteBuffer.class;
                try {
                    return (RequestAndSize) method.invoke(null, key, version, buffer ? bytes : new ByteBufferAccessor(bytes));
                } catch (InvocationTargetException wrapped) {
                    throw new IllegalArgumentException("Kafka cannot read the request", wrapped.getCause());
                }
            }
        }
        throw new IllegalStateException("AbstractRequest has no parseRequest");
    }

    /** The body of a response, a whole frame. Throws if there is a byte too few or too many. */
    static String read(short key, short version, byte[] frame) throws Exception {
        return json(Frames.read(key, version, frame).body(), version);
    }

    /** A request, a whole frame. */
    static String readRequest(byte[] frame) throws Exception {
        ByteBuffer bytes = ByteBuffer.wrap(frame, 4, frame.length - 4);
        ApiMessageType api = ApiMessageType.fromApiKey(bytes.getShort(4));
        short version = bytes.getShort(6);
        ByteBufferAccessor accessor = new ByteBufferAccessor(bytes);
        new RequestHeaderData(accessor, api.requestHeaderVersion(version));
        ApiMessage body = api.newRequest();
        body.read(accessor, version);
        if (bytes.hasRemaining()) {
            throw new IllegalArgumentException(bytes.remaining() + " bytes stand behind the last field");
        }
        return json(body, version);
    }

    private static String json(ApiMessage body, short version) throws Exception {
        Class<?> type = body.getClass();
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        return ((JsonNode) converter.getMethod("write", type, short.class).invoke(null, body, version)).toString();
    }
}
