import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;
import org.apache.kafka.common.message.DescribeClusterResponseData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.FindCoordinatorResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.message.ShareAcknowledgeResponseData;
import org.apache.kafka.common.message.ShareFetchResponseData;
import org.apache.kafka.common.protocol.ApiMessage;

/** The nodes that a response names with host and port, found by Kafka's own accessors. */
final class Nodes {
    /** What kproxy said it saw, and what it put there. `kind` is 0 for a broker, 1 for a controller. */
    record Replacement(byte kind, int id, String host, int port, String localHost, int localPort) {}

    /** One node of a message, and the way to give it another address. */
    record Node(int kind, int id, String host, int port, BiConsumer<String, Integer> set) {
        /** Null if the replacement is for this node, else what differs. */
        String differs(Replacement other) {
            if (kind == other.kind() && id == other.id() && host.equals(other.host()) && port == other.port()) {
                return null;
            }
            return "the message names node " + id + " (kind " + kind + ") at " + host + ":" + port + ", kproxy saw " + other;
        }
    }

    private Nodes() {}

    static List<Node> of(ApiMessage message, short version) {
        List<Node> nodes = new ArrayList<>();
        if (message instanceof MetadataResponseData metadata) {
            metadata.brokers().forEach(n -> nodes.add(new Node(0, n.nodeId(), n.host(), n.port(), (h, p) -> n.setHost(h).setPort(p))));
        } else if (message instanceof FindCoordinatorResponseData found && version < 4) {
            nodes.add(new Node(0, found.nodeId(), found.host(), found.port(), (h, p) -> found.setHost(h).setPort(p)));
        } else if (message instanceof FindCoordinatorResponseData found) {
            found.coordinators().forEach(n -> nodes.add(new Node(0, n.nodeId(), n.host(), n.port(), (h, p) -> n.setHost(h).setPort(p))));
        } else if (message instanceof DescribeClusterResponseData cluster) {
            int kind = cluster.endpointType() == 2 ? 1 : 0;
            cluster.brokers().forEach(n -> nodes.add(new Node(kind, n.brokerId(), n.host(), n.port(), (h, p) -> n.setHost(h).setPort(p))));
        } else if (message instanceof ProduceResponseData produce) {
            produce.nodeEndpoints().forEach(n -> nodes.add(new Node(0, n.nodeId(), n.host(), n.port(), (h, p) -> n.setHost(h).setPort(p))));
        } else if (message instanceof FetchResponseData fetch) {
            fetch.nodeEndpoints().forEach(n -> nodes.add(new Node(0, n.nodeId(), n.host(), n.port(), (h, p) -> n.setHost(h).setPort(p))));
        } else if (message instanceof ShareFetchResponseData fetch) {
            fetch.nodeEndpoints().forEach(n -> nodes.add(new Node(0, n.nodeId(), n.host(), n.port(), (h, p) -> n.setHost(h).setPort(p))));
        } else if (message instanceof ShareAcknowledgeResponseData acknowledge) {
            acknowledge.nodeEndpoints().forEach(n -> nodes.add(new Node(0, n.nodeId(), n.host(), n.port(), (h, p) -> n.setHost(h).setPort(p))));
        }
        return nodes;
    }

    /** Leave out the nodes of a response that has them at its end. */
    static void clear(ApiMessage message) {
        if (message instanceof ProduceResponseData produce) {
            produce.nodeEndpoints().clear();
        } else if (message instanceof FetchResponseData fetch) {
            fetch.nodeEndpoints().clear();
        } else if (message instanceof ShareFetchResponseData fetch) {
            fetch.nodeEndpoints().clear();
        } else if (message instanceof ShareAcknowledgeResponseData acknowledge) {
            acknowledge.nodeEndpoints().clear();
        } else {
            throw new IllegalArgumentException(message.getClass() + " does not stream");
        }
    }
}
