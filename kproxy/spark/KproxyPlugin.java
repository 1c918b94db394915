package kproxy.spark;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
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
 * driver knows it from kproxy.spark.attach, or from the file that spark.kproxy.config names there. An executor tells the
 * driver whether it has kproxy, and passes on what kproxy warns of on its host.
 *
 * <p>Messages to the driver are arrays of text: {"ask"}, {"joined", executor}, {"failed", executor, why, whether that
 * stays so}, and {"said", host, mark of its log, offset there, line}.
 *
 * <p>Compiled by janino, which Spark brings: no lambdas, and generics are only looked past. Spark 3.5 runs on Java 8: no
 * newer classes of Java's. One jar serves both versions of Scala: no signature has a type of Scala's.
 */
public final class KproxyPlugin implements SparkPlugin {
    private static final Logger log = LoggerFactory.getLogger(KproxyPlugin.class);
    private static final long LOOK_AGAIN_MS = 1000, ASK_AGAIN_MS = 5000, RETRY_MS = 60000;
    private static final int NOT_READY = 3; // how kproxy.spark ends then
    private static final String PYTHON = "spark.kproxy.python", DRIVER_PYTHON = "spark.kproxy.driver.python";
    private static final String STRICT = "spark.kproxy.strict";
    private static final String SECONDS = "60"; // how long a host may take, without a call of attach that says so

    // In the driver: the Python interpreter of executors, what is shipped to them, how long they may take, in s, and the
    // number of this attempt: an executor that failed in an earlier attempt tries again at once.
    private static volatile String[] told = null;
    private static int attempts = 0;
    // In the driver: executor → why it has no kproxy ("" if it has), and host and mark of its log → how far it was read.
    private static final Map executors = new ConcurrentHashMap();
    private static final Map read = new ConcurrentHashMap();

    /** What kproxy.spark.attach tells the driver; null if executors are to have no kproxy. */
    public static synchronized void tell(String python, String shipped, String seconds) {
        if (told == null || !told[1].equals(shipped)) {
            executors.clear();
        }
        told = python == null ? null : new String[] {python, shipped, seconds, String.valueOf(++attempts)};
    }

    /** Executor → why it has no kproxy, "" if it has; without those that have not said anything. */
    public static Map executors() {
        return new HashMap(executors);
    }

    public DriverPlugin driverPlugin() {
        return new Driver();
    }

    public ExecutorPlugin executorPlugin() {
        return new Executor();
    }

    private static final class Driver implements DriverPlugin, Hearer {
        private volatile Joined joined = null; // the proxy of this host, if the driver has joined it here
        private volatile boolean stopped = false;
        private long failedAt = 0;
        private SparkContext context;
        private String file; // that spark.kproxy.config names, "" without one
        private boolean isStrict;
        private boolean ends = false; // the application, as it is strict

        /** Throws Missing if spark.kproxy.config is set and this host cannot have kproxy: the application does not start. */
        public Map init(SparkContext context, PluginContext plugin) {
            this.context = context;
            file = configuration(plugin.conf());
            isStrict = !file.isEmpty() && plugin.conf().getBoolean(STRICT, false);
            if (!file.isEmpty()) {
                String executors = setting(plugin.conf(), "spark.pyspark.python", "PYSPARK_PYTHON", "python3");
                SparkConf conf = plugin.conf();
                String driver = setting(conf, "spark.pyspark.driver.python", "PYSPARK_DRIVER_PYTHON", executors);
                String python = conf.get(DRIVER_PYTHON, python(conf, driver, driver));
                boolean isProtected = conf.getBoolean("spark.authenticate", false) || context.isLocal();
                boolean isAllowed = conf.getBoolean("spark.kproxy.allowUnauthenticated", false);
                try {
                    String how = isProtected || isAllowed ? "ship" : "ship-openly";
                    String shipped = run(null, DRIVER_PYTHON, python, "", how, file);
                    joined = new Joined(this, DRIVER_PYTHON, python, shipped, SECONDS);
                    tell(executors, shipped, SECONDS);
                } catch (Missing error) {
                    String why = inPlace(error.getMessage());
                    log.error("no kproxy for this driver: {}", why);
                    throw new Missing(why, error.lasts);
                }
                Thread thread = new Thread("kproxy") {
                    public void run() {
                        while (!stopped && pause()) {
                            noteAll(joined.newLines());
                            keep();
                        }
                    }
                };
                thread.setDaemon(true);
                thread.start();
            }
            return Collections.emptyMap();
        }

        /** Have a proxy again if its keeper was killed. */
        private void keep() {
            if (joined.isAlive() || System.currentTimeMillis() < failedAt + RETRY_MS) {
                return;
            }
            note(joined.end());
            try {
                Joined again = new Joined(this, DRIVER_PYTHON, joined.python, joined.shipped, SECONDS);
                joined = again;
                log.warn("kproxy is ready for this driver again: {}", again.bootstrap);
                if (stopped) {
                    again.leave();
                }
            } catch (RuntimeException error) {
                failedAt = System.currentTimeMillis();
                log.error("no kproxy for this driver: {}", inPlace(String.valueOf(error.getMessage())));
            }
        }

        public void hear(String[] said) {
            note(said);
        }

        /** With what the keys are that a message of kproxy's names. */
        private String inPlace(String why) {
            return file.isEmpty() || why.indexOf('`') < 0 ? why : why + " (in `...`: keys of " + file + ")";
        }

        private synchronized void failed(String executor, String why, boolean lasts) {
            executors.put(executor, why);
            if (isStrict && lasts) {
                log.error("no kproxy for executor {}: {}; the application ends, as {}=true", executor, inPlace(why), STRICT);
                end("no kproxy for executor " + executor + ": " + inPlace(why));
            } else if (!file.isEmpty() && lasts) {
                String rest = "; its Kafka tasks will fail: " + STRICT + "=true ends the application instead";
                log.error("no kproxy for executor {}: {}", executor, inPlace(why) + rest);
            } else {
                log.error("no kproxy for executor {}: {}", executor, inPlace(why));
            }
        }

        /** In a thread of its own, as this one is of Spark's RPC. */
        private void end(final String why) {
            if (ends) {
                return;
            }
            ends = true;
            Thread thread = new Thread("kproxy ends the application") {
                public void run() {
                    int[] jobs = context.statusTracker().getActiveJobIds();
                    for (int at = 0; at < jobs.length; at++) {
                        context.cancelJob(jobs[at], why);
                    }
                    context.stop();
                }
            };
            thread.setDaemon(true);
            thread.start();
        }

        public Object receive(Object message) {
            String[] words = (String[]) message;
            if (words[0].equals("ask")) {
                return told;
            } else if (words[0].equals("joined")) {
                executors.put(words[1], "");
            } else if (words[0].equals("failed")) {
                failed(words[1], words[2], Boolean.parseBoolean(words[3]));
            } else if (words[0].equals("said")) {
                note(words);
            }
            return null;
        }

        private static void noteAll(List messages) {
            for (Iterator lines = messages.iterator(); lines.hasNext(); ) {
                note((String[]) lines.next());
            }
        }

        /** Several executors of one host read the same log. */
        private static synchronized void note(String[] said) {
            String key = said[1] + " " + said[2];
            long offset = Long.parseLong(said[3]);
            Long before = (Long) read.get(key);
            if (before == null || offset > before.longValue()) {
                read.put(key, Long.valueOf(offset));
                log.warn("{}: {}", said[1], said[4]);
            }
        }

        public void shutdown() {
            stopped = true;
            told = null;
            if (joined != null) {
                joined.leave();
            }
        }

        private static String setting(SparkConf conf, String key, String variable, String otherwise) {
            String environment = System.getenv(variable);
            return conf.get(key, environment == null ? otherwise : environment);
        }
    }

    private static final class Executor implements ExecutorPlugin, Hearer {
        private PluginContext plugin;
        private volatile Joined joined = null;
        private volatile boolean stopped = false;
        private String joinedIn = "", failedIn = ""; // which attempt
        private long failedAt = 0;
        private long asked = 0;

        public void init(PluginContext context, Map extra) {
            plugin = context;
            look();
            Thread thread = new Thread("kproxy") {
                public void run() {
                    while (!stopped && pause()) {
                        look();
                        passOn();
                    }
                }
            };
            thread.setDaemon(true);
            thread.start();
        }

        /** For executors that were there before the driver was told, and if the keeper was killed. */
        public void onTaskStart() {
            Joined now = joined;
            if (now == null || !now.isAlive()) {
                look();
            }
        }

        public void shutdown() {
            stopped = true;
        }

        /** Have what the driver wants. An executor without kproxy is of use still: the driver is told what is wrong. */
        private synchronized void look() {
            boolean has = joined != null && joined.isAlive();
            if (has && System.currentTimeMillis() < asked + ASK_AGAIN_MS) {
                return;
            }
            String[] told;
            try {
                told = (String[]) plugin.ask(new String[] {"ask"});
                asked = System.currentTimeMillis();
            } catch (Exception error) { // the driver ends, or is busy
                log.debug("the driver does not answer: {}", error.getMessage());
                return;
            }
            String shipped = told == null ? "" : told[1];
            if (has && joined.shipped.equals(shipped)) {
                if (!joinedIn.equals(told[3])) {
                    joinedIn = told[3];
                    tell(new String[] {"joined", plugin.executorID()});
                }
                return;
            }
            if (has) {
                joined.leave();
            } else if (joined != null) {
                tell(joined.end());
            }
            joined = null;
            boolean wait = System.currentTimeMillis() < failedAt + RETRY_MS;
            if (told != null && !(wait && told[3].equals(failedIn))) {
                join(told);
            }
        }

        private void join(String[] told) {
            try {
                joined = new Joined(this, PYTHON, python(plugin.conf(), told[0], null), told[1], told[2]);
                joinedIn = told[3];
                log.info("kproxy is ready for this executor: {}", joined.bootstrap);
                tell(new String[] {"joined", plugin.executorID()});
            } catch (RuntimeException error) {
                failedIn = told[3];
                failedAt = System.currentTimeMillis();
                log.error("no kproxy for this executor: {}", error.getMessage());
                // What was possible once will be so again.
                boolean lasts = error instanceof Missing && ((Missing) error).lasts && joinedIn.isEmpty();
                String why = String.valueOf(error.getMessage());
                tell(new String[] {"failed", plugin.executorID(), why, String.valueOf(lasts)});
            }
        }

        private void passOn() {
            Joined now = joined;
            if (now != null) {
                for (Iterator lines = now.newLines().iterator(); lines.hasNext(); ) {
                    tell((String[]) lines.next());
                }
            }
        }

        public void hear(String[] said) {
            tell(said);
        }

        private void tell(String[] message) {
            try {
                plugin.send(message);
            } catch (Exception error) { // the driver ends
                log.debug("the driver does not listen: {}", error.getMessage());
            }
        }
    }

    private static boolean pause() {
        try {
            Thread.sleep(LOOK_AGAIN_MS);
            return true;
        } catch (InterruptedException error) {
            return false;
        }
    }

    /** Who is told what kproxy warns of, while it cannot be read from the log yet: messages that begin with "said". */
    private interface Hearer {
        void hear(String[] said);
    }

    /** Why a host has no kproxy, without a stack trace: what is wrong is not in this JVM. */
    private static final class Missing extends RuntimeException {
        final boolean lasts; // trying again does not help before a person changes something

        Missing(String why, boolean lasts) {
            super(why, null, false, false);
            this.lasts = lasts;
        }
    }

    /** The proxy of this host, with a lease of this JVM. */
    private static final class Joined {
        // As kproxy.spark.logtail reads it.
        private static final Pattern LINE = Pattern.compile("\\d{4}-\\d\\d-\\d\\dT\\S+ (?:WARNING|ERROR|CRITICAL) +(.+)");
        private static final int MOST = 1 << 16, MARKED = 35;

        final String shipped, bootstrap;
        private final String python, keeperId, path, host;
        private final String born; // the keeper, as process ids are used again
        private String marked; // the log, which gets another mark when it is emptied
        private long at;

        /** Throws Missing if it cannot be had, or is not ready in time. `key`: the setting that says which Python. */
        Joined(Hearer hearer, String key, String python, String shipped, String seconds) {
            this.python = python;
            this.shipped = shipped;
            String[] words = KproxyPlugin.run(hearer, key, python, shipped, "join", ownPid(), seconds).split(" ", 6);
            keeperId = words[0];
            born = birth(keeperId);
            bootstrap = words[1];
            marked = words[2];
            at = Long.parseLong(words[3]);
            host = words[4];
            path = words[5];
        }

        boolean isAlive() {
            return born != null && born.equals(birth(keeperId));
        }

        void leave() {
            try {
                KproxyPlugin.run(null, PYTHON, python, shipped, "leave", ownPid());
            } catch (Missing error) { // it ends with this JVM
                log.debug("kproxy stays until this JVM ends: {}", error.getMessage());
            }
        }

        /** A message to the driver: the keeper has ended, before all that use it had. Each of them says so. */
        String[] end() {
            String text = "the keeper of kproxy (process " + keeperId + ") has ended; kproxy is started again";
            return new String[] {"said", host, "keeper " + keeperId + " " + born, "1", text};
        }

        /** A message to the driver for each new warning in the log of kproxy and its keeper. */
        List newLines() {
            List found = new ArrayList();
            try {
                RandomAccessFile file = new RandomAccessFile(path, "r");
                try {
                    String now = mark(file);
                    long start = now.equals(marked) ? at : MARKED;
                    byte[] chunk = new byte[(int) Math.max(0, Math.min(MOST, file.length() - start))];
                    file.seek(start);
                    file.readFully(chunk);
                    if (!mark(file).equals(now)) { // it is just being emptied
                        return found;
                    }
                    marked = now;
                    at = start;
                    int from = 0;
                    for (int to = 0; to < chunk.length; to++) {
                        if (chunk[to] == '\n') {
                            Matcher line = LINE.matcher(new String(chunk, from, to - from, "UTF-8"));
                            from = to + 1;
                            if (line.matches()) {
                                String offset = String.valueOf(at + from);
                                found.add(new String[] {"said", host, marked, offset, line.group(1)});
                            }
                        }
                    }
                    at += from == 0 && chunk.length == MOST ? MOST : from;
                } finally {
                    file.close();
                }
            } catch (IOException error) { // the proxy has ended, or the log is just being made or emptied
                log.debug("{}", error.getMessage());
            }
            return found;
        }

        private static String mark(RandomAccessFile file) throws IOException {
            byte[] first = new byte[MARKED];
            file.seek(0);
            file.readFully(first);
            return new String(first, 2, MARKED - 3, "UTF-8");
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
        String named = path(conf.get(PYTHON, ""));
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

    /**
     * Run python -m kproxy.spark; its last line on stdout. Those before are for the hearer. Throws Missing with its last
     * line on stderr. `key`: the setting that says which Python.
     */
    private static String run(Hearer hearer, String key, String python, String input, String... words) {
        List command = new ArrayList(Arrays.asList(new String[] {python, "-m", "kproxy.spark"}));
        command.addAll(Arrays.asList(words));
        try {
            File errors = File.createTempFile("kproxy", ".err");
            try {
                ProcessBuilder builder = new ProcessBuilder(command).redirectError(errors);
                // What lies in a job's directory must not stand in for Python's own modules.
                builder.environment().put("PYTHONSAFEPATH", "1");
                Process process;
                try {
                    process = builder.start();
                } catch (IOException error) {
                    throw without("there is no Python " + python + " (" + error.getMessage() + ")", key);
                }
                try {
                    OutputStream stdin = process.getOutputStream();
                    stdin.write(input.getBytes("UTF-8"));
                    stdin.close();
                } catch (IOException error) { // it has ended, and says why
                    log.debug("{}", error.getMessage());
                }
                String last = "";
                BufferedReader stdout = new BufferedReader(new InputStreamReader(process.getInputStream(), "UTF-8"));
                for (String line = stdout.readLine(); line != null; line = stdout.readLine()) {
                    String[] said = line.split(" ", 5);
                    if (hearer != null && said.length == 5 && said[0].equals("said")) {
                        hearer.hear(said);
                    } else {
                        last = line;
                    }
                }
                int code = process.waitFor();
                if (code != 0) {
                    String why = lastLine(new BufferedReader(new java.io.FileReader(errors)));
                    if (why.indexOf("No module named") >= 0 || why.matches("(Import|Syntax|ModuleNotFound)Error: .*")) {
                        String its = why.startsWith(python + ": ") ? why.substring(python.length() + 2) : why;
                        throw without(python + " cannot run kproxy (" + its + ")", key);
                    }
                    throw new Missing(why.isEmpty() ? python + " ended with code " + code : why, code != NOT_READY);
                }
                return last;
            } finally {
                errors.delete();
            }
        } catch (IOException error) {
            throw new Missing(hostName() + ": kproxy cannot be started: " + error.getMessage(), false);
        } catch (InterruptedException error) {
            throw new Missing("interrupted while kproxy was being started", false);
        }
    }

    private static Missing without(String what, String key) {
        String install = ": install kproxy there, or set " + key + " to the path of a Python that has it";
        return new Missing(hostName() + ": " + what + install, true);
    }

    private static String hostName() {
        try {
            return java.net.InetAddress.getLocalHost().getHostName();
        } catch (IOException error) { // its own name is not known there
            return "this host";
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
