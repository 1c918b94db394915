import java.io.FileOutputStream;
import java.io.OutputStream;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** Hadoop's own YARN for tests, with two node managers: MiniYarn FILE. FILE becomes its yarn-site.xml. Ends with stdin. */
public final class MiniYarn {
    public static void main(String[] words) throws Exception {
        YarnConfiguration conf = new YarnConfiguration();
        conf.setInt("yarn.scheduler.minimum-allocation-mb", 256);
        conf.setInt("yarn.nodemanager.resource.memory-mb", 8192);
        conf.setInt("yarn.nodemanager.resource.cpu-vcores", 8);
        conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        conf.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
        conf.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "100");
        conf.set("yarn.application.classpath", "");
        conf.set("yarn.scheduler.capacity.root.queues", "default");
        conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
        conf.set("yarn.scheduler.capacity.root.default.maximum-am-resource-percent", "0.9");
        MiniYARNCluster cluster = new MiniYARNCluster("mini", 2, 1, 1);
        cluster.init(conf);
        cluster.start();
        try (OutputStream file = new FileOutputStream(words[0])) {
            cluster.getConfig().writeXml(file);
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {}
        cluster.stop();
        System.exit(0);
    }
}
