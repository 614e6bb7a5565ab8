"""The table: what was found, what was wanted, met or missed; as markdown between markers, and as JSON.

Pure but for the writing of files. A row that did not settle, and a scenario that failed, are said so where the figures stand.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import effort as efforts
from figures import Spread, Target, number, ratios, spread
from scenarios import BY_ID, HIGHER_IS_BETTER, Across, Load, Row
from sides import CORELOG
from state import State, part_of

BEGIN, END = "<!-- compare:begin -->", "<!-- compare:end -->"
# Of figures without a target these are in the table; JSON has all.
ALWAYS_SHOWN = ("MB/s", "CPU-s/GB")


class ReportError(Exception):
    """The page cannot be written; the text says why."""


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    scenario: str
    durability: str
    what: str
    ours: float | None
    theirs: float | None
    ratio: Spread | None
    target: str
    # "met", "missed", "not measured", or nothing where nothing was wanted.
    verdict: str
    note: str = ""
    # How long and how often, and by which build where there were several.
    effort: str = ""


def median_of(values: Sequence[float | None]) -> float | None:
    """Of those that there are."""
    found = spread([value for value in values if value is not None])
    return None if found is None else found.middle


def column(cell: dict[str, Any], side: str, figure: str) -> list[float | None]:
    """A figure of a side, pair by pair."""
    return [pair.get(side, {}).get(figure) for pair in cell["pairs"]]


def best_kafka(cell: dict[str, Any], figure: str) -> str | None:
    """Kafka's side with the better middle of this figure: the better collector counts."""
    sides = {side for pair in cell["pairs"] for side in pair if side != CORELOG}
    # A collector that was left out after the first pair has too few values to be judged by.
    whole = [side for side in sorted(sides) if all(side in pair for pair in cell["pairs"])]
    middles = {side: median_of(column(cell, side, figure)) for side in whole}
    known = {side: value for side, value in middles.items() if value is not None}
    if not known:
        return None
    best: str = (max if figure in HIGHER_IS_BETTER else min)(known, key=lambda side: known[side])
    return best


def judged(value: float | None, target: Target | None) -> list[bool]:
    """Whether it is met, where something is wanted; what was not measured is not met."""
    if target is None:
        return []
    return [value is not None and target.is_met(value)]


def verdict_of(checks: Sequence[bool], is_measured: bool) -> str:
    """In a word."""
    if not checks:
        return ""
    if not is_measured:
        return "not measured"
    return "met" if all(checks) else "missed"


def line_of(load: Load, row: Row, cell: dict[str, Any], pairs_wanted: int = 0) -> Line:
    """A row of a load."""
    kafka = best_kafka(cell, row.figure)
    ours = column(cell, CORELOG, row.figure)
    theirs = column(cell, kafka, row.figure) if kafka else [None] * len(ours)
    found = spread(ratios(ours, theirs))
    own = median_of(ours)
    checks = judged(found.middle if found else None, row.ratio) + judged(own, row.own)
    wanted = [row.ratio.text(" x")] if row.ratio else []
    wanted += [row.own.text("")] if row.own else []
    is_measured = (row.ratio is None or found is not None) and (row.own is None or own is not None)
    return Line(
        load.id,
        load.durability,
        row.figure,
        own,
        median_of(theirs),
        found,
        " and ".join(wanted),
        verdict_of(checks, is_measured),
        # Where it answered nothing in time there is no figure of it, and the reason is wanted all the more.
        ", ".join(remarks(cell, kafka or best_kafka(cell, "MB/s"), pairs_wanted)),
    )


def remarks(cell: dict[str, Any], kafka: str | None, pairs_wanted: int) -> list[str]:
    """What a reader must know of the rounds."""
    found = [] if cell["has_settled"] else ["not settled"]
    if len(cell["pairs"]) < pairs_wanted:
        found.append(f"{efforts.counted(len(cell['pairs']), 'pair')} only")
    for side, name in ((CORELOG, "Corelog"), (kafka, "Kafka")):
        if side and median_of(column(cell, side, "behind")):
            found.append(f"{name} did not keep the rate")
    return found


def line_across(load: Load, across: Across, cell: dict[str, Any], other: dict[str, Any] | None) -> Line:
    """Ours on disk against Kafka's before it: two loads of one session, so that there is one ratio and no spread."""
    kafka = best_kafka(other, across.figure) if other else None
    ours = median_of(column(cell, CORELOG, across.figure))
    theirs = median_of(column(other, kafka, across.figure)) if other and kafka else None
    found = spread(ratios([ours], [theirs]))
    checks = judged(found.middle if found else None, across.ratio)
    what = f"{across.figure}, to Kafka's D0 in {across.kafka_load}"
    target = across.ratio.text(" x")
    return Line(load.id, "D1 to D0", what, ours, theirs, found, target, verdict_of(checks, found is not None))


def lines_of_special(cell: dict[str, Any]) -> list[Line]:
    """The rows of a scenario that made its own."""
    lines = []
    for row in cell["rows"]:
        values = row["values"]
        ours = values.get(CORELOG)
        kafkas = [value for side, value in values.items() if side != CORELOG]
        theirs = (max if row["is_higher_better"] else min)(kafkas) if kafkas else None
        found = spread(ratios([ours], [theirs]))
        own = Target(**row["own"]) if row["own"] else None
        ratio = Target(**row["ratio"]) if row["ratio"] else None
        checks = judged(found.middle if found else None, ratio) + judged(ours, own)
        wanted = [ratio.text(" x")] if ratio else []
        wanted += [own.text("")] if own else []
        what = row["what"] + (f", {row['unit']}" if row["unit"] else "")
        is_measured = (ratio is None or found is not None) and (own is None or ours is not None)
        verdict = verdict_of(checks, is_measured)
        lines.append(Line(cell["id"], "", what, ours, theirs, found, " and ".join(wanted), verdict))
    return lines


def lines_of_floor(state: State) -> list[Line]:
    """S1a and S2b to the thread that does nothing else, in the same part."""
    lines = []
    for name, floor in (("S1a", "direct write, 1 MiB"), ("S2b", "direct write + fdatasync, 1 MiB")):
        cell = state["cells"].get(name)
        if cell is None or cell["status"] != "done":
            continue
        row = part_of(state, cell).get("floor", {}).get(f"floor: receive + CRC + {floor}")
        if row is None:
            continue
        for figure, least in (("MB/s", row["gb_per_second"] * 1000), ("CPU-s/GB", row["cpu_seconds_per_gb"])):
            ours = median_of(column(cell, CORELOG, figure))
            found = spread(ratios([ours], [least]))
            line = Line(name, "floor", f"{figure}, to the floor program", ours, least, found, "", "")
            lines.append(replace(line, effort=effort_text(state, cell)))
    return lines


def lines_of(state: State) -> list[Line]:
    """All lines, in the order of the scenarios."""
    lines: list[Line] = []
    for name, cell in state["cells"].items():
        found = lines_of_cell(state, name, cell)
        lines += [replace(line, effort=effort_text(state, cell)) for line in found]
    return lines + lines_of_floor(state)


def lines_of_cell(state: State, name: str, cell: dict[str, Any]) -> list[Line]:
    """Those of one scenario."""
    if cell["status"] != "done":
        return [Line(name, "", f"{cell['status']}: {cell['why']}", None, None, None, "", "not measured")]
    if cell["kind"] == "special":
        return lines_of_special(cell)
    load = BY_ID[name]
    pairs_wanted = part_of(state, cell)["effort"]["pairs"]
    lines = [line_of(load, row, cell, pairs_wanted) for row in load.rows]
    for across in load.across:
        other = state["cells"].get(across.kafka_load)
        usable = other if other and other["status"] == "done" else None
        line = line_across(load, across, cell, usable)
        if usable and usable["part"] != cell["part"]:
            line = replace(line, note=f"{across.kafka_load} is of another part: {effort_text(state, usable)}")
        lines.append(line)
    return lines


def builds(state: State) -> set[tuple[str, str]]:
    """Whose figures there are."""
    parts = [part_of(state, cell) for cell in state["cells"].values()]
    return {(part["corelog"], part["build"]) for part in parts}


def effort_text(state: State, cell: dict[str, Any]) -> str:
    """What stands behind a row; its build, where there were several."""
    part = part_of(state, cell)
    text = efforts.short(part["effort"])
    return f"{text}, build {part['build'] or 'unknown'}" if len(builds(state)) > 1 else text


def told_of_parts(state: State) -> list[str]:
    """When, how and on what: a line for each part that has figures, and its machine where there were several."""
    cells = state["cells"]
    machines = []
    lines = []
    for index, part in enumerate(state["parts"]):
        names = [name for name, cell in cells.items() if cell["part"] == index]
        if not names:
            continue
        facts = ", ".join(f"{name} {value}" for name, value in part["machine"].items())
        build = f", build {part['build']}" if part["build"] else ""
        versions = f"Corelog {part['corelog']}{build}, Apache Kafka {part['kafka']}"
        how = f"{efforts.long(part['effort'])}, {part['date']}, `{part['command']}`"
        lines.append((f"- {how}, {versions}: {', '.join(names)}", facts))
        machines.append(facts)
    if len(set(machines)) <= 1:
        return [*(f"Machine: {facts}." for facts in machines[:1]), "", *(line for line, _ in lines)]
    return [f"{line}. Machine: {facts}" for line, facts in lines]


def escaped(text: str) -> str:
    """What came from a process must not break the table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")[:400]


def shown(value: float | None) -> str:
    """A figure, or a dash."""
    return "-" if value is None else number(value)


def shown_ratio(ratio: Spread | None) -> str:
    """The middle with its ends; one value alone."""
    if ratio is None:
        return "-"
    ends = f" ({number(ratio.least)} to {number(ratio.most)})" if ratio.count > 1 else ""
    return f"{number(ratio.middle)} x{ends}"


def table(lines: Sequence[Line]) -> str:
    """Markdown."""
    text = [
        "| scenario | durability | figure | Corelog | Kafka | ratio (least to most) | target | | effort |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        if not line.target and not line.verdict and line.what.partition(",")[0] not in ALWAYS_SHOWN and line.durability:
            continue
        verdict = f"**{line.verdict}**" if line.verdict in ("missed", "not measured") else line.verdict
        last = ", ".join(part for part in (verdict, line.note) if part)
        cells = [line.scenario, line.durability, escaped(line.what), shown(line.ours), shown(line.theirs)]
        cells += [shown_ratio(line.ratio), line.target or "-", last or "-", line.effort]
        text.append("| " + " | ".join(cells) + " |")
    return "\n".join(text)


def grid(found: dict[str, Any]) -> str:
    """A table that a scenario made of its own."""

    def cell(value: str | float | None) -> str:
        return escaped(value) if isinstance(value, str) else shown(value)

    rule = ["---"] * len(found["head"])
    lines = [found["head"], rule, *found["rows"]]
    return "\n".join("| " + " | ".join(cell(value) for value in line) + " |" for line in lines)


def summary(state: State) -> str:
    """The whole section between the markers."""
    lines = lines_of(state)
    verdicts = [line.verdict for line in lines if line.verdict]
    counts = {verdict: verdicts.count(verdict) for verdict in ("met", "missed", "not measured")}
    text = [
        f"{counts['met']} targets met, {counts['missed']} missed, {counts['not measured']} not measured.",
        *told_of_parts(state),
        "",
        table(lines),
    ]
    for cell in state["cells"].values():
        if "grid" in cell:
            text += ["", grid(cell["grid"])]
    if notes := notes_of(state):
        text += ["", *(f"- {escaped(note)}" for note in notes)]
    return "\n".join(text)


def notes_of(state: State) -> list[str]:
    """What scenarios say of themselves, and later attempts that gave no figures."""
    cells = state["cells"].items()
    notes = [f"{name}: {note}" for name, cell in cells for note in cell.get("notes", [])]
    again = [(name, cell["failed_again"]) for name, cell in cells if "failed_again" in cell]
    return notes + [f"{name}: measured again without success, so that the earlier figures stand: {why}" for name, why in again]


def replace_section(page: str, section: str) -> str:
    """The page with what stands between the markers replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ReportError(f"the page has no place for the table: {BEGIN} and {END} on lines of their own")
    return f"{before}{BEGIN}\n{section}\n{END}{after}"


def write_atomically(path: Path, text: str) -> None:
    """Whole or not at all: a run that is killed here has its last state."""
    beside = path.with_name(path.name + ".new")
    with beside.open("w", encoding="utf-8") as sink:
        sink.write(text)
        sink.flush()
        os.fsync(sink.fileno())
    beside.replace(path)


def write(state: State, results: Path, page: Path | None) -> None:
    """All that is told: JSON and markdown with the results, and the section of the page."""
    section = summary(state)
    lines = [line_as_json(line) for line in lines_of(state)]
    grids = {name: cell["grid"] for name, cell in state["cells"].items() if "grid" in cell}
    parts = {name: cell["part"] for name, cell in state["cells"].items()}
    whole = {"parts": state["parts"], "part_of": parts, "rows": lines, "grids": grids, "notes": notes_of(state)}
    write_atomically(results / "report.json", json.dumps(whole, indent=1) + "\n")
    write_atomically(results / "report.md", section + "\n")
    if page is not None:
        write_atomically(page, replace_section(page.read_text(encoding="utf-8"), section))


def line_as_json(line: Line) -> dict[str, Any]:
    """With the spread as an object."""
    fields = dict(vars(line))
    fields["ratio"] = vars(line.ratio) if line.ratio else None
    return fields
