"""One broker process: start it, wait until it is ready, stop or kill it by pid, look at it.

Two kinds, behind one class, so that every check can be tried on the reference first:
`corelog` (our binary) and `kafka` (Apache Kafka from kafka/kafka.sh). The first start takes a free
port, every later start of the same `Broker` the same one: clients must find it again.
"""

import atexit
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from .paths import KAFKA_SH, environment_for

READY_LINE = re.compile(r"^ready node=\d+ kafka=(\S+) admin=(\S+) ms=(\d+)")
KAFKA_READY = "Kafka Server started"
# For a JVM on a busy machine; our own limits are checks (checks/start.py, kill_run.py).
START_SECONDS_MAX = 300.0
STOP_SECONDS_MAX = 60.0
# Enough to see why a broker ended, and a bound on what a chatty one can make us keep.
OUTPUT_TAIL_LINES = 40


class BrokerError(Exception):
    """The broker did not start, or did not stop; the text holds its last lines."""


@dataclass(frozen=True)
class Launch:
    """How to start a broker. `settings` are `key=value`; `prefix` stands before the command."""

    kind: str
    binary: Path
    shards: int = 1
    settings: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()

    @property
    def is_corelog(self) -> bool:
        """Whether our own broker is under test, and not the reference."""
        return self.kind == "corelog"

    def command(self, data_dir: Path, port: int) -> list[str]:
        """The command line; port 0 leaves the choice to the broker (ours only)."""
        settings = [word for setting in self.settings for word in ("--set", setting)]
        if self.is_corelog:
            line = [str(self.binary), "serve", "--data-dir", str(data_dir)]
            line += ["--listen", f"127.0.0.1:{port}", "--shards", str(self.shards)]
            line += ["--set", "admin.listen=127.0.0.1:0"]
        else:
            line = [str(KAFKA_SH), "serve", "--data-dir", str(data_dir), "--port", str(port)]
        return [*self.prefix, *line, *settings]


@dataclass
class Broker:
    """A data directory and, while it runs, the process that serves it."""

    launch: Launch
    data_dir: Path
    port: int = 0
    admin: str = ""
    process: subprocess.Popen[str] | None = None
    output: list[str] = field(default_factory=list)
    # Lines printed since the start; `output` keeps the last ones only.
    line_count: int = 0
    _ready: threading.Event = field(default_factory=threading.Event)

    @property
    def bootstrap(self) -> str:
        """What a client dials."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self.process is not None, "the broker is not running"
        return self.process.pid

    @property
    def topics_dir(self) -> Path:
        """Where the partitions' directories are; both kinds lay them out alike."""
        return self.data_dir / "topics"

    def start(self) -> float:
        """Starts the process and returns the seconds from exec to ready."""
        assert self.process is None, "the broker already runs"
        if self.port == 0:
            self.port = free_port()
        self._ready = threading.Event()
        self.output, self.line_count = [], 0
        begin = time.monotonic()
        command = self.launch.command(self.data_dir, self.port)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment_for(command),
        )
        atexit.register(kill_quietly, self.process)
        threading.Thread(target=self._drain, args=(self.process,), daemon=True).start()
        while not self._ready.wait(0.02):
            seconds = time.monotonic() - begin
            if self.process.poll() is not None or seconds > START_SECONDS_MAX:
                code = self.process.poll()
                self.kill()
                raise BrokerError(
                    f"not ready after {seconds:.1f} s, exit code {code}: {self.tail()}"
                )
        return time.monotonic() - begin

    def terminate(self) -> int:
        """Sends SIGTERM, waits, and returns the exit code."""
        assert self.process is not None, "the broker is not running"
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerError(
                f"still running {STOP_SECONDS_MAX} s after SIGTERM: {self.tail()}"
            ) from None
        self.process = None
        return code

    def kill(self) -> None:
        """Sends SIGKILL and waits until the process is gone."""
        assert self.process is not None, "the broker is not running"
        kill_quietly(self.process)
        self.process = None

    def close(self) -> None:
        """Ends the process if it still runs; for the end of a run, never a part of a check."""
        if self.process is not None:
            self.kill()

    def tail(self) -> str:
        """The last lines that the process printed."""
        return " | ".join(self.output[-OUTPUT_TAIL_LINES:])

    def rss_bytes(self) -> int:
        """Resident memory of the running process."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise BrokerError(f"no VmRSS in /proc/{self.pid}/status")

    def cpu_seconds(self) -> float:
        """Processor time of the running process, in user and kernel."""
        # The name, in parentheses, may hold anything; the fields that follow it are counted from the state on.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def metrics(self) -> dict[str, float]:
        """The admin endpoint's metrics, summed over labels: name → value."""
        url = f"http://{self.admin}/metrics"
        with urllib.request.urlopen(url, timeout=10) as response:
            return sum_over_labels(response.read().decode())

    def _drain(self, process: subprocess.Popen[str]) -> None:
        """Reads everything the process prints: a full pipe would block it."""
        assert process.stdout is not None
        for line in process.stdout:
            self.output.append(line.rstrip("\n"))
            self.line_count += 1
            del self.output[: -4 * OUTPUT_TAIL_LINES]
            if self.launch.is_corelog:
                if found := READY_LINE.match(line):
                    self.port = int(found[1].rpartition(":")[2])
                    self.admin = found[2]
                    self._ready.set()
            elif KAFKA_READY in line:
                self._ready.set()


def sum_over_labels(text: str) -> dict[str, float]:
    """Prometheus text → name → sum of its series."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        series, _, value = line.rpartition(" ")
        name = series.partition("{")[0]
        sums[name] = sums.get(name, 0.0) + float(value)
    return sums


def kill_quietly(process: subprocess.Popen[str]) -> None:
    """SIGKILL for a process of ours that may be gone already."""
    if process.poll() is None:
        process.kill()
    process.wait()


def end_children_on_sigterm() -> None:
    """Turns SIGTERM (the `timeout` around a run) into an exit, so that no broker is left behind."""

    def leave(*_: object) -> None:
        # A second one, to the group after one to the process, must not cut the clean-up short.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, leave)


# Below the range from which the kernel gives ports to outgoing connections: while a broker is down,
# a client that dials a port of that range may be given the same one, and be connected to itself.
PORTS = range(15_000, 32_000)


def free_port() -> int:
    """A port that is free now, and whose successor is free too (Kafka's controller takes it)."""
    for _ in range(100):
        port = random.choice(PORTS)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
    raise BrokerError("no two free ports in a row")
