//! The feature level: which records the whole cluster understands.
//!
//! Owns the one feature there is, its levels, and who may change the level. Kafka's own features are not ours to claim: each
//! promises behaviour that clients then count on.

use alloc::string::String;
use alloc::vec::Vec;

use crate::image::Image;
use crate::records::MetadataRecord;
use crate::{Bounds, Decision, FEATURE_LEVEL_KNOWN, Intent, excerpt};

/// The feature's name, as clients see it.
pub const FEATURE_NAME: &str = "corelog.version";
/// The lowest level that this version can work with.
pub const FEATURE_LEVEL_MIN: u16 = 1;

/// The level of one feature to settle on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureUpdate {
    /// The feature.
    pub name: String,
    /// The level.
    pub level: i16,
    /// Kafka's number: 1 upgrade, 2 downgrade that loses nothing, 3 downgrade that may lose metadata.
    pub upgrade_type: i8,
}

/// A request to change levels: all of them change, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateFeatures {
    /// The features.
    pub updates: Vec<FeatureUpdate>,
    /// Whether to change them.
    pub intent: Intent,
}

/// Why no level changes (95).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FeatureRefusal {
    /// No such feature.
    #[error("feature {name}: unknown; there is {FEATURE_NAME}")]
    Unknown {
        /// The name, cut to a bound.
        name: String,
    },
    /// A level that this version cannot work with.
    #[error("{FEATURE_NAME} = {level}: must be {}", Bounds(FEATURE_LEVEL_MIN, FEATURE_LEVEL_KNOWN))]
    Level {
        /// As asked.
        level: i16,
    },
    /// Down: metadata records of the level that is left could not be read any more.
    #[error("{FEATURE_NAME} = {level}: is {current} and does not go back")]
    Downgrade {
        /// As asked.
        level: u16,
        /// As it is.
        current: u16,
    },
    /// A number that is no upgrade type.
    #[error("upgrade type {upgrade_type}: must be 1 upgrade, 2 safe or 3 unsafe downgrade")]
    UpgradeType {
        /// As asked.
        upgrade_type: i8,
    },
}

impl Image {
    /// The records that change these levels, and the answer to give once they are committed.
    #[must_use]
    pub fn decide_update_features(
        &self,
        request: &UpdateFeatures,
    ) -> Decision<Result<(), FeatureRefusal>> {
        let planned: Result<Vec<_>, _> =
            request.updates.iter().map(|update| self.plan_feature(update)).collect();
        match planned {
            Err(refusal) => Decision { records: Vec::new(), reply: Err(refusal) },
            Ok(levels) => {
                // The same feature twice settles on the higher level.
                let level = levels.into_iter().max().filter(|level| *level > self.feature_level());
                let level = level.filter(|_| request.intent == Intent::Apply);
                let records = level.map(|level| MetadataRecord::FeatureLevel { level });
                Decision { records: records.into_iter().collect(), reply: Ok(()) }
            }
        }
    }

    fn plan_feature(&self, update: &FeatureUpdate) -> Result<u16, FeatureRefusal> {
        if update.name != FEATURE_NAME {
            return Err(FeatureRefusal::Unknown { name: excerpt(&update.name) });
        }
        let level = u16::try_from(update.level)
            .ok()
            .filter(|level| (FEATURE_LEVEL_MIN..=FEATURE_LEVEL_KNOWN).contains(level))
            .ok_or(FeatureRefusal::Level { level: update.level })?;
        let upgrade_type = update.upgrade_type;
        if !(1..=3).contains(&upgrade_type) {
            return Err(FeatureRefusal::UpgradeType { upgrade_type });
        }
        let current = self.feature_level();
        if level < current {
            return Err(FeatureRefusal::Downgrade { level, current });
        }
        Ok(level)
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;
    use crate::testing::{image_of_nodes, run};

    fn update(name: &str, level: i16, upgrade_type: i8) -> FeatureUpdate {
        FeatureUpdate { name: name.to_string(), level, upgrade_type }
    }

    fn decide(image: &Image, updates: &[FeatureUpdate], intent: Intent) -> Decision<String> {
        let request = UpdateFeatures { updates: updates.to_vec(), intent };
        let Decision { records, reply } = image.decide_update_features(&request);
        let reply = match reply {
            Ok(()) => "ok".to_string(),
            Err(refusal) => refusal.to_string(),
        };
        Decision { records, reply }
    }

    const UP: i8 = 1;

    #[test]
    fn a_level_is_written_once_and_only_where_it_is_meant() {
        let mut image = Image::default();
        let asked = [update(FEATURE_NAME, 1, UP)];
        assert_eq!(decide(&image, &asked, Intent::ValidateOnly).records, []);
        let decision = decide(&image, &asked, Intent::Apply);
        assert_eq!(decision.records, [MetadataRecord::FeatureLevel { level: 1 }]);
        run(&mut image, &decision.records);
        assert_eq!(image.feature_level(), 1);
        let again = decide(&image, &asked, Intent::Apply);
        assert_eq!(again, Decision { records: vec![], reply: "ok".to_string() });
    }

    #[test]
    fn what_cannot_be_changes_nothing_at_all() {
        let fresh = Image::default();
        let check = |bad: FeatureUpdate, expected: &str| {
            let both = [update(FEATURE_NAME, 1, UP), bad];
            let decision = decide(&fresh, &both, Intent::Apply);
            assert_eq!(decision, Decision { records: vec![], reply: expected.to_string() });
        };
        let unknown = "feature metadata.version: unknown; there is corelog.version";
        check(update("metadata.version", 1, UP), unknown);
        for level in [0, -1, 2, i16::MAX] {
            let bound = alloc::format!("corelog.version = {level}: must be 1");
            check(update(FEATURE_NAME, level, 3), &bound);
        }
        for upgrade_type in [0, 4, -1] {
            let said = alloc::format!(
                "upgrade type {upgrade_type}: must be 1 upgrade, 2 safe or 3 unsafe downgrade"
            );
            check(update(FEATURE_NAME, 1, upgrade_type), &said);
        }
    }

    #[test]
    fn a_registered_node_has_the_level_that_it_knows() {
        assert_eq!(image_of_nodes(1).feature_level(), FEATURE_LEVEL_KNOWN);
    }
}
