// A producer with kafkajs that fails: BOOTSTRAP TOPIC PROTOCOL MECHANISM USER PASSWORD CA.
'use strict';

const fs = require('fs');
const { Kafka } = require('kafkajs');

async function main() {
  const [bootstrap, topic, protocol, mechanism, username, password, ca] = process.argv.slice(2);
  const kafka = new Kafka({
    clientId: 'orders',
    brokers: [bootstrap],
    connectionTimeout: 2000,
    requestTimeout: 3000,
    retry: { retries: 1 },
    ssl: protocol.endsWith('SSL') ? { ca: [fs.readFileSync(ca)] } : undefined,
    sasl: mechanism ? { mechanism: mechanism.toLowerCase(), username, password } : undefined,
  });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: [{ value: 'record' }] });
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
