"""Apache Kafka's own command-line tools, and kcat, as bounded subprocess calls."""

import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from .paths import KAFKA_SH, environment_for
from .report import CheckFailed, shorten

TOOL_SECONDS_MAX = 60.0
# Files a call of the dump tool: a JVM start costs a second, an argument list has a limit.
DUMP_FILES_PER_CALL = 200
# For so many files: the largest run dumps some gigabytes.
DUMP_SECONDS_MAX = 900.0


def run(command: Sequence[str], stdin: bytes = b"", seconds: float = TOOL_SECONDS_MAX) -> str:
    """Runs a command to its end and returns its stdout; anything but exit 0 fails the check."""
    done = run_any(command, stdin, seconds)
    if done.returncode != 0:
        text = shorten((done.stderr + done.stdout).decode(errors="replace"), 800)
        raise CheckFailed(f"{' '.join(command[:4])} …: exit code {done.returncode}: {text}")
    return done.stdout.decode(errors="replace")


def run_any(
    command: Sequence[str], stdin: bytes = b"", seconds: float = TOOL_SECONDS_MAX
) -> subprocess.CompletedProcess[bytes]:
    """Runs a command to its end, whatever its exit code; past `seconds` it fails the check."""
    try:
        return subprocess.run(
            list(command),
            input=stdin,
            capture_output=True,
            timeout=seconds,
            check=False,
            env=environment_for(command),
        )
    except subprocess.TimeoutExpired as late:
        output = shorten((late.stderr or b"") + (late.stdout or b""), 600)
        raise CheckFailed(
            f"{' '.join(command[:4])} …: not done after {seconds} s: {output}"
        ) from None


class KafkaTools:
    """Kafka's tools and kcat against one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def tool(self, verb: str, *arguments: str, stdin: bytes = b"", after: str = "") -> str:
        """`kafka.sh VERB [after] --bootstrap-server … arguments`."""
        words = [verb, after] if after else [verb]
        line = [*words, "--bootstrap-server", self.bootstrap, *arguments]
        return run([str(KAFKA_SH), *line], stdin)

    def refused(self, verb: str, *arguments: str) -> str:
        """What a tool says that must fail."""
        command = [str(KAFKA_SH), verb, "--bootstrap-server", self.bootstrap, *arguments]
        done = run_any(command)
        text = (done.stderr + done.stdout).decode(errors="replace")
        if done.returncode == 0:
            raise CheckFailed(f"{verb} {' '.join(arguments)}: went through: {shorten(text, 400)}")
        return text

    def kcat(self, *arguments: str, stdin: bytes = b"") -> str:
        """`kcat -b … arguments`, quiet."""
        return run(["kcat", "-q", "-b", self.bootstrap, *arguments], stdin)


def dump_log_lines(files: Sequence[Path], *arguments: str) -> Iterator[str]:
    """The lines of Kafka's dump-log over `files`, a few JVMs for all of them.

    Lines of stderr follow those of stdout: that is where an exception would be. (One pipe for both
    would cut lines in two.) The tool exits 0 even for damage, so callers judge lines; any other
    exit code fails the check here.
    """
    for start in range(0, len(files), DUMP_FILES_PER_CALL):
        chunk = files[start : start + DUMP_FILES_PER_CALL]
        names = ",".join(str(file) for file in chunk)
        command = [str(KAFKA_SH), "dump-log", *arguments, "--files", names]
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace"
            ) as process:
                assert process.stdout is not None
                # A tool that hangs is ended; its exit code then fails the check.
                limit = threading.Timer(DUMP_SECONDS_MAX, process.kill)
                limit.start()
                try:
                    for line in process.stdout:
                        yield line.rstrip("\n")
                finally:
                    limit.cancel()
            errors.seek(0)
            for line in errors:
                yield line.rstrip("\n")
        if process.returncode != 0:
            raise CheckFailed(f"dump-log: exit code {process.returncode} for {len(chunk)} files")
