"""Where things lie: this repository, the cache that setup.sh fills, temporary directories."""

import os
from pathlib import Path

CONFORMANCE = Path(__file__).resolve().parent.parent
REPOSITORY = CONFORMANCE.parent.parent
CACHE = Path(os.environ.get("CORELOG_CACHE") or Path.home() / ".cache" / "corelog")
KAFKA_SH = CONFORMANCE / "kafka" / "kafka.sh"


def target_binary(name: str) -> Path:
    """The newest build of `name`: release if it is there, else the debug build.

    A run that measures time must not silently measure a debug build, so callers print the path.
    """
    target = Path(os.environ.get("CARGO_TARGET_DIR") or REPOSITORY / "target")
    release = target / "release" / name
    return release if release.exists() else target / "debug" / name
