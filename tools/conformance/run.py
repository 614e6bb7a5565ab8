"""The client runs: every check against a live broker with 1 and with 2 shards.

    run.py --corelog PATH [--shards 1,2] [--full] [--only TEXT]... [--set KEY=VALUE]...
    run.py --kafka        the same checks against the reference: do the checks hold water?

Prints a line a check and `N passed, N failed`; the exit code is 0 only if nothing failed.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from checks import (
    Context,
    bad_input,
    confluent,
    cores,
    dump,
    java_cluster_tools,
    java_tools,
    kcat,
    own_cli,
    shards,
    start,
)
from harness.broker import Broker, Launch, end_children_on_sigterm
from harness.kafka_tools import KafkaTools
from harness.paths import add_binary, add_settings, settings_of, target_binary
from harness.report import Report

RUNNING = {
    **start.CHECKS,
    **own_cli.CHECKS,
    **kcat.CHECKS,
    **confluent.CHECKS,
    **java_tools.CHECKS,
    **java_cluster_tools.CHECKS,
    **shards.CHECKS,
    **cores.CHECKS,
    **bad_input.CHECKS,
}
STOPPED = dump.CHECKS


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add_binary(parser)
    parser.add_argument("--kafka", action="store_true", help="run against the reference broker")
    parser.add_argument(
        "--shards", default="1,2", help="numbers of shards to run with (default 1,2)"
    )
    parser.add_argument("--full", action="store_true", help="the long forms too")
    parser.add_argument(
        "--only", action="append", default=[], help="checks whose name contains this"
    )
    add_settings(parser)
    options = parser.parse_args()
    for text in options.only:
        if not any(text in name for name in (*RUNNING, *STOPPED)):
            parser.error(f"--only {text}: no check is called like this")
    return options


def run_with(launch: Launch, options: argparse.Namespace, report: Report) -> None:
    """All checks against one broker of its own."""
    label = f"{launch.shards}" if launch.is_corelog else "kafka"
    with tempfile.TemporaryDirectory(prefix="conformance-") as scratch:
        broker = Broker(launch, Path(scratch) / "data")
        if not report.run(f"{label}/start", lambda: f"ready after {1000 * broker.start():.0f} ms"):
            return
        context = Context(broker, KafkaTools(broker.bootstrap), Path(scratch), options.full)
        try:
            for name, check in RUNNING.items():
                if wanted(name, options.only):
                    report.run(f"{label}/{name}", partial(check, context))
            if any(wanted(name, options.only) for name in STOPPED):
                report.run(f"{label}/stop", lambda: dump.stop(context))
                for name, check in STOPPED.items():
                    report.run(f"{label}/{name}", partial(check, context))
        finally:
            broker.close()


def wanted(name: str, only: list[str]) -> bool:
    """Whether the command line asks for this check."""
    return not only or any(text in name for text in only)


def main() -> int:
    """Runs what the command line asks for."""
    options, report = arguments(), Report()
    binary = options.corelog or target_binary("corelog")
    settings = settings_of(options)
    if options.kafka:
        run_with(Launch("kafka", binary, settings=settings), options, report)
    else:
        print(f"binary {binary}", flush=True)
        for shard_count in map(int, options.shards.split(",")):
            run_with(Launch("corelog", binary, shard_count, settings), options, report)
    return report.close()


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
