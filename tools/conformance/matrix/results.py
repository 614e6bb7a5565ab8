"""What the client matrix records: client → version and features, passed (true) or failed (false)."""

from pathlib import Path
from typing import TypedDict

RESULTS = Path(__file__).with_name("results.json")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# By the name under which a client's program reports it; the heading in docs/compatibility.md.
FEATURES = {
    **{f"codec-{codec}": codec for codec in CODECS},
    "headers": "keys, headers, nulls",
    "large": "10 MB",
    "times": "offsets by time",
    "ends": "first and last offset",
    "idempotent": "idempotent",
    "create": "create",
    "describe": "describe",
    "configs": "configs",
    "partitions": "add partitions",
    "delete": "delete",
}


class ClientResult(TypedDict):
    """One client."""

    version: str
    features: dict[str, bool]


Results = dict[str, ClientResult]
