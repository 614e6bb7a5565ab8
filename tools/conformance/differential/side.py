"""One of the two brokers: sends it a case, and brings its answer into a form that can be compared.

What must differ between two clusters is replaced by words: ids by the topic's name, ports, cluster
ids, producer ids, session ids, the words of error messages. Nothing else is.
"""

import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.broker import Broker
from harness.raw import Closed, string
from harness.report import CheckFailed

from . import schema
from .schema import Fields, Value

ZERO_ID = "00" * 16
# In a case's body: the id of the cluster that it goes to.
OWN_CLUSTER = "@cluster"
ANSWER_SECONDS_MAX = 30.0
FRAME_BYTES_MAX = 128 << 20
API_VERSIONS = 18

Body = Fields | bytes | Callable[["Side"], Fields | bytes]


@dataclass(frozen=True)
class Case:
    """One request. `body` is made per side where it needs that side's ids.

    `key` stands for the API's own key where a request must name another one; `silent` is a request
    that has no answer, so that the next one's answer is what comes; `seconds` is how long to wait.
    """

    api: str
    version: int
    what: str
    body: Body
    key: int | None = None
    silent: bool = False
    seconds: float = ANSWER_SECONDS_MAX

    @property
    def name(self) -> str:
        """What the table of differences calls it."""
        return f"{self.api}/{self.version}/{self.what}"


# Fields that hold the state of one cluster, by response: compared only for being there.
OF_THE_CLUSTER = {
    "DescribeQuorum": {
        "LeaderEpoch",
        "HighWatermark",
        "LogEndOffset",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
    },
    "ApiVersions": {"FinalizedFeaturesEpoch"},
    "DescribeLogDirs": {"LogDir", "TotalBytes", "UsableBytes"},
    "DescribeProducers": {"LastTimestamp"},
}


@dataclass
class Side:
    """A broker, a connection to it, and what it has named so far."""

    broker: Broker
    name_of_id: dict[str, str] = field(default_factory=dict)
    id_of_name: dict[str, str] = field(default_factory=dict)
    cluster_id: str = ""
    session_id: int = 0
    producer_id: int = -1
    _socket: socket.socket | None = None
    _correlation: int = 0

    def topic_id(self, name: str) -> str:
        """The id of a topic, asked for once; one that no topic has where there is none."""
        if name not in self.id_of_name:
            answer = self.call("Metadata", 12, {"Topics": [{"Name": name}]})
            for topic in answer["Topics"]:
                if topic["ErrorCode"] == 0:
                    self.learn(name, topic["TopicId"])
        return self.id_of_name.get(name, "ab" * 16)

    def learn(self, name: str, topic_id: str) -> None:
        """Remembers which topic has an id: from now on, and for the answers that still name it."""
        self.id_of_name[name] = topic_id
        self.name_of_id[topic_id] = name

    def call(self, api: str, version: int, body: Fields) -> Fields:
        """A request for this side's own purposes; its answer as it came."""
        data = self.exchange(Case(api, version, "own", body))
        return schema.response(api).decode(version, data)

    def answer(self, case: Case) -> Fields:
        """The normalised answer, or in what other way the request ended."""
        try:
            data = self.exchange(case)
        except (Closed, ConnectionError):
            self.close()
            return {"ended": "connection closed"}
        except TimeoutError:
            self.close()
            return {"ended": "no answer"}
        if case.silent:
            return {"ended": "without an answer"}
        version = case.version
        if case.api == "ApiVersions" and version not in schema.response(case.api).versions:
            version = 0  # What Kafka answers to a version that it does not know.
        message = schema.response(case.api)
        values = message.decode(version, data)
        if message.encode(version, values) != data:
            raise CheckFailed(f"not encoded as Kafka encodes it: {data.hex(' ', 4)}")
        self._remember(case, values)
        return self._struct(case.api, values)

    def exchange(self, case: Case) -> bytes:
        """Sends a case and returns the body of what comes back."""
        request = schema.request(case.api)
        body = case.body(self) if callable(case.body) else case.body
        if not isinstance(body, bytes):
            body = request.encode(case.version, self._with_ids(body))
        key = request.key if case.key is None else case.key
        flexible = case.version >= request.flexible_from
        self._correlation += 1
        self.socket().settimeout(case.seconds)
        head = struct.pack(">hhi", key, case.version, self._correlation) + string("differential")
        self._send(head + (b"\0" if flexible else b"") + body)
        if case.silent:
            self._correlation += 1
            head = struct.pack(">hhi", API_VERSIONS, 0, self._correlation) + string("differential")
            self._send(head)
            flexible = False
        data = self._receive()
        correlation = struct.unpack_from(">i", data)[0]
        if correlation != self._correlation:
            raise CheckFailed(f"correlation id {correlation}, expected {self._correlation}")
        # The header of ApiVersions' answer never has tagged fields.
        return data[5 if flexible and key != API_VERSIONS else 4 :]

    def socket(self) -> socket.socket:
        """The connection; a new one after it was closed."""
        if self._socket is None:
            self._socket = socket.create_connection(
                ("127.0.0.1", self.broker.port), ANSWER_SECONDS_MAX
            )
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def close(self) -> None:
        """Gives the connection up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def wait_for_leader(self, topic: str, partition: int) -> None:
        """Kafka answers CreateTopics before the partitions are led."""
        deadline = time.monotonic() + 60
        while True:
            partitions = [{"Partition": partition, "PartitionMaxBytes": 1}]
            topics = [{"Topic": topic, "Partitions": partitions}]
            answer = self.call("Fetch", 11, {"ReplicaId": -1, "Topics": topics})
            if answer["Responses"][0]["Partitions"][0]["ErrorCode"] == 0:
                return
            if time.monotonic() > deadline:
                raise CheckFailed(f"{topic}-{partition} gets no leader")
            time.sleep(0.02)

    def _send(self, frame: bytes) -> None:
        self.socket().sendall(struct.pack(">i", len(frame)) + frame)

    def _receive(self) -> bytes:
        size = struct.unpack(">i", self._exactly(4))[0]
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise CheckFailed(f"an answer of {size} bytes")
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self.socket().recv(min(count - len(data), 1 << 20))
            if not part:
                raise Closed
            data += part
        return bytes(data)

    def _with_ids(self, value: Value) -> Value:
        """Replaces `@name` in a TopicId, and the words for the session and the cluster."""
        if isinstance(value, list):
            return [self._with_ids(element) for element in value]
        if not isinstance(value, dict):
            own = {"@session": self.session_id, OWN_CLUSTER: self.cluster_id}
            return own.get(value, value) if isinstance(value, str) else value
        return {
            name: self.topic_id(inner[1:])
            if name == "TopicId" and inner.startswith("@")
            else self._with_ids(inner)
            for name, inner in value.items()
        }

    def _remember(self, case: Case, values: Fields) -> None:
        if case.api == "Fetch" and values.get("SessionId"):
            self.session_id = values["SessionId"]
        if case.api == "InitProducerId" and values["ErrorCode"] == 0:
            self.producer_id = values["ProducerId"]
        for topic in values.get("Topics") or ():
            if case.api == "CreateTopics" and topic.get("TopicId", ZERO_ID) != ZERO_ID:
                self.learn(topic["Name"], topic["TopicId"])

    def _struct(self, api: str, values: Fields) -> Fields:
        return {name: self._value(api, name, value) for name, value in values.items()}

    def _value(self, api: str, name: str, value: Value) -> Value:
        if isinstance(value, dict):
            return self._struct(api, value)
        if isinstance(value, list):
            values = [self._value(api, name, element) for element in value]
            # Kafka's order is that of a hash table.
            return sorted(values, key=repr) if name == "ActiveProducers" else values
        if name.endswith("Id") and isinstance(value, str) and len(value) == 32:
            unknown = "no id" if value == ZERO_ID else "an id"
            return f"id of {self.name_of_id[value]}" if value in self.name_of_id else unknown
        return self._masked(api, name, value)

    def _masked(self, api: str, name: str, value: Value) -> Value:
        if name.endswith("ErrorMessage") or name == "Documentation":
            return "a text" if value else value
        if name in OF_THE_CLUSTER.get(api, ()):
            return "unset" if value == -1 else "set"
        if name == "ClusterId":
            return "the cluster's" if value == self.cluster_id else value
        if name == "Port":
            return "the node's" if value == self.broker.port else value
        if name == "ProducerId":
            return "the producer's" if value == self.producer_id >= 0 else value
        if name == "SessionId":
            return "a session" if value else value
        return value
