package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz is franz-go, with its admin package.
type franz struct {
	bootstrap string
	admin     *kadm.Client
}

func newFranz(bootstrap string) (client, error) {
	base, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		return nil, err
	}
	return &franz{bootstrap, kadm.NewClient(base)}, nil
}

// within bounds one call.
func within() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	time.AfterFunc(time.Minute, cancel)
	return ctx
}

func (f *franz) create(topic string, partitions int, configs map[string]string) error {
	pointers := map[string]*string{}
	for key, value := range configs {
		pointers[key] = &value
	}
	_, err := f.admin.CreateTopic(within(), int32(partitions), 1, pointers, topic)
	return err
}

func (f *franz) produce(topic string, records []record, codec string, idempotent bool) error {
	compression := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[codec]
	options := []kgo.Opt{
		kgo.SeedBrokers(f.bootstrap), kgo.ProducerBatchCompression(compression), kgo.ProducerBatchMaxBytes(11 << 20),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(50 * time.Millisecond),
	}
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	producer, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer producer.Close()
	var out []*kgo.Record
	for _, one := range records {
		next := &kgo.Record{Topic: topic, Key: one.key, Value: one.value}
		if one.timestampMs != 0 {
			next.Timestamp = time.UnixMilli(one.timestampMs)
		}
		for _, h := range one.headers {
			next.Headers = append(next.Headers, kgo.RecordHeader{Key: h.name, Value: h.value})
		}
		out = append(out, next)
	}
	return producer.ProduceSync(within(), out...).FirstErr()
}

func (f *franz) consume(topic string, count int) ([]record, error) {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap), kgo.ConsumePartitions(start),
		kgo.FetchMaxPartitionBytes(12<<20))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	var found []record
	for ctx := within(); len(found) < count; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return found, err
		}
		fetches.EachRecord(func(one *kgo.Record) {
			next := record{key: one.Key, value: one.Value, timestampMs: one.Timestamp.UnixMilli()}
			for _, h := range one.Headers {
				next.headers = append(next.headers, header{h.Key, h.Value})
			}
			found = append(found, next)
		})
	}
	return found, nil
}

func (f *franz) offsetAt(topic string, timestampMs int64) (int64, error) {
	answer, err := f.admin.ListOffsetsAfterMilli(within(), timestampMs, topic)
	if err != nil {
		return 0, err
	}
	found, _ := answer.Lookup(topic, 0)
	// The admin package answers the end of the log where no record is that new.
	if found.Timestamp == -1 {
		return -1, found.Err
	}
	return found.Offset, found.Err
}

func (f *franz) ends(topic string) (int64, int64, error) {
	starts, err := f.admin.ListStartOffsets(within(), topic)
	if err != nil {
		return 0, 0, err
	}
	nexts, err := f.admin.ListEndOffsets(within(), topic)
	if err != nil {
		return 0, 0, err
	}
	first, _ := starts.Lookup(topic, 0)
	next, _ := nexts.Lookup(topic, 0)
	return first.Offset, next.Offset, first.Err
}

func (f *franz) partitions(topic string) (int, error) {
	details, err := f.admin.ListTopics(within(), topic)
	return len(details[topic].Partitions), err
}

func (f *franz) setConfig(topic, key, value string) error {
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}
	answers, err := f.admin.AlterTopicConfigs(within(), change, topic)
	if err != nil {
		return err
	}
	return answers[0].Err
}

func (f *franz) config(topic, key string) (string, error) {
	answers, err := f.admin.DescribeTopicConfigs(within(), topic)
	if err != nil {
		return "", err
	}
	for _, one := range answers[0].Configs {
		if one.Key == key {
			return one.MaybeValue(), answers[0].Err
		}
	}
	return "", fmt.Errorf("no %s among %d configurations", key, len(answers[0].Configs))
}

func (f *franz) addPartitions(topic string, total int) error {
	answers, err := f.admin.UpdatePartitions(within(), total, topic)
	if err != nil {
		return err
	}
	return answers[topic].Err
}

func (f *franz) remove(topic string) error {
	answers, err := f.admin.DeleteTopics(within(), topic)
	if err != nil {
		return err
	}
	return answers[topic].Err
}

func (f *franz) topics() ([]string, error) {
	details, err := f.admin.ListTopics(within())
	return details.Names(), err
}
