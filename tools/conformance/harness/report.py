"""One line a check, one closing line, one exit code."""

import sys
import time
import traceback
from collections.abc import Callable


# What a run ends with that cannot be made on this machine: neither proof nor failure. run.sh names such runs at its end.
NOTHING_CHECKED = 77


class CheckFailed(Exception):
    """An expectation did not hold. The text gives place, fact and what was expected."""


class Skipped(Exception):
    """The check does not apply to this broker. The text says why."""


def expect(condition: bool, text: str) -> None:
    """Fails the running check with `text` unless `condition` holds."""
    if not condition:
        raise CheckFailed(text)


def expect_equal(what: str, found: object, expected: object) -> None:
    """Fails the running check unless both are equal, and shows both, shortened."""
    if found != expected:
        raise CheckFailed(f"{what}: found {shorten(found)}, expected {shorten(expected)}")


def shorten(value: object, limit: int = 300) -> str:
    """A value as text of bounded length: a failed comparison of megabytes stays one line."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


class Report:
    """Runs checks, prints each verdict at once, and keeps the counts."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self.skipped = 0

    def run(self, name: str, check: Callable[[], str | None]) -> bool:
        """Runs one check; its return value is the detail behind `ok NAME`."""
        begin = time.monotonic()
        try:
            detail = check() or ""
        except Skipped as why:
            self.skipped += 1
            self._line("skipped", name, str(why), begin)
            return True
        except CheckFailed as failure:
            return self._fail(name, str(failure), begin)
        except Exception as error:  # A broken client call is a failed check, not a broken run.
            traceback.print_exc(limit=6)
            return self._fail(name, f"{type(error).__name__}: {error}", begin)
        self.passed += 1
        self._line("ok", name, detail, begin)
        return True

    def close(self) -> int:
        """Prints the closing line and returns the process's exit code."""
        for name in self.failed:
            print(f"failed: {name}")
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        print(f"{self.passed} passed, {len(self.failed)} failed{skipped}", flush=True)
        # A run that checked nothing has proved nothing.
        return 0 if self.passed and not self.failed else 1

    def _fail(self, name: str, text: str, begin: float) -> bool:
        self.failed.append(name)
        self._line("FAILED", name, text, begin)
        return False

    def _line(self, verdict: str, name: str, text: str, begin: float) -> None:
        one_line = " ".join(text.split())
        sys.stderr.flush()
        print(f"{verdict} {name} {one_line} ({time.monotonic() - begin:.1f} s)", flush=True)
