"""What a run has done so far: its parts, and the scenarios that they measured.

    state.json   format, scenarios that are wanted
                 parts   one for each call of run.py: when, how, with which effort, binary and machine; the floor of the same hour
                 cells   by scenario: its figures, the index of its part, the seconds that it took

A machine is seldom free for a whole run: parts of different days and efforts stand in one table, and each row says which is its own.
What was measured is never lost to a later attempt that failed.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import effort as efforts

FORMAT = 2
# Of the table.
ORDER = (
    *("S1a", "S1b", "S2a", "S2b", "S2c", "S3a", "S3b", "S3c", "S3d", "S4", "S5a", "S5b", "S6a", "S6b", "S6c"),
    *("S7", "S8", "S10", "S11", "S12", "shards", "perf"),
)

State = dict[str, Any]


class StateError(Exception):
    """A state cannot be gone on with; the text says why."""


def new() -> State:
    """Nothing is measured yet."""
    return {"format": FORMAT, "scenarios": [], "parts": [], "cells": {}}


def read(directory: Path) -> State:
    """What a run has left there. Errors: `StateError` where there is none, or none of ours."""
    try:
        state: State = json.loads((directory / "state.json").read_text())
        found = state["format"]
    except (OSError, ValueError, KeyError, TypeError) as failure:
        raise StateError(f"{directory}: no run has left its state there: {failure}") from None
    if found == 1:
        return upgraded(state)
    if found != FORMAT:
        raise StateError(f"{directory}: a state of format {found}; this program knows 1 and {FORMAT}")
    return state


def upgraded(old: State) -> State:
    """A state of one part, as it was written before there were several."""
    options = old["options"]
    effort = efforts.saved(efforts.effort_of(options["mode"], options["scale"]))
    part = {name: old[name] for name in ("date", "command", "corelog", "kafka", "machine", "floor") if name in old}
    cells = {name: cell | {"part": 0} for name, cell in old["cells"].items()}
    return new() | {"scenarios": options["scenarios"], "parts": [part | {"build": "", "effort": effort}], "cells": cells}


def add_scenarios(state: State, names: Iterable[str]) -> None:
    """These are wanted as well."""
    wanted = {*state["scenarios"], *names}
    state["scenarios"] = [name for name in ORDER if name in wanted]


def is_done(state: State, name: str) -> bool:
    """Whether there are figures of a scenario."""
    return state["cells"].get(name, {}).get("status") == "done"


def keep(state: State, name: str, cell: dict[str, Any]) -> None:
    """Takes what was found of a scenario in the last part; a failure takes the place of no figures."""
    cells = state["cells"]
    if cell["status"] != "done" and is_done(state, name):
        cells[name]["failed_again"] = cell["why"]
    else:
        cells[name] = cell | {"part": len(state["parts"]) - 1}
    state["cells"] = {known: cells[known] for known in ORDER if known in cells}


def part_of(state: State, cell: dict[str, Any]) -> dict[str, Any]:
    """The part that measured it."""
    part: dict[str, Any] = state["parts"][cell["part"]]
    return part


def is_whole(state: State) -> bool:
    """Whether everything that was wanted has figures, and no later attempt failed."""
    cells = state["cells"]
    has_failed = any("failed_again" in cell for cell in cells.values())
    return not has_failed and all(is_done(state, name) for name in (*state["scenarios"], *cells))
