package matrix;

import java.lang.instrument.Instrumentation;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescription;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescriptionPlugin;

/** A broker's memory of the topologies of streams groups (KIP-1331). Kafka has the interface, and no implementation. */
public final class Topologies implements StreamsGroupTopologyDescriptionPlugin {
    private final Map<String, StreamsGroupTopologyDescription> topologies = new ConcurrentHashMap<>();

    /** Does nothing: the jar of an agent is behind the class path, also of a Java that has no class of Kafka. */
    public static final class Agent {
        public static void premain(String arguments, Instrumentation instrumentation) {}
    }

    @Override
    public void configure(Map<String, ?> settings) {}

    @Override
    public CompletableFuture<Void> setTopology(String group, int epoch, StreamsGroupTopologyDescription topology) {
        topologies.put(group + " " + epoch, topology);
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<Void> deleteTopology(String group) {
        topologies.keySet().removeIf(key -> key.startsWith(group + " "));
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<StreamsGroupTopologyDescription> getTopology(String group, int epoch) {
        return CompletableFuture.completedFuture(topologies.get(group + " " + epoch));
    }

    @Override
    public void close() {}
}
