//! Deleting topics, by name or by identity (MD-6).
//!
//! Owns the checks. It plans against the image and changes nothing; files go when every core has applied the image.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use record::TopicId;

use crate::image::Image;
use crate::records::MetadataRecord;
use crate::{Decision, excerpt};

/// A topic to delete, as the request names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicReference<'a> {
    /// By name.
    Name(&'a str),
    /// By identity (v6).
    Id(TopicId),
    /// By both, which is refused.
    Both(&'a str, TopicId),
    /// By neither, which is refused.
    Neither,
}

/// What became of one topic of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteOutcome {
    /// Its name, where known: one found by identity is told its name.
    pub name: Option<String>,
    /// Its identity, where known; zero otherwise.
    pub id: TopicId,
    /// Whether it is deleted.
    pub result: Result<(), DeleteRefusal>,
}

/// Why a topic is not deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeleteRefusal {
    /// `delete.topic.enable` is off (73).
    #[error("delete.topic.enable = false")]
    Disabled,
    /// No topic of that name (3).
    #[error("topic {name}: does not exist")]
    UnknownName {
        /// The name, cut to a bound.
        name: String,
    },
    /// No topic of that identity (100).
    #[error("topic id {id}: does not exist")]
    UnknownId {
        /// The identity.
        id: TopicId,
    },
    /// It stands more than once in the request (42).
    #[error("the topic stands more than once in the request")]
    Duplicate,
    /// By name and identity, or by neither (42).
    #[error("a topic is named by its name or by its id, not by both or neither")]
    Reference,
}

/// Whether topics may be deleted at all (`delete.topic.enable`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// They may.
    Enabled,
    /// They may not.
    Disabled,
}

impl Image {
    /// The records that delete these topics, and the answer to give once they are committed and applied.
    ///
    /// Order   answers are in the order of the request, one for each entry.
    #[must_use]
    pub fn decide_delete_topics(
        &self,
        references: &[TopicReference<'_>],
        deletion: Deletion,
    ) -> Decision<Vec<DeleteOutcome>> {
        let mut asked: BTreeMap<TopicId, usize> = BTreeMap::new();
        for id in references.iter().filter_map(|reference| self.resolve(reference).ok()) {
            *asked.entry(id).or_default() += 1;
        }
        let mut decision = Decision { records: Vec::new(), reply: Vec::new() };
        for reference in references {
            let result = self.resolve(reference).and_then(|id| match (deletion, asked.get(&id)) {
                (Deletion::Disabled, _) => Err(DeleteRefusal::Disabled),
                (Deletion::Enabled, Some(1)) => Ok(id),
                (Deletion::Enabled, _) => Err(DeleteRefusal::Duplicate),
            });
            if let Ok(id) = result {
                decision.records.push(MetadataRecord::TopicRemove { id });
            }
            decision.reply.push(self.outcome(reference, result));
        }
        decision
    }

    fn resolve(&self, reference: &TopicReference<'_>) -> Result<TopicId, DeleteRefusal> {
        match *reference {
            TopicReference::Name(name) => {
                let unknown = || DeleteRefusal::UnknownName { name: excerpt(name) };
                self.topic(name).map(|topic| topic.id).ok_or_else(unknown)
            }
            TopicReference::Id(id) => {
                self.topic_by_id(id).map(|topic| topic.id).ok_or(DeleteRefusal::UnknownId { id })
            }
            TopicReference::Both(..) | TopicReference::Neither => Err(DeleteRefusal::Reference),
        }
    }

    fn outcome(
        &self,
        reference: &TopicReference<'_>,
        result: Result<TopicId, DeleteRefusal>,
    ) -> DeleteOutcome {
        let (name, id) = match *reference {
            TopicReference::Name(name) => {
                (Some(String::from(name)), self.topic(name).map(|topic| topic.id))
            }
            TopicReference::Id(id) => {
                (self.topic_by_id(id).map(|topic| String::from(&*topic.name)), Some(id))
            }
            TopicReference::Both(name, id) => (Some(String::from(name)), Some(id)),
            TopicReference::Neither => (None, None),
        };
        let id = id.unwrap_or(TopicId::ZERO);
        DeleteOutcome { name, id, result: result.map(|_| ()) }
    }
}

#[cfg(test)]
mod tests;
