//! The scenario with rdkafka (librdkafka, from Rust): BOOTSTRAP NAME RECORDS. It prints what it saw; the test judges it.

use std::collections::HashSet;
use std::error::Error;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::Message;
use rdkafka::TopicPartitionList;
use rdkafka::admin::AdminClient;
use rdkafka::admin::AdminOptions;
use rdkafka::admin::{NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

const PATIENCE: Duration = Duration::from_secs(120);
const PARTITIONS: i32 = 3;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let (bootstrap, name, records) = (&words[1], &words[2], words[3].parse()?);
    let admin: AdminClient<DefaultClientContext> = settings(bootstrap).create()?;
    let topic = NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(3));
    for created in block_on(admin.create_topics([&topic], &AdminOptions::new()))? {
        created.map_err(|(_, code)| format!("create the topic: {code}"))?;
    }
    let producer: ThreadedProducer<DefaultProducerContext> = settings(bootstrap).set("acks", "all").create()?;
    for broker in producer.client().fetch_metadata(None, PATIENCE)?.brokers() {
        println!("broker {} {}:{}", broker.id(), broker.host(), broker.port());
    }
    for i in 0..records {
        let (key, value) = (format!("key-{i}"), format!("value-{i}"));
        producer.send(BaseRecord::to(name).key(&key).payload(&value)).map_err(|(error, _)| error)?;
    }
    producer.flush(PATIENCE)?;
    let described = producer.client().fetch_metadata(Some(name), PATIENCE)?;
    if described.topics()[0].partitions().len() != PARTITIONS as usize {
        return Err("the topic has other partitions than were asked for".into());
    }

    // Two members of one group, one after the other: the second goes on where the first has committed.
    let mut seen = Vec::new();
    for until in [records / 2, records] {
        consume(bootstrap, name, until, &mut seen)?;
    }
    println!("consumed {} {}", seen.len(), seen.iter().collect::<HashSet<_>>().len());

    let groups = producer.client().fetch_group_list(Some(name), PATIENCE)?;
    if groups.groups().first().is_none_or(|group| group.state() != "Empty") {
        return Err("the group is not there, or not empty".into());
    }
    let reader: BaseConsumer = settings(bootstrap).set("group.id", name).create()?;
    let mut places = TopicPartitionList::new();
    places.add_partition_range(name, 0, PARTITIONS - 1);
    let committed: i64 = reader
        .committed_offsets(places, PATIENCE)?
        .elements()
        .iter()
        .filter_map(|place| place.offset().to_raw())
        .sum();
    if committed != records as i64 {
        return Err(format!("the group has committed {committed} of {records} records").into());
    }
    Ok(())
}

fn settings(bootstrap: &str) -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", bootstrap);
    settings
}

/// One member, until there were so many records in all; it commits each that it was given, and leaves.
fn consume(bootstrap: &str, name: &str, until: usize, seen: &mut Vec<Vec<u8>>) -> Result<()> {
    let consumer: BaseConsumer = settings(bootstrap)
        .set("group.id", name)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .create()?;
    consumer.subscribe(&[name])?;
    let end = Instant::now() + PATIENCE;
    while seen.len() < until {
        if Instant::now() > end {
            return Err(format!("only {} records came", seen.len()).into());
        }
        match consumer.poll(Duration::from_millis(500)) {
            None => {}
            // The topic is young: a broker may not have heard of it.
            Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::UnknownTopicOrPartition))) => {}
            Some(Err(error)) => return Err(error.into()),
            Some(Ok(message)) => {
                seen.push(message.payload().unwrap_or_default().to_vec());
                consumer.store_offset_from_message(&message)?;
            }
        }
    }
    consumer.commit_consumer_state(CommitMode::Sync)?;
    Ok(())
}

/// The crate's administration is asynchronous, whatever the runtime; here is none.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let waker = std::task::Waker::from(std::sync::Arc::new(Unparker(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

struct Unparker(std::thread::Thread);

impl std::task::Wake for Unparker {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}
