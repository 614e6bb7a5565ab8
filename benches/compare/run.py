#!/usr/bin/env python3
"""Corelog beside Apache Kafka 4.4: same machine, same client, in turn, and what was promised of it.

    benches/compare/run.py --quick              S1, S2, S3, S8, S11 with three pairs: at most 20 minutes
    benches/compare/run.py                      every scenario: hours
    benches/compare/run.py --resume DIR         go on with what is left there
    benches/compare/run.py --resume DIR --only S5a S6a          add these, or take them up where they are not done
    benches/compare/run.py --resume DIR --only S1a --again      measure these anew
    benches/compare/run.py --only S4 S10 --scale 0.2
    benches/compare/run.py --smoke              seconds, without Kafka: whether this program works

A machine is seldom free for hours: a run may be made of parts, on any days. The report has all of them, each row with the effort
behind it. A part has the effort of the run's first one; --quick, --full and --scale say otherwise.

The broker has CPU 0 and the client CPU 1. Fetches Kafka by tools/conformance/kafka/kafka.sh, starts and ends everything by
itself, also on Ctrl-C, and writes the table of docs/benchmarks.md and JSON. Needs `cargo build --release --bin corelog --bin
cost-card`, a Java 17 runtime and Maven, and a machine that does nothing else. docs/benchmarks.md says how it measures.
"""

import argparse
import hashlib
import json
import math
import resource
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import conformance  # noqa: E402, F401
import costs  # noqa: E402
import effort as efforts  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402
import state as states  # noqa: E402
from client import Client, RoundFailed  # noqa: E402
from effort import Effort  # noqa: E402
from rounds import Session, say  # noqa: E402
from scenarios import BY_ID, Load  # noqa: E402
from sides import Where  # noqa: E402
from state import ORDER, State  # noqa: E402
from special import SPECIAL, floor_rows  # noqa: E402

from harness.broker import BrokerError, end_children_on_sigterm  # noqa: E402
from harness.paths import KAFKA_SH, REPOSITORY, target_binary  # noqa: E402

PAGE = REPOSITORY / "docs" / "benchmarks.md"
# No scenario of a plain quick run begins later: the last one takes some minutes, and all of it is to take twenty at most.
QUICK_MINUTES_MAX = 17.0
FETCH_SECONDS_MAX = 1_200
# For ten thousand connections, and what a broker has open besides.
OPEN_FILES = 16_384
# A throughput round and the one before it, whose topic may still be there.
DISK_BYTES_MIN = 20_000_000_000
DISK_BYTES_SMOKE = 4_000_000_000
QUICK = ("S1a", "S1b", "S2a", "S2b", "S2c", "S3a", "S3b", "S3c", "S3d", "S8", "S11")
SMOKE = ("S1a", "S2c", "S3b")
# What the floor program's rows are held against.
BESIDE_FLOOR = ("S1a", "S2b")


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    look = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, epilog=costs.plain(ORDER), formatter_class=look)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="three pairs of 4 s; without --only the scenarios that matter most")
    how.add_argument("--full", action="store_true", help="five pairs of 15 s (default)")
    how.add_argument("--smoke", action="store_true", help="whether this program works: no Kafka, figures mean nothing")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run whose results are there")
    parser.add_argument("--only", nargs="+", choices=ORDER, metavar="ID", help="some scenarios: " + " ".join(ORDER))
    parser.add_argument("--again", action="store_true", help="with --resume and --only: anew, also what is done")
    parser.add_argument("--scale", type=float, help="of the large sizes and long times, 0.001 to 1 (default 1)")
    parser.add_argument("--corelog", type=Path, help="our binary (default: release, else debug build)")
    parser.add_argument("--cost-card", type=Path, help="the floor program (default: the same)")
    parser.add_argument("--dir", type=Path, help="where brokers write; the disk matters (default: the temporary directory)")
    parser.add_argument("--out", type=Path, help="where results go (default: target/compare/DATE)")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/benchmarks.md alone")
    options = parser.parse_args(arguments)
    if options.scale is not None and not 0.001 <= options.scale <= 1:
        parser.error("--scale: must be 0.001 to 1")
    if options.again and not (options.resume and options.only):
        parser.error("--again: needs --resume DIR, and --only with what is to be measured anew")
    if options.resume and (options.out or options.smoke):
        parser.error("--resume: goes on where its results are, and not with --out or --smoke")
    return options


def chosen(options: argparse.Namespace) -> list[str]:
    """The scenarios that a command line names; of one that only goes on none."""
    if options.only:
        return [name for name in ORDER if name in options.only]
    if options.resume:
        return []
    if options.smoke:
        return list(SMOKE)
    return list(QUICK if options.quick else ORDER)


def to_measure(options: argparse.Namespace, state: State) -> list[str]:
    """Those that have their turn now; takes down what is wanted at all."""
    named = chosen(options)
    states.add_scenarios(state, named)
    names = named or state["scenarios"]
    return [name for name in names if options.again or not states.is_done(state, name)]


def effort_of(options: argparse.Namespace, state: State) -> Effort:
    """How much of it: as the command line says, else as the run began."""
    first = state["parts"][0]["effort"] if state["parts"] else {"name": efforts.FULL.name, "scale": 1.0}
    named = [effort for effort in efforts.BY_NAME if getattr(options, effort)]
    scale = first["scale"] if options.scale is None else options.scale
    return efforts.effort_of(named[0] if named else first["name"], scale)


def minutes_max(options: argparse.Namespace) -> float:
    """After so many no scenario begins; only the plain quick run has a promise to keep."""
    is_plain = options.quick and not options.only and not options.resume
    return QUICK_MINUTES_MAX if is_plain else math.inf


def without_paths(words: list[str]) -> list[str]:
    """What repeats the run elsewhere: where things lay on this machine is nobody's business."""
    kept, skip = [], False
    for word in words:
        name, has_value, _ = word.partition("=")
        if skip:
            skip = False
        elif name in ("--corelog", "--cost-card", "--dir", "--out", "--resume"):
            skip = not has_value
            kept += ["--resume", "DIR"] if name == "--resume" else []
        elif word != "--no-docs":
            kept.append(word)
    return kept


def kafka_version() -> str:
    """As the file has it that Kafka is fetched by."""
    for dependency in ElementTree.parse(KAFKA_SH.parent / "pom.xml").iter():
        fields = {child.tag.rpartition("}")[2]: child.text for child in dependency}
        if (fields.get("artifactId") or "").startswith("kafka_"):
            return fields.get("version") or "unknown"
    return "unknown"


def version_of(binary: Path) -> str:
    """What `corelog version` says, in a line."""
    done = subprocess.run([str(binary), "version"], capture_output=True, text=True, timeout=30, check=False)
    first = (done.stdout.strip().splitlines() or ["unknown"])[0]
    return first.removeprefix("corelog ").strip()


def build_of(binary: Path) -> str:
    """Tells two binaries of one version apart: the first digits of their SHA-256."""
    with binary.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()[:8]


@contextmanager
def session_of(options: argparse.Namespace, results: Path, effort: Effort) -> Iterator[Session]:
    """Brokers and clients that are ended whatever happens, in a directory that goes."""
    corelog = options.corelog or target_binary("corelog")
    card = options.cost_card or target_binary("cost-card")
    for binary in (corelog, card):
        if binary.exists() and "debug" in binary.parts:
            say(f"{binary.name}: not a release build: figures mean nothing")
    with tempfile.TemporaryDirectory(prefix="corelog-compare-", dir=options.dir, ignore_cleanup_errors=True) as scratch:
        where = Where(corelog.resolve(), Path(scratch))
        session = Session(Client(corelog.resolve(), card.resolve(), "1"), where, results, effort)
        session.rounds = rounds_in(results)
        try:
            yield session
        finally:
            session.close()


def rounds_in(results: Path) -> int:
    """The number of the last round that is there: later parts of a run overwrite none. Makes the directory where there is none."""
    directory = results / "rounds"
    directory.mkdir(parents=True, exist_ok=True)
    numbers = [file.name.partition("-")[0] for file in directory.iterdir()]
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def raise_open_files() -> None:
    """Ten thousand connections and ten thousand partitions need descriptors; a broker inherits the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < OPEN_FILES:
        say(f"at most {hard} open files, and {OPEN_FILES} are wanted: raise the limit (ulimit -Hn), or S7 may fail")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def measure(session: Session, name: str) -> dict[str, Any]:
    """One scenario; what goes wrong in it is its result, and the next one has its turn."""
    try:
        session.bound(costs.bound_of(name, session.effort))
        if name in BY_ID:
            return measure_load(session, BY_ID[name])
        title, special = SPECIAL[name]
        say(f"{name}: {title}")
        return special(session)
    except (RoundFailed, BrokerError, subprocess.TimeoutExpired, OSError) as failure:
        say(f"{name} failed: {failure}")
        # Nobody knows in what state the brokers are.
        session.client.close()
        session.end_brokers()
        return {"id": name, "kind": "load", "status": "failed", "why": str(failure)[:1000]}


def measure_load(session: Session, load: Load) -> dict[str, Any]:
    """A load in rounds; in a full run with brokers of its own."""
    say(f"{load.id} {load.durability}: {load.title}")
    if load.is_alone:
        session.end_brokers()
    cell = session.measure(load)
    if session.effort.is_full:
        session.end_brokers()
    return cell


def run(options: argparse.Namespace) -> int:
    """A run from the start, or from where another one ended."""
    if options.smoke and not options.out:
        with tempfile.TemporaryDirectory(prefix="corelog-compare-results-") as scratch:
            return run_into(options, Path(scratch))
    dated = REPOSITORY / "target" / "compare" / time.strftime("%Y%m%d-%H%M%S")
    results = options.resume or options.out or dated
    code = run_into(options, results)
    say(f"results: {results}")
    return code


def run_into(options: argparse.Namespace, results: Path) -> int:
    """The same, with the place where results go."""
    results.mkdir(parents=True, exist_ok=True)
    state = states.read(results) if options.resume else states.new()
    effort = effort_of(options, state)
    names = to_measure(options, state)
    if names:
        with session_of(options, results, effort) as session:
            measure_all(session, state, names, minutes_max(options))
    is_told = not options.no_docs and effort.name != efforts.SMOKE.name
    report.write(state, results, PAGE if is_told else None)
    print((results / "report.md").read_text())
    return 0 if states.is_whole(state) else 1


def measure_all(session: Session, state: State, names: list[str], minutes_bound: float) -> None:
    """A part of a run; what is measured is on disk after each scenario."""
    effort = session.effort
    prepare(session)
    part = new_part(session)
    state["parts"].append(part)
    if set(names) & set(BESIDE_FLOOR) and session.client.card.exists():
        say("the floor program")
        part["floor"] = floor_rows(session)
    for name in names:
        about, bound = costs.seconds_of(name, effort), costs.bound_of(name, effort)
        say(f"{name}: about {costs.minutes(about)}, at most {costs.minutes(bound)}")
    begin = time.monotonic()
    taken: list[tuple[str, float]] = []
    for index, name in enumerate(names):
        start = time.monotonic()
        if (start - begin) / 60 > minutes_bound:
            why = f"{minutes_bound:.0f} minutes were over"
            cell = {"id": name, "kind": "load", "status": "left out", "why": why}
        else:
            say(remaining_line(names[index:], effort, taken))
            cell = measure(session, name)
            taken.append((name, time.monotonic() - start))
        cell["seconds"] = round(time.monotonic() - start, 1)
        states.keep(state, name, cell)
        report.write_atomically(session.results / "state.json", json.dumps(state, indent=1) + "\n")


def remaining_line(left: list[str], effort: Effort, taken: list[tuple[str, float]]) -> str:
    """What is to come, and when it is over, for a person who waits."""
    seconds = costs.remaining(left, effort, taken)
    end = time.strftime("%H:%M", time.localtime(time.time() + seconds))
    return f"about {costs.minutes(seconds)} are left, until {end}: {' '.join(left)}"


def prepare(session: Session) -> None:
    """What must be there before anything is measured."""
    is_smoke = session.effort.name == efforts.SMOKE.name
    needed = DISK_BYTES_SMOKE if is_smoke else max(DISK_BYTES_MIN, int(24e9 * session.effort.scale))
    machine.need_space(session.where.directory, needed)
    raise_open_files()
    session.needs_flushes = not is_smoke
    if session.effort.kafkas:
        say("fetching Kafka (once)")
        subprocess.run([str(KAFKA_SH), "fetch"], stdout=subprocess.DEVNULL, timeout=FETCH_SECONDS_MAX, check=True)


def new_part(session: Session) -> dict[str, Any]:
    """This call of the program."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "command": shlex.join(["benches/compare/run.py", *without_paths(sys.argv[1:])]),
        "effort": efforts.saved(session.effort),
        "corelog": version_of(session.where.binary),
        "build": build_of(session.where.binary),
        "kafka": kafka_version() if session.effort.kafkas else "not measured",
        "machine": machine.facts(session.where.directory),
    }


def main() -> int:
    """Runs it; a Ctrl-C ends everything that was started."""
    options = options_of()
    try:
        return run(options)
    except (machine.MachineError, states.StateError) as refusal:
        print(f"compare: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("compare: interrupted; --resume DIR goes on behind what is done", file=sys.stderr)
        return 130


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
