"""How cases are made: every request at the oldest and the newest version that both serve."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .schema import Fields, Value, request
from .side import ANSWER_SECONDS_MAX, Body, Case

# Made before the first case: its partition 0 holds three batches of three records, 1 is empty.
TOPIC = "diff"
# As TOPIC, for the cases that trim it.
TRIMMED = "diff-trim"
# One empty partition each, for the cases that append and that configure.
APPENDED, CONFIGURED = "diff-append", "diff-config"
ABSENT = "diff-absent"
TIMEOUT_MS = 10_000
# How long to wait for an answer that Kafka is known not to give.
NEVER_SECONDS = 3.0


@dataclass
class Cases:
    """Collects cases. `served` is what Corelog advertises: an API that is not there is left out."""

    served: Mapping[str, tuple[int, int]]
    found: list[Case] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)

    def ends(self, api: str) -> list[int]:
        """The oldest and the newest version of an API; nothing if it is not served."""
        if api not in self.served:
            self.left_out.add(api)
            return []
        versions, (first, last) = request(api).versions, self.served[api]
        return sorted({max(versions.first, first), min(versions.last, last)})

    def add(
        self,
        api: str,
        what: str,
        body: Body,
        versions: Iterable[int] | None = None,
        silent: bool = False,
        seconds: float = ANSWER_SECONDS_MAX,
    ) -> None:
        """A case at the oldest and newest version, or at `versions` as far as they are served."""
        ends = self.ends(api)
        for version in ends if versions is None else versions:
            if ends and ends[0] <= version <= ends[-1]:
                self.found.append(
                    Case(api, version, what, body, silent=silent, seconds=seconds)
                )

    def since(self, api: str, version: int) -> list[int]:
        """The oldest and newest version that carries what came with `version`."""
        return sorted({max(version, end) for end in self.ends(api)})


def one_topic(name: str, partitions: Value, by: str = "Name", rows: str = "Partitions") -> Fields:
    """A topic and its partitions, by name and by id: the version takes what it carries."""
    return {by: name, "TopicId": f"@{name}", rows: partitions}
