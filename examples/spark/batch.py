"""Add up what stands in Kafka topics now: records and bytes of each topic, to a topic of their own.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 \
      examples/spark/batch.py kproxy.yaml 'orders-.*' order-sums

The brokers' names need not resolve on any of Spark's hosts. kproxy.yaml says how they are reached; a bootstrap server
will do as well.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, length, lit, struct, to_json
from pyspark.sql.functions import sum as total

from kproxy.spark import attach


def main(config: str, pattern: str, target: str) -> None:
    spark = SparkSession.builder.appName("kproxy: a batch example").getOrCreate()
    bootstrap = attach(spark, config)

    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribePattern", pattern)
        .load()
    )
    sums = records.groupBy("topic").agg(count(lit(1)).alias("records"), total(length("value")).alias("bytes"))
    lines = sums.select(col("topic").alias("key"), to_json(struct("records", "bytes")).alias("value"))
    lines.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", target).save()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: batch.py CONFIG TOPIC-PATTERN TARGET-TOPIC")
    main(*sys.argv[1:])
