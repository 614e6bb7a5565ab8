package main

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// ibm is IBM/sarama.
type ibm struct {
	brokers []string
	admin   sarama.ClusterAdmin
	base    sarama.Client
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_9_0_0
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.MaxMessageBytes = 11 << 20
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Frequency = 50 * time.Millisecond
	config.Consumer.Fetch.Default = 12 << 20
	config.Metadata.RefreshFrequency = time.Second
	return config
}

func newSarama(bootstrap string) (client, error) {
	brokers := []string{bootstrap}
	admin, err := sarama.NewClusterAdmin(brokers, saramaConfig())
	if err != nil {
		return nil, err
	}
	base, err := sarama.NewClient(brokers, saramaConfig())
	return &ibm{brokers, admin, base}, err
}

func (s *ibm) create(topic string, partitions int, configs map[string]string) error {
	entries := map[string]*string{}
	for key, value := range configs {
		entries[key] = &value
	}
	detail := sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1, ConfigEntries: entries}
	return s.admin.CreateTopic(topic, &detail, false)
}

func (s *ibm) produce(topic string, records []record, codec string, idempotent bool) error {
	config := saramaConfig()
	config.Producer.Compression = map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}[codec]
	config.Producer.Idempotent = idempotent
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(s.brokers, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	var out []*sarama.ProducerMessage
	for _, one := range records {
		next := &sarama.ProducerMessage{Topic: topic, Partition: 0}
		// No encoder is null; an encoder of nothing is empty.
		if one.key != nil {
			next.Key = sarama.ByteEncoder(one.key)
		}
		if one.value != nil {
			next.Value = sarama.ByteEncoder(one.value)
		}
		if one.timestampMs != 0 {
			next.Timestamp = time.UnixMilli(one.timestampMs)
		}
		for _, h := range one.headers {
			next.Headers = append(next.Headers, sarama.RecordHeader{Key: []byte(h.name), Value: h.value})
		}
		out = append(out, next)
	}
	return producer.SendMessages(out)
}

func (s *ibm) consume(topic string, count int) ([]record, error) {
	consumer, err := sarama.NewConsumer(s.brokers, saramaConfig())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	var found []record
	for late := time.After(time.Minute); len(found) < count; {
		select {
		case one := <-partition.Messages():
			next := record{key: one.Key, value: one.Value, timestampMs: one.Timestamp.UnixMilli()}
			for _, h := range one.Headers {
				next.headers = append(next.headers, header{string(h.Key), h.Value})
			}
			found = append(found, next)
		case <-late:
			return found, fmt.Errorf("%d of %d records after a minute", len(found), count)
		}
	}
	return found, nil
}

func (s *ibm) offsetAt(topic string, timestampMs int64) (int64, error) {
	return s.base.GetOffset(topic, 0, timestampMs)
}

func (s *ibm) ends(topic string) (int64, int64, error) {
	first, err := s.base.GetOffset(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return 0, 0, err
	}
	next, err := s.base.GetOffset(topic, 0, sarama.OffsetNewest)
	return first, next, err
}

func (s *ibm) partitions(topic string) (int, error) {
	found, err := s.admin.DescribeTopics([]string{topic})
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return len(found[0].Partitions), nil
}

func (s *ibm) setConfig(topic, key, value string) error {
	change := map[string]sarama.IncrementalAlterConfigsEntry{
		key: {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value},
	}
	return s.admin.IncrementalAlterConfig(sarama.TopicResource, topic, change, false)
}

func (s *ibm) config(topic, key string) (string, error) {
	resource := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{key}}
	entries, err := s.admin.DescribeConfig(resource)
	if err != nil {
		return "", err
	}
	if len(entries) != 1 {
		return "", fmt.Errorf("%d entries", len(entries))
	}
	return entries[0].Value, nil
}

func (s *ibm) addPartitions(topic string, total int) error {
	return s.admin.CreatePartitions(topic, int32(total), nil, false)
}

func (s *ibm) remove(topic string) error { return s.admin.DeleteTopic(topic) }

func (s *ibm) topics() ([]string, error) {
	details, err := s.admin.ListTopics()
	var names []string
	for name := range details {
		names = append(names, name)
	}
	return names, err
}
