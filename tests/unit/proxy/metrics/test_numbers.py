"""What several processes have counted, as sums."""

from __future__ import annotations

import pickle
import sys

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kproxy.proxy.metrics import FAMILIES, MAX_CALLS, Metrics, Numbers, exposition
from tests.unit.proxy.metrics.scraped import Samples, busy, samples, scrape

# Of the main process.
OWN = (
    "kproxy_build_info", "kproxy_listeners", "kproxy_config_reloads_total",
    "kproxy_config_last_reload_success_timestamp_seconds",
    "kproxy_forward_connections", "kproxy_forward_accepted_total",
    *(family.name for family in FAMILIES if family.name.startswith("kproxy_switch_")),  # who can switch has no workers
)  # fmt: skip


def shown(sums: Numbers) -> Samples:
    found = scrape(Metrics(sums))
    assert found == samples(parse_text(generate_latest(Metrics(sums).registry).decode()))
    return found


def sum_of(*processes: Metrics) -> Numbers:
    sums = Numbers()
    for metrics in processes:
        sums.add(pickle.loads(pickle.dumps(metrics.numbers())))  # the way that they go
    return sums


def test_every_sample_is_the_sum() -> None:
    one, other = busy(), busy()
    before = scrape(one)
    expected = {key: 2 * value for key, value in before.items() if key[0] not in OWN}
    assert {key: value for key, value in shown(sum_of(one, other)).items() if key[0] not in OWN} == expected
    assert scrape(one) == before


def test_what_only_one_process_has_is_there() -> None:
    one, other = busy("one"), busy("other")
    together = shown(sum_of(one, other))
    for metrics in (one, other):
        assert {
            k: v for k, v in scrape(metrics).items() if k[0] == "kproxy_build_info" or k[0] not in OWN
        }.items() <= together.items()


def test_of_a_process_that_has_ended_what_grows_stays() -> None:
    sums = Numbers()
    for _ in range(2):
        sums.add_ended(busy().numbers())
    before, after = scrape(busy()), shown(sums)
    for (name, labels), value in before.items():
        if name == "kproxy_sessions_open":
            assert after[name, labels] == 0
        elif name == "kproxy_requests_in_flight":
            assert (name, labels) not in after
        elif name not in OWN:
            assert after[name, labels] == 2 * value


def test_no_pair_of_api_and_version_goes_from_one_series_to_another() -> None:
    """Or a counter would go back: whose pairs come first must not matter."""
    one, other = Metrics(), Metrics()
    for version in range(MAX_CALLS):
        one.node("c", "1").call(version, "A", version).count = 1
        other.node("c", "1").call(10_000 + version, "B", version).count = 1
    assert shown(sum_of(one, other)) == shown(sum_of(other, one))


@pytest.mark.skipif(sys.platform != "linux", reason="prometheus-client reads /proc")
def test_process_metrics_are_sums_too() -> None:
    def process(metrics: Metrics) -> dict[str, float]:
        families = parse_text("".join(exposition(metrics)[0]))
        return {s.name: s.value for f in families for s in f.samples if s.name.startswith("process_")}

    numbers = Metrics().numbers()
    numbers.process = {"process_cpu_seconds_total": 3.5, "process_open_fds": 7.0}
    sums = Numbers()
    sums.add(numbers)
    sums.add(numbers)
    sums.add_ended(numbers)
    assert process(Metrics(sums))["process_cpu_seconds_total"] == 10.5
    sums = Numbers()
    sums.add_ended(numbers)
    sums.add(numbers)
    found = process(Metrics(sums))
    assert (found["process_cpu_seconds_total"], found["process_open_fds"]) == (7.0, 7.0)
    assert found["process_start_time_seconds"] == process(Metrics())["process_start_time_seconds"]


def test_what_was_counted_of_nodes_that_are_gone_is_forgotten() -> None:
    metrics = Metrics()
    for cluster in ("a", "b"):
        for label in ("1", "2", "3", "bootstrap"):
            metrics.node(cluster, label)
            metrics.dialled(cluster, label, 0.1)
            metrics.dialled(cluster, label, 0.1, "blue")
            metrics.dial_failed(cluster, label, "refused")
            metrics.dial_failed(cluster, label, "refused", "blue")
    metrics.node("a", "3").sessions_open = 1
    metrics.keep_only("a", {"1"})
    for numbers in (metrics.nodes, metrics.dials, metrics.dial_failures):
        assert {key[1] for key in numbers if key[0] == "a"} == {"1", "3", "bootstrap"}, "clients are connected to 3"
        assert {key[1] for key in numbers if key[0] == "b"} == {"1", "2", "3", "bootstrap"}
    metrics.node("a", "3").sessions_open = 0
    metrics.keep_only("a", ())
    assert {key for key in metrics.numbers().nodes if key[0] == "a"} == {("a", "bootstrap")}
