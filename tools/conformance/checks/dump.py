"""After a clean stop: what the files hold, judged by Kafka's dump-log and by ours."""

import re
from collections import Counter

from harness.dump_judge import judge_logs
from harness.kafka_tools import run
from harness.report import Skipped, expect, expect_equal

from . import Check, Context


def stop(context: Context) -> str:
    """SIGTERM ends the broker with exit code 0 (143 on the JVM)."""
    code = context.broker.terminate()
    expect(code == (0 if context.broker.launch.is_corelog else 143), f"exit code {code}")
    return f"exit code {code}"


def codecs(context: Context) -> str:
    """Every batch of a topic made with a codec carries that codec, says Kafka's dump-log."""
    if not context.codecs:
        raise Skipped("no check with a codec ran")
    files = {
        topic: sorted(context.broker.topics_dir.glob(f"{topic}-*/*.log"))
        for topic in context.codecs
    }
    judged = judge_logs([file for of_topic in files.values() for file in of_topic])
    for topic, codec in context.codecs.items():
        found = sum((judged.codecs[file] for file in files[topic]), Counter())
        expect_equal(f"codecs of {topic}", set(found), {codec})
    return f"{len(context.codecs)} topics"


def own_dump(context: Context) -> str:
    """`corelog log dump` says the same codecs, and `log verify` finds nothing wrong."""
    context.only_corelog("our own tool")
    binary = str(context.broker.launch.binary)
    for topic, codec in context.codecs.items():
        for file in sorted(context.broker.topics_dir.glob(f"{topic}-*/*.log")):
            text = run([binary, "log", "dump", "-o", "json", str(file)])
            found = re.findall(r'"codec":\s*"(\w+)"', text)
            if file.stat().st_size:
                expect_equal(f"codecs of {file.name} of {topic}", set(found), {codec})
    run([binary, "log", "verify", str(context.broker.data_dir)])
    return f"{len(context.codecs)} topics"


def everything(context: Context) -> str:
    """Every segment that the checks left behind is whole, says Kafka's dump-log."""
    found = judge_logs(sorted(context.broker.topics_dir.glob("*/*.log")))
    expect(found.record_count > 0, "no record in any segment")
    return f"{found.record_count} records in {found.file_count} segments"


CHECKS: dict[str, Check] = {"dump-codecs": codecs, "dump-own": own_dump, "dump-all": everything}
