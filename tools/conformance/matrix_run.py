"""The client matrix: every client library does the same against one broker, and a table comes of it.

    matrix_run.py [--corelog PATH] [--shards 2] [--only CLIENT]...
    matrix_run.py --kafka          the same against the reference: do the programs hold water?
    matrix_run.py --write          writes matrix/results.json, from which docs/compatibility.md is made

matrix/setup.sh installs the clients. Each is a program that prints a JSON line a feature (see
matrix/python/common.py). What it wrote in each codec is then looked at from outside: the batches
must be compressed as said, and librdkafka must read the same records. Without --write, a result
other than the recorded one fails the run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from harness import clients
from harness.broker import Broker, Launch, end_children_on_sigterm
from harness.paths import CACHE, add_binary, target_binary
from harness.raw import Connection, FetchFrom, batches
from harness.report import Report, expect, expect_equal, shorten
from harness.scratch import scratch_directory
from matrix.results import CODECS, FEATURES, RESULTS, ClientResult, Results

MATRIX = Path(__file__).with_name("matrix")
CLIENT_SECONDS_MAX = 240
ATTRIBUTES_AT, CODEC_MASK = 21, 0x07
RECORDS = 100


# How a client's program is started; bootstrap and prefix follow.
Program = Sequence[str | Path]


def _python(environment: str, script: str) -> Program:
    return [CACHE / environment / "bin" / "python", MATRIX / "python" / script]


def _java(jars: Path) -> Program:
    # One compiler tier: a client lives for seconds, its start-up is most of that.
    classes = f"{CACHE / 'matrix-java'}:{jars}/*"
    return ["java", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", classes, "Client"]


def _go(client: str) -> Program:
    return [CACHE / "matrix-go" / "matrix", client]


def _rust(client: str) -> Program:
    return [CACHE / "matrix-rust" / "bin" / "matrix", client]


PROGRAMS: dict[str, Program] = {
    "confluent-kafka": _python("conformance-venv", "with_confluent.py"),
    "confluent-kafka, old": _python("matrix-python-old", "with_confluent.py"),
    "kafka-python": _python("matrix-python", "with_kafka_python.py"),
    "aiokafka": _python("matrix-python", "with_aiokafka.py"),
    "kafkajs": ["node", MATRIX / "node" / "client.js"],
    "franz-go": _go("franz-go"),
    "sarama": _go("sarama"),
    "segmentio/kafka-go": _go("kafka-go"),
    "rdkafka": _rust("rdkafka"),
    "rskafka": _rust("rskafka"),
    "Java": _java(CACHE / "kafka" / "jars"),
    "Java, old": _java(CACHE / "matrix-java-old" / "jars"),
}


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add_binary(parser)
    parser.add_argument("--kafka", action="store_true", help="run against the reference broker")
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument(
        "--only", action="append", default=[], choices=PROGRAMS, metavar="CLIENT", help="this one"
    )
    parser.add_argument("--write", action="store_true", help="record what is found")
    return parser.parse_args()


class Run:
    """One client's run: what it said, and what is to be seen of it in the broker."""

    def __init__(self, broker: Broker, name: str, prefix: str, report: Report) -> None:
        self.broker, self.name, self.prefix, self.report = broker, name, prefix, report
        self.result: ClientResult = {"version": "", "features": {}}
        self.texts: dict[str, str] = {}

    def start(self) -> str:
        """Runs the program to its end and reads its lines."""
        program, begin = PROGRAMS[self.name], time.monotonic()
        done = subprocess.run(
            [*map(str, program), self.broker.bootstrap, self.prefix],
            env={**os.environ, "MATRIX_MODULES": str(CACHE / "matrix-node")},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=CLIENT_SECONDS_MAX,
            check=False,
        )
        for line in done.stdout.splitlines():
            said = json.loads(line)
            if "version" in said:
                self.result["version"] = said["version"]
            else:
                self.result["features"][said["feature"]] = said["passed"]
                self.texts[said["feature"]] = said["text"]
        expect(done.returncode == 0, f"exit code {done.returncode}: {shorten(done.stderr[-400:])}")
        unknown = self.result["features"].keys() - FEATURES.keys()
        expect(not unknown, f"features that no table has: {unknown}")
        expect(bool(self.result["features"]), f"nothing was tried: {done.stderr[-400:]}")
        return f"{self.result['version']}, {time.monotonic() - begin:.1f} s"

    def judge(self) -> None:
        """A verdict a feature; a codec counts only if it is to be seen in the log."""
        for feature in FEATURES:
            if feature not in self.result["features"]:
                continue
            check = partial(self._seen, feature)
            if not self.report.run(f"matrix/{self.name}/{feature}", check):
                self.result["features"][feature] = False

    def _seen(self, feature: str) -> str:
        expect(self.result["features"][feature], self.texts[feature])
        codec = feature.removeprefix("codec-")
        if codec not in CODECS:
            return ""
        topic = f"{self.prefix}-{codec}"
        with Connection(self.broker.port) as connection:
            data = connection.fetch(FetchFrom(topic, 0, 0)).records
        used = {data[one.position + ATTRIBUTES_AT + 1] & CODEC_MASK for one in batches(data)}
        expect_equal("codecs in the log", used, {CODECS.index(codec)})
        found = clients.read_topic(self.broker.bootstrap, topic)
        values = [b"value-%d " % n + b"x" * 200 for n in range(RECORDS)]
        expect_equal("values", [message.value() for message in found], values)
        expect_equal("keys", [m.key() for m in found], [b"key-%d" % n for n in range(RECORDS)])
        headers = [message.headers() for message in found]
        expect_equal("headers", headers, [[("n", b"%d" % n)] for n in range(RECORDS)])
        return f"{len(data)} bytes"


def compare(found: Results, names: Sequence[str]) -> str:
    """What was found, against what is recorded."""
    recorded: Results = json.loads(RESULTS.read_text())
    for name in names:
        expect_equal(name, found[name], recorded.get(name))
    left = recorded.keys() - PROGRAMS.keys()
    expect(not left, f"recorded, but there are no such programs: {left}")
    return f"{len(names)} clients"


def run(options: argparse.Namespace, report: Report, scratch: Path) -> None:
    """All clients, one after the other, against one broker."""
    kind = "kafka" if options.kafka else "corelog"
    binary = options.corelog or target_binary("corelog")
    settings = ("auto.create.topics.enable=false",) if options.kafka else ()
    broker = Broker(Launch(kind, binary, options.shards, settings), scratch / "data")
    names = [name for name in PROGRAMS if not options.only or name in options.only]
    found: Results = {}
    try:
        broker.start()
        for number, name in enumerate(names):
            one = Run(broker, name, f"m{number}", report)
            if report.run(f"matrix/{name}/run", one.start):
                one.judge()
            found[name] = one.result
    finally:
        broker.close()
    if options.write:
        old: Results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        both = {name: found.get(name) or old.get(name) for name in PROGRAMS}
        known = {name: one for name, one in both.items() if one is not None}
        RESULTS.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    elif not options.kafka:
        report.run("matrix/as-recorded", lambda: compare(found, names))


def main() -> int:
    """Runs what the command line asks for."""
    options, report = arguments(), Report()
    with scratch_directory("matrix-", report) as scratch:
        run(options, report, scratch)
    return report.close()


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
