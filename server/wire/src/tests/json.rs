//! Messages as Kafka's own JSON form, for comparison with what its serializers say.
//!
//! Kafka prints an empty string for every record set that is not null, whatever is in it.

use alloc::borrow::{Cow, ToOwned};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use record::{
    LeaderEpoch, NodeId, Offset, PartitionIndex, ProducerEpoch, ProducerId, Timestamp, TopicId,
};
use serde_json::Value;

use crate::error::ErrorCode;
use crate::field::{At, Records, Text};

pub(crate) trait Json<'a>: Sized {
    fn to_json(&self, at: At) -> Value;
    fn from_json(value: &Value, at: At) -> Self;
}

/// A JSON object under way.
#[derive(Default)]
pub(crate) struct Object(serde_json::Map<String, Value>);

impl Object {
    pub(crate) fn put(&mut self, field: &str, value: Value) {
        self.0.insert(camel(field), value);
    }

    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

/// The member of an object that a field of ours stands for.
pub(crate) fn field<'v>(value: &'v Value, field: &str) -> Option<&'v Value> {
    value.get(camel(field))
}

/// `fetch_offset` as `fetchOffset`.
fn camel(snake: &str) -> String {
    let mut camel = String::new();
    let mut parts = snake.split('_');
    camel.push_str(parts.next().unwrap());
    for part in parts {
        let (first, rest) = part.split_at(1);
        camel.push_str(&first.to_uppercase());
        camel.push_str(rest);
    }
    camel
}

macro_rules! numbers {
    ($($type:ty)*) => {$(
        impl Json<'_> for $type {
            fn to_json(&self, _: At) -> Value {
                Value::from(*self)
            }

            fn from_json(value: &Value, _: At) -> Self {
                Self::try_from(value.as_i64().unwrap()).unwrap()
            }
        }
    )*};
}

numbers! { i8 i16 u16 i32 i64 }

macro_rules! nouns {
    ($($type:ident)*) => {$(
        impl Json<'_> for $type {
            fn to_json(&self, at: At) -> Value {
                self.0.to_json(at)
            }

            fn from_json(value: &Value, at: At) -> Self {
                Self(Json::from_json(value, at))
            }
        }
    )*};
}

nouns! { Offset LeaderEpoch NodeId PartitionIndex ProducerId ProducerEpoch Timestamp }

impl Json<'_> for bool {
    fn to_json(&self, _: At) -> Value {
        Value::from(*self)
    }

    fn from_json(value: &Value, _: At) -> Self {
        value.as_bool().unwrap()
    }
}

impl Json<'_> for ErrorCode {
    fn to_json(&self, at: At) -> Value {
        self.code().to_json(at)
    }

    fn from_json(value: &Value, at: At) -> Self {
        Self::from_code(Json::from_json(value, at))
    }
}

impl Json<'_> for TopicId {
    fn to_json(&self, _: At) -> Value {
        Value::from(self.to_string())
    }

    fn from_json(value: &Value, _: At) -> Self {
        Self::parse(value.as_str().unwrap()).unwrap()
    }
}

impl Json<'_> for Text<'_> {
    fn to_json(&self, _: At) -> Value {
        Value::from(self.as_ref())
    }

    fn from_json(value: &Value, _: At) -> Self {
        Cow::Owned(value.as_str().unwrap().to_owned())
    }
}

impl Json<'_> for Option<Text<'_>> {
    fn to_json(&self, _: At) -> Value {
        self.as_deref().map_or(Value::Null, Value::from)
    }

    fn from_json(value: &Value, _: At) -> Self {
        value.as_str().map(|text| Cow::Owned(text.to_owned()))
    }
}

impl Json<'_> for Records<'_> {
    fn to_json(&self, _: At) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Inline(_) => Value::from(""),
            Self::Apart { .. } => unreachable!("never read"),
        }
    }

    fn from_json(value: &Value, _: At) -> Self {
        value.as_str().map_or(Self::Null, |_| Self::EMPTY)
    }
}

impl<'a, T: Json<'a>> Json<'a> for Vec<T> {
    fn to_json(&self, at: At) -> Value {
        self.iter().map(|element| element.to_json(at)).collect()
    }

    fn from_json(value: &Value, at: At) -> Self {
        value.as_array().unwrap().iter().map(|element| T::from_json(element, at)).collect()
    }
}

impl<'a, T: Json<'a>> Json<'a> for Option<Vec<T>> {
    fn to_json(&self, at: At) -> Value {
        self.as_ref().map_or(Value::Null, |elements| elements.to_json(at))
    }

    fn from_json(value: &Value, at: At) -> Self {
        (!value.is_null()).then(|| Vec::from_json(value, at))
    }
}
