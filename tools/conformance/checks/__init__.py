"""The checks, one file per client or subject. Each is a function of a `Context`.

A check makes topics of its own, so that any of them runs alone and in any order.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.broker import Broker
from harness.clients import create_topic
from harness.kafka_tools import KafkaTools
from harness.raw import Connection, FetchFrom
from harness.report import Skipped, expect

Check = Callable[["Context"], str | None]


@dataclass
class Context:
    """What a check works with. `codecs` collects topic → codec for the dump after the stop."""

    broker: Broker
    tools: KafkaTools
    scratch: Path
    full: bool
    codecs: dict[str, str] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def bootstrap(self) -> str:
        """What a client dials."""
        return self.broker.bootstrap

    def topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Creates a topic whose name no other check uses; `_` in a key stands for `.`."""
        topic = self.name(name)
        # For ever: checks use fixed timestamps of years ago, and Kafka's default is a week.
        settings = {"retention.ms": "-1"}
        settings.update({key.replace("_", "."): value for key, value in config.items()})
        create_topic(self.bootstrap, topic, partitions, settings)
        if not self.broker.launch.is_corelog:
            self._wait_for_leaders(topic, partitions)
        return topic

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        """Kafka answers CreateTopics before the partitions are led; Corelog promises they are."""
        deadline = time.monotonic() + 60
        with Connection(self.broker.port) as connection:
            for partition in range(partitions):
                while connection.fetch(FetchFrom(topic, partition, 0, wait_ms=0)).error:
                    expect(time.monotonic() < deadline, f"{topic}-{partition} gets no leader")
                    time.sleep(0.02)

    def name(self, name: str) -> str:
        """A topic name that no other check uses."""
        return f"{name}-{next(self._numbers)}"

    def only_corelog(self, why: str) -> None:
        """Skips the check on the reference broker."""
        if not self.broker.launch.is_corelog:
            raise Skipped(why)

    def only_full(self) -> None:
        """Skips the check in a quick run."""
        if not self.full:
            raise Skipped("full runs only")
