"""The scenario with kcat, which has no administration: the topic is made by the brokers. BOOTSTRAP NAME RECORDS."""

# ruff: noqa: T201 (what it saw goes to stdout)

import re
import subprocess
import sys
import tempfile
from pathlib import Path


def kcat(*args, **kwargs):
    done = subprocess.run(["kcat", *args], capture_output=True, text=True, timeout=180, check=False, **kwargs)
    if done.returncode:
        raise SystemExit(done.stderr or done.stdout)
    return done.stdout


def main():
    bootstrap, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with tempfile.TemporaryDirectory() as directory:
        records = Path(directory, "records")
        records.write_text("".join(f"key-{i}:value-{i}\n" for i in range(count)))
        # A new topic has no leader yet: librdkafka waits for one, as long as it knows that the topic may appear.
        kcat("-P", "-b", bootstrap, "-t", name, "-K:", "-X", "acks=all", "-l", str(records))
    for node, address in re.findall(r"broker (\d+) at (\S+)", kcat("-L", "-b", bootstrap, "-m", "30")):
        print("broker", node, address)
    read = kcat("-b", bootstrap, "-X", "auto.offset.reset=earliest", "-c", str(count), "-f", "%s\n", "-G", name, name)
    values = read.split()
    print("consumed", len(values), len(set(values)))


main()
