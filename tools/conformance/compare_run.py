"""The differential: the same raw requests to Apache Kafka and to Corelog, answers compared field by field.

    compare_run.py [--corelog PATH] [--shards 2] [--only TEXT]...
    compare_run.py --kafka-twice       Kafka against itself: are the requests repeatable?
    compare_run.py --propose           prints rows for what differs and is in no row yet

Both brokers get the same topics with the same batches at the same timestamps, then one case after
the other (differential/*_cases.py), each at the oldest and the newest version that both serve.
A difference is taken only if differential/expected.tsv lists it with a reason, and a row of that
table that no difference used fails the run.
"""

import argparse
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from differential import admin_cases, data_cases, describe_cases, frame_cases, schema
from differential.batches import batch
from differential.cases import APPENDED, CONFIGURED, TOPIC, TRIMMED, Cases
from differential.differences import (
    Difference,
    Expected,
    differences,
    matches,
    self_test,
    table,
)
from differential.side import Case, Side
from harness import clients
from harness.broker import Broker, Launch, end_children_on_sigterm
from harness.paths import REPOSITORY, add_binary, target_binary
from harness.report import CheckFailed, Report, Skipped, expect, shorten
from harness.scratch import scratch_directory

GOLDEN = REPOSITORY / "server" / "wire" / "tests" / "golden.tsv"
SETTINGS = ("auto.create.topics.enable=false",)
# After these Kafka's broker learns from its controller what has changed, some milliseconds later.
CHANGING = ("CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "Incremental")
SETTLE_SECONDS = 0.1
# A question whose answer may still be on its way to Kafka's broker is asked again for so long.
ASK_AGAIN_SECONDS_MAX = 3.0
TELLING = ("Describe", "Metadata", "List", "OffsetForLeaderEpoch")
FAILED_SHOWN = 6


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add_binary(parser)
    parser.add_argument("--kafka-twice", action="store_true", help="compare Kafka with itself")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument(
        "--only", action="append", default=[], help="cases whose name contains this"
    )
    parser.add_argument("--propose", action="store_true", help="print rows for the table")
    return parser.parse_args()


class Misused(Skipped):
    """The command line names no case: nothing was checked, and nothing is kept."""


@dataclass
class Judge:
    """Compares, and remembers which rows of the table were needed."""

    kafka: Side
    corelog: Side
    rows: list[Expected]
    used: set[Expected] = field(default_factory=set)
    proposed: list[str] = field(default_factory=list)

    def compare(self, case: Case) -> str:
        """Sends a case to both; fails on a difference that no row explains."""
        deadline = time.monotonic() + ASK_AGAIN_SECONDS_MAX
        while True:
            found = list(differences(self.kafka.answer(case), self.corelog.answer(case)))
            new = [one for one in found if not any(row.covers(case.name, one) for row in self.rows)]
            if not new or not case.api.startswith(TELLING) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if case.api.startswith(CHANGING):
            time.sleep(SETTLE_SECONDS)
        self.used.update(row for row in self.rows for one in found if row.covers(case.name, one))
        if new:
            self.proposed += [
                f"{case.name}\t{one.field}\t{one.kafka}\t{one.corelog}\t" for one in new
            ]
            raise CheckFailed(_told(new))
        return f"{len(found)} listed differences" if found else ""

    def stale(self, names: list[str]) -> str:
        """Fails for rows that explained nothing, and for cases that a row names and nobody asks."""
        left = [row for row in self.rows if row not in self.used]
        text = "; ".join(f"{row.cases} {row.field} {row.kafka} {row.corelog}" for row in left)
        expect(not left, f"{len(left)} listed differences no longer occur: {text}")
        patterns = {pattern for row in self.rows for pattern in row.cases.split(" ")}
        unknown = [
            pattern
            for pattern in sorted(patterns)
            if not any(matches(pattern, name) for name in names)
        ]
        expect(not unknown, f"no case is called so: {', '.join(unknown)}")
        return f"{len(self.rows)} rows"


def _told(found: list[Difference]) -> str:
    lines = [f"{one.field}: Kafka {one.kafka}, Corelog {one.corelog}" for one in found]
    more = f"; {len(lines) - FAILED_SHOWN} more" if len(lines) > FAILED_SHOWN else ""
    return "; ".join(lines[:FAILED_SHOWN]) + more


def prepared(broker: Broker) -> Side:
    """Starts a broker and gives it the topics that the cases name."""
    broker.start()
    side = Side(broker)
    for topic, partitions in ((TOPIC, 2), (TRIMMED, 2), (APPENDED, 1), (CONFIGURED, 1)):
        clients.create_topic(broker.bootstrap, topic, partitions)
        for partition in range(partitions):
            side.wait_for_leader(topic, partition)
        side.topic_id(topic)
    _wait_for_producer_ids(side)
    side.cluster_id = side.call("Metadata", 2, {"Topics": []})["ClusterId"]
    for topic in (TOPIC, TRIMMED):
        for first in (0, 3, 6):
            answer = side.call("Produce", 7, data_cases.produced(batch(first), topic))
            error = answer["Responses"][0]["PartitionResponses"][0]["ErrorCode"]
            expect(error == 0, f"{topic} takes no records: error {error}")
    return side


def _wait_for_producer_ids(side: Side) -> None:
    """Kafka says "loading" (14) until its controller has given the node a block of ids."""
    deadline = time.monotonic() + 60
    body = {"TransactionalId": None, "TransactionTimeoutMs": 60_000}
    while side.call("InitProducerId", 0, body)["ErrorCode"]:
        expect(time.monotonic() < deadline, "no producer id")
        time.sleep(0.05)


def all_cases(served: dict[str, tuple[int, int]]) -> Cases:
    """Every case, in the order in which they are sent."""
    cases = Cases(served)
    # What a fresh node says of itself comes before anything is changed.
    for part in (data_cases, describe_cases, admin_cases, frame_cases):
        part.add(cases)
    return cases


def served_by(side: Side) -> dict[str, tuple[int, int]]:
    """What a broker advertises, as far as the table of messages has it."""
    names = {message.key: api for (_, api), message in schema.messages().items()}
    rows = side.call("ApiVersions", 0, {})["ApiKeys"]
    return {
        names[row["ApiKey"]]: (row["MinVersion"], row["MaxVersion"])
        for row in rows
        if row["ApiKey"] in names
    }


def golden() -> str:
    """Our reader and writer of messages against the bytes of Kafka's."""
    errors = list(schema.golden_errors(GOLDEN))
    expect(not errors, f"{len(errors)} rows: {shorten(errors[:3])}")
    return GOLDEN.name


def launches(options: argparse.Namespace) -> tuple[Launch, Launch]:
    """The reference and what is held against it."""
    kind = "kafka" if options.kafka_twice else "corelog"
    binary = options.corelog or target_binary("corelog")
    tried = Launch(kind, binary, options.shards, SETTINGS)
    return Launch("kafka", Path(), settings=SETTINGS), tried


def run(options: argparse.Namespace, report: Report, scratch: Path, stack: ExitStack) -> None:
    """Starts both and compares them case by case."""
    report.run("compare/self-test", lambda: expect(not self_test(), "; ".join(self_test())))
    if not report.run("compare/golden", golden):
        return

    def side_of(name: str, launch: Launch) -> Side:
        broker = Broker(launch, scratch / name)
        stack.callback(broker.close)
        return prepared(broker)

    reference, tried = launches(options)
    corelog = side_of("corelog", tried)
    cases = all_cases(served_by(corelog))
    names = [case.name for case in cases.found]
    expect(len(names) == len(set(names)), f"names that stand twice: {_repeated(names)}")
    for text in options.only:
        # The cases are those of the APIs that are served: only now is it known.
        if not any(text in name for name in names):
            raise Misused(f"--only {text}: no case is called like this")
    rows = [] if options.kafka_twice else table()
    judge = Judge(side_of("kafka", reference), corelog, rows)
    for case in cases.found:
        if not options.only or any(text in case.name for text in options.only):
            report.run(f"compare/{case.name}", partial(judge.compare, case))
    if not options.only:
        report.run("compare/table-is-current", partial(judge.stale, names))
    if options.propose:
        print("\n".join(judge.proposed))
    if cases.left_out:
        print(f"not served yet, so not compared: {', '.join(sorted(cases.left_out))}")


def _repeated(names: list[str]) -> str:
    return ", ".join(sorted({name for name in names if names.count(name) > 1}))


def main() -> int:
    """Runs what the command line asks for."""
    options, report = arguments(), Report()
    try:
        with scratch_directory("compare-", report) as scratch, ExitStack() as stack:
            run(options, report, scratch, stack)
    except Misused as misused:
        print(f"compare_run.py: {misused}", file=sys.stderr)
        return 2
    return report.close()


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
