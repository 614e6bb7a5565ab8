package main

import (
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// segmentio is segmentio/kafka-go. It has no idempotent producer.
type segmentio struct {
	bootstrap string
	base      *kafka.Client
}

func newSegmentio(bootstrap string) (client, error) {
	return &segmentio{bootstrap, &kafka.Client{Addr: kafka.TCP(bootstrap), Timeout: time.Minute}}, nil
}

func (s *segmentio) create(topic string, partitions int, configs map[string]string) error {
	config := kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}
	for key, value := range configs {
		config.ConfigEntries = append(config.ConfigEntries, kafka.ConfigEntry{ConfigName: key, ConfigValue: value})
	}
	answer, err := s.base.CreateTopics(within(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (s *segmentio) produce(topic string, records []record, codec string, idempotent bool) error {
	if idempotent {
		return errNone
	}
	writer := &kafka.Writer{
		Addr: kafka.TCP(s.bootstrap), Topic: topic, RequiredAcks: kafka.RequireAll, BatchBytes: 11 << 20,
		BatchTimeout: 50 * time.Millisecond,
		Compression: map[string]kafka.Compression{
			"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
		}[codec],
	}
	defer writer.Close()
	var out []kafka.Message
	for _, one := range records {
		next := kafka.Message{Key: one.key, Value: one.value}
		if one.timestampMs != 0 {
			next.Time = time.UnixMilli(one.timestampMs)
		}
		for _, h := range one.headers {
			next.Headers = append(next.Headers, kafka.Header{Key: h.name, Value: h.value})
		}
		out = append(out, next)
	}
	return writer.WriteMessages(within(), out...)
}

func (s *segmentio) consume(topic string, count int) ([]record, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{s.bootstrap}, Topic: topic, Partition: 0, MaxBytes: 12 << 20, MaxWait: 100 * time.Millisecond,
	})
	defer reader.Close()
	var found []record
	for ctx := within(); len(found) < count; {
		one, err := reader.ReadMessage(ctx)
		if err != nil {
			return found, err
		}
		next := record{key: one.Key, value: one.Value, timestampMs: one.Time.UnixMilli()}
		for _, h := range one.Headers {
			next.headers = append(next.headers, header{h.Key, h.Value})
		}
		found = append(found, next)
	}
	return found, nil
}

func (s *segmentio) listed(topic string, ask kafka.OffsetRequest) (kafka.PartitionOffsets, error) {
	request := kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {ask}}}
	answer, err := s.base.ListOffsets(within(), &request)
	if err != nil {
		return kafka.PartitionOffsets{}, err
	}
	return answer.Topics[topic][0], answer.Topics[topic][0].Error
}

func (s *segmentio) offsetAt(topic string, timestampMs int64) (int64, error) {
	found, err := s.listed(topic, kafka.TimeOffsetOf(0, time.UnixMilli(timestampMs)))
	for offset := range found.Offsets {
		return offset, err
	}
	return -1, err
}

func (s *segmentio) ends(topic string) (int64, int64, error) {
	first, err := s.listed(topic, kafka.FirstOffsetOf(0))
	if err != nil {
		return 0, 0, err
	}
	next, err := s.listed(topic, kafka.LastOffsetOf(0))
	return first.FirstOffset, next.LastOffset, err
}

func (s *segmentio) metadata(topics ...string) ([]kafka.Topic, error) {
	answer, err := s.base.Metadata(within(), &kafka.MetadataRequest{Topics: topics})
	if err != nil {
		return nil, err
	}
	return answer.Topics, nil
}

func (s *segmentio) partitions(topic string) (int, error) {
	found, err := s.metadata(topic)
	if err != nil {
		return 0, err
	}
	return len(found[0].Partitions), found[0].Error
}

func (s *segmentio) setConfig(topic, key, value string) error {
	resource := kafka.IncrementalAlterConfigsRequestResource{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
		Configs: []kafka.IncrementalAlterConfigsRequestConfig{
			{Name: key, Value: value, ConfigOperation: kafka.ConfigOperationSet},
		},
	}
	request := kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{resource},
	}
	answer, err := s.base.IncrementalAlterConfigs(within(), &request)
	if err != nil {
		return err
	}
	return answer.Resources[0].Error
}

func (s *segmentio) config(topic, key string) (string, error) {
	resource := kafka.DescribeConfigRequestResource{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{key},
	}
	request := kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{resource}}
	answer, err := s.base.DescribeConfigs(within(), &request)
	if err != nil {
		return "", err
	}
	if len(answer.Resources) != 1 || len(answer.Resources[0].ConfigEntries) != 1 {
		return "", fmt.Errorf("not one entry: %v", answer.Resources)
	}
	return answer.Resources[0].ConfigEntries[0].ConfigValue, answer.Resources[0].Error
}

func (s *segmentio) addPartitions(topic string, total int) error {
	request := kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: int32(total)}},
	}
	answer, err := s.base.CreatePartitions(within(), &request)
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (s *segmentio) remove(topic string) error {
	answer, err := s.base.DeleteTopics(within(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (s *segmentio) topics() ([]string, error) {
	found, err := s.metadata()
	var names []string
	for _, one := range found {
		names = append(names, one.Name)
	}
	return names, err
}
