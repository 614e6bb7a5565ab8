//! Looks whether every partition is served.
//!
//! Owns the count and the words. A node serves what it can: one partition that it cannot open shows in no other check.

use broker::Platform;
use record::PartitionIndex;
use wire::ErrorCode;

use super::Check;
use crate::client::{Client, ClientError, OFFLINE_ADVICE, OffsetAt, listed};

const NAME: &str = "partitions";
/// Partitions that are asked for: a request for each topic and leader, which large clusters have many of.
const PARTITIONS_MAX: usize = 20_000;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// Partitions that were asked for.
    asked: usize,
    /// Partitions that were too many to be asked for.
    left_out: usize,
    /// Those that nobody serves, with why.
    offline: Vec<(String, ErrorCode)>,
}

/// Asks for the end of every partition.
pub(super) async fn check<P: Platform>(client: &mut Client<P>) -> Check {
    match ask(client).await {
        Ok(found) => judge(&found),
        Err(error) => Check::failed(
            NAME,
            format!("the partitions could not be looked at: {error}"),
            "run corelog topic describe on the topics, and see the node's log",
        ),
    }
}

async fn ask<P: Platform>(client: &mut Client<P>) -> Result<Found, ClientError> {
    let mut found = Found::default();
    for mut topic in client.topics().await? {
        let all: Vec<PartitionIndex> = topic.partitions.iter().map(|one| one.index).collect();
        let asked = all.get(..PARTITIONS_MAX - found.asked).unwrap_or(&all);
        found.asked += asked.len();
        found.left_out += all.len() - asked.len();
        let survey = match client.find_offsets(&mut topic, asked, OffsetAt::End).await {
            Ok(survey) => survey,
            // Deleted meanwhile.
            Err(error) if error.is_absence() => continue,
            Err(error) => return Err(error),
        };
        let offline = survey.offline.iter().map(|(index, code)| (topic.place(*index), *code));
        found.offline.extend(offline);
    }
    Ok(found)
}

fn judge(found: &Found) -> Check {
    let Found { asked, left_out, offline } = found;
    let rest = match left_out {
        0 => String::new(),
        more => format!(" ({more} more were not asked for)"),
    };
    let Some((_, code)) = offline.first() else {
        let verb = if *asked == 1 { "is" } else { "are" };
        return Check::ok(NAME, format!("{asked} of {asked} {verb} served{rest}"));
    };
    let names: Vec<&String> = offline.iter().map(|(place, _)| place).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    let fact = format!("{} of {asked} {verb} offline: {}{rest}", names.len(), listed(&names));
    let fix = match code {
        ErrorCode::LeaderNotAvailable => {
            "bring back a node that holds them (corelog topic describe)"
        }
        _ => OFFLINE_ADVICE,
    };
    Check::failed(NAME, fact, fix)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn partitions_that_nobody_serves_are_named_within_a_bound() {
        let check = |count: usize, verdict: Verdict, expected: &str| {
            let place = |index| (format!("orders-{index}"), ErrorCode::KafkaStorageError);
            let offline = (0..count).map(place).collect();
            let check = judge(&Found { asked: 20, left_out: 0, offline });
            assert_eq!((check.verdict, &check.fact[..]), (verdict, expected));
        };
        check(0, Verdict::Ok, "20 of 20 are served");
        check(1, Verdict::Failed, "1 of 20 is offline: orders-0");
        check(2, Verdict::Failed, "2 of 20 are offline: orders-0, orders-1");
        let ten: Vec<String> = (0..10).map(|index| format!("orders-{index}")).collect();
        let many = format!("12 of 20 are offline: {} and 2 more", ten.join(", "));
        check(12, Verdict::Failed, &many);
        let found = Found { asked: 20, left_out: 5, offline: Vec::new() };
        assert_eq!(judge(&found).fact, "20 of 20 are served (5 more were not asked for)");
    }
}
