"""The report as one HTML file without scripts and external files: a table and two charts in SVG. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape as escape_html

from kproxy.base.printable import escaped
from kproxy.migrate.htmlpage import PAGE_END, TABLE_END, escape_text, format_time, page_begin, table_begin
from kproxy.migrate.verify.report import TopicReport, group_topics, headline, notes, topic_percent, verified_text
from kproxy.migrate.verify.results import LagSample, PartitionResult, VerificationReport

# Pixels.
_WIDTH, _ROW, _NAME, _NUMBER, _HIGH = 960, 26, 260, 200, 180
# Maximum number of topics in the chart; the table has all of them.
_DRAWN = 60
_LONGEST = 34
_STYLE = """
svg { width: 100%; height: auto; min-width: 40rem; display: block; } svg text { fill: var(--text); font-size: 13px; }
svg .soft { fill: var(--soft); } svg .number { text-anchor: end; }
.verified { fill: var(--ok); } .gone { fill: var(--gone); } .wrong { fill: var(--bad); } .rest { fill: var(--rest); }
.lag { fill: none; stroke: var(--accent); stroke-width: 2; } .axis { stroke: var(--soft); }
.key::before { content: ""; display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem; }
.key { margin-right: 1rem; display: inline-block; }
.key.verified::before { background: var(--ok); }
.key.gone::before { background: var(--gone); }
.key.wrong::before { background: var(--bad); } .key.rest::before { background: var(--rest); }
"""


def render_page(report: VerificationReport) -> str:
    """Return the HTML file."""
    return "\n".join(_parts(report)) + "\n"


def _parts(report: VerificationReport) -> Iterator[str]:
    title = f"{'Sampling' if report.sample_share is not None else 'Verification'} of the migration {report.name}"
    yield from page_begin(title, _STYLE)
    yield f'<p class="said {"good" if report.exit_code == 0 else "bad"}">{escape_text(headline(report))}</p>'
    records = sum(partition.records for partition in report.partitions)
    yield (
        f'<p class="soft">{format_time(report.at)}. {records:,} records compared in {report.seconds:.1f} s: key, value,'
        " headers, timestamp, order and place of each, read from both clusters by Spark.</p>"
    )
    topics = group_topics(report)
    if topics:
        yield from _coverage(report, topics)
    if len(report.lag) > 1:
        yield from _lag(report.lag)
    if report.differences:
        yield from _differences(report)
    yield from _table(report, topics)
    yield PAGE_END


def _coverage(report: VerificationReport, topics: Sequence[TopicReport]) -> Iterator[str]:
    sampling = report.sample_share is not None
    drawn = topics[:_DRAWN]
    high = len(drawn) * _ROW + 8
    what = "Compared blocks, by topic" if sampling else "Verified offsets, by topic"
    yield f"<section><h2>{what}</h2><p>"
    for name, words in _keys(sampling):
        yield f'<span class="key {name}">{words}</span>'
    yield '</p><div class="wide" tabindex="0" role="region" aria-label="Picture of the coverage">'
    yield f'<svg viewBox="0 0 {_WIDTH} {high}" role="img" aria-label="{what}; the table below has the numbers">'
    for row, topic in enumerate(drawn):
        yield from _bar(topic, row * _ROW + 4, sampling)
    yield "</svg></div>"
    if len(topics) > _DRAWN:
        yield f'<p class="soft">and {len(topics) - _DRAWN} more topics, in the table</p>'
    yield "</section>"


def _keys(sampling: bool) -> Iterator[tuple[str, str]]:
    if sampling:
        yield "verified", "compared"
    else:
        yield "verified", "verified"
        yield "gone", "deleted on the source before it was verified"
    yield "wrong", "the rest of partitions that differ"
    yield "rest", "not compared" if sampling else "copied, not verified"


def _bar(topic: TopicReport, y: int, sampling: bool) -> Iterator[str]:
    name = escaped(topic.name)
    cut = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
    yield f'<text x="0" y="{y + 14}">{escape_html(cut)}<title>{escape_html(name)}</title></text>'
    wide = _WIDTH - _NAME - _NUMBER
    x = float(_NAME)
    for kind, part, total in _shares(topic, sampling):
        if part and total:
            width = wide * part / total
            yield f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 8}"></rect>'
            x += width
    if x == _NAME:
        yield f'<rect class="rest" x="{x:.1f}" y="{y}" width="{wide}" height="{_ROW - 8}"></rect>'
    state = "differs" if topic.differing else "nothing copied" if not topic.copied else ""
    shares = list(_shares(topic, sampling))
    part, total = shares[0][1], shares[0][2]
    words = f"{topic_percent(topic, part, total)}{', ' if state else ''}{state}" if total else state or "–"
    yield f'<text class="soft number" x="{_WIDTH}" y="{y + 14}">{words}</text>'


def _shares(topic: TopicReport, sampling: bool) -> Iterator[tuple[str, int, int]]:
    if sampling:
        total = sum(partition.total_blocks for partition in topic.partitions)
        part = sum(partition.blocks for partition in topic.partitions)
        bad = sum(partition.bad for partition in topic.partitions)
        yield "verified", part - bad, total
        yield "wrong", bad, total
        yield "rest", total - part, total
        return
    total = topic.copied
    wrong = sum(
        max(0, partition.copied - partition.kept.upto) for partition in topic.partitions if not partition.is_equal
    )
    yield "verified", topic.verified, total
    yield "gone", topic.deleted, total
    yield "wrong", wrong, total
    yield "rest", max(0, total - topic.verified - topic.deleted - wrong), total


def _lag(samples: Sequence[LagSample]) -> Iterator[str]:
    first, last = samples[0].at, samples[-1].at
    max_lag = max(1, max(sample.lag for sample in samples))
    left, low = 90, _HIGH - 30

    def point(sample: LagSample) -> str:
        x = left + (_WIDTH - left - 10) * (sample.at - first) / max(1, last - first)
        return f"{x:.1f},{low - (low - 10) * sample.lag / max_lag:.1f}"

    yield "<section><h2>Lag of the copy, in offsets</h2>"
    yield '<div class="wide" tabindex="0" role="region" aria-label="Picture of the lag">'
    yield f'<svg viewBox="0 0 {_WIDTH} {_HIGH}" role="img" aria-label="Offsets that the copy was behind, over time">'
    yield f'<line class="axis" x1="{left}" y1="{low}" x2="{_WIDTH - 10}" y2="{low}"></line>'
    yield f'<line class="axis" x1="{left}" y1="10" x2="{left}" y2="{low}"></line>'
    yield f'<text class="number" x="{left - 8}" y="18">{max_lag:,}</text>'
    yield f'<text class="number" x="{left - 8}" y="{low}">0</text>'
    yield f'<text class="soft" x="{left}" y="{_HIGH - 8}">{format_time(first)}</text>'
    yield f'<text class="soft number" x="{_WIDTH - 10}" y="{_HIGH - 8}">{format_time(last)}</text>'
    yield f'<polyline class="lag" points="{" ".join(point(sample) for sample in samples)}"></polyline>'
    yield f'</svg></div><p class="soft">{samples[-1].lag:,} offsets behind at the end.</p></section>'


def _differences(report: VerificationReport) -> Iterator[str]:
    yield "<section><h2>First differences</h2>"
    head = ("Topic", "Partition", "Source offset", "Target offset", "What", "Source has", "Target has")
    yield from table_begin("First differences", head)
    for difference in report.differences:
        places = [difference.partition, difference.source_offset, difference.target_offset]
        numbers = "".join(f'<td class="number">{"–" if place is None else place}</td>' for place in places)
        words = "".join(
            f"<td>{escape_text(word) or '–'}</td>" for word in (difference.field, difference.source, difference.target)
        )
        yield f"<tr><td>{escape_text(difference.topic)}</td>{numbers}{words}</tr>"
    yield f'{TABLE_END}<p class="soft">The first one of each partition, of 20 partitions at most. Bytes are'
    yield " shown by their number and the beginning of their SHA-256.</p></section>"


def _table(report: VerificationReport, topics: Sequence[TopicReport]) -> Iterator[str]:
    yield "<section><h2>Partitions</h2>"
    head = ("Topic", "Partition", "How far", "Records compared", "Digest", "To know")
    yield from table_begin("Partitions", head)
    for topic in topics:
        for partition in topic.partitions:
            yield _row(report, partition)
    yield f"{TABLE_END}</section>"


def _row(report: VerificationReport, partition: PartitionResult) -> str:
    name = (
        partition.topic
        if partition.topic == partition.target_topic
        else f"{partition.topic} → {partition.target_topic}"
    )
    notes_html = "<br>".join(escape_text(line) for line in notes(partition))
    kind = "" if partition.is_equal else ' class="bad"'
    return (
        f'<tr><td>{escape_text(name)}</td><td class="number">{partition.partition}</td>'
        f"<td{kind}>{escape_text(verified_text(partition, sampling=report.sample_share is not None))}</td>"
        f'<td class="number">{partition.records:,}</td><td><code>{partition.kept.digest_text}</code></td>'
        f"<td>{notes_html}</td></tr>"
    )
