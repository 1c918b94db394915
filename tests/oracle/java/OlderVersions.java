import java.util.Map;
import org.apache.kafka.common.feature.Features;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.ApiVersionsResponseData.ApiVersionCollection;
import org.apache.kafka.common.message.ApiVersionsResponseData.SupportedFeatureKey;
import org.apache.kafka.common.requests.ApiVersionsResponse;

/** An ApiVersions response as a broker writes it to a client that asks in an older version. */
final class OlderVersions {
    private OlderVersions() {}

    static byte[] of(byte[] newest, short newestVersion, short version) {
        Frames.Response response = Frames.read(Frames.API_VERSIONS, newestVersion, newest);
        ApiVersionsResponseData body = (ApiVersionsResponseData) response.body();
        if (version < 4) {
            body.supportedFeatures().removeIf(feature -> !isKeptBefore4(feature));
        }
        if (version < 3) {  // these have no tagged fields
            body.unknownTaggedFields().clear();
            body.apiKeys().forEach(range -> range.unknownTaggedFields().clear());
        }
        return new Frames.Response(response.header(), response.headerVersion(), body, version).frame();
    }

    /** Whether Kafka's own filter leaves a feature (KAFKA-17011). It takes no levels below 0. */
    private static boolean isKeptBefore4(SupportedFeatureKey feature) {
        short lowest = (short) (feature.minVersion() == 0 ? 0 : 1);
        return !new ApiVersionsResponse.Builder()
            .setApiVersions(new ApiVersionCollection())
            .setSupportedFeatures(Features.supportedFeatures(
                Map.of(feature.name(), new SupportedVersionRange(lowest, (short) 1))))
            .setFinalizedFeatures(Map.of())
            .setAlterFeatureLevel0(true)
            .build()
            .data()
            .supportedFeatures()
            .isEmpty();
    }
}
