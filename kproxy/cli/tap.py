"""`kproxy tap`: live requests and responses of a running kproxy."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kproxy.cli.admin_access import admin_client, admin_options
from kproxy.cli.completion import apis, clusters, nodes
from kproxy.cli.group import kproxy


@kproxy.command()
@admin_options("Admin endpoint of the kproxy to look at.")
@click.option("--cluster", metavar="NAME", shell_complete=clusters, help="Only this cluster.")
@click.option("--node", metavar="ID", shell_complete=nodes, help="Only this node: 2, controller-3000, bootstrap.")
@click.option("--api", metavar="NAME", shell_complete=apis, help="Only this API: Produce, Fetch, Metadata, and so on.")
@click.option("--client", metavar="TEXT", help="Only clients with this text in their address, client id or software.")
@click.option("--slow", metavar="DURATION", help="Only responses that took at least this long: 50ms.")
@click.option("--errors", is_flag=True, help="Only responses with an error code.")
@click.option("--json", "as_json", is_flag=True, help="Print each as JSON.")
@click.option(
    "--pcap",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the frames into FILE, for Wireshark, without records, passwords and tokens; - is the standard output.",
)
@click.option("--summary", is_flag=True, help="Show a table that is renewed each second, instead of lines.")
def tap(
    admin: str,
    admin_ca: Path | None,
    admin_token_file: Path | None,
    cluster: str | None,
    node: str | None,
    api: str | None,
    client: str | None,
    slow: str | None,
    errors: bool,
    as_json: bool,
    pcap: Path | None,
    summary: bool,
) -> int:
    """Show the requests and responses that pass a running kproxy.

    \b
      kproxy tap
      kproxy tap --slow 50ms
      kproxy tap --api Produce --client billing --json
      kproxy tap --summary
      kproxy tap --pcap kafka.pcapng
      kproxy tap --pcap - | wireshark -k -i - -d tcp.port==19092-19292,kafka

    Each line has the time, the client, its client id and software, the node, the API and its version, the sizes, the
    time to the response, the error, and which addresses kproxy has rewritten. Records, passwords and tokens are never
    shown, nor written into the file of --pcap. Ctrl-C ends it. It costs nothing while no reader is connected.
    A reader that is too slow gets the number of lines that it has missed.
    """
    from kproxy.proxy.app import tapoutput

    if pcap is not None and (slow is not None or errors or as_json or summary):
        raise click.UsageError("--pcap cannot be combined with --slow, --errors, --json or --summary")
    query = {"cluster": cluster, "node": node, "api": api, "client": client, "slow": _seconds(slow)}
    query_given = {name: value for name, value in query.items() if value is not None}
    if errors:
        query_given["errors"] = "1"
    admin_endpoint = admin_client(admin, admin_ca, admin_token_file)
    if pcap is not None:
        from kproxy.proxy.app.pcap import LONGEST_LINE, write_capture

        write_capture(admin_endpoint.stream("/tap/frames", query_given, LONGEST_LINE), pcap, sys.stderr)
        return 0
    show = tapoutput.write_json if as_json else tapoutput.write_table if summary else tapoutput.write_lines
    show(admin_endpoint.stream("/tap", query_given), sys.stdout)
    return 0


def _seconds(slow: str | None) -> str | None:
    if slow is None:
        return None
    from kproxy.config.kinds import duration

    try:
        return str(duration(0, 86400).parse(slow))
    except ValueError as error:
        raise click.UsageError(f"--slow: {error}") from None
