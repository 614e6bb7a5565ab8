"""Waiting for what happens by itself, with a bound."""

import time
from collections.abc import Callable

from .report import expect, shorten


def wait_while(what: str, left: Callable[[], object], seconds_max: float) -> float:
    """Waits until nothing is left, an error code among them; returns the seconds it took, or fails and says what is."""
    begin = time.monotonic()
    while found := left():
        seconds = time.monotonic() - begin
        expect(seconds < seconds_max, f"{what}: after {seconds_max:g} s still {shorten(found)}")
        time.sleep(0.05)
    return time.monotonic() - begin
