"""The forms in which people name bootstrap servers: files, code and commands of many libraries and tools."""

from __future__ import annotations

from io import BytesIO

import pytest

from kproxy.advice.explain.explanation import explain
from kproxy.advice.explain.servers import servers_in_settings

SERVER = "10.1.2.3:9092"
ERROR = "\norg.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listTopics\n"
FORMS = (
    'spring.cloud.stream.kafka.binder.brokers=10.1.2.3:9092',
    '          brokers: 10.1.2.3:9092',
    'brokers: ["10.1.2.3:9092"]',
    "brokers: ['10.1.2.3:9092'],",
    'KafkaClient(hosts="10.1.2.3:9092")',
    'new KafkaClient({kafkaHost: "10.1.2.3:9092"})',
    'props.put("bootstrap.servers", "10.1.2.3:9092");',
    'props.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, "10.1.2.3:9092");',
    'c.set("bootstrap.servers", "10.1.2.3:9092")',
    '.option("kafka.bootstrap.servers", "10.1.2.3:9092")',
    'consumer = KafkaConsumer("t", bootstrap_servers=["10.1.2.3:9092"])',
    "Producer({'bootstrap.servers': '10.1.2.3:9092'})",
    '$conf->set("metadata.broker.list", "10.1.2.3:9092");',
    '$rk->addBrokers("10.1.2.3:9092");',
    'kafka-console-consumer.sh --bootstrap-server 10.1.2.3:9092 --topic t',
    'kafka-topics --zookeeper zk:2181 --broker-list 10.1.2.3:9092',
    'kafkacat -b 10.1.2.3:9092 -L',
    'rpk topic list --brokers 10.1.2.3:9092',
    'rpk topic list -X brokers=10.1.2.3:9092',
    'kaf -b 10.1.2.3:9092 topics',
    'kafka = Kafka.new(["10.1.2.3:9092"], client_id: "x")',
    'kafka = Kafka.new(seed_brokers: ["10.1.2.3:9092"])',
    'sarama.NewSyncProducer([]string{"10.1.2.3:9092"}, config)',
    'kgo.SeedBrokers("10.1.2.3:9092")',
    'ClientBuilder::new(vec!["10.1.2.3:9092".to_string()])',
    '.set("bootstrap.servers", "10.1.2.3:9092")',
    'output.kafka:\n  hosts: ["10.1.2.3:9092"]',
    'output.kafka:\n  hosts:\n    - 10.1.2.3:9092',
    'bootstrap_servers => "10.1.2.3:9092"',
    '"bootstrap.servers": "10.1.2.3:9092",',
    'KAFKA_CLUSTERS_0_BOOTSTRAPSERVERS: 10.1.2.3:9092',
    '      bootstrap.servers: "10.1.2.3:9092"',
    '%prod.kafka.bootstrap.servers=10.1.2.3:9092',
    'mp.messaging.connector.smallrye-kafka.bootstrap.servers=10.1.2.3:9092',
    'kafkastore.bootstrap.servers=PLAINTEXT://10.1.2.3:9092',
    'CONNECT_BOOTSTRAP_SERVERS=10.1.2.3:9092',
    'KSQL_BOOTSTRAP_SERVERS: 10.1.2.3:9092',
    "ENGINE = Kafka('10.1.2.3:9092', 'topic', 'group', 'JSONEachRow')",
    '[[outputs.kafka]]\n  brokers = ["10.1.2.3:9092"]',
    '@type kafka2\n  brokers 10.1.2.3:9092',
    '    Brokers      10.1.2.3:9092',
    'action(type="omkafka" broker=["10.1.2.3:9092"])',
    'kafka:topic?brokers=10.1.2.3:9092',
    'KAFKA_URL=10.1.2.3:9092',
    'KAFKA_HOST=10.1.2.3:9092',
    'KAFKA_BROKER_URL=10.1.2.3:9092',
    'KAFKA_BROKER_LIST: 10.1.2.3:9092',
    'KAFKA_ADDR=10.1.2.3:9092',
    'KAFKA_ADDRESS=10.1.2.3:9092',
    'KAFKA_BROKERS_URL=10.1.2.3:9092',
    '.WithBootstrapServers("10.1.2.3:9092")',
    'new ProducerConfig { BootstrapServers = "10.1.2.3:9092" }',
    "app = faust.App('x', broker='kafka://10.1.2.3:9092')",
    'endpoints: [{"10.1.2.3", 9092}]',
    'brokers: [{"10.1.2.3", 9092}]',
    'bootstrapServers: "10.1.2.3:9092"',
    'kafka.brokers=10.1.2.3:9092',
    'kafka.bootstrapServers=10.1.2.3:9092',
    '"brokers": "10.1.2.3:9092",',
    '"kafka_broker": "10.1.2.3:9092"',
    'broker.list=10.1.2.3:9092',
    'metadata.broker.list=10.1.2.3:9092',
    'spark.kafka.bootstrap.servers=10.1.2.3:9092',
    'akka.kafka.producer.kafka-clients.bootstrap.servers = "10.1.2.3:9092"',
    'bootstrapServers = "10.1.2.3:9092"',
    '  addresses: [ "10.1.2.3:9092" ]',
    'addresses:\n    - 10.1.2.3:9092',
    '"brokerList": "10.1.2.3:9092"',
    'kafka_brokers: 10.1.2.3:9092',
    'KAFKA_CFG_BOOTSTRAP_SERVERS=10.1.2.3:9092',
    'client = AIOKafkaProducer(bootstrap_servers="10.1.2.3:9092")',
    'kafka.NewReader(kafka.ReaderConfig{Brokers: []string{"10.1.2.3:9092"}})',
    'Addr: kafka.TCP("10.1.2.3:9092"),',
    "const client = new kafka.KafkaClient({ kafkaHost: '10.1.2.3:9092' });",
    '"hosts" : "10.1.2.3:9092"',
    'kafka.servers=10.1.2.3:9092',
    'kafka-server=10.1.2.3:9092',
    '--kafka-brokers 10.1.2.3:9092',
    '--brokers=10.1.2.3:9092',
    '-brokers 10.1.2.3:9092',
    '--kafka.server=10.1.2.3:9092',
)  # fmt: skip
# Addresses that are no bootstrap servers, or may be others'.
OTHERS = (
    '{"level":"ERROR","logger":"kafkajs","message":"[Connection] Connection timeout","broker":"10.1.2.3:9092"}',
    "output.elasticsearch:\n  hosts: ['10.1.2.3:9200']",
    "Broker: 10.1.2.3:9092 is not available",
    "KAFKA_ADVERTISED_LISTENERS: PLAINTEXT://10.1.2.3:9092",
    "KAFKA_ZOOKEEPER_CONNECT: 10.1.2.3:2181",
    "kafka.connect: 10.1.2.3:8083",
    "kafka_url = 10.1.2.3:8082",
    "registered new broker #1 at 10.1.2.3:9092",
)


@pytest.mark.parametrize("form", FORMS)
def test_a_server_is_found_in_each_form(form: str) -> None:
    explanation = explain(BytesIO((form + ERROR).encode()))
    assert (explanation.server, explanation.server_line) == (SERVER, form.count("\n") + 1)


@pytest.mark.parametrize("text", OTHERS)
def test_other_addresses_are_none(text: str) -> None:
    assert explain(BytesIO((text + ERROR).encode())).server == ""


def test_all_servers_of_a_list_in_their_order() -> None:
    text = "a: b\nbrokers:\n  - 'kafka-1:9092'\n  - 'kafka-2:9092'\nenv:\n- name: KAFKA_BROKERS\n  value: k:91,l:92\n"
    assert list(servers_in_settings(text)) == [(3, "kafka-1:9092"), (4, "kafka-2:9092"), (7, "k:91"), (7, "l:92")]


def test_a_server_far_down_in_a_log_is_found_if_the_client_prints_it() -> None:
    text = "x\n" * 20_000 + "[main] INFO ConsumerConfig values:\n\tbootstrap.servers = [10.1.2.3:9092]\n" + ERROR
    assert explain(BytesIO(text.encode())).server == SERVER


@pytest.mark.parametrize(
    "text",
    [
        "brokers" * 2_000,
        "brokers: " + " " * 15_000,
        ("brokers: " + " " * 55) * 200,
        "brokers: [" * 1_500,
        "brokers" + "[({" * 5_000,
        "bootstrap.servers=" + "a" * 15_000,
        "bootstrap.servers=" + "a:1," * 4_000,
        "bootstrap.servers=" + "a:1,\n" * 3_000,
        "kafka hosts: " * 1_000,
        "--brokers " * 1_500,
        "kaf " * 4_000 + "-b ",
        'DialLeader(' * 1_000 + '"tcp"',
        "Brokers " * 2_000,
        "  \n" * 5_000 + "brokers",
        "brokers value: " * 1_000,
    ],
)  # fmt: skip
def test_settings_made_to_be_slow_are_not(text: str) -> None:
    """Each of these would take minutes if a pattern tried all ways: the limit of the test run is the assertion."""
    assert len(list(servers_in_settings(text))) < 10_000
