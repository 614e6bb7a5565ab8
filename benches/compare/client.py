"""The client side: `corelog bench`, cost-card and Kafka's own perf test as bounded calls with a parsed result.

A round counts if its audit passed, nothing was refused and everything was answered, by the result that was saved; that a rate
was not kept is a finding, and no reason to throw the round away.
"""

import json
import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Beyond what a run itself takes: opening, reading back, deleting.
MARGIN_SECONDS = 240.0
TAIL_CHARACTERS = 600
PERF_LINE = re.compile(r"^(\d+) records sent, ([0-9.]+) records/sec \(([0-9.]+) MB/sec\)")


class RoundFailed(Exception):
    """A round has no figures; the text says why."""


@dataclass
class Client:
    """Whoever runs the clients, and ends those that are left."""

    binary: Path
    card: Path
    cpu: str
    running: list["subprocess.Popen[str]"] = field(default_factory=list)
    # Nothing runs beyond this instant of the monotonic clock.
    ends: float = math.inf

    def start(self, command: Sequence[str]) -> "subprocess.Popen[str]":
        """Starts a client in the background."""
        # A node's options come from CORELOG_ variables, and a client's address too: what is meant is on the command line.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("CORELOG_BOOT")}
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
        )
        self.running.append(process)
        return process

    def finish(self, process: "subprocess.Popen[str]", seconds_max: float) -> tuple[int, str]:
        """Its exit code and what it printed; ends it when it takes too long."""
        seconds_max = max(0.0, min(seconds_max, self.ends - time.monotonic()))
        try:
            output, _ = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            raise RoundFailed(f"not done within {seconds_max:.0f} s: {output[-TAIL_CHARACTERS:]}") from None
        finally:
            self.running.remove(process)
        return process.returncode, output

    def call(self, command: Sequence[str], seconds_max: float) -> str:
        """Runs one, and gives what it printed."""
        code, output = self.finish(self.start(command), seconds_max)
        if code != 0:
            raise RoundFailed(f"{' '.join(command[:4])}: exit {code}: {output[-TAIL_CHARACTERS:]}")
        return output

    def bench(self, words: Sequence[str], bootstrap: str, pid: int, save: Path) -> list[str]:
        """The command line of a run of the bench."""
        line = [str(self.binary), "bench", *words, "-b", bootstrap, "--broker-pid", str(pid)]
        return [*line, "--cpus", self.cpu, "--save", str(save), "-q"]

    def run_bench(self, words: Sequence[str], bootstrap: str, pid: int, save: Path, seconds: float) -> dict[str, Any]:
        """One run, and its result."""
        process = self.start(self.bench(words, bootstrap, pid, save))
        code, output = self.finish(process, seconds + MARGIN_SECONDS)
        return judged(save, code, output)

    def close(self) -> None:
        """Ends what still runs, by pid."""
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self.running:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.running.clear()


def judged(save: Path, code: int, output: str) -> dict[str, Any]:
    """A result whose figures may be believed, or why there is none."""
    try:
        result: dict[str, Any] = json.loads(save.read_text())
    except (OSError, ValueError):
        raise RoundFailed(f"exit {code}, and no result: {output[-TAIL_CHARACTERS:]}") from None
    if reason := unsound(result):
        raise RoundFailed(reason)
    return result


def unsound(result: dict[str, Any]) -> str | None:
    """Why a round does not count; `None` where it does. Of a mixed run both halves must."""
    if beside := result.get("beside"):
        if reason := unsound(beside):
            return f"the reading beside: {reason}"
    audit = result["audit"]
    if not audit["has_passed"]:
        facts = [finding["fact"] for finding in audit.get("findings", [])[:3]]
        return f"the audit did not pass: {'; '.join(facts)}"
    if result["end"]["how"] != "complete":
        return f"the run did not end as planned: {result['end']}"
    if result["errors"]:
        return f"batches were refused: {result['errors'][0]['name']}"
    if result["unanswered"]:
        return f"{result['unanswered']} requests were never answered"
    if not result["measured"]["requests"]:
        return "nothing was measured"
    return None


def perf_megabytes(output: str) -> float:
    """MB (2^20) a second by the last line of kafka-producer-perf-test, which sums up the run."""
    found = [match for line in output.splitlines() if (match := PERF_LINE.match(line))]
    if not found:
        raise RoundFailed(f"no sum in the output of kafka-producer-perf-test: {output[-TAIL_CHARACTERS:]}")
    return float(found[-1][3])
