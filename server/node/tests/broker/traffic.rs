//! What single partitions and stages of requests are told to do, on the admin pages.

use crate::support::{Node, Topic, batch, http_get};

/// The values of the lines of `page` that begin so.
fn values(page: &str, start: &str) -> Vec<u64> {
    let lines = page.lines().filter_map(|line| line.strip_prefix(start));
    lines.filter_map(|rest| rest.rsplit_once(' ')?.1.parse().ok()).collect()
}

#[test]
fn what_goes_in_and_out_of_partitions_is_told_for_those_of_all_cores() {
    let node = Node::start(2, &[]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 2);
    let bytes = batch(&["a", "b"]).len() as u64;
    for partition in [0, 0, 0, 1] {
        client.append(&topic, partition, &batch(&["a", "b"]));
    }
    client.read_from(&topic, 0, 0);
    for path in ["/metrics/partitions", "/metrics/partitions/all"] {
        let page = http_get(node.admin(), path);
        for (partition, appends) in [(0, 3), (1, 1)] {
            let value = |metric: &str| {
                let labels = format!("{{topic=\"{}\",partition=\"{partition}\"", topic.name);
                let found = values(&page, &format!("corelog_partition_{metric}{labels}"));
                assert_eq!(found.len(), 1, "{metric} of {partition} in {page}");
                found[0]
            };
            assert_eq!(value("appends_total"), appends);
            assert_eq!(value("appended_bytes_total"), appends * bytes);
            assert_eq!(value("bytes"), appends * bytes);
            assert_eq!(value("log_start_offset"), 0);
            assert_eq!(value("log_end_offset"), 2 * appends);
            assert_eq!(value("fetches_total") > 0, partition == 0);
            assert_eq!(value("fetched_bytes_total") >= 3 * bytes, partition == 0);
        }
        let cores = ["0", "1"].map(|core| page.contains(&format!("core=\"{core}\"")));
        assert_eq!(cores, [true, true], "partitions are dealt to both cores");
    }
}

#[test]
fn every_stage_of_a_produce_is_counted() {
    let node = Node::start(1, &[]);
    let mut client = node.connect();
    let topic = Topic::create(&mut client, 1);
    let count = |stage: &str| {
        let page = http_get(node.admin(), "/metrics");
        let of_stage = format!("corelog_stage_seconds_count{{core=\"0\",stage=\"{stage}\"}}");
        values(&page, &of_stage)[0]
    };
    let stages = ["read", "queue", "decode", "append", "sync", "send"];
    let before = stages.map(count);
    client.append(&topic, 0, &batch(&["a"]));
    client.append(&topic, 0, &batch(&["b"]));
    let after = stages.map(count);
    for ((stage, before), after) in stages.into_iter().zip(before).zip(after) {
        assert_eq!(after - before, 2, "{stage}");
    }
}
