"""Bad bytes at a live broker: refused, memory bounded, and nobody else notices.

Every check runs beside a `Bystander`, a client that produces and fetches all the time; it must see
no error and no long stall, and the process must not grow beyond a bound.
"""

import contextlib
import os
import random
import socket
import ssl
import struct
import threading
import time
import zlib
from collections.abc import Callable

from harness import clients, raw
from harness.raw import API_VERSIONS, FETCH, METADATA, PRODUCE, Connection, FetchFrom
from harness.report import CheckFailed, expect, expect_equal

from . import Check, Context

# The bound for a decompression bomb, used for everything: nothing here is worth more.
GROWTH_BYTES_MAX = 64 << 20
# A JVM's heap grows as it likes; on the reference the bound only catches a runaway.
GROWTH_BYTES_MAX_REFERENCE = 1536 << 20
STALL_SECONDS_MAX = 2.0
ANSWER_SECONDS_MAX = 10.0
INT32_MAX = 0x7FFFFFFF
UNSUPPORTED_VERSION = 35


class Bystander:
    """A well-behaved client on a thread, and a watch on the broker's memory."""

    def __init__(self, context: Context) -> None:
        self.broker = context.broker
        self.topic = context.topic("bystander")
        self.slowest = 0.0
        self.count = 0
        self.rss_max = 0
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Bystander":
        # The first requests pay for first-touched memory: they are not part of the growth.
        with Connection(self.broker.port) as connection:
            self._round(connection)
        self.rss_before = self.broker.rss_bytes()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A few turns after the last bad byte too: the damage may come late.
        enough, deadline = self.count + 5, time.monotonic() + 10
        while self.count < enough and self.error is None and time.monotonic() < deadline:
            time.sleep(0.02)
        self._stop.set()
        self._thread.join(30)
        if kind is not None:
            return
        if self.error is not None:
            raise CheckFailed(f"another client saw {type(self.error).__name__}: {self.error}")
        expect(self.count > 2, "the other client got no turn")
        expect(self.slowest < STALL_SECONDS_MAX, f"another client waited {self.slowest:.2f} s")
        ours = self.broker.launch.is_corelog
        bound = GROWTH_BYTES_MAX if ours else GROWTH_BYTES_MAX_REFERENCE
        expect(self.growth < bound, f"memory grew by {self.growth >> 20} MiB, bound {bound >> 20}")

    @property
    def growth(self) -> int:
        """How much the process grew at most since the start."""
        return max(0, self.rss_max - self.rss_before)

    def summary(self) -> str:
        """For the check's line; valid while it runs."""
        return f"others ≤ {1000 * self.slowest:.0f} ms, memory +{self.growth >> 20} MiB"

    def _run(self) -> None:
        try:
            with Connection(self.broker.port) as connection:
                while not self._stop.wait(0.02):
                    begin = time.monotonic()
                    self._round(connection)
                    self.slowest = max(self.slowest, time.monotonic() - begin)
                    self.rss_max = max(self.rss_max, self.broker.rss_bytes())
                    self.count += 1
        except BaseException as error:  # Handed to the check's own thread.
            self.error = error

    def _round(self, connection: Connection) -> None:
        value = os.urandom(100)
        answer = connection.produce(self.topic, 0, raw.batch([(None, value)], 1_700_000_000_000))
        expect_equal("produce error", answer.error, 0)
        got = connection.fetch(FetchFrom(self.topic, 0, answer.base_offset))
        expect(value in got.records, f"offset {answer.base_offset} does not hold what was sent")


def dial(context: Context) -> socket.socket:
    """A plain socket with a deadline."""
    return socket.create_connection(("127.0.0.1", context.broker.port), ANSWER_SECONDS_MAX)


def until_closed(connection: socket.socket) -> bytes:
    """What the broker still says before it closes; fails the check if it does not close."""
    said = bytearray()
    try:
        while got := connection.recv(65_536):
            said += got
            expect(len(said) < 1 << 24, "the broker does not stop talking")
    except ConnectionError:
        pass
    except TimeoutError:
        raise CheckFailed(f"still open after {ANSWER_SECONDS_MAX} s") from None
    return bytes(said)


def send_and_close(context: Context, data: bytes) -> bytes:
    """Sends bytes, closes our half, and returns what came back until the broker closed."""
    with dial(context) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        except OSError:  # Closed on the first bad bytes, before we were done: that is an answer.
            return b""
        return until_closed(connection)


def random_bytes(context: Context) -> str:
    """Noise of a hundred lengths."""
    rng = random.Random(11)
    with Bystander(context) as other:
        for _ in range(100):
            send_and_close(context, rng.randbytes(rng.randrange(1, 40_000)))
        return other.summary()


def random_bodies(context: Context) -> str:
    """Well-formed headers of every API and version with noise behind them."""
    rng = random.Random(12)
    with Bystander(context) as other:
        for n in range(400):
            key, version = rng.randrange(0, 75), rng.randrange(0, 14)
            body = rng.randbytes(rng.randrange(0, 300))
            send_and_close(context, raw.frame(key, version, n, body))
        return other.summary()


def tls_and_http(context: Context) -> str:
    """A TLS hello and an HTTP request are closed, and our log names them."""
    with Bystander(context) as other:
        tls = ssl.create_default_context()
        with dial(context) as plain:
            try:
                tls.wrap_socket(plain, server_hostname="localhost")
            except (OSError, ssl.SSLError):
                pass
            else:
                raise CheckFailed("a plaintext port finished a TLS handshake")
        with dial(context) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            until_closed(connection)
        if context.broker.launch.is_corelog:
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline and not named(context):
                time.sleep(0.05)
            expect(named(context), f"no line names TLS and HTTP: {context.broker.tail()}")
        return other.summary()


def named(context: Context) -> bool:
    """Whether the broker's output has named both strangers."""
    text = " ".join(context.broker.output).lower()
    return "tls" in text and "http" in text


def claimed_lengths(context: Context) -> str:
    """Frames that claim 2 GB, a negative length, or nothing: closed without waiting for more."""
    with Bystander(context) as other:
        for claimed in (INT32_MAX, 0x7F000000, 200 << 20, -1, -(1 << 31)):
            with dial(context) as connection:
                connection.sendall(struct.pack(">i", claimed) + b"\0" * 16)
                until_closed(connection)
        for claimed in (0, 1, 3, 7):
            send_and_close(context, struct.pack(">i", claimed) + b"\0" * claimed)
        return other.summary()


def claimed_arrays(context: Context) -> str:
    """Small frames whose arrays and strings claim 2^31-1 elements: an error or a closed door."""
    huge = struct.pack(">i", INT32_MAX)
    bodies: list[tuple[int, int, bytes]] = [
        (METADATA, 1, huge),
        (METADATA, 9, b"\0\xff\xff\xff\xff\x0f"),
        (PRODUCE, 7, struct.pack(">hhi", -1, -1, 1_000) + huge),
        (PRODUCE, 7, struct.pack(">hhii", -1, -1, 1_000, 1) + raw.string("t") + huge),
        (
            PRODUCE,
            7,
            struct.pack(">hhii", -1, -1, 1_000, 1)
            + raw.string("t")
            + struct.pack(">iii", 1, 0, INT32_MAX),
        ),
        (FETCH, 11, struct.pack(">iiiibii", -1, 1, 1, 1, 0, 0, -1) + huge),
        (FETCH, 12, struct.pack(">iiiibii", -1, 1, 1, 1, 0, 0, -1) + b"\xff\xff\xff\xff\x0f"),
        (2, 1, struct.pack(">i", -1) + huge),
        (19, 2, huge),
        (19, 2, struct.pack(">i", 1) + raw.string("t") + struct.pack(">ih", 1, 1) + huge),
        (20, 1, huge),
        (32, 1, huge),
        (API_VERSIONS, 3, b"\0\xff\xff\xff\xff\x0f"),
        # A thousand tagged fields announced, none there.
        (API_VERSIONS, 3, b"\0\x01\x01\xe8\x07"),
    ]
    with Bystander(context) as other:
        for n, (key, version, body) in enumerate(bodies):
            for _ in range(20):
                send_and_close(context, raw.frame(key, version, n, body))
        return other.summary()


def unread_answers(context: Context) -> str:
    """A flood of tiny requests from a client that never reads: the broker stops reading too."""
    count = 1_000_000 if context.full else 200_000
    one = raw.frame(API_VERSIONS, 0, 1, b"")
    with Bystander(context) as other, dial(context) as flood:
        flood.settimeout(2.0)
        # Whole requests only, so that the broker has no excuse to close.
        chunk, sent = one * 1_000, 0
        try:
            while sent < count:
                flood.sendall(chunk)
                sent += 1_000
            pushed_back = "all taken"
        except TimeoutError:
            pushed_back = "pushed back"
        except ConnectionError:
            pushed_back = "closed"
        time.sleep(0.5)
        return f"{sent} requests {pushed_back}; {other.summary()}"


def half_closed(context: Context) -> str:
    """A client that closes its half after a request gets the answer or a close, not silence."""
    with Bystander(context) as other:
        for _ in range(50):
            send_and_close(context, raw.frame(METADATA, 1, 1, struct.pack(">i", -1)))
            with dial(context) as connection:
                connection.sendall(raw.frame(METADATA, 1, 1, struct.pack(">i", -1))[:9])
                connection.shutdown(socket.SHUT_WR)
                until_closed(connection)
        return other.summary()


def slow_senders(context: Context) -> str:
    """Many clients that announce large frames and send a byte at a time."""
    context.only_corelog("Kafka allocates what a frame announces, and runs out of memory")
    count, seconds = (500, 8.0) if context.full else (150, 3.0)
    with Bystander(context) as other:
        slow = [dial(context) for _ in range(count)]
        head = struct.pack(">i", 90 << 20) + struct.pack(">hhi", PRODUCE, 7, 1)
        deadline, position = time.monotonic() + seconds, 0
        while time.monotonic() < deadline:
            for connection in slow:
                # The broker may have had enough of it: that is its right.
                with contextlib.suppress(OSError):
                    connection.sendall(head[position % len(head) : position % len(head) + 1])
            position += 1
            time.sleep(0.1)
        for connection in slow:
            connection.close()
        return f"{count} clients; {other.summary()}"


def unknown_apis(context: Context) -> str:
    """An unknown key or version closes the connection, except ApiVersions: error 35, version 0."""
    with Bystander(context) as other:
        for key, version in ((9_999, 0), (-1, 0), (METADATA, 99), (PRODUCE, 99), (FETCH, 0)):
            with dial(context) as connection:
                connection.sendall(raw.frame(key, version, 1, b""))
                expect_equal(
                    f"answer to key {key} version {version}", until_closed(connection), b""
                )
        with Connection(context.broker.port) as connection:
            # The byte is the flexible header's empty tag section.
            answer = connection.call(API_VERSIONS, 99, b"\0")
            error, count = struct.unpack_from(">hi", answer)
            expect_equal("ApiVersions 99: error", error, UNSUPPORTED_VERSION)
            keys = [struct.unpack_from(">hhh", answer, 6 + 6 * n) for n in range(count)]
            expect(any(key == API_VERSIONS for key, _, _ in keys), "no range for ApiVersions")
        return other.summary()


def bad_batches(context: Context) -> str:
    """Damaged batches are refused by error code; the log stays as it was."""
    topic = context.topic("bad-batches")
    good = raw.batch([(b"k", b"v"), (None, None)], 1_700_000_000_000)
    with Bystander(context) as other, Connection(context.broker.port) as connection:

        def refused(name: str, data: bytes, allowed: set[int]) -> None:
            answer = connection.produce(topic, 0, data)
            expect(
                answer.error in allowed, f"{name}: error {answer.error}, expected one of {allowed}"
            )

        flipped = bytearray(good)
        flipped[-1] ^= 1
        refused("bit flip", bytes(flipped), {2})
        refused("cut", good[:-1], {2, 87})
        refused("empty", b"", {2, 87})
        refused("header only", good[:61], {2, 87})
        refused("old magic", good[:16] + b"\x01" + good[17:], {2, 43, 76, 87})
        refused("count above the records", resealed(good, 57, struct.pack(">i", 3)), {2, 87})
        refused("count 2^31-1", resealed(good, 57, struct.pack(">i", INT32_MAX)), {2, 87})
        headers = raw.varint(9) + b"\0\0\0\x01\x01" + raw.varint(INT32_MAX)[:5]
        refused("record of 2^31-1 headers", sealed(good, headers, 1), {2, 87})
        refused("record longer than the batch", sealed(good, raw.varint(1 << 20), 1), {2, 87})
        refused("two batches", good + good, {2, 87})
        for mode in range(1, 8):
            name = f"noise as codec {mode}"
            # Kafka has no better word than -1 for bytes that its decompressor refuses.
            allowed = {2, 76, 87} if context.broker.launch.is_corelog else {-1, 2, 76, 87}
            noise = random.Random(mode).randbytes(200)
            refused(name, sealed(good, noise, 2, mode), allowed)
        expect_equal(
            "produced after all that", connection.produce(topic, 0, good), raw.Produced(0, 0)
        )
        return other.summary()


def decompression_bomb(context: Context) -> str:
    """Half a megabyte of gzip that grows a thousandfold costs time, never memory."""
    topic = context.topic("bomb")
    value_bytes = (500 if context.full else 100) << 20
    record = b"\0\0\0\x01" + raw.varint(value_bytes)
    pack = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = pack.compress(raw.varint(len(record) + value_bytes + 1) + record)
    zeros = bytes(1 << 20)
    for _ in range(value_bytes >> 20):
        data += pack.compress(zeros)
    data += pack.compress(b"\0") + pack.flush()
    bomb = sealed(raw.batch([(None, b"")], 1_700_000_000_000), data, 1, 1)
    with Bystander(context) as other, Connection(context.broker.port, 60.0) as connection:
        answer = connection.produce(topic, 0, bomb)
        summary = other.summary()
    # Kafka's dump-log takes a batch apart in memory, and its default heap is smaller than this one.
    client = clients.admin(context.bootstrap)
    client.delete_topics([topic])[topic].result(30)
    return f"{len(data)} → {value_bytes} bytes, error {answer.error}; {summary}"


def resealed(batch: bytes, position: int, patch: bytes) -> bytes:
    """A batch with bytes replaced inside the CRC's region and the CRC made right again."""
    changed = batch[21:position] + patch + batch[position + len(patch) :]
    return batch[:17] + struct.pack(">I", raw.crc32c(changed)) + changed


def sealed(batch: bytes, records: bytes, count: int, codec: int = 0) -> bytes:
    """A batch with the header of another, other record bytes, and a right length and CRC."""
    tail = struct.pack(">hi", codec, count - 1) + batch[27:57] + struct.pack(">i", count) + records
    head = batch[:8] + struct.pack(">i", 9 + len(tail)) + batch[12:17]
    return head + struct.pack(">I", raw.crc32c(tail)) + tail


def alive(check: Callable[[Context], str | None]) -> Check:
    """Wraps a check: the process that served it must be the same, alive, afterwards."""

    def wrapped(context: Context) -> str | None:
        pid = context.broker.pid
        detail = check(context)
        process = context.broker.process
        expect(
            process is not None and process.poll() is None,
            f"the broker ended: {context.broker.tail()}",
        )
        expect_equal("pid", context.broker.pid, pid)
        if context.broker.launch.is_corelog:
            # A panic that closed one connection keeps the process alive; it is a bug all the same.
            panics = context.broker.metrics().get("corelog_panics_total")
            expect_equal("corelog_panics_total", panics, 0)
        return detail

    return wrapped


CHECKS: dict[str, Check] = {
    "bad-random-bytes": alive(random_bytes),
    "bad-random-bodies": alive(random_bodies),
    "bad-tls-http": alive(tls_and_http),
    "bad-claimed-lengths": alive(claimed_lengths),
    "bad-claimed-arrays": alive(claimed_arrays),
    "bad-unknown-apis": alive(unknown_apis),
    "bad-batches": alive(bad_batches),
    "bad-bomb": alive(decompression_bomb),
    "bad-half-closed": alive(half_closed),
    "bad-unread-answers": alive(unread_answers),
    "bad-slow-senders": alive(slow_senders),
}
