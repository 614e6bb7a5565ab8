"""A temporary directory that goes when all went well, and stays as evidence otherwise."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .report import Report, Skipped


@contextmanager
def scratch_directory(prefix: str, report: Report | None = None) -> Iterator[Path]:
    """Gives a new directory. An exception, or a failure in `report`, keeps it and says where; skipping is neither."""
    path = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield path
    except Skipped:
        shutil.rmtree(path, ignore_errors=True)
        raise
    except BaseException:
        print(f"kept {path}", flush=True)
        raise
    if report is not None and report.failed:
        print(f"kept {path}", flush=True)
    else:
        shutil.rmtree(path, ignore_errors=True)
