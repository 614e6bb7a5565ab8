"""aiokafka: asyncio, records parsed by C extensions."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from common import Client, Record, main

READ_SECONDS_MAX = 60


class AioKafka(Client):
    """See `Client`."""

    version = aiokafka.__version__
    sends_nothing = False

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.loop = asyncio.new_event_loop()
        self.admin = self._run(self._admin())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 120))

    async def _admin(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        return admin

    def create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        new = NewTopic(topic, partitions, 1, topic_configs=configs)
        for row in self._run(self.admin.create_topics([new])).topic_errors:
            if row[1]:
                raise RuntimeError(f"create: {row}")

    def produce(self, topic: str, records: list[Record], codec: str, idempotent: bool) -> None:
        self._run(self._produce(topic, records, codec, idempotent))

    async def _produce(
        self, topic: str, records: list[Record], codec: str, idempotent: bool
    ) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=50,
            max_request_size=12 << 20,
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    topic,
                    one.value,
                    one.key,
                    partition=0,
                    timestamp_ms=one.timestamp_ms,
                    headers=list(one.headers),
                )
                for one in records
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    async def _consumer(self, topic: str) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=None, max_partition_fetch_bytes=12 << 20
        )
        await consumer.start()
        consumer.assign([TopicPartition(topic, 0)])
        return consumer

    def consume(self, topic: str, count: int) -> list[Record]:
        found: list[Record] = self._run(self._consume(topic, count))
        return found

    async def _consume(self, topic: str, count: int) -> list[Record]:
        consumer, found = await self._consumer(topic), []
        try:
            consumer.seek(TopicPartition(topic, 0), 0)
            deadline = self.loop.time() + READ_SECONDS_MAX
            while len(found) < count and self.loop.time() < deadline:
                for messages in (await consumer.getmany(timeout_ms=500)).values():
                    for one in messages:
                        headers = tuple((name, value) for name, value in one.headers)
                        found.append(Record(one.key, one.value, headers, one.timestamp))
        finally:
            await consumer.stop()
        return found

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        async def ask() -> int | None:
            consumer, place = await self._consumer(topic), TopicPartition(topic, 0)
            try:
                found = (await consumer.offsets_for_times({place: timestamp_ms}))[place]
            finally:
                await consumer.stop()
            return None if found is None else found.offset

        offset: int | None = self._run(ask())
        return offset

    def ends(self, topic: str) -> tuple[int, int]:
        async def ask() -> tuple[int, int]:
            consumer, place = await self._consumer(topic), TopicPartition(topic, 0)
            try:
                first = (await consumer.beginning_offsets([place]))[place]
                return first, (await consumer.end_offsets([place]))[place]
            finally:
                await consumer.stop()

        found: tuple[int, int] = self._run(ask())
        return found

    def partitions(self, topic: str) -> int:
        return len(self._run(self.admin.describe_topics([topic]))[0]["partitions"])

    def set_config(self, topic: str, key: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        for answer in self._run(self.admin.alter_configs([resource])):
            if answer.resources[0][0]:
                raise RuntimeError(f"alter: {answer}")

    def config(self, topic: str, key: str) -> str | None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        for answer in self._run(self.admin.describe_configs([resource])):
            for entry in answer.resources[0][4]:
                if entry[0] == key:
                    value: str | None = entry[1]
                    return value
        return None

    def add_partitions(self, topic: str, total: int) -> None:
        answer = self._run(self.admin.create_partitions({topic: NewPartitions(total)}))
        if answer.topic_errors[0][1]:
            raise RuntimeError(f"create partitions: {answer}")

    def delete(self, topic: str) -> None:
        for row in self._run(self.admin.delete_topics([topic])).topic_error_codes:
            if row[1]:
                raise RuntimeError(f"delete: {row}")

    def topics(self) -> list[str]:
        names: list[str] = self._run(self.admin.list_topics())
        return names


if __name__ == "__main__":
    main(AioKafka)
