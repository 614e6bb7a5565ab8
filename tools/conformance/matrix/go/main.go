// The Go clients of the matrix: the same features for each, told as JSON lines (see ../python/common.py).
//
// Usage: matrix CLIENT BOOTSTRAP PREFIX. Every codec's topic holds the records of numbered, which matrix_run.py reads again.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"
)

const (
	recordCount = 100
	largeBytes  = 10 << 20
	stepMs      = 60_000
)

// errNone is what a method returns that its client does not have.
var errNone = errors.New("the client has no such thing")

// stampMs is old enough to be in order, and young enough to be kept.
var stampMs = time.Now().UnixMilli() - 7_200_000

type header struct {
	name  string
	value []byte
}

// record is what goes out and must come back; a timestamp of 0 is the client's own choice.
type record struct {
	key, value  []byte
	headers     []header
	timestampMs int64
}

// client is what a library must do. Everything is about partition 0, with acks=all.
type client interface {
	create(topic string, partitions int, configs map[string]string) error
	produce(topic string, records []record, codec string, idempotent bool) error
	consume(topic string, count int) ([]record, error)
	offsetAt(topic string, timestampMs int64) (int64, error) // -1 where there is none.
	ends(topic string) (first, next int64, err error)
	partitions(topic string) (int, error)
	setConfig(topic, key, value string) error
	config(topic, key string) (string, error)
	addPartitions(topic string, total int) error
	remove(topic string) error
	topics() ([]string, error)
}

func numbered() []record {
	records := make([]record, recordCount)
	for n := range records {
		records[n] = record{
			key:     fmt.Appendf(nil, "key-%d", n),
			value:   append(fmt.Appendf(nil, "value-%d ", n), bytes.Repeat([]byte("x"), 200)...),
			headers: []header{{"n", fmt.Appendf(nil, "%d", n)}},
		}
	}
	return records
}

func sameBytes(found, expected []byte) bool {
	return bytes.Equal(found, expected) && (found == nil) == (expected == nil)
}

func same(found, expected record) bool {
	if expected.timestampMs != 0 && found.timestampMs != expected.timestampMs {
		return false
	}
	return sameBytes(found.key, expected.key) && sameBytes(found.value, expected.value) &&
		slices.EqualFunc(found.headers, expected.headers, func(a, b header) bool {
			return a.name == b.name && bytes.Equal(a.value, b.value)
		})
}

func roundTrip(c client, topic string, records []record, codec string, idempotent bool) error {
	if err := c.produce(topic, records, codec, idempotent); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	found, err := c.consume(topic, len(records))
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	if len(found) != len(records) {
		return fmt.Errorf("%d records, expected %d", len(found), len(records))
	}
	for n, one := range found {
		if !same(one, records[n]) {
			return fmt.Errorf("record %d: key %.60q value %.60q headers %.60q at %d", n, one.key, one.value, one.headers,
				one.timestampMs)
		}
	}
	return nil
}

// made creates a topic with one partition and goes through it with records.
func made(c client, topic string, configs map[string]string, records []record, codec string) error {
	if err := c.create(topic, 1, configs); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return roundTrip(c, topic, records, codec, false)
}

// eventually asks again for what a client learns from metadata that it keeps for a while.
func eventually(what string, ask func() (bool, error)) error {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		ok, err := ask()
		if err != nil || ok {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New(what)
		}
	}
}

func hasPartitions(c client, topic string, count int) error {
	return eventually(fmt.Sprintf("not described with %d partitions", count), func() (bool, error) {
		found, err := c.partitions(topic)
		return found == count, err
	})
}

func configIs(c client, topic, expected string) error {
	found, err := c.config(topic, "retention.ms")
	if err == nil && found != expected {
		err = fmt.Errorf("retention.ms is %q, expected %q", found, expected)
	}
	return err
}

func configs(c client, topic string) error {
	if err := configIs(c, topic, "-1"); err != nil {
		return err
	}
	if err := c.setConfig(topic, "retention.ms", "86400000"); err != nil {
		return err
	}
	return configIs(c, topic, "86400000")
}

func grow(c client, topic string) error {
	if err := c.addPartitions(topic, 5); err != nil {
		return err
	}
	return hasPartitions(c, topic, 5)
}

func removal(c client, topic string) error {
	if err := c.remove(topic); err != nil {
		return err
	}
	return eventually("the topic is still there", func() (bool, error) {
		names, err := c.topics()
		return !slices.Contains(names, topic), err
	})
}

func headers(c client, topic string) error {
	several := []header{{"a", []byte("1")}, {"a", []byte("2")}, {"b", []byte{}}}
	return made(c, topic, nil, []record{
		{value: []byte("no key")},
		{key: []byte("no value")},
		{},
		{key: []byte("k"), value: []byte("v"), headers: several},
		{key: []byte{0xff, 0}, value: bytes.Repeat([]byte{0, 0xff}, 50), headers: []header{{"grüße", []byte("größe")}}},
	}, "none")
}

func large(c client, topic string) error {
	value := make([]byte, largeBytes)
	for n := range value {
		value[n] = byte(n)
	}
	records := []record{{key: []byte("large"), value: value}}
	return made(c, topic, map[string]string{"max.message.bytes": "11534336"}, records, "none")
}

func times(c client, topic string) error {
	var records []record
	for n := range int64(10) {
		records = append(records, record{key: []byte("k"), value: fmt.Appendf(nil, "%d", n), timestampMs: stampMs + n*stepMs})
	}
	if err := made(c, topic, map[string]string{"retention.ms": "-1"}, records, "none"); err != nil {
		return err
	}
	for shift, expected := range map[int64]int64{3 * stepMs: 3, 3*stepMs + 1: 4, -1: 0, 100 * stepMs: -1} {
		found, err := c.offsetAt(topic, stampMs+shift)
		if err != nil {
			return fmt.Errorf("at %d: %w", shift, err)
		}
		if found != expected {
			return fmt.Errorf("at %d: offset %d, expected %d", shift, found, expected)
		}
	}
	return nil
}

func ends(c client, topic string) error {
	first, next, err := c.ends(topic)
	if err == nil && (first != 0 || next != 10) {
		err = fmt.Errorf("offsets %d to %d, expected 0 to 10", first, next)
	}
	return err
}

func tell(fields map[string]any) {
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func try(feature string, err error) {
	switch {
	case errors.Is(err, errNone):
	case err != nil:
		tell(map[string]any{"feature": feature, "passed": false, "text": fmt.Sprintf("%.600s", err.Error())})
	default:
		tell(map[string]any{"feature": feature, "passed": true, "text": ""})
	}
}

func everything(c client, prefix string) {
	forever := map[string]string{"retention.ms": "-1"}
	admin := prefix + "-admin"
	try("create", c.create(admin, 2, forever))
	try("describe", hasPartitions(c, admin, 2))
	try("configs", configs(c, admin))
	try("partitions", grow(c, admin))
	try("delete", removal(c, admin))
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		try("codec-"+codec, made(c, prefix+"-"+codec, forever, numbered(), codec))
	}
	try("headers", headers(c, prefix+"-headers"))
	try("large", large(c, prefix+"-large"))
	try("times", times(c, prefix+"-times"))
	try("ends", ends(c, prefix+"-times"))
	if err := c.create(prefix+"-idempotent", 1, nil); err != nil {
		try("idempotent", err)
		return
	}
	try("idempotent", roundTrip(c, prefix+"-idempotent", numbered(), "none", true))
}

func versionOf(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "unknown"
}

func main() {
	makers := map[string]struct {
		module string
		start  func(bootstrap string) (client, error)
	}{
		"franz-go": {"github.com/twmb/franz-go", newFranz},
		"kafka-go": {"github.com/segmentio/kafka-go", newSegmentio},
		"sarama":   {"github.com/IBM/sarama", newSarama},
	}
	maker := makers[os.Args[1]]
	c, err := maker.start(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tell(map[string]any{"version": versionOf(maker.module)})
	everything(c, os.Args[3])
}
