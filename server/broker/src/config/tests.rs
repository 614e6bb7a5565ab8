//! Good configurations from every source, and some fifty bad ones with the exact text they are refused with.

use cluster::{Advertise, ConfigType, TOPIC_CONFIGS, topic_config};

use super::*;

fn file(text: &str) -> Sources {
    Sources { file: Some(("corelog.toml".to_owned(), text.to_owned())), ..Sources::default() }
}

fn load(text: &str) -> Config {
    Config::load(&file(text)).unwrap()
}

fn refused(sources: &Sources) -> Vec<String> {
    let errors = Config::load(sources).unwrap_err();
    errors.to_string().lines().map(str::to_owned).collect()
}

fn sets(texts: &[&str]) -> Sources {
    Sources { sets: texts.iter().map(|text| (*text).to_owned()).collect(), ..Sources::default() }
}

fn environment(pairs: &[(&str, &str)]) -> Sources {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Sources { environment: pairs.collect(), ..Sources::default() }
}

#[test]
fn what_listener_tables_advertise_is_described_as_kafka_would_write_it() {
    let text = "[[listeners]]\nname = \"A\"\nbind = \"127.0.0.1:9092\"\nadvertised = \"a.org:1\"\n\
                [[listeners]]\nname = \"B\"\nbind = \"127.0.0.1:9093\"\nadvertised = \"[::1]:2\"\n\
                [[listeners]]\nname = \"C\"\nbind = \"127.0.0.1:9094\"\n";
    let config = load(text);
    let setting = &config.settings["advertised.listeners"];
    assert_eq!(setting.value.as_deref(), Some("A://a.org:1,B://[::1]:2"));
    assert_ne!(setting.place, Place::Default);
    let bare = load("[[listeners]]\nbind = \"127.0.0.1:9092\"\n");
    assert_eq!(bare.settings["advertised.listeners"].place, Place::Default);
}

#[test]
fn an_option_below_a_listener_and_a_file_of_properties_are_recognised() {
    let said = |name: &str, text: &str| {
        let file = Some((name.to_owned(), text.to_owned()));
        Config::load(&Sources { file, ..Sources::default() }).unwrap_err().to_string()
    };
    let below = said("c.toml", "[[listeners]]\nbind = \"127.0.0.1:0\"\nnum.partitions = 3\n");
    assert!(below.starts_with("c.toml:3: listeners.num: no field of a listener"), "{below}");
    let properties = "broker.id=1\nlog.dirs=/tmp/kafka-logs\n";
    let hint = "must be TOML: Kafka's properties";
    assert!(said("server.properties", properties).contains(hint));
    let unnamed = said("c.toml", properties);
    assert!(!unnamed.contains(hint) && unnamed.contains("a string stands in quotes"), "{unnamed}");
}

#[test]
fn no_configuration_at_all_is_a_configuration() {
    let config = Config::load(&Sources::default()).unwrap();
    assert_eq!(config.node_id, NodeId(1));
    assert_eq!(config.data_dir, PathBuf::from("./corelog-data"));
    assert_eq!(config.shards, Shards::Auto);
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.listeners[0].bind, "127.0.0.1:9092".parse().unwrap());
    assert_eq!(config.peer_listen, "127.0.0.1:9900".parse().unwrap());
    assert_eq!(config.admin_listen, Some("127.0.0.1:9901".parse().unwrap()));
    assert_eq!(config.disk_floor.bytes(1 << 40), (1 << 40) / 50);
    assert_eq!(config.disk_floor.bytes(1 << 30), 256 << 20);
    assert_eq!(config.create_defaults.partition_count, 1);
    assert!(config.auto_create_topics);
    assert_eq!(config.topic_deletion, Deletion::Enabled);
    assert_eq!(config.warnings, [""; 0]);
    assert!(config.settings.values().all(|setting| setting.place == Place::Default));
    assert_eq!(load(""), config);
    assert_eq!(load("# nothing\n"), config);
}

#[test]
fn schema_is_sorted_documented_and_without_a_name_twice() {
    assert!(OPTIONS.is_sorted_by(|left, right| left.key < right.key));
    let mut names: Vec<String> = Vec::new();
    for option in &OPTIONS {
        assert!(option.doc.ends_with('.'), "{}", option.key);
        for name in std::iter::once(&option.key).chain(option.aliases) {
            names.push(environment_name(name));
            assert!(KAFKA_BROKER_CONFIGS.iter().all(|row| row.name != *name), "{name}");
        }
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(KAFKA_BROKER_CONFIGS.is_sorted_by(|left, right| left.name < right.name));
}

#[test]
fn the_ends_of_every_bound_fit_the_type_they_are_read_into() {
    for option in &OPTIONS {
        let Allowed::Range(low, high) = option.allowed else {
            continue;
        };
        for value in [low, high] {
            let config = Config::load(&sets(&[&format!("{}={value}", option.key)]));
            assert!(config.is_ok(), "{} = {value}", option.key);
        }
        let too_low = low.checked_sub(1).map(|value| format!("{}={value}", option.key));
        let too_high = high.checked_add(1).map(|value| format!("{}={value}", option.key));
        for text in too_low.into_iter().chain(too_high) {
            assert!(Config::load(&sets(&[&text])).is_err(), "{text}");
        }
    }
}

#[test]
fn tables_dotted_keys_quoted_keys_and_aliases_are_one_key() {
    for text in [
        "log.segment.bytes = 2000000",
        "\"log.segment.bytes\" = 2000000",
        "log.\"segment.bytes\" = 2_000_000",
        "[log]\nsegment.bytes = 2000000",
        "[log.segment]\nbytes = 2000000",
        "log = { segment = { bytes = 2000000 } }",
        "log.segment.bytes = 0x1e8480",
    ] {
        let setting = load(text).settings["log.segment.bytes"].clone();
        assert_eq!(setting.value.as_deref(), Some("2000000"), "{text}");
    }
    assert_eq!(load("log.dirs = \"/a\"").data_dir, PathBuf::from("/a"));
    assert_eq!(load("broker.id = 7").node_id, NodeId(7));
    let both = "\"max.connections\" = 5\nfetch.max.bytes = 4096";
    assert_eq!(load(both).connections_max, 5);
}

#[test]
fn values_of_every_type_arrive() {
    let config = load(
        r#"
        shards = 4
        disk.floor.bytes = 0
        auto.create.topics.enable = false
        delete.topic.enable = false
        broker.rack = "r1"
        process.roles = ["coordinator", "broker"]
        admin.listen = "none"
        io.spin.us = 50
        connections.max.idle.ms = 9000
        log.open.files.max = 100
        "#,
    );
    assert_eq!(config.shards, Shards::Count(4));
    assert_eq!(config.disk_floor, DiskFloor::Bytes(0));
    assert!(!config.auto_create_topics);
    assert_eq!(config.topic_deletion, Deletion::Disabled);
    assert_eq!(config.rack.as_deref(), Some("r1"));
    assert_eq!(config.admin_listen, None);
    assert_eq!(config.io_spin, Duration::from_micros(50));
    assert_eq!(config.connection_idle_max, Duration::from_secs(9));
    assert_eq!(config.open_files_max, Some(100));
    assert_eq!(load("shards = \"auto\"").shards, Shards::Auto);
}

#[test]
fn sources_hold_over_each_other_and_each_setting_knows_its_place() {
    let mut sources = file("\n\nnode.id = 2\nnum.partitions = 3\nbroker.rack = \"a\"\nshards = 1");
    sources.environment = environment(&[
        ("CORELOG_NODE_ID", "4"),
        ("CORELOG_NUM_PARTITIONS", "5"),
        ("CORELOG_SHARDS", "2"),
        ("CORELOG_CONFIG", "reserved"),
        ("HOME", "/root"),
    ])
    .environment;
    sources.sets = vec!["node.id = 6".to_owned(), "shards=3".to_owned(), "node.id=7".to_owned()];
    sources.flags = vec![("--shards", "shards", "4".to_owned())];
    let config = Config::load(&sources).unwrap();
    let said = |key: &str| {
        let setting = &config.settings[key];
        format!("{} {}", setting.place, setting.value.as_deref().unwrap_or("none"))
    };
    assert_eq!(said("broker.rack"), "corelog.toml:5 a");
    assert_eq!(said("num.partitions"), "environment CORELOG_NUM_PARTITIONS 5");
    assert_eq!(said("node.id"), "--set 7");
    assert_eq!(said("shards"), "--shards 4");
    assert_eq!(said("fetch.max.bytes"), "default 57671680");
}

#[test]
fn a_trace_filter_is_made_of_levels_and_a_typo_is_none() {
    for sound in ["info", "WARN", "off", "info,broker=debug", "error, node=trace"] {
        assert_eq!(load(&format!("trace.filter = {sound:?}")).trace_filter, sound);
    }
    for typo in ["verbose", "infos", "broker=loud", "=info", "info,", ""] {
        let said = refused(&file(&format!("trace.filter = {typo:?}")));
        let expected = format!("corelog.toml:1: trace.filter = {typo}: must be a level");
        assert!(said.len() == 1 && said[0].starts_with(&expected), "{said:?}");
    }
}

#[test]
fn bad_files_are_refused_with_line_key_value_and_bound() {
    let check = |text: &str, expected: &[&str]| {
        let expected: Vec<String> =
            expected.iter().map(|line| format!("corelog.toml:{line}")).collect();
        assert_eq!(refused(&file(text)), expected, "{text}");
    };
    let segment = "must be a whole number of bytes from 1048576 to 2147483647 (1 MiB to 2 GiB)";
    for (value, said) in [
        ("\"10\"", "\"10\""),
        ("10.5", "10.5"),
        ("true", "true"),
        ("[1]", "an array of other things than strings"),
        ("[\"1\"]", "[\"1\"]"),
        ("1979-05-27", "1979-05-27"),
        ("99999999999999999999", "99999999999999999999"),
        ("\"auto\"", "\"auto\""),
        ("\"1GiB\"", "\"1GiB\""),
    ] {
        let line = format!("1: log.segment.bytes = {said}: {segment}");
        check(&format!("log.segment.bytes = {value}"), &[&line]);
    }
    let small = "2: log.segment.bytes = 512: must be 1048576 to 2147483647 (1 MiB to 2 GiB)";
    check("\nlog.segment.bytes = 512", &[small]);
    check(
        "[log]\n\nsegment.bytes = -1",
        &["3: log.segment.bytes = -1: must be 1048576 to 2147483647 (1 MiB to 2 GiB)"],
    );
    check("node.id = 10000", &["1: node.id = 10000: must be 0 to 9999"]);
    check("node.id = \"one\"", &["1: node.id = \"one\": must be a whole number from 0 to 9999"]);
    check("shards = 0", &["1: shards = 0: must be 1 to 1024"]);
    check(
        "shards = \"many\"",
        &["1: shards = \"many\": must be auto, or a whole number from 1 to 1024"],
    );
    let flag = "must be true or false";
    check("delete.topic.enable = 1", &[&format!("1: delete.topic.enable = 1: {flag}")]);
    check("delete.topic.enable = \"yes\"", &[&format!("1: delete.topic.enable = \"yes\": {flag}")]);
    check("advertise = \"nodes\"", &["1: advertise = nodes: must be node, core"]);
    check("advertise = 5", &["1: advertise = 5: must be a string"]);
    check(
        "process.roles = \"controller\"",
        &["1: process.roles = controller: must be broker, coordinator"],
    );
    check(
        "process.roles = \"broker\"",
        &["1: process.roles: must be broker,coordinator: one node has both roles for now"],
    );
    check("retention_ms = 5", &["1: retention_ms: unknown option; did you mean log.retention.ms"]);
    check(
        "log.segment.byte = 5",
        &["1: log.segment.byte: unknown option; did you mean log.segment.bytes"],
    );
    check(
        "log_segment_bytes = 2000000",
        &["1: log_segment_bytes: unknown option; did you mean log.segment.bytes"],
    );
    check(
        "log.dirs = \"/a,/b\"",
        &[
            "1: data.dir = \"/a,/b\": one directory only, and no comma in its name: a node keeps everything in one place",
        ],
    );
    check(
        "data.dir = \" \"",
        &["1: data.dir = \"\": the value is empty: give the path of a directory"],
    );
    check(
        "zookeeper.connect = \"zk:2181\"",
        &["1: zookeeper.connect: an option of Kafka's that has no effect in Corelog; remove it"],
    );
    check("[node]\nidd = 5", &["2: node.idd: unknown option; did you mean node.id"]);
    check(
        "num.io.threads = 8",
        &["1: num.io.threads: an option of Kafka's that has no effect in Corelog; remove it"],
    );
    check("data.dir = \"/a\"\nlog.dirs = \"/b\"", &["2: log.dirs: set already at corelog.toml:1"]);
    check(
        "admin.listen = \"9901\"",
        &["1: admin.listen = 9901: must be IP:PORT, such as 127.0.0.1:9092 or [::1]:9092"],
    );
}

#[test]
fn a_file_of_another_kind_does_not_flood_the_screen() {
    let text: String = (0..1000).map(|number| format!("key{number} = 1\n")).collect();
    let lines = refused(&file(&text));
    assert_eq!(lines.len(), 51);
    assert_eq!(lines[49], "corelog.toml:50: key49: unknown option");
    assert_eq!(lines[50], "and 950 more errors");
}

#[test]
fn every_error_is_told_at_once_in_the_order_of_the_lines() {
    let text = "node.id = -5\nshards = 0\nfoo = 1\nfetch.max.bytes = \"big\"\nlisteners = \"x\"";
    let mut sources = file(text);
    sources.environment = environment(&[("CORELOG_NUM_PARTITIONS", "0")]).environment;
    sources.sets = vec!["nonsense".to_owned(), "num.partitions=x".to_owned()];
    let expected = [
        "--set nonsense: must be KEY=VALUE",
        "corelog.toml:1: node.id = -5: must be 0 to 9999",
        "corelog.toml:2: shards = 0: must be 1 to 1024",
        "corelog.toml:3: foo: unknown option",
        "corelog.toml:4: fetch.max.bytes = \"big\": must be a whole number of bytes from 1024 to 2147483647 (1 KiB to 2 GiB)",
        "corelog.toml:5: listeners = x: must be IP:PORT, such as 127.0.0.1:9092 or [::1]:9092",
        "environment CORELOG_NUM_PARTITIONS: num.partitions = 0: must be 1 to 10000",
        "--set: num.partitions = x: must be a whole number from 1 to 10000",
    ];
    assert_eq!(refused(&sources), expected);
}

#[test]
fn broken_toml_is_refused_with_its_line_and_a_prefix_key_with_its_cure() {
    let said = refused(&file("node.id = 1\nshards = = 2\n"));
    assert!(said[0].starts_with("corelog.toml:2: "), "{said:?}");
    let said = refused(&file("node.id = 1\nnode.id.x = 2\n"));
    assert!(said[0].starts_with("corelog.toml:2: "), "{said:?}");
    assert!(said[0].ends_with("must be quoted: \"max.connections\" = 100"), "{said:?}");
    let said = refused(&file("shards = 1\nshards = 2"));
    assert!(said[0].starts_with("corelog.toml:2: duplicate key"), "{said:?}");
    // What comes after the broken line is checked as well.
    let said = refused(&file("a = \"unterminated\nnode.id = 99999"));
    assert!(said.iter().any(|line| line.contains("node.id = 99999")), "{said:?}");
    let large = file(&"#".repeat(CONFIG_FILE_BYTES_MAX + 1));
    assert_eq!(refused(&large), ["corelog.toml: 1048577 bytes, a configuration may have 1048576"]);
}

#[test]
fn a_bad_environment_or_command_line_is_refused_with_its_name() {
    let check = |pair: (&str, &str), expected: &str| {
        assert_eq!(refused(&environment(&[pair])), [expected], "{pair:?}");
    };
    let form = "must be auto, or a whole number from 1 to 1024";
    let said = format!("environment CORELOG_SHARDS: shards = two: {form}");
    check(("CORELOG_SHARDS", "two"), &said);
    check(("CORELOG_SHARDS", ""), &format!("environment CORELOG_SHARDS: shards = : {form}"));
    check(
        ("CORELOG_SHARD", "2"),
        "environment CORELOG_SHARD: shard: unknown option; did you mean shards",
    );
    check(
        ("CORELOG_node_id", "2"),
        "environment CORELOG_node_id: CORELOG_node_id: unknown option; did you mean node.id",
    );
    check(
        ("CORELOG_NUM_IO_THREADS", "2"),
        "environment CORELOG_NUM_IO_THREADS: num.io.threads: an option of Kafka's that has no effect in Corelog; remove it",
    );
    let twice = environment(&[("CORELOG_DATA_DIR", "/a"), ("CORELOG_LOG_DIRS", "/b")]);
    let said =
        "environment CORELOG_LOG_DIRS: log.dirs: set already at environment CORELOG_DATA_DIR";
    assert_eq!(refused(&twice), [said]);
    assert_eq!(refused(&sets(&["=5"])), ["--set =5: must be KEY=VALUE"]);
    assert_eq!(
        refused(&sets(&["retention.ms=5"])),
        ["--set: retention.ms: unknown option; did you mean log.retention.ms"]
    );
}

#[test]
fn listeners_come_as_kafkas_list_or_as_tables() {
    let config = load(
        r#"
        listeners = "INSIDE://127.0.0.1:9092, OUTSIDE://[::1]:9093"
        advertised.listeners = "OUTSIDE://broker1.example.org:443"
        advertise = "core"
        "#,
    );
    let [inside, outside] = &config.listeners[..] else {
        panic!("{:?}", config.listeners);
    };
    assert_eq!((inside.name.as_str(), inside.advertise), ("INSIDE", Advertise::Core));
    assert_eq!(inside.advertised, None);
    let told = AdvertisedHost { host: "broker1.example.org".to_owned(), port: 443 };
    assert_eq!(outside.advertised, Some(told));
    let tables = load(
        r#"
        [[listeners]]
        bind = "0.0.0.0:9092"
        advertised = "broker1:0"
        security = "PLAINTEXT"
        [[listeners]]
        name = "CORES"
        bind = "localhost:0"
        advertise = "core"
        "#,
    );
    let [first, second] = &tables.listeners[..] else {
        panic!("{:?}", tables.listeners);
    };
    assert_eq!((first.name.as_str(), first.advertise), ("PLAINTEXT", Advertise::Node));
    assert_eq!(second.advertise, Advertise::Core);
    let bound = "0.0.0.0:50000".parse().unwrap();
    let endpoint = first.endpoint(bound);
    assert_eq!((&*endpoint.host, endpoint.port), ("broker1", 50_000));
    let setting = &tables.settings["listeners"];
    assert_eq!(setting.value.as_deref(), Some("PLAINTEXT://0.0.0.0:9092,CORES://localhost:0"));
}

#[test]
fn a_later_source_replaces_the_files_tables_whole() {
    let mut sources = file("[[listeners]]\nname = \"A\"\nbind = \"127.0.0.1:1\"");
    sources.flags = vec![("--listen", "listeners", "127.0.0.1:7000".to_owned())];
    let config = Config::load(&sources).unwrap();
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.listeners[0].name, "PLAINTEXT");
    assert_eq!(config.listeners[0].bind.port(), 7000);
}

#[test]
fn a_wildcard_tells_the_connections_own_address_and_warns() {
    let config = Config::load(&sets(&["listeners=:9092"])).unwrap();
    let endpoint = config.listeners[0].endpoint("0.0.0.0:9092".parse().unwrap());
    assert_eq!((&*endpoint.host, endpoint.port), ("", 9092));
    assert_eq!(config.warnings.len(), 1);
    let loopback = sets(&[
        "listeners=PLAINTEXT://0.0.0.0:9092",
        "advertised.listeners=PLAINTEXT://localhost:9092",
    ]);
    let warnings = Config::load(&loopback).unwrap().warnings;
    assert!(warnings[0].ends_with("clients on other machines cannot connect"), "{warnings:?}");
    let fine = sets(&["listeners=127.0.0.1:0"]);
    assert_eq!(Config::load(&fine).unwrap().warnings, [""; 0]);
}

#[test]
fn bad_listeners_are_refused() {
    let check = |text: &str, expected: &str| {
        let expected = format!("corelog.toml:{expected}");
        assert_eq!(refused(&file(text)), [expected], "{text}");
    };
    let bind = "must be IP:PORT, such as 127.0.0.1:9092 or [::1]:9092";
    let name = "a host name cannot be bound: give an address of this machine, or 0.0.0.0 (and [::] with IPv6) for all of them; \
                the name that clients use belongs into advertised.listeners";
    let brackets = "an IPv6 address stands in brackets, such as [::1]:9092";
    for (value, said) in [
        ("127.0.0.1", bind),
        ("1.2.3:5", bind),
        ("127.0.0.1:kafka", bind),
        ("[::g]:9092", bind),
        ("broker1:9092", name),
        ("PLAINTEXT://kafka-1.example.org:9092", name),
        ("::1:9092", brackets),
        ("fe80::1", brackets),
        ("127.0.0.1:99999", "the port must be 0 to 65535"),
    ] {
        let text = format!("listeners = \"{value}\"");
        check(&text, &format!("1: listeners = {value}: {said}"));
    }
    check(
        "listeners = \"A://:9092,B://127.0.0.1:9092\"",
        "1: listener A and listener B: both would listen on port 9092; one of them listens on every address of this machine already ([::] on those of IPv4 too)",
    );
    check("listeners = \"\"", "1: listener listeners: there must be 1 to 64 listeners");
    check("listeners = []", "1: listener listeners: there must be 1 to 64 listeners");
    check("listeners = \":1,:2\"", "1: listener PLAINTEXT: the name stands twice");
    let name = "a name has 1 to 64 letters, digits, '_', '-' or '.'";
    check("listeners = \"A B://:1\"", &format!("1: listener A B: {name}"));
    let told = "must be HOST:PORT, such as broker1.example.org:9092";
    check(
        "advertised.listeners = \"0.0.0.0:1\"",
        "1: advertised.listeners = 0.0.0.0:1: 0.0.0.0 and [::] are where a listener binds; here must be the name or address by which clients reach this machine",
    );
    check(
        "advertised.listeners = \"2001:db8::7:1\"",
        "1: advertised.listeners = 2001:db8::7:1: an IPv6 address stands in brackets, such as [2001:db8::7]:9092",
    );
    check(
        "advertised.listeners = \"X://a:1\"",
        "1: listener X: advertised, but not among the listeners",
    );
    check("[[listeners]]\nname = \"A\"", "1: listener A: bind is missing");
    let secure = "a listener of this name would be taken for an encrypted or authenticated one, and only PLAINTEXT is supported yet";
    check("listeners = \"ssl://:1\"", &format!("1: listener ssl: {secure}"));
    check("[[listeners]]\nbind = 9092", "2: listeners.bind = 9092: must be a string");
    let table = |line: &str| format!("[[listeners]]\nbind = \":1\"\n{line}");
    check(
        &table("security = \"SSL\""),
        "3: listener PLAINTEXT: security: only PLAINTEXT is supported yet",
    );
    check(
        &table("advertize = \"core\""),
        "3: listeners.advertize: unknown option; did you mean advertise",
    );
    check(&table("advertise = \"x\""), "3: listeners.advertise = x: must be node or core");
    check(&table("advertised = \"a\""), &format!("3: listeners.advertised = a: {told}"));
}

#[test]
fn of_two_listeners_the_second_is_told_where_it_stands_and_only_once() {
    let text = |names: [&str; 2]| {
        let [first, second] = names;
        format!(
            "[[listeners]]\nname = \"{first}\"\nbind = \":9092\"\n\n\
             [[listeners]]\nbind = \"127.0.0.1:9092\"\nname = \"{second}\"\n"
        )
    };
    let name = "a name has 1 to 64 letters, digits, '_', '-' or '.'";
    for (names, expected) in [
        (["A", "A"], "7: listener A: the name stands twice".to_owned()),
        (["A", "B C"], format!("7: listener B C: {name}")),
        (["\\u0012A", "B"], format!("2: listener ?A: {name}")),
    ] {
        assert_eq!(refused(&file(&text(names))), [format!("corelog.toml:{expected}")]);
    }
    let overlap = refused(&file(&text(["A", "B"])));
    assert_eq!(overlap.len(), 1, "{overlap:?}");
    let said = "corelog.toml:7: listener A and listener B: both would listen on port 9092";
    assert!(overlap[0].starts_with(said), "{overlap:?}");
    let admin = refused(&file("listeners = \":9\"\n\"admin.listen\" = \"127.0.0.1:9\""));
    assert!(
        admin[0].starts_with("corelog.toml:2: listener PLAINTEXT and admin.listen"),
        "{admin:?}"
    );
}

#[test]
fn describe_configs_finds_every_option_of_kafkas_and_of_ours() {
    let config = Config::load(&sets(&["log.segment.bytes=2000000", "log.dirs=/x"])).unwrap();
    let configs = config.broker_configs();
    let set = |name: &str| configs[name].set.as_deref();
    assert_eq!(set("log.segment.bytes"), Some("2000000"));
    assert_eq!((set("log.dirs"), set("data.dir")), (Some("/x"), Some("/x")));
    let kinds = ["log.dir", "log.dirs", "data.dir"].map(|name| configs[name].kind);
    assert_eq!(kinds, [ConfigType::List, ConfigType::List, ConfigType::String]);
    assert_eq!(set("fetch.max.bytes"), None);
    // As Kafka has it: a topic's segment.ms then names no broker option behind it.
    assert_eq!((set("log.roll.ms"), configs["log.roll.ms"].default.as_deref()), (None, None));
    assert_eq!(configs["fetch.max.bytes"].default.as_deref(), Some("57671680"));
    assert_eq!(configs["num.io.threads"].default.as_deref(), Some("8"));
    assert_eq!(configs["ssl.key.password"].kind, ConfigType::Password);
    for name in ["node.id", "broker.id", "inter.broker.protocol.version", "advertised.listeners"] {
        assert!(configs.contains_key(name), "{name}");
    }
}

#[test]
fn hours_and_minutes_hold_where_nothing_finer_is_set() {
    let check = |lines: &[&str], name: &str, expected: Option<&str>| {
        let configs = Config::load(&sets(lines)).unwrap().broker_configs();
        assert_eq!(configs[name].set.as_deref(), expected, "{name} of {lines:?}");
    };
    let (hours, minutes) = ("log.retention.hours=2", "log.retention.minutes=3");
    check(&[], "log.retention.ms", None);
    check(&[hours], "log.retention.ms", Some("7200000"));
    check(&[hours, minutes], "log.retention.ms", Some("180000"));
    check(&[hours, minutes, "log.retention.ms=4"], "log.retention.ms", Some("4"));
    check(&["log.retention.hours=-1"], "log.retention.ms", Some("-1"));
    check(&["log.retention.hours=2147483647"], "log.retention.ms", Some("7730941129200000"));
    check(&["log.roll.hours=1"], "log.roll.ms", Some("3600000"));
    check(&["log.roll.jitter.hours=1"], "log.roll.jitter.ms", Some("3600000"));
    check(&[hours], "log.retention.hours", Some("2"));
    // They name options that there are, and never a value that its option refuses.
    for coarser in &COARSER_OPTIONS {
        let (finest, coarse) = (option(coarser.finest).unwrap(), option(coarser.key).unwrap());
        let (Allowed::Range(low, high), Allowed::Range(from, to)) =
            (finest.allowed, coarse.allowed)
        else {
            panic!("{}: no bounds", coarser.key);
        };
        let ends = coarser.in_ms(from)..=coarser.in_ms(to);
        assert!(low <= *ends.start() && *ends.end() <= high, "{}", coarser.key);
    }
}

#[test]
fn a_topics_default_is_that_of_the_broker_option_behind_it() {
    let configs = Config::load(&Sources::default()).unwrap().broker_configs();
    for row in &TOPIC_CONFIGS {
        for synonym in row.broker_synonyms {
            let broker = configs.get(synonym).unwrap_or_else(|| panic!("{synonym}"));
            if let Some(default) = &broker.default {
                assert_eq!(&**default, row.default, "{} and {synonym}", row.name);
            }
        }
        assert!(topic_config(row.name).is_some());
    }
}

#[test]
fn the_page_for_operators_has_one_line_for_each_option() {
    let page = docs::operations_options_markdown();
    assert_eq!(page.lines().count(), OPTIONS.len() + 2);
    for option in &OPTIONS {
        assert!(page.contains(&format!("| `{}`", option.key)), "{}", option.key);
    }
    let columns = page.lines().map(|line| line.matches('|').count()).max();
    assert_eq!(columns, Some(7));
}

#[test]
fn what_kubernetes_sets_for_a_service_of_our_name_is_no_option() {
    let names = [
        "CORELOG_SERVICE_HOST",
        "CORELOG_SERVICE_PORT",
        "CORELOG_SERVICE_PORT_KAFKA",
        "CORELOG_PORT",
        "CORELOG_PORT_9092_TCP_ADDR",
    ];
    let environment =
        names.map(|name| (name.to_owned(), "tcp://10.0.0.1:9092".to_owned())).to_vec();
    let sources = Sources { environment, ..Sources::default() };
    assert!(Config::load(&sources).is_ok());
    let environment = vec![("CORELOG_PORTS".to_owned(), "1".to_owned())];
    assert!(Config::load(&Sources { environment, ..Sources::default() }).is_err());
}
