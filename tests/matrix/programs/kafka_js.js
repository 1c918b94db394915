// The scenario with kafkajs: BOOTSTRAP NAME RECORDS. It prints what it saw; the test judges it.
'use strict';

const { Kafka, logLevel } = require('kafkajs');

const PARTITIONS = 3;

async function main() {
  const [bootstrap, name, number] = process.argv.slice(2);
  const count = Number(number);
  const kafka = new Kafka({ clientId: name, brokers: bootstrap.split(','), logLevel: logLevel.ERROR });

  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({
    topics: [{ topic: name, numPartitions: PARTITIONS, replicationFactor: 3 }],
    waitForLeaders: true,
  });
  for (const broker of (await admin.describeCluster()).brokers) {
    console.log(`broker ${broker.nodeId} ${broker.host}:${broker.port}`);
  }

  const producer = kafka.producer({ retry: { retries: 20 } });
  await producer.connect();
  const messages = Array.from({ length: count }, (_, i) => ({ key: `key-${i}`, value: `value-${i}` }));
  await producer.send({ topic: name, acks: -1, messages });
  await producer.disconnect();
  const { topics } = await admin.fetchTopicMetadata({ topics: [name] });
  if (topics[0].partitions.length !== PARTITIONS) {
    throw new Error(`the topic has ${topics[0].partitions.length} partitions`);
  }

  // Two members of one group, one after the other: the second goes on where the first has committed.
  const seen = [];
  for (const until of [Math.floor(count / 2), count]) {
    await consume(kafka, name, until, seen);
  }
  console.log(`consumed ${seen.length} ${new Set(seen).size}`);

  const { groups } = await admin.describeGroups([name]);
  if (groups[0].state !== 'Empty') {
    throw new Error(`the group is ${groups[0].state}`);
  }
  const offsets = await admin.fetchOffsets({ groupId: name, topics: [name] });
  const committed = offsets[0].partitions.reduce((sum, one) => sum + Number(one.offset), 0);
  if (committed !== count) {
    throw new Error(`the group has committed ${committed} of ${count} records`);
  }
  await admin.disconnect();
}

// One member, until there were so many records in all; it commits each that it was given, and leaves.
async function consume(kafka, name, until, seen) {
  const consumer = kafka.consumer({ groupId: name });
  await consumer.connect();
  await consumer.subscribe({ topics: [name], fromBeginning: true });
  await new Promise((enough, failed) => {
    consumer.on(consumer.events.CRASH, (event) => failed(event.payload.error));
    consumer
      .run({
        autoCommit: false,
        eachBatchAutoResolve: false,
        eachBatch: async ({ batch, isRunning, heartbeat }) => {
          let last;
          for (const message of batch.messages) {
            if (!isRunning() || seen.length >= until) {
              break;
            }
            seen.push(message.value.toString());
            last = message.offset;
          }
          if (last !== undefined) {
            const offset = (BigInt(last) + 1n).toString();
            await consumer.commitOffsets([{ topic: name, partition: batch.partition, offset }]);
          }
          await heartbeat();
          if (seen.length >= until) {
            enough();
          }
        },
      })
      .catch(failed);
  });
  await consumer.disconnect();
}

main().catch((error) => {
  console.error(`Error: ${error.stack || error}`);
  process.exit(1);
});
