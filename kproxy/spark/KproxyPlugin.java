package kproxy.spark;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkFiles;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts or joins the host's kproxy in every executor before its first task, however late it comes.
 *
 * <p>An executor asks the driver over Spark's own RPC, so the configuration is in no SparkConf, event log or page. The
 * driver knows it from kproxy.spark.attach, or from the file that spark.kproxy.config names there.
 *
 * <p>Compiled by janino, which Spark brings: no lambdas, and generics are only looked past. Spark 3.5 runs on Java 8: no
 * newer classes of Java's. One jar serves both versions of Scala: no signature has a type of Scala's.
 */
public final class KproxyPlugin implements SparkPlugin {
    private static final Logger log = LoggerFactory.getLogger(KproxyPlugin.class);
    private static final long RETRY_MS = 60000;

    // In the driver: the Python interpreter of executors, and what is shipped to them.
    private static volatile String[] told = null;

    /** What kproxy.spark.attach tells the driver. */
    public static void tell(String python, String shipped) {
        told = new String[] {python, shipped};
    }

    public DriverPlugin driverPlugin() {
        return new Driver();
    }

    public ExecutorPlugin executorPlugin() {
        return new Executor();
    }

    private static final class Driver implements DriverPlugin {
        private String python;
        private String joined = null; // what was shipped to this host, if it has a lease

        public Map init(SparkContext context, PluginContext plugin) {
            String file = configuration(plugin.conf());
            if (!file.isEmpty()) {
                String executors = setting(plugin.conf(), "spark.pyspark.python", "PYSPARK_PYTHON", "python3");
                String driver = setting(plugin.conf(), "spark.pyspark.driver.python", "PYSPARK_DRIVER_PYTHON", executors);
                python = plugin.conf().get("spark.kproxy.driver.python", python(plugin.conf(), driver, driver));
                String shipped = run(python, "", "ship", file);
                run(python, shipped, "join", ownPid());
                joined = shipped;
                tell(executors, shipped);
            }
            return Collections.emptyMap();
        }

        public Object receive(Object message) {
            return told;
        }

        public void shutdown() {
            told = null;
            if (joined != null) {
                run(python, joined, "leave", ownPid());
            }
        }

        private static String setting(SparkConf conf, String key, String variable, String otherwise) {
            String environment = System.getenv(variable);
            return conf.get(key, environment == null ? otherwise : environment);
        }
    }

    private static final class Executor implements ExecutorPlugin {
        private PluginContext plugin;
        private volatile String keeper = null; // its process id, and when it was born
        private volatile String born = null;
        private volatile long failed = 0;

        public void init(PluginContext context, Map extra) {
            plugin = context;
            join();
        }

        /** For executors that were there before the driver was told, and if the keeper was killed. */
        public void onTaskStart() {
            if (!isThere()) {
                join();
            }
        }

        private boolean isThere() {
            return born != null && born.equals(birth(keeper));
        }

        /** An executor without kproxy is of use still: what is wrong stands in its log. */
        private synchronized void join() {
            if (isThere() || System.currentTimeMillis() < failed + RETRY_MS) {
                return;
            }
            try {
                String[] told = (String[]) plugin.ask("");
                if (told != null) {
                    String own = python(plugin.conf(), told[0], null);
                    String said = run(own, told[1], "join", ownPid());
                    String[] words = said.split(" ");
                    keeper = words[0];
                    born = birth(keeper);
                    log.info("kproxy is ready for this executor: {}", words[1]);
                }
            } catch (Exception error) {
                failed = System.currentTimeMillis();
                log.error("no kproxy for this executor: {}", error.getMessage());
            }
        }
    }

    /**
     * Where the file is that spark.kproxy.config names; "" if it names none. A driver in cluster mode is on another host
     * than spark-submit: it has what --files sent, by its name.
     */
    private static String configuration(SparkConf conf) {
        String named = conf.get("spark.kproxy.config", "");
        if (named.isEmpty()) {
            return "";
        }
        File file = new File(path(named));
        File sent = sent(file.getName());
        boolean elsewhere = conf.get("spark.submit.deployMode", "client").equals("cluster");
        return (sent != null && (elsewhere || !file.exists()) ? sent : file).getPath();
    }

    /**
     * The Python that runs kproxy here: that of spark.kproxy.python, `unset` without that setting. Its path may lie in
     * an archive that Spark has sent; where it is not, `missing`, or the path all the same if that is null.
     */
    private static String python(SparkConf conf, String unset, String missing) {
        String named = path(conf.get("spark.kproxy.python", ""));
        if (named.isEmpty()) {
            return unset;
        }
        if (named.indexOf('/') <= 0) {
            return named;
        }
        File sent = sent(named);
        return sent != null ? sent.getPath() : missing != null ? missing : named;
    }

    /** A path may stand there as a URI, as those with blanks do on command lines. */
    private static String path(String named) {
        return named.startsWith("file:") ? new File(URI.create(named)).getPath() : named;
    }

    /** What --files or --archives sent, by its relative path: executors and YARN have it where they run. */
    private static File sent(String path) {
        File[] places = {new File(SparkFiles.getRootDirectory(), path), new File(new File("").getAbsolutePath(), path)};
        return places[0].exists() ? places[0] : places[1].exists() ? places[1] : null;
    }

    private static String ownPid() {
        return ManagementFactory.getRuntimeMXBean().getName().split("@")[0];
    }

    /** When a process was born, as process ids are used again; null if there is none. */
    private static String birth(String pid) {
        try {
            if (new File("/proc/self/stat").exists()) {
                String stat = lastLine(new BufferedReader(new java.io.FileReader("/proc/" + pid + "/stat")));
                return stat.substring(stat.lastIndexOf(')') + 2).split(" ")[19];
            }
            Process ps = new ProcessBuilder(Arrays.asList(new String[] {"ps", "-o", "lstart=", "-p", pid})).start();
            String said = lastLine(new BufferedReader(new InputStreamReader(ps.getInputStream(), "UTF-8")));
            return said.isEmpty() ? null : said;
        } catch (IOException error) {
            return null;
        }
    }

    /** Run python -m kproxy.spark; what it prints. Throws RuntimeException with its last line of stderr. */
    private static String run(String python, String input, String word, String argument) {
        List command = new ArrayList(Arrays.asList(new String[] {python, "-m", "kproxy.spark", word, argument}));
        try {
            File errors = File.createTempFile("kproxy", ".err");
            try {
                ProcessBuilder builder = new ProcessBuilder(command).redirectError(errors);
                // What lies in a job's directory must not stand in for Python's own modules.
                builder.environment().put("PYTHONSAFEPATH", "1");
                Process process = builder.start();
                OutputStream stdin = process.getOutputStream();
                stdin.write(input.getBytes("UTF-8"));
                stdin.close();
                String said = lastLine(new BufferedReader(new InputStreamReader(process.getInputStream(), "UTF-8")));
                int code = process.waitFor();
                if (code != 0) {
                    String why = lastLine(new BufferedReader(new java.io.FileReader(errors)));
                    throw new RuntimeException(why.isEmpty() ? python + " ended with code " + code : why);
                }
                return said;
            } finally {
                errors.delete();
            }
        } catch (IOException error) {
            throw new RuntimeException(error.getMessage());
        } catch (InterruptedException error) {
            throw new RuntimeException("interrupted while kproxy was being started");
        }
    }

    private static String lastLine(BufferedReader reader) throws IOException {
        String last = "";
        for (String line = reader.readLine(); line != null; line = reader.readLine()) {
            last = line;
        }
        reader.close();
        return last;
    }
}
