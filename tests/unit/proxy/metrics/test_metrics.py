"""The counters, read back through prometheus-client's own parsers."""

from __future__ import annotations

import subprocess
import sys
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kproxy.proxy.metrics import LATENCY_BOUNDS, MAX_CALLS, MAX_REASONS, Durations, Metrics
from kproxy.proxy.metrics.exposition import exposition
from kproxy.proxy.metrics.families import FAMILIES
from tests.unit.proxy.metrics.scraped import FamilyCollector, busy, sample_names, samples, scrape, value

OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"


@pytest.mark.parametrize("cluster", ["default", 'a "quoted" \\n \n 100 %s {name} ,le="LABELS" é'])
def test_the_fast_text_says_what_prometheus_client_says(cluster: str) -> None:
    metrics = busy(cluster)
    ours, content_type = exposition(metrics)
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    theirs = generate_latest(FamilyCollector(metrics)).decode()
    ours_parsed = [family for family in parse_text("".join(ours)) if family.name.startswith("kproxy_")]
    theirs_parsed = list(parse_text(theirs))
    assert samples(ours_parsed) == samples(theirs_parsed)
    assert len(samples(ours_parsed)) > 100
    assert {(f.name, f.type, f.documentation) for f in ours_parsed} == {
        (f.name, f.type, f.documentation) for f in theirs_parsed
    }


def test_openmetrics_is_read_by_its_strict_parser() -> None:
    metrics = busy()
    ours, content_type = exposition(metrics, OPENMETRICS)
    text = "".join(ours)
    assert content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert text.endswith("# EOF\n")
    assert text.count("# EOF") == 1
    families = list(parse_openmetrics(text))  # checks types, units, bucket order, counts
    assert samples(families) == scrape(metrics)
    assert {f.name: f.unit for f in families if f.unit} == {f.stem: f.unit for f in FAMILIES if f.unit}


@pytest.mark.parametrize(
    "accept",
    ["", "*/*", "text/html;q=0", "application/openmetrics-text;version=x.y", ";;;,,=,", "text/plain;version=v1"],
)
def test_an_odd_accept_header_gets_plain_text(accept: str) -> None:
    assert exposition(Metrics(), accept)[1].startswith("text/plain")


def test_process_metrics_and_build_info_are_there() -> None:
    text = "".join(exposition(Metrics())[0])
    names = {sample.name for family in parse_text(text) for sample in family.samples}
    assert {"python_info", "python_gc_collections_total", "kproxy_build_info"} <= names
    if sys.platform == "linux":
        assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"} <= names


def test_every_family_has_samples_once_it_was_used() -> None:
    names = {name for name, _ in scrape(busy())}
    assert names == {name for family in FAMILIES for name in sample_names(family)}


def test_a_node_counts_sessions_bytes_and_requests() -> None:
    metrics = Metrics()
    node = metrics.node("default", "1")
    assert metrics.node("default", "1") is node
    node.sessions_open += 1
    node.sessions_total += 1
    node.bytes_from_client += 100
    node.bytes_from_upstream += 2**60
    call = node.call(1 << 16 | 17, "Fetch", 17)
    assert node.call(1 << 16 | 17, "Fetch", 17) is call
    assert node.calls == {1 << 16 | 17: call}
    call.count += 7

    here = {"cluster": "default", "node": "1"}
    assert value(metrics, "kproxy_sessions_open", **here) == 1
    assert value(metrics, "kproxy_sessions_total", **here) == 1
    assert value(metrics, "kproxy_bytes_total", **here, direction="client_to_upstream") == 100
    assert value(metrics, "kproxy_bytes_total", **here, direction="upstream_to_client") == 2**60
    assert value(metrics, "kproxy_requests_total", **here, api="Fetch", version="17") == 7


def test_durations_are_cumulative_and_summed_over_versions() -> None:
    metrics = Metrics()
    node = metrics.node("default", "1")
    node.call(1 << 16 | 12, "Fetch", 12).add(LATENCY_BOUNDS[1])  # a bound belongs to its own bucket
    node.call(1 << 16 | 17, "Fetch", 17).add(1000.0)
    name, labels = "kproxy_request_duration_seconds", {"cluster": "default", "node": "1", "api": "Fetch"}
    counts = [
        value(metrics, f"{name}_bucket", **labels, le=le) for le in [*(repr(bound) for bound in LATENCY_BOUNDS), "+Inf"]
    ]
    assert counts == [0, *[1] * (len(LATENCY_BOUNDS) - 1), 2]
    assert value(metrics, f"{name}_count", **labels) == 2
    assert value(metrics, f"{name}_sum", **labels) == 1000.0 + LATENCY_BOUNDS[1]
    # Reading changes nothing.
    assert value(metrics, f"{name}_count", **labels) == 2
    assert node.calls[1 << 16 | 12].seconds == LATENCY_BOUNDS[1]


@given(st.lists(st.floats(min_value=0, max_value=100)))
def test_any_duration_counts_once_below_its_bound(durations: list[float]) -> None:
    counted = Durations()
    for seconds in durations:
        counted.add(seconds)
    for index, bound in enumerate(LATENCY_BOUNDS):
        assert sum(counted.buckets[: index + 1]) == sum(seconds <= bound for seconds in durations)
    assert sum(counted.buckets) == len(durations)
    assert counted.seconds == pytest.approx(sum(durations))


def test_the_bounds_ascend_as_bisect_needs() -> None:
    assert list(LATENCY_BOUNDS) == sorted(set(LATENCY_BOUNDS))
    assert [bisect_left(LATENCY_BOUNDS, bound) for bound in LATENCY_BOUNDS] == list(range(len(LATENCY_BOUNDS)))


def test_invented_versions_end_in_one_shared_entry() -> None:
    metrics = Metrics()
    node = metrics.node("default", "1")
    for version in range(MAX_CALLS + 100):
        call = node.call(1 << 16 | version, "Fetch", version)
        call.count += 1
        call.add(0.001)
    assert len(node.calls) == MAX_CALLS
    here = {"cluster": "default", "node": "1"}
    assert value(metrics, "kproxy_requests_total", **here, api="other", version="-1") == 100
    assert value(metrics, "kproxy_request_duration_seconds_count", **here, api="Fetch") == MAX_CALLS
    assert value(metrics, "kproxy_request_duration_seconds_count", **here, api="other") == 100
    # A known pair is still counted apart.
    assert node.call(1 << 16 | 5, "Fetch", 5) is node.calls[1 << 16 | 5]


def test_two_codes_with_one_label_are_one_series() -> None:
    metrics = Metrics()
    node = metrics.node("default", "1")
    node.call(900 << 16, "unknown", -1).count += 1
    node.call(901 << 16, "unknown", -1).count += 2
    requests = value(metrics, "kproxy_requests_total", cluster="default", node="1", api="unknown", version="-1")
    assert requests == 3


@pytest.mark.parametrize("reason", ["", "TLS", "a b", "x" * 41, 'a"b', "tls\n", "7", "-a", "é"])
def test_a_reason_that_is_no_fixed_word_counts_as_other(reason: str) -> None:
    metrics = Metrics()
    metrics.count_refusal("default", "client", reason)
    assert value(metrics, "kproxy_refused_total", cluster="default", side="client", reason="other") == 1


def test_reasons_are_counted_apart_up_to_a_limit() -> None:
    metrics = Metrics()
    for number in range(MAX_REASONS + 50):
        metrics.count_refusal("default", "upstream", f"reason-{number}")
        metrics.count_dial_failure("default", "1", f"reason-{number}")
    assert len(metrics.refusals) == MAX_REASONS + 1
    assert len(metrics.dial_failures) == MAX_REASONS + 1
    name, labels = "kproxy_refused_total", {"cluster": "default", "side": "upstream"}
    assert value(metrics, name, **labels, reason="reason-0") == 1
    assert value(metrics, name, **labels, reason="other") == 50


def test_dials_rewrites_listeners_and_requests_in_flight() -> None:
    metrics = busy()
    here = {"cluster": "default", "node": "1"}
    assert value(metrics, "kproxy_upstream_dial_seconds_sum", **here) == 0.02
    assert value(metrics, "kproxy_upstream_dial_failures_total", **here, reason="refused") == 1
    green = {**here, "upstream": "green"}
    assert value(metrics, "kproxy_upstream_dial_seconds_sum", **green) == 0.03
    assert value(metrics, "kproxy_upstream_dial_failures_total", **green, reason="refused") == 2
    assert value(metrics, "kproxy_endpoints_rewritten_total", cluster="default", api="Metadata") == 3
    assert value(metrics, "kproxy_requests_in_flight", **here) == 2 + 3
    assert value(metrics, "kproxy_listeners", cluster="default") == 4
    metrics.set_listeners("default", 3)
    assert value(metrics, "kproxy_listeners", cluster="default") == 3


def test_a_scrape_in_pieces_survives_what_happens_in_between() -> None:
    metrics = busy()
    text = ""
    for number, piece in enumerate(exposition(metrics)[0]):
        text += piece
        node = metrics.node("default", str(100 + number))
        node.call(number, "Fetch", number).add(0.001)
        metrics.node("default", "1").call(1 << 16 | 12, "Fetch", 12).add(0.001)
        metrics.add_dial("default", str(number), 0.1)
        metrics.count_refusal("default", "client", f"reason-{number}")
    by_name = samples(parse_text(text))
    for (name, labels), count in by_name.items():
        if name.endswith("_count"):
            bucket = name.removesuffix("_count") + "_bucket"
            assert by_name[bucket, labels | {("le", "+Inf")}] == count


def test_two_objects_share_nothing() -> None:
    one, two = Metrics(), Metrics()
    one.node("default", "1").sessions_total += 1
    assert ("kproxy_sessions_total", frozenset({("cluster", "default"), ("node", "1")})) not in scrape(two)


def test_importing_adds_nothing_to_the_global_registry() -> None:
    script = (
        "from prometheus_client import REGISTRY; before = set(REGISTRY._names_to_collectors)\n"
        "from kproxy.proxy.metrics.exposition import runtime_registry; runtime_registry()\n"
        "assert set(REGISTRY._names_to_collectors) == before"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_was_counted_of_nodes_that_are_gone_is_forgotten() -> None:
    metrics = Metrics()
    for cluster in ("a", "b"):
        for label in ("1", "2", "3", "bootstrap"):
            metrics.node(cluster, label)
            metrics.add_dial(cluster, label, 0.1)
            metrics.add_dial(cluster, label, 0.1, "blue")
            metrics.count_dial_failure(cluster, label, "refused")
            metrics.count_dial_failure(cluster, label, "refused", "blue")
    metrics.node("a", "3").sessions_open = 1
    metrics.keep_only("a", {"1"})
    for numbers in (metrics.nodes, metrics.dials, metrics.dial_failures):
        assert {key[1] for key in numbers if key[0] == "a"} == {"1", "3", "bootstrap"}, "clients are connected to 3"
        assert {key[1] for key in numbers if key[0] == "b"} == {"1", "2", "3", "bootstrap"}
    metrics.node("a", "3").sessions_open = 0
    metrics.keep_only("a", ())
    assert {key for key in metrics.nodes if key[0] == "a"} == {("a", "bootstrap")}
