#!/usr/bin/env python3
"""Corelog beside Apache Kafka 4.4: same machine, same client, in turn, and what was promised of it.

    benches/compare/run.py --quick              S1, S2, S3, S8, S11 with three pairs: at most 20 minutes
    benches/compare/run.py                      every scenario: hours; goes on after each with --resume DIR
    benches/compare/run.py --only S4 S10 --scale 0.2
    benches/compare/run.py --smoke              seconds, without Kafka: whether this program works

The broker has CPU 0 and the client CPU 1. Fetches Kafka by tools/conformance/kafka/kafka.sh, starts and ends everything by
itself, also on Ctrl-C, and writes the table of docs/benchmarks.md and JSON. Needs `cargo build --release --bin corelog --bin
cost-card`, a Java 17 runtime and Maven, and a machine that does nothing else. docs/benchmarks.md says how it measures.
"""

import argparse
import dataclasses
import json
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
import machine  # noqa: E402
import report  # noqa: E402
from client import Client, RoundFailed  # noqa: E402
from rounds import Effort, Session, say  # noqa: E402
from scenarios import LOADS, Load  # noqa: E402
from sides import Where  # noqa: E402
from special import SPECIAL, floor_rows  # noqa: E402

from harness.broker import BrokerError, end_children_on_sigterm  # noqa: E402
from harness.paths import KAFKA_SH, REPOSITORY, target_binary  # noqa: E402

PAGE = REPOSITORY / "docs" / "benchmarks.md"
# No scenario begins later: the last one takes some minutes, and all of it is to take twenty at most.
QUICK_MINUTES_MAX = 17.0
FETCH_SECONDS_MAX = 1_200
# For ten thousand connections, and what a broker has open besides.
OPEN_FILES = 16_384
# A throughput round and the one before it, whose topic may still be there.
DISK_BYTES_MIN = 20_000_000_000
DISK_BYTES_SMOKE = 4_000_000_000
ORDER = (
    *("S1a", "S1b", "S2a", "S2b", "S2c", "S3a", "S3b", "S3c", "S3d", "S4", "S5a", "S5b", "S6a", "S6b", "S6c"),
    *("S7", "S8", "S10", "S11", "S12", "shards", "perf"),
)
QUICK_SPECIAL = ("S11",)
SMOKE = ("S1a", "S2c", "S3b")
QUICK = Effort(pairs=3, seconds=4, warm_up_seconds=15, has_all_collectors=False, audit_bytes="256MB")
FULL = Effort(pairs=5, seconds=15, warm_up_seconds=60, has_all_collectors=True)
SMOKE_EFFORT = Effort(pairs=1, seconds=1, warm_up_seconds=0, has_all_collectors=False, kafkas=())


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="the scenarios that matter most, three pairs each")
    how.add_argument("--smoke", action="store_true", help="whether this program works: no Kafka, figures mean nothing")
    how.add_argument("--resume", type=Path, metavar="DIR", help="go on with the run whose results are there")
    parser.add_argument("--only", nargs="+", choices=ORDER, metavar="ID", help="some scenarios: " + " ".join(ORDER))
    parser.add_argument("--scale", type=float, default=1.0, help="of the large sizes and long times, 0.001 to 1 (default 1)")
    parser.add_argument("--corelog", type=Path, help="our binary (default: release, else debug build)")
    parser.add_argument("--cost-card", type=Path, help="the floor program (default: the same)")
    parser.add_argument("--dir", type=Path, help="where brokers write; the disk matters (default: the temporary directory)")
    parser.add_argument("--out", type=Path, help="where results go (default: target/compare/DATE)")
    parser.add_argument("--no-docs", action="store_true", help="leave docs/benchmarks.md alone")
    options = parser.parse_args(arguments)
    if not 0.001 <= options.scale <= 1:
        parser.error("--scale: must be 0.001 to 1")
    return options


def chosen(options: argparse.Namespace) -> list[str]:
    """The scenarios of a run, in order."""
    if options.only:
        return [name for name in ORDER if name in options.only]
    if options.smoke:
        return list(SMOKE)
    if options.quick:
        quick = {load.id for load in LOADS if load.is_quick} | set(QUICK_SPECIAL)
        return [name for name in ORDER if name in quick]
    return list(ORDER)


def effort_of(mode: str, scale: float) -> Effort:
    """How much of it."""
    effort = {"quick": QUICK, "smoke": SMOKE_EFFORT, "full": FULL}[mode]
    return dataclasses.replace(effort, scale=scale)


def new_state(options: argparse.Namespace) -> dict[str, Any]:
    """A run that has not begun."""
    mode = "quick" if options.quick else "smoke" if options.smoke else "full"
    words = [word for word in sys.argv[1:] if word != "--no-docs"]
    return {
        "format": 1,
        "date": time.strftime("%Y-%m-%d"),
        "command": shlex.join(["benches/compare/run.py", *without_paths(words)]),
        "options": {"mode": mode, "scale": options.scale, "scenarios": chosen(options)},
        "cells": {},
    }


def without_paths(words: list[str]) -> list[str]:
    """What repeats the run elsewhere: where things lay on this machine is nobody's business."""
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("--corelog", "--cost-card", "--dir", "--out", "--resume"):
            skip = True
        elif not word.startswith(("--corelog=", "--cost-card=", "--dir=", "--out=", "--resume=")):
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


@contextmanager
def session_of(options: argparse.Namespace, results: Path, effort: Effort) -> Iterator[Session]:
    """Brokers and clients that are ended whatever happens, in a directory that goes."""
    corelog = options.corelog or target_binary("corelog")
    card = options.cost_card or target_binary("cost-card")
    for binary in (corelog, card):
        if binary.exists() and "debug" in binary.parts:
            say(f"{binary.name}: not a release build: figures mean nothing")
    (results / "rounds").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="corelog-compare-", dir=options.dir, ignore_cleanup_errors=True) as scratch:
        where = Where(corelog.resolve(), Path(scratch))
        session = Session(Client(corelog.resolve(), card.resolve(), "1"), where, results, effort)
        try:
            yield session
        finally:
            session.close()


def raise_open_files() -> None:
    """Ten thousand connections and ten thousand partitions need descriptors; a broker inherits the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < OPEN_FILES:
        say(f"at most {hard} open files, and {OPEN_FILES} are wanted: raise the limit (ulimit -Hn), or S7 may fail")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def measure(session: Session, name: str) -> dict[str, Any]:
    """One scenario; what goes wrong in it is its result, and the next one has its turn."""
    try:
        for load in LOADS:
            if load.id == name:
                return measure_load(session, load)
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
    cell = session.measure(load)
    if session.effort.has_all_collectors:
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
    file = results / "state.json"
    state = json.loads(file.read_text()) if options.resume else new_state(options)
    mode, scale = state["options"]["mode"], state["options"]["scale"]
    effort = effort_of(mode, scale)
    with session_of(options, results, effort) as session:
        needed = DISK_BYTES_SMOKE if mode == "smoke" else max(DISK_BYTES_MIN, int(24e9 * scale))
        machine.need_space(session.where.directory, needed)
        raise_open_files()
        state |= {"machine": machine.facts(session.where.directory), "corelog": version_of(session.where.binary)}
        state["kafka"] = kafka_version() if effort.kafkas else "not measured"
        if effort.kafkas:
            say("fetching Kafka (once)")
            subprocess.run([str(KAFKA_SH), "fetch"], stdout=subprocess.DEVNULL, timeout=FETCH_SECONDS_MAX, check=True)
        session.needs_flushes = mode != "smoke"
        if "floor" not in state and session.client.card.exists():
            say("the floor program")
            state["floor"] = floor_rows(session)
        begin = time.monotonic()
        for name in state["options"]["scenarios"]:
            if state["cells"].get(name, {}).get("status") == "done":
                continue
            minutes = (time.monotonic() - begin) / 60
            if mode == "quick" and minutes > QUICK_MINUTES_MAX:
                why = f"{QUICK_MINUTES_MAX:.0f} minutes were over"
                state["cells"][name] = {"id": name, "kind": "load", "status": "left out", "why": why}
            else:
                state["cells"][name] = measure(session, name)
            report.write_atomically(file, json.dumps(state, indent=1) + "\n")
    page = None if options.no_docs or mode == "smoke" else PAGE
    report.write(state, results, page)
    print((results / "report.md").read_text())
    return exit_code(state)


def exit_code(state: dict[str, Any]) -> int:
    """1 where a scenario has no figures. A missed target is a finding, not a failure of the run."""
    return int(any(cell["status"] != "done" for cell in state["cells"].values()))


def main() -> int:
    """Runs it; a Ctrl-C ends everything that was started."""
    options = options_of()
    try:
        return run(options)
    except machine.MachineError as refusal:
        print(f"compare: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("compare: interrupted; --resume DIR goes on with what is done", file=sys.stderr)
        return 130


if __name__ == "__main__":
    end_children_on_sigterm()
    sys.exit(main())
