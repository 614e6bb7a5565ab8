"""Clients that do not behave, in a process of their own: `python -m harness.attacks NAME PORT COUNT`.

The process prints `ready` once its connections stand, attacks until its standard input ends, and
prints one line about what it saw. Apart from the run that measures, so that its work does not slow
the measuring down; bounded, so that it ends with the run whatever happens.
"""

import contextlib
import os
import resource
import select
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from . import raw
from .raw import API_VERSIONS, METADATA, PRODUCE

INT32_MAX = 0x7FFFFFFF
SECONDS_MAX = 120.0
# One in a hundred connections works, and asks so often.
ACTIVE_ONE_IN = 100
ACTIVE_PAUSE = 0.2
TRICKLE_PAUSE = 0.25
# Rounds a second of what is closed at once: more would measure our own processor.
ROUNDS_A_SECOND = 50
TINY = raw.frame(API_VERSIONS, 0, 1, b"")
ALL_TOPICS = struct.pack(">i", -1)


@dataclass
class Attack:
    """Where to, how many, and what has been seen."""

    port: int
    count: int
    begun: float = field(default_factory=time.monotonic)
    seen: dict[str, float] = field(default_factory=dict)

    def dial(self) -> socket.socket:
        """A connection that never blocks for ever."""
        connection = socket.create_connection(("127.0.0.1", self.port), 30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def note(self, what: str, count: float = 1) -> None:
        """Adds to what the last line says."""
        self.seen[what] = self.seen.get(what, 0) + count

    def goes_on(self, pause: float = 0.0) -> bool:
        """Waits so long, and says whether whoever started us still wants it."""
        wanted, _, _ = select.select([sys.stdin], [], [], pause)
        return not wanted and time.monotonic() - self.begun < SECONDS_MAX

    def rounds(self) -> Iterator[None]:
        """So many a second, until it is over."""
        ready()
        while self.goes_on(1 / ROUNDS_A_SECOND):
            self.note("rounds")
            yield


def ready() -> None:
    """What comes from here on is measured."""
    print("ready", flush=True)


def crowd(attack: Attack) -> None:
    """Connections that stand there; one in a hundred asks something again and again."""
    connections = [attack.dial() for _ in range(attack.count)]
    active = connections[:: ACTIVE_ONE_IN] or connections
    for connection in active:
        connection.setblocking(True)
        connection.settimeout(30)
    request = raw.frame(METADATA, 1, 7, struct.pack(">i", 0))
    ready()
    while attack.goes_on(ACTIVE_PAUSE):
        for connection in active:
            connection.sendall(request)
        for connection in active:
            size = struct.unpack(">i", exactly(connection, 4))[0]
            exactly(connection, size)
            attack.note("answers")
    # Those that stood there are still served.
    for connection in connections[1:: max(1, attack.count // 50)]:
        connection.sendall(TINY)
        exactly(connection, 4)
        attack.note("idle served")


def exactly(connection: socket.socket, count: int) -> bytes:
    """So many bytes; an end before them is an error of the broker."""
    data = b""
    while len(data) < count:
        got = connection.recv(count - len(data))
        if not got:
            raise ConnectionError("the broker closed a connection that behaves")
        data += got
    return data


def slowloris(attack: Attack) -> None:
    """Requests that come one byte at a time, each from a connection of its own."""
    connections = [attack.dial() for _ in range(attack.count)]
    request = raw.frame(METADATA, 1, 7, ALL_TOPICS)
    large = struct.pack(">i", 90 << 20) + raw.frame(PRODUCE, 7, 1, b"")[4:]
    position = 0
    ready()
    while attack.goes_on(TRICKLE_PAUSE):
        for index, connection in enumerate(connections):
            text = request if index % 2 else large
            try:
                connection.sendall(text[position % len(text) :][:1])
                attack.note("bytes")
            except OSError:
                attack.note("sends refused")
        position += 1


def half_closed(attack: Attack) -> None:
    """Clients that end their half: within a request, after it, and with answers that they never read."""
    request = raw.frame(METADATA, 1, 7, ALL_TOPICS)
    kept: list[socket.socket] = []
    for _ in attack.rounds():
        for data in (request[:9], request, request * 20):
            connection = attack.dial()
            with contextlib.suppress(OSError):
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            kept.append(connection)
        while len(kept) > attack.count:
            kept.pop(0).close()


def strangers(attack: Attack) -> None:
    """The first bytes of TLS and HTTP."""
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506)
    for _ in attack.rounds():
        closed_at_once(attack, hello)
        closed_at_once(attack, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")


def huge_frames(attack: Attack) -> None:
    """Frames of 2 GB, and of 99 MiB that never come."""
    kept: list[socket.socket] = []
    announced = struct.pack(">i", 99 << 20) + raw.frame(PRODUCE, 7, 1, bytes(100))[4:]
    for _ in attack.rounds():
        for claimed in (INT32_MAX, 0x7F000000, -1, -(1 << 31)):
            closed_at_once(attack, struct.pack(">i", claimed) + bytes(64))
        connection = attack.dial()
        with contextlib.suppress(OSError):
            connection.sendall(announced)
        kept.append(connection)
        while len(kept) > attack.count:
            kept.pop(0).close()


def huge_arrays(attack: Attack) -> None:
    """Small requests whose arrays claim 2^31-1 elements."""
    huge = struct.pack(">i", INT32_MAX)
    bodies = [
        (METADATA, 1, huge),
        (METADATA, 9, b"\0\xff\xff\xff\xff\x0f"),
        (PRODUCE, 7, struct.pack(">hhi", -1, -1, 1_000) + huge),
        (raw.FETCH, 11, struct.pack(">iiiibii", -1, 1, 1, 1, 0, 0, -1) + huge),
        (2, 1, struct.pack(">i", -1) + huge),
        (19, 2, huge),
    ]
    for _ in attack.rounds():
        for key, version, body in bodies:
            closed_at_once(attack, raw.frame(key, version, 1, body))


def closed_at_once(attack: Attack, data: bytes) -> None:
    """Sends what is no request; the broker must close, and say nothing."""
    with attack.dial() as connection:
        connection.settimeout(10)
        try:
            connection.sendall(data)
            said = connection.recv(1)
        except TimeoutError:
            attack.note("still open after 10 s")
            return
        except OSError:
            said = b""
        attack.note("answered" if said else "closed")


def pipelined(attack: Attack) -> None:
    """A million tiny requests from clients that read nothing."""
    connections = [attack.dial() for _ in range(attack.count)]
    selector = selectors.DefaultSelector()
    left: dict[socket.socket, bytes] = {}
    share = 1_000_000 // attack.count
    chunk = TINY * 1_000
    sent = dict.fromkeys(connections, 0)
    for connection in connections:
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_WRITE)
        left[connection] = chunk
    ready()
    while attack.goes_on():
        if not selector.get_map():
            attack.goes_on(0.1)
            continue
        for key, _ in selector.select(0.1):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            try:
                count = connection.send(left[connection])
            except BlockingIOError:
                continue
            except OSError:
                attack.note("closed")
                selector.unregister(connection)
                continue
            left[connection] = left[connection][count:]
            if not left[connection]:
                # Whole requests: the broker has no excuse to close.
                sent[connection] += 1_000
                left[connection] = chunk
                if sent[connection] >= share:
                    selector.unregister(connection)
    attack.note("requests taken", sum(sent.values()))


ATTACKS: dict[str, Callable[[Attack], None]] = {
    "crowd": crowd,
    "slowloris": slowloris,
    "half-closed": half_closed,
    "strangers": strangers,
    "huge-frames": huge_frames,
    "huge-arrays": huge_arrays,
    "pipelined": pipelined,
}


def main() -> int:
    """One attack, to its end."""
    name, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attack = Attack(port, count)
    ATTACKS[name](attack)
    print(" ".join(f"{what}={count:.0f}" for what, count in attack.seen.items()), flush=True)
    # Thousands of sockets: the kernel closes them faster than we would.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
