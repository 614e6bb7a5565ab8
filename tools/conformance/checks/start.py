"""Starting and stopping: how fast, how small, as whom, and what a refused start says.

These checks start processes of their own beside the one under test, with one and two shards as
that one has. Limits are for release builds on a machine that is not starved; the fastest of a few
starts counts, since a limit on the slowest would measure the neighbours.
"""

import os
import shutil
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

from harness import clients
from harness.broker import Broker
from harness.kafka_tools import run_any
from harness.report import Skipped, expect, expect_equal

from . import Check, Context

READY_SECONDS_MAX = 0.2
IDLE_BYTES_MAX = 60 << 20
STARTS = 5
ORDINARY_USER = 65_534  # "nobody" on every Linux.


def ready_and_small(context: Context) -> str:
    """Ready within 200 ms of exec on an empty directory; idle within 60 MB."""
    context.only_corelog("a JVM takes seconds")
    seconds, rss = [], []
    for number in range(STARTS):
        broker = Broker(context.broker.launch, context.scratch / f"start-{number}")
        try:
            seconds.append(broker.start())
            time.sleep(0.5)
            rss.append(broker.rss_bytes())
            expect_equal("exit code", broker.terminate(), 0)
        finally:
            broker.close()
    expect(
        max(rss) <= IDLE_BYTES_MAX,
        f"idle {max(rss) / 1e6:.0f} MB, bound {IDLE_BYTES_MAX / 1e6:.0f}",
    )
    fastest = min(seconds)
    expect(fastest <= READY_SECONDS_MAX, f"ready after {1000 * fastest:.0f} ms at best of {STARTS}")
    return f"ready {1000 * fastest:.0f}-{1000 * max(seconds):.0f} ms, idle {max(rss) / 1e6:.1f} MB"


def ordinary_user(context: Context) -> str:
    """The same as an ordinary user, with that user's limits, and it serves."""
    context.only_corelog("about our memory locking")
    if os.getuid() != 0:
        raise Skipped("needs root to become somebody else")
    home = context.scratch / "ordinary"
    home.mkdir()
    context.scratch.chmod(0o755)
    binary = shutil.copy(context.broker.launch.binary, home / "corelog")
    os.chown(home, ORDINARY_USER, ORDINARY_USER)
    user = str(ORDINARY_USER)
    drop = ("setpriv", "--reuid", user, "--regid", user, "--clear-groups")
    # Debian's default for users is 8 MiB of locked memory; root's own limit would hide a need.
    prefix = ("prlimit", "--memlock=8388608:8388608", *drop)
    launch = replace(context.broker.launch, binary=Path(binary), prefix=prefix)
    broker = Broker(launch, home / "data")
    try:
        seconds = broker.start()
        owner = os.stat(f"/proc/{broker.pid}").st_uid
        expect_equal("user of the process", owner, ORDINARY_USER)
        time.sleep(0.5)
        rss = broker.rss_bytes()
        clients.create_topic(broker.bootstrap, "t")
        client, delivery = clients.producer(broker.bootstrap), clients.Delivery()
        client.produce("t", b"value", on_delivery=delivery)
        delivery.finish(client, 1)
        expect_equal("records", len(clients.read_topic(broker.bootstrap, "t")), 1)
        expect_equal("exit code", broker.terminate(), 0)
    finally:
        broker.close()
    expect(rss <= IDLE_BYTES_MAX, f"idle {rss / 1e6:.0f} MB, bound {IDLE_BYTES_MAX / 1e6:.0f}")
    return f"ready {1000 * seconds:.0f} ms, idle {rss / 1e6:.1f} MB"


def locked_directory(context: Context) -> str:
    """A second process on the same directory is refused and names it; the first is unharmed."""
    context.only_corelog("about our exit codes")
    done = run_any(context.broker.launch.command(context.broker.data_dir, 0), seconds=20)
    said = (done.stdout + done.stderr).decode(errors="replace")
    expect_equal(f"exit code ({said})", done.returncode, 12)
    expect(str(context.broker.data_dir) in said, f"the directory is not named: {said}")
    clients.admin(context.bootstrap).list_topics(timeout=10)
    return said.strip().splitlines()[-1][:150]


def wrong_configuration(context: Context) -> str:
    """A misspelt key or a bad value: exit code 2, the place, and the nearest key."""
    context.only_corelog("about our configuration")
    launch, home = context.broker.launch, context.scratch / "config"
    home.mkdir()
    command = launch.command(home / "data", 0)
    done = run_any([*command, "--set", "log.segment.bytess=1048576"], seconds=20)
    said = (done.stdout + done.stderr).decode(errors="replace")
    expect_equal(f"exit code ({said})", done.returncode, 2)
    expect("log.segment.bytess" in said and "log.segment.bytes" in said.replace("bytess", ""), said)
    done = run_any([*command, "--set", "log.segment.bytes=7d"], seconds=20)
    said = (done.stdout + done.stderr).decode(errors="replace")
    expect_equal(f"exit code ({said})", done.returncode, 2)
    expect("7d" in said and "log.segment.bytes" in said, said)
    file = home / "corelog.toml"
    file.write_text('# one\n\n\nnum.partitionz = 3\n"log.segment.bytes" = 512\n')
    done = run_any([*command, "--config", str(file)], seconds=20)
    said = (done.stdout + done.stderr).decode(errors="replace")
    expect_equal(f"exit code ({said})", done.returncode, 2)
    expect(f"{file.name}:4" in said and f"{file.name}:5" in said, f"file and lines: {said}")
    expect(not (home / "data").exists(), "a refused start made its data directory")
    return "key, value, file and line"


def readiness(context: Context) -> None:
    """The admin endpoint says that the node is ready."""
    context.only_corelog("our admin endpoint")
    with urllib.request.urlopen(f"http://{context.broker.admin}/ready", timeout=5) as answer:
        expect_equal("status of /ready", answer.status, 200)


CHECKS: dict[str, Check] = {
    "start-ready": ready_and_small,
    "start-ordinary-user": ordinary_user,
    "start-locked": locked_directory,
    "start-config": wrong_configuration,
    "start-readiness": readiness,
}
