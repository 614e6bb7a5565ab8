"""rskafka's own integration tests, out of its package, against one broker.

    rskafka_run.py [--corelog PATH] [--shards 2] [--only TEXT]...
    rskafka_run.py --kafka          the same against the reference

matrix/rust/setup.sh builds them as they are published, a program for each of their files. A test is
a process of its own, so that a verdict is a line and a failure shows what the test said. Those with
Java in their name start a JVM that downloads a client, and are left out: matrix_run.py has Java.
"""

import argparse
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from harness.broker import Broker, Launch, end_children_on_sigterm
from harness.paths import CACHE, add_binary, target_binary
from harness.report import Report, Skipped, expect, shorten
from harness.scratch import scratch_directory

PROGRAMS = CACHE / "matrix-rust" / "bin"
TEST_SECONDS_MAX = 120
# Every one that there is in 0.6.0; a build that has lost some must not look like a run that passed.
TESTS_MIN = 43


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add_binary(parser)
    parser.add_argument("--kafka", action="store_true", help="run against the reference broker")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument(
        "--only", action="append", default=[], help="tests whose name contains this"
    )
    options = parser.parse_args()
    options.tests = [
        (program, name) for program in sorted(PROGRAMS.glob("test-*")) for name in tests_of(program)
    ]
    for text in options.only:
        if not any(text in name for _, name in options.tests):
            parser.error(f"--only {text}: no test is called like this")
    return options


def tests_of(program: Path) -> list[str]:
    """The names of a program's tests, without those that need a JVM."""
    listed = subprocess.run(
        [program, "--list", "--format", "terse"],
        capture_output=True,
        text=True,
        timeout=TEST_SECONDS_MAX,
        check=True,
    )
    names = [line.removesuffix(": test") for line in listed.stdout.splitlines()]
    return [name for name in names if "java" not in name]


def why_not(broker: Broker, name: str) -> str | None:
    """Why a test says nothing about this broker."""
    if name == "test_sasl":
        return "without a broker that speaks SASL it returns at once"
    asks_group = name.startswith("test_produce_") and "_consume_rdkafka_" in name
    if asks_group and broker.launch.is_corelog:
        return "its consumer asks a group where to begin, and groups are not built yet"
    return None


def run_test(broker: Broker, program: Path, name: str) -> str:
    """One test in a process of its own."""
    if why := why_not(broker, name):
        raise Skipped(why)
    done = subprocess.run(
        [program, "--exact", name, "--nocapture"],
        env={
            **os.environ,
            "TEST_INTEGRATION": "1",
            "TEST_BROKER_IMPL": "kafka",
            "KAFKA_CONNECT": broker.bootstrap,
        },
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TEST_SECONDS_MAX,
        check=False,
    )
    said = shorten(done.stdout[-300:] + done.stderr[:500], 800)
    expect(done.returncode == 0, f"exit code {done.returncode}: {said}")
    expect("1 passed" in done.stdout, f"it did not run: {said}")
    return ""


def run(options: argparse.Namespace, report: Report, scratch: Path) -> None:
    """All tests, one after the other, against one broker."""
    kind = "kafka" if options.kafka else "corelog"
    binary = options.corelog or target_binary("corelog")
    # One test asks for a topic that is not there, and must be told so.
    settings = ("auto.create.topics.enable=false",)
    broker = Broker(Launch(kind, binary, options.shards, settings), scratch / "data")
    tests = options.tests
    report.run("rskafka/tests", lambda: expect(len(tests) >= TESTS_MIN, f"only {len(tests)}"))
    try:
        broker.start()
        for program, name in tests:
            subject = program.name.removeprefix("test-")
            if not options.only or any(text in name for text in options.only):
                report.run(f"rskafka/{subject}/{name}", partial(run_test, broker, program, name))
    finally:
        broker.close()


def main() -> int:
    """Runs what the command line asks for."""
    options, report = arguments(), Report()
    with scratch_directory("rskafka-", report) as scratch:
        run(options, report, scratch)
    return report.close()


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
