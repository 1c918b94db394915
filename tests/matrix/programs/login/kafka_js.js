// Each line of the file is a login: write a record with kafkajs, and read it.
'use strict';

const { readFileSync } = require('fs');
const { Kafka, logLevel } = require('kafkajs');

const PATIENCE_MS = 60000;

function settings(bootstrap, mechanism, user, password, token, ca, pem) {
  const ssl = { ca: [readFileSync(ca)] };
  const made = { brokers: [bootstrap], logLevel: logLevel.NOTHING, ssl };
  if (mechanism === 'certificate') {
    return { ...made, ssl: { ...ssl, cert: readFileSync(pem), key: readFileSync(pem) } };
  }
  const name = mechanism.toLowerCase();
  if (name === 'oauthbearer') {
    const oauthBearerProvider = async () => ({ value: readFileSync(token, 'utf8') });
    return { ...made, sasl: { mechanism: name, oauthBearerProvider } };
  }
  return { ...made, sasl: { mechanism: name, username: user, password } };
}

async function run(name, topic, config) {
  const kafka = new Kafka({ clientId: name, ...config });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: [{ value: name }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: `${topic}-${name}` });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  let timer;
  await new Promise((enough, failed) => {
    timer = setTimeout(() => failed(new Error('not read')), PATIENCE_MS);
    consumer.on(consumer.events.CRASH, (event) => failed(event.payload.error));
    consumer.run({ eachMessage: async ({ message }) => message.value.toString() === name && enough() }).catch(failed);
  });
  clearTimeout(timer);
  await consumer.disconnect();
}

async function main() {
  for (const line of readFileSync(process.argv[2], 'utf8').trim().split('\n')) {
    const [name, bootstrap, topic, ...login] = line.split('\t');
    try {
      await run(name, topic, settings(bootstrap, ...login));
      console.log(`${name} ok`);
    } catch (error) {
      console.log(`${name} ${error}`);
    }
  }
  process.exit(0);
}

main();
