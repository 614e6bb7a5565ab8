import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client of the matrix, compiled once and run with the jars of a new and of an old release.
 *
 * <p>Usage: Client BOOTSTRAP PREFIX. The same features as ../python/common.py, told as JSON lines.
 */
public final class Client {
  private static final int RECORDS = 100;
  private static final long STEP_MS = 60_000;
  private static final long STAMP_MS = System.currentTimeMillis() - 7_200_000;
  private static final Duration WITHIN = Duration.ofSeconds(60);

  private final Map<String, Object> settings;
  private final String prefix;
  private final Admin admin;

  private interface Check {
    void run() throws Exception;
  }

  private Client(String bootstrap, String prefix) {
    this.settings = Map.of("bootstrap.servers", bootstrap);
    this.prefix = prefix;
    this.admin = Admin.create(settings);
  }

  public static void main(String[] arguments) throws IOException {
    Client client = new Client(arguments[0], arguments[1]);
    System.out.println("{\"version\": \"" + version() + "\"}");
    client.everything();
    client.admin.close();
  }

  private static String version() throws IOException {
    Properties properties = new Properties();
    try (InputStream in = Admin.class.getResourceAsStream("/kafka/kafka-version.properties")) {
      properties.load(in);
    }
    return properties.getProperty("version");
  }

  private void everything() {
    String topic = prefix + "-admin";
    attempt("create", () -> create(topic, 2, Map.of("retention.ms", "-1")));
    attempt("describe", () -> expect(partitions(topic), 2, "partitions"));
    attempt("configs", () -> configs(topic));
    attempt("partitions", () -> grow(topic));
    attempt("delete", () -> delete(topic));
    for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
      attempt("codec-" + codec, () -> {
        create(prefix + "-" + codec, 1, Map.of("retention.ms", "-1"));
        roundTrip(prefix + "-" + codec, numbered(prefix + "-" + codec), codec, false);
      });
    }
    attempt("headers", this::headers);
    attempt("large", this::large);
    attempt("times", this::times);
    attempt("ends", this::ends);
    attempt("idempotent", () -> {
      create(prefix + "-idempotent", 1, Map.of());
      roundTrip(prefix + "-idempotent", numbered(prefix + "-idempotent"), "none", true);
    });
  }

  private static void attempt(String feature, Check check) {
    String text = "";
    try {
      check.run();
    } catch (Exception | AssertionError error) {
      error.printStackTrace();
      text = error.toString().replaceAll("[^ -~]|[\"\\\\]", " ");
      text = text.substring(0, Math.min(600, text.length()));
    }
    System.out.printf("{\"feature\": \"%s\", \"passed\": %b, \"text\": \"%s\"}%n", feature, text.isEmpty(), text);
  }

  private static void expect(Object found, Object expected, String what) {
    if (!Objects.equals(found, expected)) {
      throw new AssertionError(what + ": found " + found + ", expected " + expected);
    }
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private void create(String topic, int partitions, Map<String, String> configs) throws Exception {
    admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
  }

  private int partitions(String topic) throws Exception {
    return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
  }

  private String retention(ConfigResource resource) throws Exception {
    return admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
  }

  private void configs(String topic) throws Exception {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    expect(retention(resource), "-1", "retention.ms as created");
    AlterConfigOp set = new AlterConfigOp(new ConfigEntry("retention.ms", "86400000"), AlterConfigOp.OpType.SET);
    admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
    expect(retention(resource), "86400000", "as changed");
  }

  private void grow(String topic) throws Exception {
    admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
    expect(partitions(topic), 5, "partitions");
  }

  private void delete(String topic) throws Exception {
    admin.deleteTopics(List.of(topic)).all().get();
    expect(admin.listTopics().names().get().contains(topic), false, "the topic is there");
  }

  private static List<ProducerRecord<byte[], byte[]>> numbered(String topic) {
    List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
    for (int n = 0; n < RECORDS; n++) {
      byte[] value = bytes("value-" + n + " " + "x".repeat(200));
      List<Header> headers = List.of(new RecordHeader("n", bytes("" + n)));
      records.add(new ProducerRecord<>(topic, 0, null, bytes("key-" + n), value, headers));
    }
    return records;
  }

  private void roundTrip(
      String topic, List<ProducerRecord<byte[], byte[]>> records, String codec, boolean idempotent) throws Exception {
    Map<String, Object> config = new HashMap<>(settings);
    config.putAll(Map.of("compression.type", codec, "enable.idempotence", idempotent, "acks", "all", "linger.ms", 50));
    config.putAll(Map.of("max.request.size", 12 << 20));
    ByteArraySerializer out = new ByteArraySerializer();
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, out, out)) {
      List<Future<RecordMetadata>> sent = new ArrayList<>();
      for (ProducerRecord<byte[], byte[]> record : records) {
        sent.add(producer.send(record));
      }
      for (int n = 0; n < sent.size(); n++) {
        expect(sent.get(n).get().offset(), (long) n, "offset");
      }
    }
    List<ConsumerRecord<byte[], byte[]>> found = read(topic, records.size());
    expect(found.size(), records.size(), "records");
    for (int n = 0; n < records.size(); n++) {
      same(found.get(n), records.get(n), n);
    }
  }

  private static void same(ConsumerRecord<byte[], byte[]> found, ProducerRecord<byte[], byte[]> sent, int n) {
    boolean equal = Arrays.equals(found.key(), sent.key()) && Arrays.equals(found.value(), sent.value());
    equal &= found.headers().equals(sent.headers());
    equal &= sent.timestamp() == null || sent.timestamp() == found.timestamp();
    expect(equal, true, "record " + n + " came back as it was sent");
  }

  private KafkaConsumer<byte[], byte[]> consumer() {
    Map<String, Object> config = new HashMap<>(settings);
    config.putAll(Map.of("max.partition.fetch.bytes", 12 << 20, "enable.auto.commit", false));
    ByteArrayDeserializer in = new ByteArrayDeserializer();
    return new KafkaConsumer<>(config, in, in);
  }

  private List<ConsumerRecord<byte[], byte[]>> read(String topic, int count) {
    List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
    TopicPartition place = new TopicPartition(topic, 0);
    long deadline = System.nanoTime() + WITHIN.toNanos();
    try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
      consumer.assign(List.of(place));
      consumer.seek(place, 0);
      while (found.size() < count && System.nanoTime() < deadline) {
        consumer.poll(Duration.ofMillis(200)).forEach(found::add);
      }
    }
    return found;
  }

  private void headers() throws Exception {
    String topic = prefix + "-headers";
    create(topic, 1, Map.of());
    List<Header> headers = List.of(
        new RecordHeader("a", bytes("1")), new RecordHeader("a", bytes("2")),
        new RecordHeader("", new byte[0]), new RecordHeader("null", (byte[]) null));
    List<Header> wide = List.of(new RecordHeader("grüße", bytes("größe")));
    roundTrip(topic, List.of(
        new ProducerRecord<>(topic, 0, null, bytes("no key")),
        new ProducerRecord<>(topic, 0, bytes("no value"), null),
        new ProducerRecord<>(topic, 0, null, null),
        new ProducerRecord<>(topic, 0, new byte[0], new byte[0]),
        new ProducerRecord<>(topic, 0, null, bytes("k"), bytes("v"), headers),
        new ProducerRecord<>(topic, 0, null, bytes("k"), new byte[] {0, -1}, wide)), "none", false);
  }

  private void large() throws Exception {
    String topic = prefix + "-large";
    create(topic, 1, Map.of("max.message.bytes", "11534336"));
    byte[] value = new byte[10 << 20];
    for (int n = 0; n < value.length; n++) {
      value[n] = (byte) n;
    }
    roundTrip(topic, List.of(new ProducerRecord<>(topic, 0, bytes("large"), value)), "none", false);
  }

  private void times() throws Exception {
    String topic = prefix + "-times";
    create(topic, 1, Map.of("retention.ms", "-1"));
    List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
    for (int n = 0; n < 10; n++) {
      records.add(new ProducerRecord<>(topic, 0, STAMP_MS + n * STEP_MS, bytes("k"), bytes("" + n)));
    }
    roundTrip(topic, records, "none", false);
    expect(offsetAt(topic, STAMP_MS + 3 * STEP_MS), Optional.of(3L), "at the time of offset 3");
    expect(offsetAt(topic, STAMP_MS + 3 * STEP_MS + 1), Optional.of(4L), "a millisecond later");
    expect(offsetAt(topic, STAMP_MS - 1), Optional.of(0L), "before the first");
    expect(offsetAt(topic, STAMP_MS + 100 * STEP_MS), Optional.empty(), "after the last");
  }

  private Optional<Long> offsetAt(String topic, long timestampMs) {
    TopicPartition place = new TopicPartition(topic, 0);
    try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
      return Optional.ofNullable(consumer.offsetsForTimes(Map.of(place, timestampMs)).get(place)).map(found -> found.offset());
    }
  }

  private void ends() throws Exception {
    TopicPartition place = new TopicPartition(prefix + "-times", 0);
    expect(admin.listOffsets(Map.of(place, OffsetSpec.earliest())).all().get().get(place).offset(), 0L, "first");
    expect(admin.listOffsets(Map.of(place, OffsetSpec.latest())).all().get().get(place).offset(), 10L, "next");
    long newest = admin.listOffsets(Map.of(place, OffsetSpec.maxTimestamp())).all().get().get(place).offset();
    expect(newest, 9L, "of the newest time");
  }
}
