package org.apache.kafka.common.utils;

/** What the connectors for files (4.3.1, the newest in Maven) ask for; Kafka's own class is in another package since 4.4. */
public final class AppInfoParser {
    private AppInfoParser() {}

    public static String getVersion() {
        return "4.3.1";
    }
}
