//! The table against Kafka's own list, and the answers to good and bad values.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;

#[test]
fn table_is_sorted_and_its_defaults_pass_their_own_checks() {
    assert!(TOPIC_CONFIGS.is_sorted_by(|left, right| left.name < right.name));
    for config in &TOPIC_CONFIGS {
        let expected = Accepted::Keep { name: config.name, value: config.default };
        assert_eq!(check_topic_config(config.name, Some(config.default)), Ok(expected));
        assert!(config.doc.ends_with('.'), "{}", config.name);
        assert!(!TOPIC_CONFIGS_REMOVED.contains(&config.name));
    }
}

#[test]
fn exactly_the_named_configurations_and_the_fixed_ones_are_built() {
    let built = |built: fn(&Built) -> bool| -> Vec<&str> {
        TOPIC_CONFIGS.iter().filter(|row| built(&row.built)).map(|row| row.name).collect()
    };
    assert_eq!(
        built(|built| matches!(built, Built::Now)),
        [
            "index.interval.bytes",
            "max.decompressed.message.bytes",
            "max.message.bytes",
            "message.timestamp.after.max.ms",
            "message.timestamp.before.max.ms",
            "message.timestamp.type",
            "min.insync.replicas",
            "retention.bytes",
            "retention.ms",
            "segment.bytes",
            "segment.jitter.ms",
            "segment.ms",
            "write.caching"
        ]
    );
    assert_eq!(
        built(|built| matches!(built, Built::Only(_))),
        ["cleanup.policy", "compression.type", "remote.storage.enable"]
    );
}

#[test]
fn refusals_name_the_option_the_value_and_the_bound() {
    let check = |name: &str, value: Option<&str>, expected: &str| {
        let refusal = check_topic_config(name, value).unwrap_err();
        assert_eq!(refusal.to_string(), expected);
    };
    check("retention_ms", Some("1"), "retention_ms: unknown option; did you mean retention.ms");
    check("zookeeper.connect", Some("x"), "zookeeper.connect: unknown option");
    check("retention.ms", None, "retention.ms: null is not a value");
    let form = "retention.ms = 7d: must be a whole number of 64 bits";
    check("retention.ms", Some("7d"), form);
    check("retention.ms", Some(""), "retention.ms = : must be a whole number of 64 bits");
    let range = "retention.ms = -2: must be -1 to 9223372036854775807";
    check("retention.ms", Some("-2"), range);
    let range = "segment.bytes = 1048575: must be 1048576 to 2147483647";
    check("segment.bytes", Some("1048575"), range);
    let range = "segment.bytes = 2147483648: must be 1048576 to 2147483647";
    check("segment.bytes", Some("2147483648"), range);
    let huge = "segment.bytes = 99999999999999999999: must be a whole number of 32 bits";
    check("segment.bytes", Some("99999999999999999999"), huge);
    check("min.insync.replicas", Some("0"), "min.insync.replicas = 0: must be 1 to 32767");
    let words = "cleanup.policy = compactt: must be compact, delete";
    check("cleanup.policy", Some("compactt"), words);
    let later = "cleanup.policy = compact: not supported yet; supported: delete, (empty)";
    check("cleanup.policy", Some("compact"), later);
    let later = "cleanup.policy = compact,delete: not supported yet; supported: delete, (empty)";
    check("cleanup.policy", Some("compact,delete"), later);
    let words =
        "compression.type = SNAPPY: must be uncompressed, zstd, lz4, snappy, gzip, producer";
    check("compression.type", Some("SNAPPY"), words);
    let later = "compression.type = zstd: not supported yet; supported: producer";
    check("compression.type", Some("zstd"), later);
    let words = "message.timestamp.type = createtime: must be CreateTime, LogAppendTime";
    check("message.timestamp.type", Some("createtime"), words);
    let later = "remote.storage.enable = TRUE: not supported yet; supported: false";
    check("remote.storage.enable", Some("TRUE"), later);
    check("preallocate", Some("yes"), "preallocate = yes: must be true or false");
    let ratio = "min.cleanable.dirty.ratio = 1.5: must be 0 to 1";
    check("min.cleanable.dirty.ratio", Some("1.5"), ratio);
    let ratio = "min.cleanable.dirty.ratio = NaN: must be 0 to 1";
    check("min.cleanable.dirty.ratio", Some("NaN"), ratio);
    let replicas = "leader.replication.throttled.replicas";
    let pairs =
        "leader.replication.throttled.replicas = 1:x: must be *, or partition:node with commas";
    check(replicas, Some("1:x"), pairs);
    let long = "x".repeat(32_768);
    check("cleanup.policy", Some(&long), "cleanup.policy: 32768 bytes, 32767 are allowed");
}

#[test]
fn accepted_values_lose_outer_spaces_and_removed_names_are_ignored() {
    let keep = |name, value| Ok(Accepted::Keep { name, value });
    assert_eq!(check_topic_config("retention.ms", Some(" -1 ")), keep("retention.ms", "-1"));
    assert_eq!(check_topic_config("cleanup.policy", Some("")), keep("cleanup.policy", ""));
    let replicas = "follower.replication.throttled.replicas";
    for value in ["*", "", "0:1,1:2", " 0:1 , 7:3"] {
        assert_eq!(check_topic_config(replicas, Some(value)), keep(replicas, value.trim()));
    }
    for name in TOPIC_CONFIGS_REMOVED {
        assert_eq!(check_topic_config(name, Some("anything")), Ok(Accepted::Ignore));
        assert_eq!(check_topic_config(name, None), Ok(Accepted::Ignore));
    }
}

#[test]
fn settings_take_the_effective_value_and_fall_back_on_the_default() {
    let defaults = TopicSettings::from_effective(|_| None);
    assert_eq!(
        defaults,
        TopicSettings {
            max_message_bytes: 1_048_588,
            segment_bytes: 1_073_741_824,
            segment_ms: 604_800_000,
            segment_jitter_ms: 0,
            deletes: true,
            retention_ms: 604_800_000,
            retention_bytes: -1,
            index_interval_bytes: 4_096,
            min_insync_replicas: 1,
            max_decompressed_message_bytes: 2_147_483_639,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            write_caching: false,
            timestamp_type: TimestampType::CreateTime,
        }
    );
    let set = TopicSettings::from_effective(|name| match name {
        "segment.bytes" => Some("2000000"),
        "segment.ms" => Some("rubbish"),
        "max.message.bytes" => Some("-5"),
        "min.insync.replicas" => Some("2"),
        "write.caching" => Some("TRUE"),
        _ => None,
    });
    let expected = TopicSettings {
        segment_bytes: 2_000_000,
        min_insync_replicas: 2,
        write_caching: true,
        ..defaults
    };
    assert_eq!(set, expected);
}
