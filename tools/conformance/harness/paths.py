"""Where things lie: this repository, the cache that setup.sh fills, temporary directories."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

CONFORMANCE = Path(__file__).resolve().parent.parent
REPOSITORY = CONFORMANCE.parent.parent
CACHE = Path(os.environ.get("CORELOG_CACHE") or Path.home() / ".cache" / "corelog")
KAFKA_SH = CONFORMANCE / "kafka" / "kafka.sh"


def environment_for(command: Sequence[str]) -> dict[str, str]:
    """The variables of these scripts stay with them, and with kafka.sh, which is one of them.

    Our node reads every CORELOG_ variable as an option and refuses what is none.
    """
    of_scripts = "\0" if str(KAFKA_SH) in command else "CORELOG_"
    return {name: text for name, text in os.environ.items() if not name.startswith(of_scripts)}


def target_binary(name: str) -> Path:
    """The release build of `name`, whose times the limits are for, or the debug build where there is none.

    A run must not silently take an old build or a slow one: callers print the path, and this says which is newer.
    """
    target = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target")
    release, debug = (target / profile / name for profile in ("release", "debug"))
    if not release.exists():
        return debug
    if debug.exists() and debug.stat().st_mtime > release.stat().st_mtime:
        print(f"{release} is older than the debug build", file=sys.stderr)
    return release


def add_binary(parser: "argparse.ArgumentParser | argparse._MutuallyExclusiveGroup") -> None:
    """The option of every run that says which of our binaries is tried; without it, `target_binary`."""
    parser.add_argument(
        "--corelog", type=Path, help="our binary (default: release, else debug build)"
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """The option by which a run is made again with other options of the broker; `settings_of` takes them."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=key_and_value,
        metavar="KEY=VALUE",
        help="an option of every broker that is started; may be given again",
    )


def settings_of(options: argparse.Namespace, *own: str) -> tuple[str, ...]:
    """What a run sets by itself, and what its command line sets: that wins, for a broker takes no option twice."""
    given = {setting.partition("=")[0] for setting in options.set}
    return (*(setting for setting in own if setting.partition("=")[0] not in given), *options.set)


def key_and_value(text: str) -> str:
    """A setting as the broker takes it; whether it knows the key, it says itself."""
    key, found, _ = text.partition("=")
    if not (key and found):
        raise argparse.ArgumentTypeError(f"{text}: must be KEY=VALUE")
    return text
