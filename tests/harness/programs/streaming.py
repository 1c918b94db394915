"""tests.harness.programs.watched, where every response with endpoints at its end streams, however small it is.

Normally only a response larger than kproxy holds, that arrives in several pieces, keeps its length like this. A test
cannot cause such a response that also names a moved leader.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kproxy.protocol.rewrite.endpoints import Localise
from kproxy.protocol.rewrite.response import HeldResponse, Response, StreamedResponse
from kproxy.protocol.rewrite.walkplan import WalkPlan
from kproxy.proxy.relay import calls
from tests.harness.programs.watched import watch


def respond(plan: WalkPlan, size: int, available: int, localise: Localise) -> Response:
    return (StreamedResponse if plan.rule.last else HeldResponse)(plan, size, localise)


if __name__ == "__main__":
    calls.response_for = respond
    watch(Path(sys.argv[1]), [name.encode() for name in sys.argv[2].split(",")])
    sys.argv = ["kproxy", *sys.argv[4:]]
    from kproxy.cli import main

    main()
