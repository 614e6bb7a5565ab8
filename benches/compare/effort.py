"""How long and how often something is measured: a row of the table is worth as much as the effort behind it.

Pure: what an effort is called, and what that stands for.
"""

from dataclasses import dataclass, replace
from typing import Any

from figures import number
from sides import KAFKAS


@dataclass(frozen=True)
class Effort:
    """How long and how often."""

    name: str
    pairs: int
    # Of a round, at most: one that is as fast as possible also ends with so many bytes (scenarios.py).
    seconds: int
    warm_up_seconds: int
    # Whether the slower of Kafka's collectors goes on after the first pair, and each load has brokers of its own.
    is_full: bool
    audit_bytes: str | None = None
    # How much of the large sizes and long times is done.
    scale: float = 1.0
    kafkas: tuple[str, ...] = KAFKAS


QUICK = Effort("quick", pairs=3, seconds=4, warm_up_seconds=15, is_full=False, audit_bytes="256MB")
FULL = Effort("full", pairs=5, seconds=15, warm_up_seconds=60, is_full=True)
SMOKE = Effort("smoke", pairs=1, seconds=1, warm_up_seconds=0, is_full=False, kafkas=())
BY_NAME = {effort.name: effort for effort in (QUICK, FULL, SMOKE)}


def effort_of(name: str, scale: float) -> Effort:
    """The effort of that name, with the large sizes at that scale."""
    return replace(BY_NAME[name], scale=scale)


def saved(effort: Effort) -> dict[str, Any]:
    """What the state and the report keep of it."""
    return {"name": effort.name, "pairs": effort.pairs, "seconds": effort.seconds, "scale": effort.scale}


def short(found: dict[str, Any]) -> str:
    """As a row of the table has it."""
    name: str = found["name"]
    return name if found["scale"] == 1 else f"{name}, scale {number(found['scale'])}"


def long(found: dict[str, Any]) -> str:
    """What a reader must know once."""
    text = f"{found['name']}: {counted(found['pairs'], 'pair')} of {found['seconds']} s"
    return text if found["scale"] == 1 else f"{text}, large sizes and long times scaled by {number(found['scale'])}"


def counted(count: int, what: str) -> str:
    """One pair, two pairs."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
