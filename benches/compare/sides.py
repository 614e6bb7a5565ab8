"""The brokers that are compared, each pinned, each with a fresh directory: Corelog, and Kafka with either collector.

Kafka has what suits one CPU: a heap that never grows, its pages touched beforehand, few network threads, and enough request
threads that one which waits for a sync does not keep the others. `serve` is kafka.sh's, so that what runs is what CI tests.
"""

from dataclasses import dataclass
from pathlib import Path

import conformance  # noqa: F401
from harness.broker import Broker, Launch
from harness.paths import KAFKA_SH

CORELOG = "corelog"
KAFKAS = ("kafka-g1", "kafka-zgc")
HEAP = "2g"
COLLECTORS = {
    "kafka-g1": "-XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:+AlwaysPreTouch -XX:+ExplicitGCInvokesConcurrent",
    "kafka-zgc": "-XX:+UseZGC -XX:+AlwaysPreTouch",
}
KAFKA_SETTINGS = (
    "num.network.threads=2",
    "num.io.threads=8",
    "socket.send.buffer.bytes=1048576",
    "socket.receive.buffer.bytes=1048576",
    # What is deleted is gone before the next round.
    "log.segment.delete.delay.ms=1000",
    "auto.create.topics.enable=false",
    # 10,000 connections of one address are a scenario.
    "max.connections=20000",
)
CORELOG_SETTINGS = ("max.connections=20000",)


@dataclass(frozen=True)
class Where:
    """What runs where."""

    binary: Path
    directory: Path
    server_cpus: str = "0"
    shards: int = 1
    settings: tuple[str, ...] = ()


def launch_of(side: str, where: Where) -> Launch:
    """How `side` is started."""
    pinned = ("taskset", "-c", where.server_cpus)
    if side == CORELOG:
        settings = CORELOG_SETTINGS + where.settings
        return Launch("corelog", where.binary, where.shards, settings, pinned)
    environment = ("env", f"KAFKA_HEAP={HEAP}", f"KAFKA_GC={COLLECTORS[side]}")
    return Launch("kafka", KAFKA_SH, 1, KAFKA_SETTINGS, environment + pinned)


def broker_of(side: str, where: Where, name: str = "data") -> Broker:
    """A broker that has not been started, with a directory of its own that is not there yet."""
    return Broker(launch_of(side, where), where.directory / side / name)
