"""The hostile run: clients that do not behave cost the node a bounded amount, and others next to nothing.

    hostile_run.py [--corelog PATH] [--connections 10000] [--seconds 8] [--only NAME ...]
                   [--set KEY=VALUE]...

    hostile/crowd          so many connections, one in a hundred of them active
    hostile/slowloris      requests that come one byte at a time
    hostile/half-closed    clients that end their half, within a request and after it
    hostile/strangers      TLS and HTTP on the Kafka port
    hostile/huge-frames    frames of 2 GB, and frames that are announced and never come
    hostile/huge-arrays    arrays of 2^31-1 elements
    hostile/pipelined      a million tiny requests from clients that read nothing

Each runs in a process of its own (harness/attacks.py) against a node of two cores, while a client
produces and fetches at a steady pace and is timed from when it meant to ask. A case passes if as many
connections stood as it is about, the node's memory is flat, the steady client sees no error and its p99 at most doubles (below
`P99_FLOOR` nothing is said: attackers and node share the processor), the same process still runs
afterwards without a panic, and the connections are gone. A p99 that more than doubled is measured
again, `ATTEMPTS` times in all: what the machine itself does in between is nobody's fault. There is no `--kafka`: Kafka keeps
buffers for what is announced, and ends.
"""

import argparse
import dataclasses
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from harness import clients, raw
from harness.broker import Broker, Launch, end_children_on_sigterm
from harness.paths import add_binary, add_settings, settings_of, target_binary
from harness.raw import Connection, FetchFrom
from harness.report import CheckFailed, Report, expect, expect_equal
from harness.scratch import scratch_directory
from harness.waiting import wait_while

TOPIC = "steady"
PACE = 0.01
# What two busy processors cost a client now and then, in seconds: below it a ratio says nothing.
P99_FLOOR = 0.020
GROWTH_BYTES_MAX = 64 << 20
# A connection that stands there: a read buffer of 4 KiB, its tasks, its place.
CONNECTION_BYTES_MAX = 16 << 10
END_SECONDS_MAX = 30.0
ATTEMPTS = 3
# Attacks whose connections all stand until they end; of the others the node closes some, as it must.
STANDING = ("crowd", "slowloris")
# Descriptors that the node needs besides connections: by default half of all are for segments.
SEGMENT_FILES = 500
OTHER_FILES = 300


@dataclasses.dataclass(frozen=True)
class Case:
    """An attack, how many connections it has, and what they may cost."""

    name: str
    connections: int
    growth_bytes_max: int = GROWTH_BYTES_MAX


def cases(crowd: int) -> list[Case]:
    """Every case."""
    return [
        Case("crowd", crowd, GROWTH_BYTES_MAX + crowd * CONNECTION_BYTES_MAX),
        Case("slowloris", 500),
        Case("half-closed", 200),
        Case("strangers", 1),
        Case("huge-frames", 200),
        Case("huge-arrays", 1),
        Case("pipelined", 8),
    ]


class Steady:
    """A client that behaves, at a steady pace."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.batch = raw.batch([(None, os.urandom(100))], 1_700_000_000_000)
        self.rss_max = 0

    def p99(self, seconds: float) -> float:
        """One round trip each `PACE`, timed from when it was due: a stall is not hidden by waiting for it."""
        taken: list[float] = []
        with Connection(self.broker.port) as connection:
            due = time.monotonic()
            end = due + seconds
            while due < end:
                time.sleep(max(0.0, due - time.monotonic()))
                produced = connection.produce(TOPIC, 0, self.batch)
                expect_equal("produce error", produced.error, 0)
                fetched = connection.fetch(FetchFrom(TOPIC, 0, produced.base_offset))
                expect_equal("fetch error", fetched.error, 0)
                expect(len(fetched.records) >= len(self.batch), "a record is missing")
                taken.append(time.monotonic() - due)
                due += PACE
                if len(taken) % 20 == 0:
                    self.rss_max = max(self.rss_max, self.broker.rss_bytes())
        taken.sort()
        return taken[len(taken) * 99 // 100]


@contextmanager
def attack(case: Case, port: int) -> Iterator["subprocess.Popen[str]"]:
    """The attacker, from when its connections stand; leaving ends it."""
    command = [sys.executable, "-m", "harness.attacks", case.name, str(port), str(case.connections)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    ) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline().strip()
            expect_equal("the attacker's first word", first, "ready")
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def said_by(process: "subprocess.Popen[str]") -> str:
    """Ends the attack, and gives what it has seen."""
    try:
        said, _ = process.communicate("", END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise CheckFailed("the attack does not end: it waits for the broker") from None
    expect_equal("the attacker's exit code", process.returncode, 0)
    return said.strip()


class TooSlow(CheckFailed):
    """Others were slowed down: by the attack, or by something else on this machine."""


def run_case(broker: Broker, case: Case, seconds: float, floor: float) -> str:
    """An attack; again where others were slow, for that may have had another reason."""
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt(broker, case, seconds, floor)
        except TooSlow as slow:
            print(f"again: {slow}", flush=True)
            wait_while("connections", lambda: connections(broker), END_SECONDS_MAX)
    return attempt(broker, case, seconds, floor)


def attempt(broker: Broker, case: Case, seconds: float, floor: float) -> str:
    """One attack, measured against the quiet before it."""
    steady = Steady(broker)
    quiet = steady.p99(seconds / 2)
    steady.rss_max = before = broker.rss_bytes()
    pid = broker.pid
    with attack(case, broker.port) as process:
        under = steady.p99(seconds)
        connected = connections(broker)
        said = said_by(process)
    growth = max(0, max(steady.rss_max, broker.rss_bytes()) - before)
    bound = max(2 * quiet, floor)
    summary = (
        f"{connected:.0f} connections, {said}; others' p99 {1000 * quiet:.1f} → "
        f"{1000 * under:.1f} ms, memory +{growth / (1 << 20):.1f} MiB"
    )
    expect("still open" not in said and "answered" not in said, summary)
    expect(growth <= case.growth_bytes_max, f"{summary}: bound {case.growth_bytes_max >> 20} MiB")
    if case.name in STANDING:
        expect(connected >= case.connections, f"{summary}: {case.connections} were made")
    if under > bound:
        raise TooSlow(f"{summary}: bound {1000 * bound:.1f} ms")
    expect_equal("pid", broker.pid, pid)
    wait_while("connections", lambda: connections(broker), END_SECONDS_MAX)
    expect_equal("panics", broker.metrics()["corelog_panics_total"], 0)
    return summary


def connections(broker: Broker) -> float:
    """Those that stand now."""
    return broker.metrics()["corelog_connections"]


def connections_max() -> int:
    """As many as the limit of open files allows either process, once it is as high as may be."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard - SEGMENT_FILES - OTHER_FILES


def expect_room(case: Case, room: int) -> None:
    """Fails where fewer connections can be made than the case is about: fewer would prove something else."""
    files = case.connections + SEGMENT_FILES + OTHER_FILES
    text = f"{case.connections} connections need ulimit -n {files}, {room} are allowed"
    expect(room >= case.connections, f"{text}: raise it, or ask for fewer with --connections")


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add_binary(parser)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument(
        "--p99-floor-ms",
        type=float,
        default=1000 * P99_FLOOR,
        help="a p99 below it is never too slow: more on a machine that has other work",
    )
    names = [case.name for case in cases(0)]
    parser.add_argument("--only", nargs="+", choices=names, help="cases by name")
    add_settings(parser)
    options, report = parser.parse_args(), Report()
    room = connections_max()
    settings = settings_of(options, f"log.open.files.max={SEGMENT_FILES}")
    binary = options.corelog or target_binary("corelog")
    launch = Launch("corelog", binary, shards=2, settings=settings)
    scratch = scratch_directory("hostile-", report)
    with scratch as path, closing(Broker(launch, path / "data")) as broker:
        broker.start()
        clients.create_topic(broker.bootstrap, TOPIC, 1)
        Steady(broker).p99(1.0)
        for case in cases(options.connections):
            if not options.only or case.name in options.only:

                def check(case: Case = case) -> str:
                    expect_room(case, room)
                    return run_case(broker, case, options.seconds, options.p99_floor_ms / 1000)

                report.run(f"hostile/{case.name}", check)
        report.run("hostile/stop", lambda: expect_equal("exit code", broker.terminate(), 0))
    return report.close()


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
