"""The status page in a real browser, with snapshots as kproxy makes them, and with hostile ones."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.harness.clients.browser import Browser, NoAxe, axe_source, chromium
from tests.harness.servers.livepage import (
    LivePage,
    client,
    cluster,
    crowded,
    event,
    finding,
    node,
    shown,
    snapshot,
    traffic,
    troubled,
    update,
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(chromium() is None, reason="chromium is not on this machine (apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def one_browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    """As a test wants to find it; nothing may be on its console at the end."""
    one_browser.console.clear()
    one_browser.size(1280, 900)
    one_browser.dark(False)
    yield one_browser
    assert one_browser.console == []


def options(browser: Browser, selector: str) -> list[str]:
    """The names of the options of a list box, as a screen reader says them."""
    return list(browser.js(f"[...document.querySelectorAll('{selector} [role=option]')].map(o => o.ariaLabel)"))


def focused(browser: Browser) -> str:
    script = "(e => e == document.body ? 'BODY' : e.id || e.ariaLabel || e.innerText)(document.activeElement)"
    return str(browser.js(script))


# ------------------------------------------------------------------ what it shows


def test_each_part_shows_what_the_snapshot_says(browser: Browser) -> None:
    with shown(browser, troubled()):
        assert browser.js("document.title") == "kproxy: 1 error"
        assert browser.text("#connection") == "live"
        assert "1.2.3" in browser.text("h1")
        found = browser.text("#findings")
        assert "A broker's name cannot be resolved" in found
        assert "--map b3.prod.internal:9092=10.20.0.3:9092" in found
        assert browser.js("document.querySelector('.finding code').innerText") == "b3.prod.internal:9092"
        words = browser.text("#cluster-words")
        assert "1 of 6 nodes cannot be reached" in words
        assert "ssh://ops@bastion.example" in words
        assert len(options(browser, "#clients")) == 6
        nodes = options(browser, "#nodes")
        assert nodes[0].startswith("bootstrap address localhost:9092")
        assert nodes[3].startswith("broker 3, not reachable, local port localhost:9095")
        assert browser.js("document.querySelectorAll('#links path').length") == 15  # pairs of a client and a port
        assert browser.text("#apis tbody tr:first-child th") == "Fetch"
        assert "orders-producer" in browser.text("#clients-table")
        assert "billing-consumer-0, billing-consumer-1" in browser.text("#groups")
        newest = browser.text("#events li:first-child")
        assert "Warning" in newest
        assert "client etl from 127.0.0.1: NOT_LEADER_OR_FOLLOWER (6) for Produce at broker 5" in newest
        assert "It means: kproxy cannot reach this broker" in browser.text("#events")
        assert "×" not in browser.text("#events")
        assert browser.js("[...document.querySelectorAll('footer a')].map(a => a.pathname)") == [
            "/status",
            "/metrics",
            "/readyz",
        ]


def test_what_is_selected_is_explained_in_words(browser: Browser) -> None:
    with shown(browser, troubled()):
        browser.click("#nodes [role=option]:nth-child(3)")
        words = browser.text("#selection")
        assert "kproxy listens on localhost:9094 for broker 2." in words
        assert "The broker advertises b2.prod.internal:9092; kproxy tells clients localhost:9094 instead." in words
        assert "kproxy dials 10.20.0.2:9092, because a --map says so." in words
        assert "Each connection goes through ssh://ops@bastion.example." in words
        assert "kproxy knows that this is the right node: the broker says so." in words
        assert browser.js("document.querySelectorAll('#links path.on').length") == 3
        browser.click("#nodes [role=option]:nth-child(6)")
        assert "NOT_LEADER_OR_FOLLOWER (6) on Produce at" in browser.text("#selection")
        browser.click("#clients [role=option]:nth-child(4)")
        words = browser.text("#selection")
        assert "etl at 127.0.0.1 says that it is librdkafka 2.11.1." in words
        assert "2 to broker 1, 1 to broker 5 and 1 to the bootstrap address" in words
        browser.click("#hops button")
        assert "1. ssh://ops@bastion.example" in browser.text("#selection")
        browser.click(".finding button")
        assert browser.text("#selection h4") == "Broker 3: not reachable"
        assert "Name or service not known" in browser.text("#selection")
        browser.click("#clear")
        assert browser.text("#selection h4") == "The whole cluster"


def test_the_story_of_a_client_is_in_one_place(browser: Browser) -> None:
    page = troubled()
    (prod,) = page["clusters"]
    etl = prod["clients"][3]
    etl["unusable"] = [{"what": "<orders>-3", "name": "LEADER_NOT_AVAILABLE"}]
    refusal = {"api": "JoinGroup", "family": "group", "name": "<pay>", "client": "127.0.0.1", "client_id": "etl"}
    prod["access"] = {
        "rules": [],
        "refused": 3,
        "latest": [
            {**refusal, "reason": "--read-only", "error": 30, "times": 3, "last": 1.0},
            {**refusal, "reason": "--read-only", "error": 30, "times": 1, "last": 1.0, "client_id": "another"},
        ],
    }
    with shown(browser, page):
        browser.click("#clients [role=option]:nth-child(4)")
        rows = "[...document.querySelectorAll('#selection-facts dt')].map(t => [t.innerText, t.nextSibling.innerText])"
        story = dict(browser.js(rows))
        assert "etl at 127.0.0.1 says that it is librdkafka 2.11.1." in browser.text("#selection")
        assert "kproxy has known it since" in browser.text("#selection")
        assert "Finding about it: A client writes to a broker that does not lead" in browser.text("#selection")
        assert ": Produce 812 times, Metadata 3 times (last at " in story["Asked"]
        assert story["Received"].startswith("b1.prod.internal:9092 is at localhost:9093, b2.prod")
        produce, partition, refused = story["Failed"].split("; ")
        assert produce.startswith("Produce 14 times: NOT_LEADER_OR_FOLLOWER (6), last at ")
        assert partition == "<orders>-3: LEADER_NOT_AVAILABLE"
        assert refused.startswith("kproxy refused JoinGroup <pay> 3 times, last at ")
        browser.click("#clients [role=option]:nth-child(1)")
        assert dict(browser.js(rows))["Failed"] == "nothing, by the first error code of each response"


def test_a_node_that_cannot_be_reached_has_the_commands_that_help(browser: Browser) -> None:
    command = "kproxy doctor --via ssh://bastion.example -b kafka-1.prod.internal:9092 " + "--map node:1=HOST:PORT " * 5
    fix = ["# to find out why", command.strip()]
    with shown(browser, snapshot(findings=[finding(fault="node-unreachable", fix=fix), finding(fault="other")])):
        assert browser.js("[...document.querySelectorAll('.finding pre')].map(p => p.hidden)") == [False, True]
        assert browser.js("document.querySelector('.finding pre').textContent").split("\n") == fix
        browser.size(400, 800)
        assert browser.js("document.documentElement.scrollWidth") == 400


def test_lines_of_one_kind_are_one_event(browser: Browser) -> None:
    alike = {"times": 12, "since": time.time() - 60, "like_it": ["refused b", "refused <c>"], "like_it_left_out": 4}
    with shown(browser, snapshot(events=[event(1, "refused a", "WARNING", **alike), event(2, "alone")])) as live:
        details = "document.querySelector('#events li:last-child details')"
        assert browser.js(f"{details}.querySelector('summary').textContent") == "6 lines like it"
        assert not browser.js(f"{details}.open")
        browser.js(f"{details}.querySelector('summary').focus()")
        browser.key("Enter")
        browser.wait_for(f"{details}.open")
        assert browser.text("#events li:last-child details").split("\n")[1:] == [
            "refused b",
            "refused <c>",
            "and 4 more",
        ]
        assert not browser.js("document.querySelector('#events li:first-child details').checkVisibility()")
        newer = alike | {"times": 13, "like_it": ["refused a", "refused b"]}
        update(browser, live, snapshot(events=[event(1, "refused d", "WARNING", **newer), event(2, "alone")]))
        assert browser.js(f"{details}.open")
        assert browser.text("#events li:last-child details").split("\n")[1:] == ["refused a", "refused b", "and 4 more"]


def test_the_upstream_that_clients_are_not_led_to_is_shown_too(browser: Browser) -> None:
    blue = {"name": "blue", "active": True, "bootstrap_servers": ["old:9092"], "cluster_id": "b", "refuses": None}
    green = {**blue, "name": "green", "active": False, "bootstrap_servers": ["<new>:9092"], "cluster_id": "g"}
    switch = {
        "phase": "serving", "switch": "", "active": "blue", "configured": "blue", "to": "", "seconds": 0,
        "seconds_left": None, "unanswered": 0, "held": 0, "doubts": 0, "waiting": 0, "last": "", "problem": "",
        "stuck": False,
    }  # fmt: skip
    for nodes, lost, refuses, says in (
        (3, 0, None, "Upstream green is not active: <new>:9092, with the id g; all 3 nodes can be reached."),
        (3, 1, None, "; 1 of 3 nodes cannot be reached."),
        (
            1,
            0,
            "it is <b>not</b> there",
            "; its only node can be reached. It cannot become active: it is <b>not</b> there.",
        ),
    ):
        both = [{**blue, "nodes": 3, "lost": 0}, {**green, "nodes": nodes, "lost": lost, "refuses": refuses}]
        with shown(browser, snapshot(clusters=[cluster(upstreams=both, switch=switch)])):
            words = browser.text("#cluster-words")
            assert "Clients are routed to upstream blue." in words
            assert says in words
            assert "blue is not active" not in words


def test_a_kproxy_that_knows_nothing_yet(browser: Browser) -> None:
    empty = cluster(
        answered=False,
        searched=False,
        cluster_id=None,
        bootstrap=None,
        nodes=[],
        clients=[],
        apis=[],
        groups=[],
        sessions=0,
    )
    with shown(browser, snapshot(clusters=[empty], events=[])):
        assert "Waits for the first answer of a bootstrap server." in browser.text("#cluster-words")
        assert "No client is connected." in browser.text("#picture")
        assert "No request has passed lately while a page was open." in browser.text("#apis")
        assert "kproxy has reported nothing yet." in browser.text("#events-card")


def test_forwards_are_shown_where_there_are_some(browser: Browser) -> None:
    with shown(browser, snapshot()):
        assert not browser.js("document.querySelector('#forwards-card').checkVisibility()")
    well = {"listen": "127.0.0.1:8081", "to": "schema-registry:8081", "connections": 2, "accepted": 17}
    problem = "connect:8083: the name 'connect' cannot be resolved here"
    ill = {"listen": "127.0.0.1:8083", "to": "connect:8083", "connections": 0, "accepted": 3, "problem": problem}
    made = snapshot(clusters=[cluster(forwards=[well | {"problem": None}, ill])])
    with shown(browser, made):
        said = browser.js("[...document.querySelectorAll('#forwards tbody tr')].map(r => r.innerText)")
        assert sorted(line.split("\t") for line in said) == [
            ["127.0.0.1:8081", "schema-registry:8081", "2", "17", "–"],
            ["127.0.0.1:8083", "connect:8083", "0", "3", problem],
        ]
        browser.js("document.querySelector('#only').click()")
        assert browser.text("#forwards tbody").split("\t")[0] == "127.0.0.1:8083"


def test_forward_commands_are_shown_where_there_are_some(browser: Browser) -> None:
    """What they print, and what brokers advertise, is text."""
    with shown(browser, snapshot()):
        assert not browser.js("document.querySelector('#commands-card').checkVisibility()")
    runs = {
        "node": "1",
        "server": None,
        "command": "ssh -N -L 40001:kafka-1:9092 bastion",
        "port": 40001,
        "upstream": "",
    }
    runs |= {"state": "listening", "since": time.time() - 100, "starts": 1, "problem": None, "last_line": None}
    ended = {"node": "bootstrap", "server": "<b>kafka</b>:9092", "port": 40002, "state": "ended", "starts": 4}
    words = "<script>document.title='x'</script>\u202e" + "x" * 1000
    ended |= {"problem": "the forward command 'x' ended by signal SIGKILL", "last_line": words, "upstream": "green"}
    made = snapshot(clusters=[cluster(forward_commands=[runs, runs | ended])])
    with shown(browser, made):
        rows = browser.js("[...document.querySelectorAll('#commands tbody tr')].map(r => r.innerText)")
        first, second = sorted((line.split("\t") for line in rows), key=lambda row: row[1])
        assert first[:2] == ["broker 1", "40001"]
        assert first[2].startswith("listening since ")
        assert first[3:] == ["0", runs["command"], "–", "–"]
        assert second[0] == "bootstrap server <b>kafka</b>:9092 of green"
        assert second[2].startswith("ended since ")
        assert second[3] == "3"
        assert second[5].startswith("<script>document.title='x'</script>\\u{202e}x")
        assert second[5].endswith("x… (1036 characters)")
        assert second[6] == ended["problem"]
        assert browser.js("document.querySelectorAll('#commands script, #commands b').length") == 0
        browser.js("document.querySelector('#only').click()")
        assert browser.text("#commands tbody").split("\t")[0] == second[0]


def test_a_node_whose_forward_belongs_to_another_one_now(browser: Browser) -> None:
    lost = {"problem": "127.0.0.1:9094 answers, but it is broker 1", "dial": "127.0.0.1:9094", "dial_belongs_to": "1"}
    made = snapshot(clusters=[cluster(nodes=[node(1), node(2, lost_since=time.time() - 125, **lost)])])
    with shown(browser, made):
        browser.click("#nodes [role=option]:nth-child(3)")
        words = browser.text("#selection-words")
        assert "Each try has failed since" in words
        assert "(2 min)" in words
        assert "Broker 1 answers at 127.0.0.1:9094 now." in words


def test_refused_requests_are_shown_where_there_are_rules(browser: Browser) -> None:
    with shown(browser, snapshot()):
        assert not browser.js("document.querySelector('#access-card').checkVisibility()")
    refusal = {"api": "JoinGroup", "family": "group", "name": "<b>pay</b>", "client": "10.0.0.7", "client_id": "me"}
    more = {"user": "alice", "reason": "--read-only", "error": 30, "times": 3, "last": 1.0}
    rules = ["read-only: refuses each request that changes something", "rule 'allow produce orders-*'"]
    access = {"rules": rules, "refused": 17, "latest": [refusal | more]}
    with shown(browser, snapshot(clusters=[cluster(access=access)])):
        assert browser.js("[...document.querySelectorAll('#access-rules li')].map(x => x.innerText)") == rules
        row = browser.text("#refusals tbody").split("\t")
        assert row == ["JoinGroup", "<b>pay</b>", "me", "10.0.0.7", "alice", "--read-only", "3"]
        assert "17 requests refused" in browser.text("#access-note")


def test_what_was_left_out_is_told(browser: Browser) -> None:
    made = snapshot(clusters=[cluster(clients_left_out=55, groups_left_out=1)], draining=True, reloads=2)
    with shown(browser, made):
        assert "55 clients more, less busy, are not listed." in browser.text("#clients-card")
        assert "1 group more is not listed." in browser.text("#groups-card")
        assert "kproxy is stopping" in browser.text("#process-card")
        assert "2 times" in browser.text("#process-card")


def test_a_kproxy_of_another_version(browser: Browser) -> None:
    less = {"version": "9.9", "time": 1763840000.1, "clusters": [{"name": "default", "answered": True}], "new": [1]}
    with shown(browser, less):
        assert "9.9" in browser.text("h1")
        assert browser.text("#findings-none") == "Nothing wrong is known."


def test_several_clusters_are_tabs(browser: Browser) -> None:
    broken = cluster(name="other", nodes=[node(7, problem="connection refused")])
    with shown(browser, snapshot(clusters=[cluster(), broken])):
        tabs = (
            "[...document.querySelectorAll('[role=tab]')].map(t => [t.querySelector('bdi').innerText, t.ariaSelected])"
        )
        assert browser.js(tabs) == [["default", "true"], ["other", "false"]]
        browser.js("document.querySelector('[role=tab]').focus()")
        browser.key("ArrowRight")
        assert browser.js(tabs) == [["default", "false"], ["other", "true"]]
        assert focused(browser).startswith("other")
        assert options(browser, "#nodes")[1].startswith("broker 7, not reachable")


def test_a_filter_leaves_what_fits_and_who_is_connected_to_it(browser: Browser) -> None:
    with shown(browser, troubled()):
        browser.js("document.querySelector('#filter').focus()")
        browser.type("debez")
        assert [name.split(" ")[0] for name in options(browser, "#clients")] == ["debezium"]
        assert [name.split(",")[0] for name in options(browser, "#nodes")] == ["broker 2", "broker 4"]
        assert browser.text("#clients-table tbody").startswith("debezium")
        browser.js("document.querySelector('#filter').value = ''")
        browser.click("#only")
        assert [name.split(",")[0] for name in options(browser, "#nodes")] == ["broker 3", "broker 5"]


def test_tables_are_sorted_by_their_headers(browser: Browser) -> None:
    first = "document.querySelector('#clients-table tbody th').innerText"
    sort = "[...document.querySelectorAll('#clients-table thead th')].map(h => h.ariaSort)"
    with shown(browser, troubled()):
        assert browser.js(first) == "orders-producer"
        assert browser.js(sort).count("descending") == 1
        browser.js("document.querySelector('#clients-table thead button').focus()")
        browser.key("Enter")
        assert browser.js(first) == "billing-consumer-0"
        assert browser.js(sort)[0] == "ascending"
        browser.key("Enter")
        assert browser.js(first) == "orders-producer"
        assert browser.js(sort)[0] == "descending"


# ------------------------------------------------------------------ hostile names


HOSTILE = [
    "<img src=x onerror=document.title='hacked'>",
    "<script>document.title='hacked'</script>",
    "javascript:document.title='hacked'",
    "\u202etxt.exe \u2066isolated \u200bzero width",
    "👩‍👩‍👧‍👦 🏳️‍🌈",
    "Z" + "\u0310\u0311\u0312\u0313\u0314" * 30,
    "שלום עולם ١٢٣",
    "x" * 5000,
    "`code` `",
    "\x00\x01name\x02\x1b[31m\n\r\t",
    "\ud83d",
    "",
    "__proto__",
    "constructor",
    '"><svg onload=1>',
    "']); alert(1); //",
    "${alert(1)}",
    *[chr(start + i * 97) * 3 for start in (0xA0, 0x600, 0x2000, 0xFE00, 0x1F300, 0xE0000) for i in range(31)],
]


def test_hostile_names_do_no_harm(browser: Browser) -> None:
    assert len(HOSTILE) > 200
    story = [
        {
            "asked": [{"api": name, "requests": 1, "last": 0, "errors": 1, "last_error": {"code": 1, "name": name}}],
            "addresses": [{"from": name, "to": name}],
            "unusable": [{"what": name, "name": name}],
        }
        for name in HOSTILE
    ]
    clients = [
        client(name, {"1": 1, name: 1}, software=name, address=name, **told)
        for name, told in zip(HOSTILE, story, strict=True)
    ]
    groups = [{"group": name, "clients": [name], "members": 1, "node": name} for name in HOSTILE]
    apis = [{"node": name, "api": name, **traffic(1)} for name in HOSTILE]
    nodes = [node(1, advertised=HOSTILE[0], local=HOSTILE[3], dial=HOSTILE[7], problem=HOSTILE[1], proof=HOSTILE[2])]
    nodes += [node(i, advertised=name, dial=name) for i, name in enumerate(HOSTILE[:20], start=2)]
    one = cluster(name=HOSTILE[0], clients=clients, groups=groups, apis=apis, nodes=nodes, via=HOSTILE[:3])
    findings = [
        finding(fault=str(i), cluster=HOSTILE[0], client=name, title=name, text=name, why=name, advice=name, fix=[name])
        for i, name in enumerate(HOSTILE)
    ]
    events = [event(i, name, name, meaning=name, fix=name, like_it=[name]) for i, name in enumerate(HOSTILE[:100])]
    made = snapshot(version=HOSTILE[1], clusters=[one, cluster(name=HOSTILE[1])], findings=findings, events=events)
    # Half of a character beyond the BMP is valid in JSON, as an escape.
    assert "\\ud83d" in json.dumps(made)
    elements = "JSON.stringify([...new Set([...document.querySelectorAll('*')].map(e => e.tagName))].sort())"
    inline = (
        "document.querySelectorAll('img, iframe, object, [onerror], [onload], [style*=url], body script + *').length"
    )
    with shown(browser, snapshot()) as live:
        before = set(json.loads(browser.js(elements)))
        update(browser, live, made)
        browser.js("document.querySelectorAll('.more:not([hidden])').forEach(b => b.click())")
        for i in range(1, 30, 3):
            browser.js(f"document.querySelector('#clients [role=option]:nth-child({i})').click()")
        for i in range(1, 22):
            browser.js(f"document.querySelector('#nodes [role=option]:nth-child({i})').click()")
        after = set(json.loads(browser.js(elements)))
        assert after - before <= {"CODE", "PRE", "BDI", "DETAILS", "SUMMARY", "H3", "DT", "DD", "TIME", "BUTTON"}
        assert browser.js(inline) == 0
        assert "errors" in browser.js("document.title")
        text = browser.js("document.body.textContent")
        assert HOSTILE[0] in text
        assert not {"\u202e", "\u2066", "\x00", "\x1b", "\u200b"} & set(text)
        assert "\\u{202e}txt.exe" in text
        assert "(5000 characters)" in text
        assert "x" * 3000 not in text
        # A page that is 320 px wide does not become wider either.
        browser.size(320, 800)
        assert browser.js("document.documentElement.scrollWidth") == 320
        assert update(browser, live, snapshot()) >= 0


# ------------------------------------------------------------------ updates


def test_an_update_keeps_focus_selection_and_rows(browser: Browser) -> None:
    with shown(browser, troubled(-60)) as live:
        browser.click("#nodes [role=option]:nth-child(3)")
        browser.js("window.mine = document.activeElement; window.row = document.querySelector('#apis tbody tr')")
        before = browser.text("#selection-facts")
        for second in range(-59, 0, 10):
            update(browser, live, troubled(second))
        assert browser.js("document.activeElement === mine && mine.ariaSelected") == "true"
        assert browser.js("row.isConnected")
        assert browser.text("#selection h4") == "Broker 2: reachable"
        assert browser.text("#selection-facts") != before
        # Its client goes: the focus goes to another one, and the words say so.
        browser.click("#clients [role=option]:nth-child(6)")
        gone = troubled(1)
        gone["clusters"][0]["clients"].pop()
        update(browser, live, gone)
        assert focused(browser).startswith("debezium")
        assert "not among those that kproxy lists any more" in browser.text("#selection")


def test_only_what_matters_is_announced(browser: Browser) -> None:
    announced = "document.querySelector('#announce').textContent"
    with shown(browser, snapshot()) as live:
        script = "new MutationObserver(() => said.push(announce.textContent)).observe(announce, {childList: true})"
        browser.js(f"window.said = []; {script}; 0")
        for number in range(3):
            changed = snapshot()
            changed["clusters"][0]["nodes"][0]["traffic"]["requests"] = number
            update(browser, live, changed)
        update(browser, live, snapshot(findings=[finding(title="Something new")]))
        browser.wait_for(f"{announced} == 'New finding: Something new'")
        update(browser, live, snapshot())
        browser.wait_for(f"{announced} == 'No longer found: Something new'")
        assert browser.js("said.length") == 2


def test_a_gap_in_the_history_is_drawn_as_one(browser: Browser) -> None:
    with shown(browser, troubled(-100)) as live:
        for second in (*range(-99, -80, 3), *range(-30, 0, 3)):
            update(browser, live, {**troubled(second), "time": 1763840000 + second})
        line = browser.js("document.querySelector('#figures svg path').getAttribute('d')")
        columns = [int(step.split(" ")[0]) for step in line.replace("M", "L").split("L")[1:]]
        assert max(b - a for a, b in pairwise(columns)) >= 15
        assert "M" in line[1:]
        label = browser.js("document.querySelector('#figures svg').ariaLabel")
        assert label.startswith("Requests, up to 5 minutes: ")


# ------------------------------------------------------------------ the connection


def test_a_lost_connection_is_told_and_found_again(browser: Browser) -> None:
    with shown(browser, snapshot()) as live:
        live.down()
        browser.wait_for("notice.textContent")
        assert browser.text("#notice").startswith("kproxy does not answer since ")
        assert browser.text("#notice").endswith("; what you see is from then.")
        assert browser.text("#connection") == "no answer"
        assert "broker 1" in options(browser, "#nodes")[1]  # the last that was known stays
        live.up()
        browser.wait_for("connection.textContent == 'live'")
        assert browser.text("#notice") == ""
        for status, words in ((503, "too many pages watch it already"), (401, "kproxy wants its token")):
            live.status = status
            browser.wait_for(f"notice.textContent.includes('{words}')")
            live.status = 200
            browser.wait_for("connection.textContent == 'live'")
        browser.wait_for("announce.textContent == 'kproxy answers again'")
        # The browser itself tells of answers that were none.
        assert browser.console
        assert all("Failed to load resource" in line for line in browser.console)
        browser.console.clear()


def test_nobody_looks_on_while_the_page_is_hidden_or_paused(browser: Browser) -> None:
    with shown(browser, snapshot()) as live:
        live.wait_for_viewers(1)
        window = browser.send("Browser.getWindowForTarget")["windowId"]
        browser.send("Browser.setWindowBounds", windowId=window, bounds={"windowState": "minimized"})
        browser.wait_for("document.hidden")
        live.wait_for_viewers(0)
        browser.send("Browser.setWindowBounds", windowId=window, bounds={"windowState": "normal"})
        live.wait_for_viewers(1)
        browser.wait_for("connection.textContent == 'live'")
        browser.click("#pause")
        live.wait_for_viewers(0)
        assert browser.text("#notice").startswith("Paused: kproxy sends nothing to this page.")
        assert browser.js("pause.ariaPressed") == "true"
        browser.click("#pause")
        live.wait_for_viewers(1)
        browser.wait_for("connection.textContent == 'live'")


# ------------------------------------------------------------------ people


def test_everything_can_be_done_with_the_keyboard(browser: Browser) -> None:
    with shown(browser, troubled()):
        walked = []
        for _ in range(60):
            browser.key("Tab")
            if (at := focused(browser)) in ("BODY", "") or (walked and at == walked[0]):
                break
            walked.append(at)
            visible = "(s => s.outlineStyle !== 'none' || document.activeElement.matches('[role=option]'))"
            assert browser.js(f"{visible}(getComputedStyle(document.activeElement))"), at
        text = "\n".join(walked)
        order = [
            "Skip to",
            "pause",
            "Cause and remedy",
            "filter",
            "only",
            "orders-producer at",
            "bootstrap address",
            "Hop 1",
        ]
        places = [text.index(word) for word in order]
        assert places == sorted(places)
        assert "API\n" in text or "API" in text
        # A list is one stop; arrows go on from there and select.
        assert sum("broker" in at and "local port" in at for at in walked) == 0
        browser.js("document.querySelector('#nodes [tabindex=\"0\"]').focus()")
        for key, title in (
            ("ArrowDown", "Broker 1: reachable"),
            ("End", "Broker 6: reachable"),
            ("ArrowUp", "Broker 5: errors"),
            ("Home", "The bootstrap address"),
        ):
            browser.key(key)
            assert browser.text("#selection h4") == title
        assert browser.js("announce.textContent").startswith("The bootstrap address. kproxy listens on")
        browser.js("document.querySelector('#clients [tabindex=\"0\"]').focus()")
        browser.key("Enter")
        assert browser.text("#selection h4") == "Client orders-producer"
        # The skip link.
        browser.js("document.querySelector('.skip').focus()")
        browser.key("Enter")
        assert focused(browser) == "findings"


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        pytest.param(width, dark, marks=() if (width, dark) in ((320, False), (1280, True)) else pytest.mark.matrix)
        for width in (320, 768, 1280, 3840)
        for dark in (False, True)
    ],
)
def test_axe_finds_nothing_serious(browser: Browser, dark: bool, width: int) -> None:
    try:
        axe_source()
    except NoAxe as error:
        pytest.skip(str(error))
    browser.size(width, 900)
    browser.dark(dark)
    several = troubled()
    several["clusters"].append(cluster(name="other"))
    with shown(browser, several) as live:
        browser.click("#nodes [role=option]:nth-child(4)")
        serious = [one for one in browser.axe() if one.impact in ("serious", "critical")]
        assert serious == []
        browser.click("#pause")  # and what is not live any more
        live.wait_for_viewers(0)
        assert [one for one in browser.axe() if one.impact in ("serious", "critical")] == []


@pytest.mark.parametrize("width", [320, 375, 768, 850, 1280, 1920, 3840])
def test_the_page_never_scrolls_sideways(browser: Browser, width: int) -> None:
    browser.size(width, 900)
    with shown(browser, troubled()):
        assert browser.js("document.documentElement.scrollWidth") == width
        browser.click("#nodes [role=option]:nth-child(4)")
        assert browser.js("document.documentElement.scrollWidth") == width


def test_without_colours_of_its_own_a_state_is_still_seen(browser: Browser) -> None:
    colour = "getComputedStyle(document.querySelector('.node .state')).backgroundColor"
    with shown(browser, troubled()):
        browser.looks(**{"forced-colors": "active", "prefers-reduced-motion": "reduce", "prefers-contrast": "more"})
        try:
            assert browser.js(colour) not in ("rgba(0, 0, 0, 0)", "transparent", "rgb(255, 255, 255)")
        finally:
            browser.looks(**{"forced-colors": "none", "prefers-reduced-motion": "", "prefers-contrast": ""})


def test_a_hundred_brokers_and_a_thousand_sessions(browser: Browser, figures: list[str]) -> None:
    size = "document.querySelectorAll('*').length"
    with shown(browser, crowded(-61)) as live:
        folded = browser.js(size)
        assert folded < 2500
        assert "more clients" in browser.text("#clients-more")
        assert "more nodes" in browser.text("#nodes-more")
        # The worst are first.
        assert [name.split(",")[0] for name in options(browser, "#nodes")[1:3]] == ["broker 17", "broker 60"]
        times = sorted(update(browser, live, crowded(second)) for second in range(-60, 0))
        assert browser.js(size) <= folded + 100
        figures.append(
            f"status page: an update with 100 brokers, 200 clients and 1000 sessions takes {times[30]:.1f} ms in"
            f" Chromium (slowest of 60: {times[-1]:.1f} ms), with {browser.js(size)} elements"
        )
        for more in ("#nodes-more", "#clients-more"):
            browser.click(more)
        assert len(options(browser, "#nodes")) == 101
        assert len(options(browser, "#clients")) == 200
        unfolded = browser.js(size)
        times = sorted(update(browser, live, crowded(second)) for second in range(1, 21))
        assert browser.js(size) <= unfolded + 100
        figures.append(f"status page: the same with all nodes and clients unfolded takes {times[10]:.1f} ms")
        assert browser.js("document.querySelectorAll('#links path').length") == 400
        # Of what is selected, all lines are drawn; and it stays when the others are folded.
        browser.click("#clients [role=option][aria-label^=service-199]")
        assert browser.js("document.querySelectorAll('#links path.on').length") == 5
        browser.click("#clients-more")
        assert len(options(browser, "#clients")) < 30
        assert browser.text("#selection h4").removeprefix("Client ") in browser.text("#clients [aria-selected=true]")


def test_an_event_that_comes_again_is_one_line_with_a_number(browser: Browser) -> None:
    often = {"level": "WARNING", "since": time.time() - 60}
    with LivePage() as live:
        live.show(snapshot(events=[event(1, "again", times=11, **often), event(2, "once", times=1, since=time.time())]))
        browser.open(live.url)
        browser.wait_for("kproxyPage.updates > 0")
        lines = "[...document.querySelectorAll('#events li p:first-of-type')].map(e => e.innerText)"
        assert [line.partition(" since ")[0] for line in browser.js(lines)] == ["once", "again ×11"]
        browser.js("document.querySelector('#events li:last-child').kproxySame = true")
        live.show(
            snapshot(events=[event(2, "once", times=1, since=time.time()), event(1, "again", times=1200, **often)])
        )
        browser.wait_for("document.querySelector('#events').innerText.includes('again ×1,200 since ')")
        assert [line.partition(" since ")[0] for line in browser.js(lines)] == ["again ×1,200", "once"]
        assert browser.js("document.querySelector('#events li:first-child').kproxySame")
        browser.open("about:blank")


def test_the_harness_sees_what_is_wrong(browser: Browser) -> None:
    """Otherwise an empty console would prove nothing."""
    with LivePage() as live:
        live.show(snapshot())
        browser.open(live.url)
        browser.wait_for("kproxyPage.updates > 0")
        browser.js("(e => { e.setAttribute('onclick', 'x()'); e.click() })(document.body)")
        browser.js("setTimeout(() => { throw new Error('thrown') }); 0")
        browser.js("new Promise(done => setTimeout(done, 100))")
        assert any("Content Security Policy" in line for line in browser.console)
        assert any("thrown" in line for line in browser.console)
        browser.console.clear()
        browser.open("about:blank")
