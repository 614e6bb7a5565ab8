//! Whether a durable run can have been durable: how often the device was flushed, and how often it must have been.
//!
//! ```text
//!   one connection, in flight 2    ├─ 0 ─┤      ├─ 2 ─┤      ├─ 4 ─┤        0, 2, 4: each left after the one before was answered,
//!                                     ├─ 1 ─┤      ├─ 3 ─┤                  so that no flush can have served two of them
//! ```
//!
//! Owns the bound and the judgement. The counter is the whole device's: what others flush meanwhile can hide a missing flush, never
//! make one up.

use serde::{Deserialize, Serialize};

use crate::device::{Device, DeviceError, DeviceSample};

/// What the device was asked to do while batches were acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushReport {
    /// Its name; absent where it is not known.
    pub device: Option<String>,
    /// Writes that it completed, from before the first request to after the last answer.
    pub writes: u64,
    /// Flushes that it completed.
    pub flushes: u64,
    /// How many there must have been, if every acknowledgement waited for one.
    pub flushes_min: u64,
    /// Whether the run is not sound where nothing follows.
    pub is_required: bool,
    /// What follows.
    pub verdict: FlushVerdict,
    /// Why nothing follows, where that is so.
    pub unknown_because: Option<String>,
}

/// What follows from the flushes of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushVerdict {
    /// Acknowledgements promise nothing of the disk: none had to be.
    NotDemanded,
    /// There were as many as there must be.
    Passed,
    /// Batches were acknowledged as durable that were not flushed.
    Failed,
    /// The device is not known, or does not count them.
    Unknown,
}

impl FlushReport {
    /// Why flushes could not be counted that had to be.
    pub(crate) fn missed(&self) -> Option<String> {
        self.unknown_because.clone().filter(|_| self.is_required)
    }
}

/// Whether acknowledgements must have waited for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    /// They promise nothing.
    None,
    /// They promise it.
    Durable,
    /// The run is to show it, whatever they promise.
    Required,
}

/// The device before a run.
#[derive(Debug)]
pub(crate) struct Watch(Result<(Device, DeviceSample), DeviceError>);

impl Watch {
    /// Looks at a device.
    pub(crate) fn begin(device: Result<Device, DeviceError>) -> Self {
        Self(device.and_then(|device| {
            let sample = device.sample()?;
            Ok((device, sample))
        }))
    }

    /// Looks again, and judges.
    pub(crate) fn end(self, demand: Demand, flushes_min: u64) -> FlushReport {
        let looked = self.0.and_then(|(device, before)| {
            let after = device.sample()?;
            Ok((device, before, after))
        });
        match looked {
            Ok((device, before, after)) => {
                let hidden = device.hides_flushes();
                let counted = DeviceSample {
                    writes: after.writes.saturating_sub(before.writes),
                    flushes: after.flushes.saturating_sub(before.flushes),
                };
                judge(Some(device.name().to_owned()), counted, (demand, flushes_min), hidden)
            }
            Err(error) => {
                let nothing = DeviceSample { writes: 0, flushes: 0 };
                judge(None, nothing, (demand, flushes_min), Some(&error.to_string()))
            }
        }
    }
}

fn judge(
    device: Option<String>,
    counted: DeviceSample,
    (demand, flushes_min): (Demand, u64),
    hidden: Option<&str>,
) -> FlushReport {
    let DeviceSample { writes, flushes } = counted;
    let is_enough = device.is_some() && flushes >= flushes_min;
    let verdict = match demand {
        Demand::None => FlushVerdict::NotDemanded,
        _ if is_enough => FlushVerdict::Passed,
        _ if hidden.is_some() => FlushVerdict::Unknown,
        _ => FlushVerdict::Failed,
    };
    let because = hidden.filter(|_| verdict == FlushVerdict::Unknown).map(str::to_owned);
    FlushReport {
        device,
        writes,
        flushes,
        flushes_min,
        is_required: demand == Demand::Required,
        verdict,
        unknown_because: because,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(flushes: u64, demand: Demand, hidden: Option<&str>) -> FlushVerdict {
        let counted = DeviceSample { writes: 9, flushes };
        judge(Some("vda".to_owned()), counted, (demand, 100), hidden).verdict
    }

    #[test]
    fn a_durable_run_needs_as_many_flushes_as_requests_followed_each_other() {
        assert_eq!(verdict(100, Demand::Durable, None), FlushVerdict::Passed);
        assert_eq!(verdict(99, Demand::Durable, None), FlushVerdict::Failed);
        assert_eq!(verdict(0, Demand::None, None), FlushVerdict::NotDemanded);
        // What cannot be counted proves nothing, unless it was counted all the same.
        assert_eq!(verdict(0, Demand::Durable, Some("fua")), FlushVerdict::Unknown);
        assert_eq!(verdict(100, Demand::Durable, Some("fua")), FlushVerdict::Passed);
        let unknown =
            judge(None, DeviceSample { writes: 0, flushes: 0 }, (Demand::Durable, 0), Some("x"));
        assert_eq!(unknown.verdict, FlushVerdict::Unknown);
        assert_eq!(unknown.unknown_because.as_deref(), Some("x"));
        assert_eq!(unknown.missed(), None, "nobody has asked for it");
        let required =
            judge(None, DeviceSample { writes: 0, flushes: 0 }, (Demand::Required, 0), Some("x"));
        assert_eq!(required.missed().as_deref(), Some("x"));
    }
}
