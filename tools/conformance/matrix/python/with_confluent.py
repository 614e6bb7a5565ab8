"""confluent-kafka (librdkafka), the newest and an old one."""

import time

import confluent_kafka
from common import Client, Record, main
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

READ_SECONDS_MAX = 60


class Confluent(Client):
    """See `Client`."""

    version = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"

    def __init__(self, bootstrap: str) -> None:
        self.settings = {"bootstrap.servers": bootstrap, "log_level": 2}
        self.admin = AdminClient(self.settings)

    def create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=configs)
        self.admin.create_topics([new])[topic].result(30)

    def produce(self, topic: str, records: list[Record], codec: str, idempotent: bool) -> None:
        errors: list[object] = []
        producer = Producer(
            {
                **self.settings,
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 50,
                "message.max.bytes": 11 << 20,
            }
        )
        for one in records:
            more = {} if one.timestamp_ms is None else {"timestamp": one.timestamp_ms}
            producer.produce(
                topic,
                one.value,
                one.key,
                partition=0,
                headers=list(one.headers),
                on_delivery=lambda error, _: errors.append(error) if error else None,
                **more,
            )
        left = producer.flush(60)
        if left or errors:
            raise RuntimeError(f"{left} left, errors {errors[:3]}")

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                **self.settings,
                "group.id": "matrix",
                "enable.auto.commit": False,
                "check.crcs": True,
                "fetch.message.max.bytes": 12 << 20,
            }
        )

    def consume(self, topic: str, count: int) -> list[Record]:
        consumer, found = self._consumer(), []
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + READ_SECONDS_MAX
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(count, 0.2):
                if message.error():
                    raise KafkaException(message.error())
                headers = tuple((name, value) for name, value in message.headers() or ())
                stamp = message.timestamp()[1]
                found.append(Record(message.key(), message.value(), headers, stamp))
        consumer.close()
        return found

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        consumer = self._consumer()
        offset = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp_ms)], 30)[0].offset
        consumer.close()
        return None if offset < 0 else offset

    def ends(self, topic: str) -> tuple[int, int]:
        consumer = self._consumer()
        first, last = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.close()
        return first, last

    def partitions(self, topic: str) -> int:
        return len(self.admin.list_topics(topic, timeout=30).topics[topic].partitions)

    def set_config(self, topic: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(30)

    def config(self, topic: str, key: str) -> str | None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        for future in self.admin.describe_configs([resource]).values():
            value: str | None = future.result(30)[key].value
        return value

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(30)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(30)

    def topics(self) -> list[str]:
        return list(self.admin.list_topics(timeout=30).topics)


if __name__ == "__main__":
    main(Confluent)
