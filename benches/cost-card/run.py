#!/usr/bin/env python3
"""Draws the cost card: a broker on CPU 0, the client on CPU 1, both on this machine.

    benches/cost-card/run.py [--corelog PATH | --kafka [--fsync]] [options of cost-card]

Needs `cargo build --release --bin corelog --bin cost-card`, and tools/conformance/setup.sh for
Kafka. Every row is the last of rounds that agree; see docs/benchmarks.md for what the rows mean.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "tools" / "conformance"))

from harness.broker import Broker, Launch, end_children_on_sigterm  # noqa: E402
from harness.paths import target_binary  # noqa: E402

SERVER_CPU, CLIENT_CPU = "0", "1"


def main() -> int:
    """Starts the broker, runs the client, stops the broker."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--corelog", type=Path, help="our binary (default: release, else debug build)")
    which.add_argument("--kafka", action="store_true", help="measure the reference broker")
    parser.add_argument("--fsync", action="store_true", help="Kafka only: acknowledge after fsync")
    parser.add_argument("--shards", type=int, default=1, help="ours only (default 1)")
    parser.add_argument("--set", action="append", default=[], help="a setting of the broker")
    parser.add_argument("--dir", help="where the data goes; the disk matters")
    options, rest = parser.parse_known_args()
    settings = list(options.set)
    if options.kafka and options.fsync:
        settings.append("log.flush.interval.messages=1")
    launch = Launch(
        "kafka" if options.kafka else "corelog",
        options.corelog or target_binary("corelog"),
        options.shards,
        tuple(settings),
        ("taskset", "-c", SERVER_CPU),
    )
    card = target_binary("cost-card")
    for binary in [card] if options.kafka else [card, launch.binary]:
        if "release" not in binary.parts:
            print(f"{binary}: not a release build: figures mean nothing", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="cost-card-", dir=options.dir) as scratch:
        broker = Broker(launch, Path(scratch) / "data")
        try:
            broker.start()
            print(f"idle: {broker.rss_bytes() / 1e6:.0f} MB resident", file=sys.stderr)
            command = [str(card), "-b", broker.bootstrap, "--pid", str(broker.pid)]
            command += [
                "--client-cpu",
                CLIENT_CPU,
                "--server-cpu",
                SERVER_CPU,
                "--floor-dir",
                scratch,
            ]
            return subprocess.run([*command, *rest], check=False).returncode
        finally:
            broker.close()


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
