"""Count the records of one Kafka topic by minute and key, and write the counts to another topic, as they change.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 \
      examples/spark/streaming.py kproxy.yaml orders order-counts /var/lib/checkpoints/order-counts

The brokers' names need not resolve on any of Spark's hosts. kproxy.yaml says how they are reached; a bootstrap server
will do as well. Ends when it is told to (Ctrl-C), and goes on from its checkpoint.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, lit, struct, to_json, window

from kproxy.spark import attach


def main(config: str, source: str, target: str, checkpoint: str) -> None:
    spark = SparkSession.builder.appName("kproxy: a streaming example").getOrCreate()
    bootstrap = attach(spark, config)

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    minutes = window("timestamp", "1 minute")
    counts = records.groupBy(minutes, "key").agg(count(lit(1)).alias("records"))
    lines = counts.select(
        col("key"),
        to_json(struct(col("window.start").alias("minute"), col("records"))).alias("value"),
    )
    query = (
        lines.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .outputMode("update")
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: streaming.py CONFIG SOURCE-TOPIC TARGET-TOPIC CHECKPOINT-DIRECTORY")
    main(*sys.argv[1:])
