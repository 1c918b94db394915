"""Kafka Connect in distributed mode, from a file through Kafka into a file: N WORKER... BOOTSTRAP NAME RECORDS.

WORKER is the worker's command line, of N words.
Kafka's FileStream connectors: a source puts the lines of a file into a topic, a sink those of the topic into another
file. The worker is ended half-way; the next one has everything from Kafka: the connectors' settings, how far the source
had read, and what the sink's group had committed.
"""

# ruff: noqa: T201 (what it saw goes to stdout)

import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

PATIENCE_S = 250
# Where the worker says that its REST server is: it takes a port that is free.
STARTED = "REST server listening at http://"


def until(reached, what):
    end = time.monotonic() + PATIENCE_S
    while not (result := reached()):
        if time.monotonic() > end:
            raise SystemExit(f"Error: not within {PATIENCE_S} s: {what}")
        time.sleep(0.1)
    return result


@contextmanager
def worker(java, directory):
    """A worker; gives the URL of its REST server. It is ended cleanly: what it has done is committed then."""
    log = directory / "worker.log"
    with (
        log.open("w") as file,
        subprocess.Popen([*java, str(directory / "worker.properties")], stdout=file, stderr=file) as process,
    ):

        def url():
            if process.poll() is not None:
                raise SystemExit(f"Error: the worker ended\n{log.read_text()[-4000:]}")
            said = log.read_text().rpartition(STARTED)[2]
            return "http://" + said.split("/")[0] if STARTED in log.read_text() and "/" in said else ""

        try:
            yield until(url, "the worker says where it listens")
            process.terminate()
            process.wait(PATIENCE_S)
        except BaseException:
            print(log.read_text()[-4000:], file=sys.stderr)
            raise
        finally:
            process.kill()


def ask(url, settings=None):
    """The worker's answer; None while it is not ready to give one."""
    body = None if settings is None else json.dumps(settings).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="PUT" if body else "GET")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code in (404, 409, 500, 503):
                return None
            raise SystemExit(f"Error: {error.code}: {error.read().decode()}") from None


def running(url, name):
    status = ask(f"{url}/connectors/{name}/status") or {}
    states = [one["state"] for one in [status.get("connector", {"state": ""}), *status.get("tasks", [])]]
    if "FAILED" in states:
        raise SystemExit(f"Error: {name} has failed: {status}")
    return len(states) == 2 and set(states) == {"RUNNING"}


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def main():
    java = sys.argv[2 : 2 + int(sys.argv[1])]
    bootstrap, name, number = sys.argv[2 + len(java) :]
    count = int(number)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=3)]).values():
        future.result(PATIENCE_S)
    for broker in admin.list_topics(timeout=PATIENCE_S).brokers.values():
        print("broker", broker.id, f"{broker.host}:{broker.port}")
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        source, sink = directory / "source", directory / "sink"
        text = "org.apache.kafka.connect.storage.StringConverter"
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"{name}-workers",
            "config.storage.topic": f"{name}-configs",
            "offset.storage.topic": f"{name}-offsets",
            "status.storage.topic": f"{name}-status",
            "offset.storage.partitions": "3",
            "key.converter": text,
            "value.converter": text,
            "listeners": "http://127.0.0.1:0",
            "plugin.discovery": "service_load",
            "offset.flush.interval.ms": "1000",
        }
        properties = "".join(f"{key}={value}\n" for key, value in settings.items())
        (directory / "worker.properties").write_text(properties)
        file = "org.apache.kafka.connect.file.FileStream"
        connectors = {
            f"{name}-source": {"connector.class": f"{file}SourceConnector", "file": str(source), "topic": name},
            f"{name}-sink": {
                "connector.class": f"{file}SinkConnector",
                "file": str(sink),
                "topics": name,
                "consumer.override.auto.offset.reset": "earliest",
            },
        }
        for part in range(2):
            to = (part + 1) * count // 2
            with source.open("a") as out:
                out.writelines(f"line-{i}\n" for i in range(part * count // 2, to))
            with worker(java, directory) as url:
                for connector, how in connectors.items():
                    if part == 0:
                        until(lambda c=connector, h=how: ask(f"{url}/connectors/{c}/config", h), "it takes a connector")
                    until(lambda c=connector: running(url, c), f"{connector} runs")
                until(lambda t=to: len(lines(sink)) >= t, f"{to} lines are in the sink's file")
        got = lines(sink)
        print("consumed", len(got), len(set(got)))


main()
