//! DescribeConfigs of a fresh node against the table of what a fresh Apache Kafka 4.4 answers (MD-8, MD-10).
//!
//! Owns that every name of Kafka's is there with its type, its default, whether it can be changed and whether it is a secret,
//! except for the rows of `configs/differences.tsv`, each with its reason; docs/compatibility.md shows them. A row that is no
//! longer true fails the test, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use wire::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResourceResult, DescribeConfigsResponse,
};

use crate::configs::{BROKER, TOPIC, resource};
use crate::support::{Client, Node, Topic};

const KAFKA: &str = include_str!("../configs/kafka.tsv");
const DIFFERENCES: &str = include_str!("../configs/differences.tsv");
const FIELDS: [&str; 5] = ["type", "default", "change", "sensitive", "synonyms"];
const TYPES: [&str; 10] =
    ["UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"];
const BUILT_IN: i8 = 5;

/// By scope and name: what [`FIELDS`] says.
type Facts = BTreeMap<(String, String), [String; FIELDS.len()]>;

/// The rows of a table without its heading; every row has `N` columns.
fn rows<const N: usize>(table: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    let lines = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        columns.try_into().unwrap_or_else(|_| panic!("{line}: {N} columns are needed"))
    })
}

fn of_kafka() -> Facts {
    let rows = rows::<7>(KAFKA);
    rows.map(|[scope, name, facts @ ..]| {
        ((scope.to_owned(), name.to_owned()), facts.map(ToOwned::to_owned))
    })
    .collect()
}

fn of_ours(client: &mut Client, scope: &str, kind: i8, name: &str) -> Facts {
    let resources = vec![resource(kind, name, None)];
    let request =
        DescribeConfigsRequest { resources, include_synonyms: true, ..Default::default() };
    let frame = client.call(4, &request);
    let answer: DescribeConfigsResponse<'_> = frame.read();
    let configs = answer.results[0].configs.iter();
    configs.map(|one| ((scope.to_owned(), one.name.to_string()), facts_of(one))).collect()
}

fn facts_of(config: &DescribeConfigsResourceResult<'_>) -> [String; FIELDS.len()] {
    let text = |value: &Option<wire::Text<'_>>| {
        value.as_ref().map_or("null".to_owned(), |value| value.to_string())
    };
    let built_in = config.synonyms.iter().find(|synonym| synonym.source == BUILT_IN);
    let default = match built_in {
        Some(synonym) => text(&synonym.value),
        None if config.config_source == BUILT_IN => text(&config.value),
        None => "null".to_owned(),
    };
    let others: BTreeSet<_> =
        config.synonyms.iter().map(|synonym| synonym.name.to_string()).collect();
    let others: Vec<String> = others.into_iter().filter(|name| *name != *config.name).collect();
    [
        TYPES[usize::try_from(config.config_type).unwrap()].to_owned(),
        default,
        if config.read_only { "read-only" } else { "dynamic" }.to_owned(),
        if config.is_sensitive { "sensitive" } else { "" }.to_owned(),
        others.join(" "),
    ]
}

/// What differs, as rows of `differences.tsv` without a reason: scope, name, field, Kafka's, ours.
fn differences(kafka: &Facts, ours: &Facts) -> Vec<[String; 5]> {
    let keys: BTreeSet<_> = kafka.keys().chain(ours.keys()).collect();
    let mut found = Vec::new();
    for key in keys {
        let mut differs = |field: &str, kafka: &str, ours: &str| {
            // In brackets stands what depends on the node: anything but nothing.
            let is_nodes_own = kafka.starts_with('(') && ours != "null";
            if kafka != ours && !is_nodes_own {
                let (scope, name) = key.clone();
                found.push([scope, name, field.to_owned(), kafka.to_owned(), ours.to_owned()]);
            }
        };
        match (kafka.get(key), ours.get(key)) {
            (Some(kafka), Some(ours)) => {
                for (field, (kafka, ours)) in FIELDS.iter().zip(kafka.iter().zip(ours)) {
                    differs(field, kafka, ours);
                }
            }
            (Some(_), None) => differs("presence", "present", "absent"),
            _ => differs("presence", "absent", "present"),
        }
    }
    found
}

#[test]
fn every_configuration_is_described_as_kafka_does_except_for_what_is_listed() {
    let mut client = Node::shared().connect();
    let topic = Topic::create(&mut client, 1);
    let mut ours = of_ours(&mut client, "topic", TOPIC, &topic.name);
    ours.extend(of_ours(&mut client, "broker", BROKER, "1"));
    let kafka = of_kafka();
    assert!(kafka.len() > 400 && ours.len() > 350);
    let listed: Vec<[&str; 6]> = rows(DIFFERENCES).collect();
    let mut used = vec![false; listed.len()];
    let mut unlisted = String::new();
    for one in differences(&kafka, &ours) {
        let covers = |row: &[&str; 6]| {
            one.iter().zip(row).all(|(found, pattern)| *pattern == "*" || found == pattern)
        };
        match listed.iter().position(covers) {
            Some(row) => used[row] = true,
            None => writeln!(unlisted, "{}", one.join("\t")).unwrap(),
        }
    }
    assert!(unlisted.is_empty(), "not listed:\n{unlisted}");
    let stale: Vec<_> = listed.iter().zip(used).filter(|(_, used)| !used).collect();
    assert!(stale.is_empty(), "no longer true: {stale:?}");
    assert!(listed.iter().all(|row| !row[5].is_empty()));
}
