"""The scenarios that are more than a run of the bench: cold reads, kills, idle connections, a soak, the floor.

Each gives rows: what was found for every side, and what is wanted of it. The rows are in the order of the table.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import conformance  # noqa: F401
import machine
from client import RoundFailed, perf_megabytes
from figures import Target, at_least, at_most, number
from harness import raw
from harness.broker import Broker
from harness.paths import KAFKA_SH
from rounds import Session, say
from scenarios import BY_ID, figures_of
from sides import CORELOG

COLD_BYTES = 10_000_000_000
KILLED_BYTES = 20_000_000_000
# Twenty gigabytes on a slow disk.
FILL_SECONDS_MAX = 900
KILLED_PARTITIONS = 1_000
CONNECTIONS, ACTIVE = 10_000, 1_000
IDLE_WATCH_SECONDS = 10
CARD_ROUND_MIB = 2_048
# Half a minute on a machine that does nothing else.
FLOOR_SECONDS_MAX = 600
CARD_COLD_BYTES = 4_000_000_000
# A read that takes less says little of what happens beside it.
COLD_SECONDS_MIN = 5.0
SOAK_SECONDS, SOAK_SECONDS_MIN = 1_800, 60
# As often as that old segments go, however short a soak is.
SOAK_RETENTION_MS = 10_000
# Ten thousand connections or a thousand partitions take a broker with one CPU more than the half minute that a request has otherwise.
PATIENT = ("--timeout-ms", "120000")
FIRST_ANSWER_SECONDS_MAX = 300.0
# Kafka's perf test is a JVM that must compile too: below some gigabytes it measures that.
PERF_RECORDS, PERF_RECORDS_MIN = 2_000_000, 10_000


@dataclass(frozen=True)
class Found:
    """A line of the table."""

    what: str
    unit: str
    values: dict[str, float]
    own: Target | None = None
    # Ours to the better of Kafka's.
    ratio: Target | None = None
    is_higher_better: bool = False

    def saved(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def concluded(name: str, found: list[Found], notes: list[str]) -> dict[str, Any]:
    """What is kept of a scenario."""
    rows = [row.saved() for row in found]
    return {"id": name, "kind": "special", "status": "done", "rows": rows, "notes": notes}


def run_bench(session: Session, side: str, words: list[str], seconds: float, name: str) -> dict[str, Any]:
    """One run against a side's broker, its result saved."""
    broker = session.broker(side)
    return session.client.run_bench(words, broker.bootstrap, broker.pid, session.save_to(name, side), seconds)


def filled(session: Session, side: str, words: list[str], size: int, name: str) -> str:
    """Makes a topic of so many bytes, acknowledged before they are on disk, that stays as long as its broker; gives its name.

    The bench makes it, since it waits for leaders: a broker may refuse for a moment a topic that it has just made.
    """
    run = ["produce", *words, "--keep-topic", *no_sync_words(side), *PATIENT]
    run += ["--bytes", str(size), "--warm-up", "0", "--audit-bytes", "1MB"]
    topic: str = run_bench(session, side, run, FILL_SECONDS_MAX, name)["topic"]
    return topic


def amount(found: float, whole: float, unit: str) -> str:
    """A size, and what it is of where it was scaled: nobody may take a small run for the full one."""
    size = f"{number(found)} {unit}"
    return size if found >= whole else f"{size} instead of {number(whole)} {unit} (--scale)"


def each_side(session: Session, measure: Callable[[str], dict[str, float | None]]) -> dict[str, dict[str, float]]:
    """What `measure` finds on every side, each with a fresh broker that is alone."""
    found = {}
    for side in (CORELOG, *session.effort.kafkas):
        session.end_brokers()
        # What was not measured is absent, and no zero.
        found[side] = {name: value for name, value in measure(side).items() if value is not None}
        say(f"{side}: " + ", ".join(f"{name} {value:.4g}" for name, value in found[side].items()))
    session.end_brokers()
    return found


def quotient(value: float | None, base: float | None) -> float | None:
    """Of two figures that there are."""
    return value / base if value is not None and base else None


def of(found: dict[str, dict[str, float]], name: str) -> dict[str, float]:
    """One figure of every side that has it."""
    return {side: figures[name] for side, figures in found.items() if name in figures}


def cold_catch_up(session: Session) -> dict[str, Any]:
    """S4: a log that is in nobody's memory is read, alone and beside a producer."""
    size = int(COLD_BYTES * session.effort.scale)
    notes = [f"{amount(size / 1e9, COLD_BYTES / 1e9, 'GB')} are read"]

    def measure(side: str) -> dict[str, float | None]:
        fill = ["--partitions", "4", "--partitions-per-request", "4", "--batch-bytes", "256KiB"]
        topic = filled(session, side, fill, size, "S4-fill")
        paced = ["--rate", "20MB", "--batch-records", "10", "--connections", "8", "--warm-up", "1"]
        forget(session, side, notes)
        read = ["consume", "--topic", topic, "--check", "offsets"]
        alone = run_bench(session, side, read, 600, "S4-read-alone")["measured"]
        quiet = ["produce", *paced, "--partitions", "4", *no_sync_words(side), "--duration", "15"]
        before = figures_of(run_bench(session, side, quiet, 20, "S4-write-alone"))
        forget(session, side, notes)
        # It ends before the log does, warm-up included, so that there was reading beside all of it.
        seconds = max(1, int(0.8 * alone["seconds"]) - 1)
        if alone["seconds"] < COLD_SECONDS_MIN:
            notes.append(f"read alone in less than {COLD_SECONDS_MIN:.0f} s: what is beside so little says little")
        both = ["mixed", "--topic", topic, "--cold-offsets-only", *paced, "--duration", str(seconds)]
        written = run_bench(session, side, both, seconds, "S4-beside")
        found, beside = figures_of(written), written["beside"]["measured"]["mb_per_second"]
        return {
            "alone": alone["mb_per_second"],
            "beside": beside,
            "kept": quotient(beside, alone["mb_per_second"]),
            "p99.9": found["p99.9 ms"],
            "slower": quotient(found["p99.9 ms"], before["p99.9 ms"]),
        }

    found = each_side(session, measure)
    return concluded(
        "S4",
        [
            Found("cold read alone", "MB/s", of(found, "alone"), is_higher_better=True),
            Found("cold read beside 20 MB/s", "MB/s", of(found, "beside"), is_higher_better=True),
            Found("of the speed alone", "x", of(found, "kept"), own=at_least(0.9), is_higher_better=True),
            Found("producer's p99.9 beside the read", "ms", of(found, "p99.9")),
            Found("to its p99.9 alone", "x", of(found, "slower"), own=at_most(1.5)),
        ],
        sorted(set(notes)),
    )


def no_sync_words(side: str) -> list[str]:
    """What makes a run's topic D0."""
    return ["-c", "write.caching=true"] if side == CORELOG else []


def forget(session: Session, side: str, notes: list[str]) -> None:
    """Nothing of what was written stays in memory: the broker starts anew, and the page cache is dropped."""
    broker = session.broker(side)
    broker.terminate()
    if not machine.drop_page_cache():
        notes.append("the page cache could not be dropped (needs root): what is called cold may have been in memory")
    broker.start()


def many_partitions(session: Session) -> dict[str, Any]:
    """S6c: ten times the partitions at most cost three tenths of the rate."""
    words = ["--batch-bytes", "4KiB", "--partitions-per-request", "20", "--connections", "4", "--in-flight", "5"]
    end = ["--warm-up", "1", "--duration", str(session.effort.seconds), "--audit-bytes", "1GB"]
    rates: dict[int, float] = {}
    for count in (1_000, 10_000):
        session.end_brokers()
        run = ["produce", *words, "--partitions", str(count), *end, *no_sync_words(CORELOG)]
        run += PATIENT
        figures = figures_of(run_bench(session, CORELOG, run, session.effort.seconds, f"S6c-{count}"))
        rates[count] = figures["MB/s"] or 0.0
    session.end_brokers()
    kept = rates[10_000] / max(rates[1_000], 1e-9)
    return concluded(
        "S6c",
        [
            Found("1,000 partitions, D0", "MB/s", {CORELOG: rates[1_000]}, is_higher_better=True),
            Found("10,000 partitions, D0", "MB/s", {CORELOG: rates[10_000]}, is_higher_better=True),
            Found("of the 1,000's rate", "x", {CORELOG: kept}, own=at_least(0.7), is_higher_better=True),
        ],
        [],
    )


def connections(session: Session) -> dict[str, Any]:
    """S7: nine of ten connections are idle, and the tenth does not notice."""
    idle = CONNECTIONS - ACTIVE
    words = ["produce", "--record-size", "1024", "--batch-records", "1", "--connections", str(ACTIVE)]
    words += ["--in-flight", "1", "--request-rate", "2000", "--partitions", "16", "--warm-up", "2", *PATIENT]
    words += ["--duration", str(session.effort.seconds)]

    def measure(side: str) -> dict[str, float | None]:
        # By default half of the descriptors are for segments: of these there are few here.
        session.broker(side, replace(session.where, settings=("log.open.files.max=1000",)))
        among = [*words, *no_sync_words(side), "--idle-connections", str(idle)]

        def run(line: list[str], name: str) -> dict[str, Any]:
            return run_bench(session, side, line, session.effort.seconds, name)

        # A broker that has worked has freed memory, which idle connections take first: what they need is told by the first run,
        # whose latency counts for nothing.
        first = run(among, "S7-first")["idle"]
        without = figures_of(run([*words, *no_sync_words(side)], "S7-without"))
        last = run(among, "S7-among")
        if lost := first["lost"] + last["idle"]["lost"]:
            raise RoundFailed(f"{side} closed {lost} of its idle connections")
        slow = figures_of(last)["p99 ms"]
        return {
            "bytes": first["broker_bytes_per_connection"],
            "without": without["p99 ms"],
            "among": slow,
            "slower": quotient(slow, without["p99 ms"]),
        }

    found = each_side(session, measure)
    return concluded(
        "S7",
        [
            Found("memory of an idle connection", "bytes", of(found, "bytes"), own=at_most(8_192)),
            Found("p99 without idle ones", "ms", of(found, "without")),
            Found("p99 among 9,000 idle ones", "ms", of(found, "among")),
            Found("to p99 without them", "x", of(found, "slower"), own=at_most(1.2)),
        ],
        ["a JVM's heap is there before the first connection: its growth says little"],
    )


def restart(session: Session) -> dict[str, Any]:
    """S10: from exec to the first record written and read, after a kill and after a clean stop."""
    size = int(KILLED_BYTES * session.effort.scale)

    def measure(side: str) -> dict[str, float | None]:
        fill = ["--partitions", str(KILLED_PARTITIONS), "--partitions-per-request", "20", "--batch-bytes", "64KiB"]
        topic = filled(session, side, [*fill, "--connections", "4"], size, "S10-fill")
        broker = session.broker(side)
        broker.kill()
        killed = first_answer(broker, topic)
        machine.settle()
        broker.terminate()
        return {"killed": killed, "stopped": first_answer(broker, topic)}

    found = each_side(session, measure)
    # The issue wants twenty times as fast: a twentieth of the time.
    return concluded(
        "S10",
        [
            Found("kill -9 to first produce and fetch", "s", of(found, "killed"), at_most(1.0), at_most(1 / 20)),
            Found("clean stop to first produce and fetch", "s", of(found, "stopped"), own=at_most(0.3)),
        ],
        [f"{amount(size / 1e9, KILLED_BYTES / 1e9, 'GB')} in {KILLED_PARTITIONS:,} partitions"],
    )


def first_answer(broker: Broker, topic: str) -> float:
    """Starts it; the seconds from exec until a record is acknowledged and read back."""
    begin = time.monotonic()
    broker.start()
    batch = raw.batch([(None, b"first")], int(time.time() * 1000))
    while True:
        try:
            with raw.Connection(broker.port) as connection:
                produced = connection.produce(topic, 7, batch)
                if produced.error == raw.NONE:
                    fetched = connection.fetch(raw.FetchFrom(topic, 7, produced.base_offset))
                    if fetched.error == raw.NONE and fetched.records:
                        return time.monotonic() - begin
        except (OSError, raw.Closed):
            pass
        if time.monotonic() - begin > FIRST_ANSWER_SECONDS_MAX:
            raise RoundFailed(f"no record was taken within {FIRST_ANSWER_SECONDS_MAX:.0f} s of the start")
        # A refusal is answered at once: asking without a pause would take the broker's only CPU.
        time.sleep(0.005)


def floor_rows(session: Session) -> dict[str, dict[str, float]]:
    """The floor program's rows, by name: what a thread needs that does nothing else."""
    line = [str(session.client.card), "floor", "-o", "json", "--client-cpu", session.client.cpu]
    line += ["--server-cpu", session.where.server_cpus.split("-")[0], "--floor-dir", str(session.where.directory)]
    line += ["--warm-up-seconds", "2", "--round-mib", "1024", "--rounds-max", "3"]
    return card_rows(session.client.call(line, FLOOR_SECONDS_MAX))


def card_rows(output: str) -> dict[str, dict[str, float]]:
    """The rows of a card in JSON, which follows the lines of its progress."""
    start = output.find("{")
    try:
        rows = json.loads(output[start:])["rows"] if start >= 0 else []
    except (ValueError, KeyError, TypeError):
        rows = []
    if not rows:
        raise RoundFailed(f"no card in what cost-card printed: {output[-400:]}")
    return {row["name"]: row for row in rows}


FLOOR_PRODUCE = "floor: receive + CRC + direct write + fdatasync"
FLOOR_SEND = "floor: send from memory"


def cost_card(session: Session) -> dict[str, Any]:
    """S11: what a gigabyte costs, beside what it costs at least; and what nothing costs."""
    session.end_brokers()
    broker = session.broker(CORELOG)
    time.sleep(2)
    before, resident = broker.cpu_seconds(), broker.rss_bytes()
    time.sleep(IDLE_WATCH_SECONDS)
    idle = (broker.cpu_seconds() - before) / IDLE_WATCH_SECONDS
    line = [str(session.client.card), "produce", "fetch", "-o", "json", "-b", broker.bootstrap]
    line += ["--pid", str(broker.pid), "--client-cpu", session.client.cpu, "--floor-dir", str(session.where.directory)]
    line += ["--warm-up-seconds", str(session.effort.warm_up_seconds), "--rounds-max", "3"]
    line += ["--round-mib", str(max(64, int(CARD_ROUND_MIB * session.effort.scale)))]
    rows = card_rows(session.client.call(line, 900))
    floors = floor_rows(session)
    # Larger than the broker's memory for such reads; read after a start, so that nothing of it is there.
    size = int(CARD_COLD_BYTES * session.effort.scale)
    notes = [f"{amount(size / 1e9, CARD_COLD_BYTES / 1e9, 'GB')} are read cold"]
    topic = filled(session, CORELOG, [], size, "S11-fill")
    forget(session, CORELOG, notes)
    read = ["consume", "--topic", topic, "--check", "offsets"]
    cold = figures_of(run_bench(session, CORELOG, read, 300, "S11-cold"))["CPU-s/GB"] or 0.0
    session.end_brokers()
    produce, fetch = cost_of(rows, "produce"), cost_of(rows, "hot fetch")
    least, send = cost_of(floors, FLOOR_PRODUCE), cost_of(floors, FLOOR_SEND)

    def ours(what: str, unit: str, value: float, target: Target | None) -> Found:
        return Found(what, unit, {CORELOG: value}, own=target)

    return concluded(
        "S11",
        [
            ours("produce, 1 MiB, D1", "CPU-s/GB", produce, at_most(0.20)),
            ours("to the floor (with fdatasync)", "x", produce / least, at_most(1.6)),
            ours("hot fetch", "CPU-s/GB", fetch, at_most(0.28)),
            ours("to sending from memory", "x", fetch / send, None),
            ours("cold fetch", "CPU-s/GB", cold, at_most(0.35)),
            ours("idle", "% of a core", idle * 100, at_most(0.5)),
            ours("idle, resident", "MB", resident / 1e6, at_most(60)),
            *(
                ours(name, "CPU-s/GB", row["cpu_seconds_per_gb"], None)
                for name, row in floors.items()
                if "cpu_seconds_per_gb" in row
            ),
        ],
        notes,
    )


def cost_of(rows: dict[str, dict[str, float]], start: str) -> float:
    """CPU seconds of a gigabyte in the row whose name begins so."""
    for name, row in rows.items():
        if name.startswith(start) and "cpu_seconds_per_gb" in row:
            return row["cpu_seconds_per_gb"]
    raise RoundFailed(f"the card has no row {start!r}: {', '.join(rows)}")


def soak(session: Session) -> dict[str, Any]:
    """S12: fifty keyed producers while retention takes what is old; the end is as the beginning."""
    seconds = max(SOAK_SECONDS_MIN, int(SOAK_SECONDS * session.effort.scale))
    session.end_brokers()
    session.broker(CORELOG, replace(session.where, settings=(f"log.retention.check.interval.ms={SOAK_RETENTION_MS}",)))
    words = ["produce", "--rate", "30MB", "--batch-records", "10", "--keys", "10000", "--connections", "50"]
    words += ["--partitions", "16", "--consumers", "1", "--warm-up", "10", "--duration", str(seconds), "--steady"]
    words += ["-c", "retention.bytes=134217728", "-c", "segment.bytes=33554432"]
    result = run_bench(session, CORELOG, words, seconds + 10, "S12")
    session.end_brokers()
    return soak_cell(seconds, result)


def soak_cell(seconds: int, result: dict[str, Any]) -> dict[str, Any]:
    """What a soak of so long tells. Errors: `RoundFailed` where it has no first and last minutes."""
    trend = result["trend"]
    if trend is None:
        raise RoundFailed("the run did not last: it has no first and last minutes")
    first, last = told(trend["first"]), told(trend["last"])

    def kept(what: str, name: str, target: Target, is_higher_better: bool = False) -> Found:
        change = quotient(last[name], first[name])
        values = {} if change is None else {CORELOG: change}
        return Found(what, "x", values, own=target, is_higher_better=is_higher_better)

    length = amount(seconds, SOAK_SECONDS, "s")
    ends = f"first and last {number(trend['window_seconds'])} s; 30 MB/s, D1, one consumer beside"
    return concluded(
        "S12",
        [
            Found("throughput, first", "MB/s", {CORELOG: first["MB/s"] or 0.0}),
            kept("throughput, last to first", "MB/s", at_least(0.9), is_higher_better=True),
            Found("p99.9, first", "ms", {CORELOG: first["p99.9 ms"] or 0.0}),
            kept("p99.9, last to first", "p99.9 ms", at_most(1.1)),
            kept("memory, last to first", "resident MB", at_most(1.1)),
        ],
        [f"{length}; {ends}; retention took {result['audit']['expired_batches']:,} batches"],
    )


def told(window: dict[str, Any]) -> dict[str, float | None]:
    """What the bench tells of the first or the last minutes, by the names that rows use."""
    resident = window["broker_rss_bytes"]
    return {
        "MB/s": window["mb_per_second"],
        "p99.9 ms": window["latency"]["p999_ms"],
        "resident MB": None if resident is None else resident / 1e6,
    }


def shards(session: Session) -> dict[str, Any]:
    """Three loads at one and two shards, clients told of the node or of its cores, in a table of their own."""
    names = ("S1b", "S2c", "S8")
    head = ["shards", "advertise"]
    for name in names:
        head += [f"{name} {figure}" for figure in (BY_ID[name].primary, "CPU-s/GB", "p99.9 ms")]
    grid: list[list[str | float | None]] = []
    costs: dict[tuple[str, int, str], float | None] = {}
    for count in (1, 2):
        for advertise in ("node", "core"):
            cpus = "0" if count == 1 else "0-1"
            where = replace(session.where, shards=count, server_cpus=cpus, settings=(f"advertise={advertise}",))
            session.end_brokers()
            session.broker(CORELOG, where)
            row: list[str | float | None] = [str(count), advertise]
            for name in names:
                load = BY_ID[name]
                # The first counts for nothing.
                session.run(CORELOG, load, session.effort.seconds)
                figures = session.run(CORELOG, load, session.effort.seconds)
                row += [figures[figure] for figure in (load.primary, "CPU-s/GB", "p99.9 ms")]
                costs[name, count, advertise] = figures["CPU-s/GB"]
            say(f"{count} shards, {advertise}: {row[2:]}")
            grid.append(row)
    session.end_brokers()
    found = []
    for name in names:
        ratio = quotient(costs[name, 2, "node"], costs[name, 2, "core"])
        what = f"{name}, 2 shards: CPU per GB of node to core mode"
        found.append(Found(what, "x", {} if ratio is None else {CORELOG: ratio}, own=at_most(1.4)))
    cell = concluded("shards", found, ["two shards have both CPUs, and share one with the client"])
    return cell | {"grid": {"head": head, "rows": grid}}


def perf_test(session: Session) -> dict[str, Any]:
    """Kafka's own perf test says the same: the direction of two rows, by a client that nobody here wrote."""
    if not session.effort.kafkas:
        raise RoundFailed("it is Kafka's own program, and this run is without Kafka")
    found = []
    records = max(PERF_RECORDS_MIN, int(PERF_RECORDS * session.effort.scale))
    notes = [amount(records, PERF_RECORDS, "records"), "MB are 2^20 bytes; the Java client has CPU 1 and bounds both"]
    for name, durability, partitions in (("S1a", "D0", 1), ("S2a", "D1", 16)):
        rates = {}
        for side in (CORELOG, session.effort.kafkas[0]):
            session.end_brokers()
            make_topic(session, side, "perf", partitions, BY_ID[name].topic_words(side))
            rates[side] = perf_rate(session, side, "1048576" if partitions == 1 else "65536", records)
        session.end_brokers()
        kafka = rates[session.effort.kafkas[0]]
        what = f"kafka-producer-perf-test as {name}, {durability}: same direction"
        values = {CORELOG: rates[CORELOG], session.effort.kafkas[0]: kafka}
        found.append(Found(what, "MB/s", values, ratio=at_least(1.0), is_higher_better=True))
    return concluded("perf", found, notes)


def make_topic(session: Session, side: str, topic: str, partitions: int, options: tuple[str, ...]) -> None:
    """A topic for a client that waits for leaders by itself."""
    line = [str(session.client.binary), "topic", "create", topic, "-p", str(partitions), *options]
    session.client.call([*line, "-b", session.broker(side).bootstrap, *PATIENT], 180)


def perf_rate(session: Session, side: str, batch_bytes: str, records: int) -> float:
    """MB a second of the Java producer."""
    properties = [f"bootstrap.servers={session.broker(side).bootstrap}", "acks=all", f"batch.size={batch_bytes}"]
    properties += ["linger.ms=5", "buffer.memory=134217728", "max.request.size=4194304", "enable.idempotence=false"]
    line = ["taskset", "-c", session.client.cpu, "env", "KAFKA_TOOL_HEAP=1g", "KAFKA_TOOL_TIER=4", str(KAFKA_SH)]
    line += ["producer-perf-test", "--topic", "perf", "--num-records", str(records), "--record-size", "1024"]
    return perf_megabytes(session.client.call([*line, "--throughput", "-1", "--producer-props", *properties], 600))


SPECIAL: dict[str, tuple[str, Callable[[Session], dict[str, Any]]]] = {
    "S4": ("cold catch-up beside a producer of 20 MB/s", cold_catch_up),
    "S6c": ("10,000 partitions against 1,000", many_partitions),
    "S7": ("10,000 connections, one in ten active", connections),
    "S10": ("restart with 1,000 partitions", restart),
    "S11": ("cost card", cost_card),
    "S12": ("soak with retention", soak),
    "shards": ("shards and advertise", shards),
    "perf": ("kafka-producer-perf-test", perf_test),
}
