"""Fuzz for some seconds; exit 1 and write the smallest case that was found, if one was.

python -m tests.fuzz --seconds 30 [--target walkers] [--seed 5]
python -m tests.fuzz --replay finding.json
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, given, seed, settings

from tests.fuzz.cases import TARGETS, Case, check, corpus

# Cases of one round: hypothesis tries nothing twice within one, and is slow to begin with.
ROUND = 200


def fuzz(target: str, start: int) -> Case | None:
    """One round; the smallest case that fails, if any."""
    failing: list[Case] = []

    @seed(start)
    @settings(max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(TARGETS[target])
    def trying(case: Case) -> None:
        try:
            check(case)
        except BaseException:
            failing.append(case)
            raise

    try:
        trying()
    except Exception:  # noqa: BLE001  # whatever it is, it is the finding
        traceback.print_exc()
        return failing[-1]  # hypothesis ends with the smallest
    return None


def _fails(case: Case) -> bool:
    try:
        check(case)
    except Exception:  # noqa: BLE001  # likewise
        traceback.print_exc()
        return True
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--seed", type=int, default=None, help="of the first round; the next ones count on")
    parser.add_argument("--replay", type=Path, help="a case that was found")
    parser.add_argument("--findings", type=Path, default=Path(), help="where to write a finding")
    given_arguments = parser.parse_args(arguments)
    if given_arguments.replay:
        return int(_fails(Case.load(given_arguments.replay)))
    for path in corpus():
        if _fails(Case.load(path)):
            sys.stderr.write(f"the corpus fails: --replay {path}\n")
            return 1
    targets = given_arguments.target or list(TARGETS)
    start = random.SystemRandom().randrange(1 << 32) if given_arguments.seed is None else given_arguments.seed
    end = time.monotonic() + given_arguments.seconds
    turn = 0
    while time.monotonic() < end:
        target = targets[turn % len(targets)]
        found = fuzz(target, start + turn)
        if found is not None:
            path = given_arguments.findings / f"fuzz-{target}-{start + turn}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found.dump(), "utf-8")
            sys.stderr.write(f"found by --target {target} --seed {start + turn}; again: --replay {path}\n")
            return 1
        turn += 1
    sys.stderr.write(f"{turn * ROUND} cases from seed {start}, no finding\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
