"""kafka-python, pure Python."""

import time

import kafka
from common import Client, Record, main
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

READ_SECONDS_MAX = 60


class KafkaPython(Client):
    """See `Client`."""

    version = kafka.__version__
    sends_nothing = False
    sends_null_headers = False

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        new = NewTopic(
            name=topic, num_partitions=partitions, replication_factor=1, topic_configs=configs
        )
        self.admin.create_topics([new])

    def produce(self, topic: str, records: list[Record], codec: str, idempotent: bool) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=50,
            max_request_size=12 << 20,
        )
        sent = [
            producer.send(
                topic,
                one.value,
                one.key,
                headers=list(one.headers),
                partition=0,
                timestamp_ms=one.timestamp_ms,
            )
            for one in records
        ]
        for future in sent:
            future.get(60)
        producer.close()

    def _consumer(self, topic: str) -> KafkaConsumer:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=None, max_partition_fetch_bytes=12 << 20
        )
        consumer.assign([TopicPartition(topic, 0)])
        return consumer

    def consume(self, topic: str, count: int) -> list[Record]:
        consumer, found = self._consumer(topic), []
        consumer.seek(TopicPartition(topic, 0), 0)
        deadline = time.monotonic() + READ_SECONDS_MAX
        while len(found) < count and time.monotonic() < deadline:
            for messages in consumer.poll(timeout_ms=500).values():
                for one in messages:
                    headers = tuple((name, value) for name, value in one.headers)
                    found.append(Record(one.key, one.value, headers, one.timestamp))
        consumer.close()
        return found

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        consumer, place = self._consumer(topic), TopicPartition(topic, 0)
        found = consumer.offsets_for_times({place: timestamp_ms})[place]
        consumer.close()
        return None if found is None or found.offset < 0 else found.offset

    def ends(self, topic: str) -> tuple[int, int]:
        consumer, place = self._consumer(topic), TopicPartition(topic, 0)
        found = consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]
        consumer.close()
        return found

    def partitions(self, topic: str) -> int:
        return len(self.admin.describe_topics([topic])[0]["partitions"])

    def set_config(self, topic: str, key: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        self.admin.alter_configs([resource])

    def config(self, topic: str, key: str) -> str | None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self.admin.describe_configs([resource], config_filter="all")
        return _value_of(found, key)

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions({topic: NewPartitions(total_count=total)})

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])

    def topics(self) -> list[str]:
        return list(self.admin.list_topics())


def _value_of(found: object, key: str) -> str | None:
    """The value of a key, wherever in nested dicts it stands."""
    if isinstance(found, dict):
        if key in found:
            inner = found[key]
            return inner["value"] if isinstance(inner, dict) else inner
        values = list(found.values())
    else:
        values = found if isinstance(found, list) else []
    for value in values:
        if (inner := _value_of(value, key)) is not None:
            return inner
    return None


if __name__ == "__main__":
    main(KafkaPython)
