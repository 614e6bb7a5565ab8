// kafkajs: produce and admin. Its consumer needs groups, which are not built yet, so what it wrote is read by
// matrix_run.py alone. The same features as ../python/common.py, told as JSON lines.
'use strict';

const { createRequire } = require('node:module');
const path = require('node:path');

// The packages lie in the cache, beside their lock file, and not in the repository.
const load = createRequire(path.join(process.env.MATRIX_MODULES, 'package.json'));
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = load('kafkajs');

const lz4 = load('lz4js');
const zstd = load('@bokuweb/zstd-wasm');

// kafkajs takes a codec as a function that makes one.
const codec = (compress, decompress) => () => ({
  compress: async (encoder) => Buffer.from(compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(decompress(buffer)),
});
CompressionCodecs[CompressionTypes.Snappy] = load('kafkajs-snappy');
CompressionCodecs[CompressionTypes.LZ4] = codec(lz4.compress, lz4.decompress);
CompressionCodecs[CompressionTypes.ZSTD] = codec(zstd.compress, zstd.decompress);

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};
const RECORDS = 100;
const STAMP_MS = Date.now() - 7_200_000;
const STEP_MS = 60_000;
const ALL = -1;

const [bootstrap, prefix] = process.argv.slice(2);
const kafka = new Kafka({ clientId: 'matrix', brokers: [bootstrap], logLevel: logLevel.NOTHING });
const admin = kafka.admin();

const tell = (fields) => console.log(JSON.stringify(fields));

function expect(found, expected, what) {
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    throw new Error(`${what}: found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);
  }
}

const numbered = () =>
  Array.from({ length: RECORDS }, (_, n) => ({
    key: `key-${n}`,
    value: `value-${n} ${'x'.repeat(200)}`,
    headers: { n: `${n}` },
    partition: 0,
  }));

async function create(topic, numPartitions = 1, configs = {}) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }));
  const topics = [{ topic, numPartitions, replicationFactor: 1, configEntries }];
  expect(await admin.createTopics({ topics }), true, 'created');
}

async function produce(topic, messages, compression = CompressionTypes.None, options = {}) {
  const producer = kafka.producer(options);
  await producer.connect();
  try {
    const [answer] = await producer.send({ topic, messages, compression, acks: ALL });
    expect(answer.errorCode, 0, 'error code');
    return Number(answer.baseOffset);
  } finally {
    await producer.disconnect();
  }
}

async function next(topic) {
  return Number((await admin.fetchTopicOffsets(topic))[0].high);
}

async function retention(topic) {
  const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic }];
  const answer = await admin.describeConfigs({ resources, includeSynonyms: true });
  return answer.resources[0].configEntries.find((one) => one.configName === 'retention.ms').configValue;
}

const partitionCount = async (topic) =>
  (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length;

const FEATURES = {
  create: () => create(`${prefix}-admin`, 2, { 'retention.ms': '-1' }),
  describe: async () => expect(await partitionCount(`${prefix}-admin`), 2, 'partitions'),
  configs: async () => {
    const name = `${prefix}-admin`;
    expect(await retention(name), '-1', 'retention.ms as created');
    const configEntries = [{ name: 'retention.ms', value: '86400000' }];
    await admin.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name, configEntries }] });
    expect(await retention(name), '86400000', 'as changed');
  },
  partitions: async () => {
    await admin.createPartitions({ topicPartitions: [{ topic: `${prefix}-admin`, count: 5 }] });
    expect(await partitionCount(`${prefix}-admin`), 5, 'partitions');
  },
  delete: async () => {
    await admin.deleteTopics({ topics: [`${prefix}-admin`] });
    expect((await admin.listTopics()).includes(`${prefix}-admin`), false, 'the topic is there');
  },
  large: async () => {
    await create(`${prefix}-large`, 1, { 'max.message.bytes': '11534336' });
    const value = Buffer.alloc(10 << 20, 'x');
    expect(await produce(`${prefix}-large`, [{ key: 'large', value, partition: 0 }]), 0, 'offset');
    expect(await next(`${prefix}-large`), 1, 'next offset');
  },
  times: async () => {
    const topic = `${prefix}-times`;
    await create(topic, 1, { 'retention.ms': '-1' });
    const messages = Array.from({ length: 10 }, (_, n) => ({
      value: `${n}`,
      timestamp: `${STAMP_MS + n * STEP_MS}`,
      partition: 0,
    }));
    await produce(topic, messages);
    for (const [shift, offset] of [[3 * STEP_MS, '3'], [3 * STEP_MS + 1, '4'], [-1, '0']]) {
      const found = await admin.fetchTopicOffsetsByTimestamp(topic, STAMP_MS + shift);
      expect(found[0].offset, offset, `at ${shift}`);
    }
  },
  ends: async () => {
    const [found] = await admin.fetchTopicOffsets(`${prefix}-times`);
    expect([found.low, found.high], ['0', '10'], 'offsets');
  },
  idempotent: async () => {
    await create(`${prefix}-idempotent`);
    await produce(`${prefix}-idempotent`, numbered(), CompressionTypes.None, { idempotent: true });
    expect(await next(`${prefix}-idempotent`), RECORDS, 'next offset');
  },
};
for (const [name, compression] of Object.entries(CODECS)) {
  FEATURES[`codec-${name}`] = async () => {
    await create(`${prefix}-${name}`, 1, { 'retention.ms': '-1' });
    expect(await produce(`${prefix}-${name}`, numbered(), compression), 0, 'offset');
  };
}

async function main() {
  tell({ version: load('kafkajs/package.json').version });
  await zstd.init();
  await admin.connect();
  for (const [feature, check] of Object.entries(FEATURES)) {
    try {
      await check();
      tell({ feature, passed: true, text: '' });
    } catch (error) {
      console.error(error);
      tell({ feature, passed: false, text: `${error.name}: ${error.message}`.slice(0, 600) });
    }
  }
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
