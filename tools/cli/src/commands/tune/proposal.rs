//! What follows from the measurements: options for the node, each with why.
//!
//! Owns the rules. An option is proposed for what was measured here, and a difference below what repeats is none.

use serde::Serialize;

use super::curve::{Advertise, Point};
use crate::commands::host::disk::SyncCost;

/// Throughput this close to the best is as good: runs of this length do not repeat any better.
const AS_FAST: f64 = 0.9;
/// A 99.9th percentile up to so many times the best is as good.
const AS_STEADY: f64 = 2.0;
/// How much better it must be to have clients go to every core: they must reach as many ports.
const CORES_WORTH: f64 = 1.2;
/// How much better an option beside them must make it.
const SETTING_WORTH: f64 = 1.1;

/// An option for the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Proposal {
    /// Its key.
    pub(super) key: &'static str,
    /// Its value.
    pub(super) value: Value,
    /// What it was measured by.
    pub(super) why: String,
}

/// A value as a configuration file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Value {
    /// A number.
    Number(i64),
    /// A word.
    Word(&'static str),
}

/// The number of shards and the way to advertise them that the curve speaks for; nothing where there is no curve.
pub(super) fn of_curve(points: &[Point]) -> Vec<Proposal> {
    let Some(best) = best_of(points) else { return Vec::new() };
    let fastest = maximum(points);
    let shards = i64::try_from(best.candidate.shards).unwrap_or(i64::MAX);
    let cpu = best.cpu_seconds_per_gb.map(|cpu| format!(", {cpu:.2} CPU-s/GB")).unwrap_or_default();
    let measured = format!("{:.0} MB/s, p99.9 {:.2} ms{cpu}", best.mb_per_second, best.p999_ms);
    let why = if best.mb_per_second < fastest {
        format!("{measured}; the fastest gives {fastest:.0} MB/s, for more CPU or a longer tail")
    } else {
        measured
    };
    let advertise = best.candidate.advertise;
    let why_advertise = match advertise {
        Advertise::Core => {
            "clients that go to the right core save the forwarding: they must reach one port a core"
                .to_owned()
        }
        Advertise::Node if best.candidate.shards == 1 => {
            "one core is one broker either way".to_owned()
        }
        Advertise::Node => format!(
            "one port for clients; {:.2} requests forwarded for each, which costs less than {:.0} %",
            best.forwarded_per_request,
            (CORES_WORTH - 1.0) * 100.0
        ),
    };
    vec![
        Proposal { key: "shards", value: Value::Number(shards), why },
        Proposal { key: "advertise", value: Value::Word(advertise.name()), why: why_advertise },
    ]
}

/// The point that the proposal is taken from: of those that are fast and steady enough, the one that costs least CPU; as one
/// broker a node unless one a core is clearly better.
pub(super) fn best_of(points: &[Point]) -> Option<&Point> {
    let of = |way: Advertise| {
        let points: Vec<&Point> =
            points.iter().filter(|point| point.candidate.advertise == way).collect();
        let (fastest, steadiest) = (
            points.iter().map(|point| point.mb_per_second).fold(0.0, f64::max),
            points.iter().map(|point| tail(point)).fold(f64::INFINITY, f64::min),
        );
        let is_good = |point: &&Point| {
            point.mb_per_second >= fastest * AS_FAST && tail(point) <= steadiest * AS_STEADY
        };
        // Where the fastest are not steady, the fastest counts.
        let good = points.iter().copied().filter(is_good).min_by(|one, other| {
            let cost = |point: &Point| point.cpu_seconds_per_gb.unwrap_or(f64::INFINITY);
            cost(one).total_cmp(&cost(other))
        });
        let fast = points
            .into_iter()
            .max_by(|one, other| one.mb_per_second.total_cmp(&other.mb_per_second));
        good.or(fast)
    };
    let (node, core) = (of(Advertise::Node), of(Advertise::Core));
    match (node, core) {
        (Some(node), Some(core)) if core.mb_per_second >= node.mb_per_second * CORES_WORTH => {
            Some(core)
        }
        (node, core) => node.or(core),
    }
}

/// The 99.9th percentile, which nobody knows where the rate was not kept.
fn tail(point: &Point) -> f64 {
    if point.rate_kept { point.p999_ms } else { f64::INFINITY }
}

fn maximum(points: &[Point]) -> f64 {
    points.iter().map(|point| point.mb_per_second).fold(0.0, f64::max)
}

/// A larger `io.memory.bytes`, where a run with it was clearly faster than the one without.
pub(super) fn of_memory(without: &Point, with: &Point, bytes: i64) -> Option<Proposal> {
    let why =
        format!("{:.0} MB/s with it, {:.0} without", with.mb_per_second, without.mb_per_second);
    let is_worth = with.mb_per_second >= without.mb_per_second * SETTING_WORTH;
    is_worth.then_some(Proposal { key: "io.memory.bytes", value: Value::Number(bytes), why })
}

/// Spinning, where it clearly shortened the usual acknowledgement.
pub(super) fn of_spin(without: &Point, with: &Point, us: i64) -> Option<Proposal> {
    let why = format!(
        "p50 {:.3} ms with it, {:.3} without, for a CPU that is always busy",
        with.p50_ms, without.p50_ms
    );
    let is_worth = with.p50_ms > 0.0 && without.p50_ms >= with.p50_ms * SETTING_WORTH;
    is_worth.then_some(Proposal { key: "io.spin.us", value: Value::Number(us), why })
}

/// What a sync costs here, in a sentence.
pub(super) fn of_sync(cost: &SyncCost) -> String {
    let (growing, again) = (&cost.growing, &cost.again);
    let per_second = if growing.p50_us > 0.0 { 1e6 / growing.p50_us } else { 0.0 };
    let dsync = cost.dsync.as_ref().map_or_else(String::new, |dsync| {
        format!(", {:.3} ms through O_DSYNC", dsync.p50_us / 1e3)
    });
    format!(
        "a durable acknowledgement waits {:.3} ms (p50) and {:.3} ms (p99) for the disk, {:.3} ms where the file has been \
         written before{dsync}: a producer with one request under way gets {per_second:.0} a second at most, and more only by \
         sending more at once; write.caching=true takes this wait away, and with it what a power cut may take",
        growing.p50_us / 1e3,
        growing.p99_us / 1e3,
        again.p50_us / 1e3,
    )
}

#[cfg(test)]
mod tests {
    use super::super::curve::Candidate;
    use super::*;

    fn point(shards: usize, advertise: Advertise, numbers: (f64, f64, f64)) -> Point {
        let (mb_per_second, p999_ms, cpu) = numbers;
        Point {
            candidate: Candidate { shards, advertise, settings: Vec::new() },
            mb_per_second,
            cpu_seconds_per_gb: Some(cpu),
            forwarded_per_request: 0.0,
            p50_ms: 0.2,
            p999_ms,
            rate_kept: true,
        }
    }

    #[test]
    fn the_cheapest_of_those_that_are_as_fast_and_as_steady_is_proposed() {
        use Advertise::{Core, Node};
        let check = |points: &[Point], expected: (usize, Advertise)| {
            let best = best_of(points).unwrap();
            assert_eq!((best.candidate.shards, best.candidate.advertise), expected);
        };
        let (one, two) = (point(1, Node, (950.0, 3.0, 0.3)), point(2, Node, (1_000.0, 2.0, 0.5)));
        check(&[one.clone(), two.clone()], (1, Node));
        let slow = point(1, Node, (800.0, 3.0, 0.3));
        check(&[slow, two.clone()], (2, Node));
        let unsteady = point(1, Node, (950.0, 4.1, 0.3));
        check(&[unsteady, two.clone()], (2, Node));
        let bit_better = point(2, Core, (1_100.0, 2.0, 0.2));
        check(&[one.clone(), two.clone(), bit_better], (1, Node));
        let much_better = point(2, Core, (1_300.0, 2.0, 0.2));
        check(&[one, two.clone(), much_better], (2, Core));
        let (fast, steady) =
            (point(2, Node, (1_000.0, 9.0, 0.5)), point(1, Node, (100.0, 1.0, 0.5)));
        check(&[fast, steady], (2, Node));
        let behind = Point { rate_kept: false, ..point(1, Node, (990.0, 0.1, 0.1)) };
        check(&[behind.clone(), two.clone()], (2, Node));
        check(&[behind], (1, Node));
        assert!(best_of(&[]).is_none() && of_curve(&[]).is_empty());
        let proposed = of_curve(&[two]);
        assert_eq!(proposed[0].value, Value::Number(2));
        assert_eq!(proposed[1].value, Value::Word("node"));
    }

    #[test]
    fn settings_are_proposed_for_what_repeats_only() {
        let without = point(1, Advertise::Node, (1_000.0, 2.0, 0.5));
        let with = |mb_per_second, p50_ms| Point { mb_per_second, p50_ms, ..without.clone() };
        assert_eq!(of_memory(&without, &with(1_090.0, 0.2), 64 << 20), None);
        assert!(of_memory(&without, &with(1_110.0, 0.2), 64 << 20).is_some());
        assert_eq!(of_spin(&without, &with(1_000.0, 0.19), 50), None);
        assert!(of_spin(&without, &with(1_000.0, 0.18), 50).is_some());
    }
}
