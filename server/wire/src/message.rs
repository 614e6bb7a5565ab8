//! The form in which messages are defined: one `message!` block each, one line a field.
//!
//! Owns the macro and the traits behind it. A block reads like Kafka's own schema:
//!
//! ```text
//! message! {
//!     /// What the message is for.
//!     request(ListOffsets) ListOffsetsRequest<'a> {          request or response, and the API that it belongs to
//!         /// What the field means.
//!         replica_id: NodeId, in 1.., default NodeId::NONE;  name, type, versions that carry it, value where absent
//!         topics: Vec<ListOffsetsTopic<'a>>, in 1..;
//!     }
//!     /// A struct inside the message.
//!     part ListOffsetsTopic<'a> { … }
//! }
//! ```
//!
//! A struct that may be null is `nullable` in place of `part`. Tagged fields stand in the order of their tags.
//!
//! After `in`, in this order and each only where it applies: `null 2..` (versions in which the field may be null; its type
//! is an `Option` or [`crate::Records`]), `tag 0` (it is a tagged field), `default X` (other than the type's own). Field
//! names are Kafka's in snake case. Which versions exist, and which are flexible, stands in [`crate::api`] alone.
//!
//! A field that a version does not carry is left out when written and has its default when read.

use crate::api::ApiKey;
use crate::decode::{BodyError, Decoder, Result};
use crate::encode::{EncodeError, Encoder, Output, measure};
use crate::field::{At, Placed, ReadField, WriteField};

/// The body of a request or a response.
pub trait Message<'a>: ReadField<'a> + WriteField {
    /// The API that it belongs to.
    const API: ApiKey;
    /// Whether it comes from a client.
    const IS_REQUEST: bool;

    /// Reads a body. Bytes after it are left alone, as Kafka does.
    ///
    /// Errors  the codec lacks `version`; the bytes are not such a message; it would take too much memory.
    fn decode(version: i16, body: &'a [u8]) -> Result<Self> {
        let mut decoder = if Self::IS_REQUEST {
            Decoder::of_request(Self::API, body)
        } else {
            Decoder::new(body)
        };
        Self::decode_from(version, &mut decoder)
    }

    /// Reads a body and leaves `decoder` behind it.
    fn decode_from(version: i16, decoder: &mut Decoder<'a>) -> Result<Self> {
        let versions = Self::API.api().codec;
        if !versions.contains(version) {
            return Err(BodyError::Version { api: Self::API, version, versions });
        }
        Self::read(decoder, body_at(Self::API, version))
    }

    /// The size of the body, that of records apart included.
    fn encoded_bytes(&self, version: i16) -> usize {
        measure(&Placed(self, body_at(Self::API, version))).bytes()
    }
}

/// A message that a client sends.
pub trait Request<'a>: Message<'a> {}

/// A message that a server sends.
pub trait Response<'a>: Message<'a> {}

/// The circumstances of a body as a whole.
pub(crate) const fn body_at(api: ApiKey, version: i16) -> At {
    At { version, flexible: api.is_flexible(version), nullable: false }
}

/// Whether a tagged field is worth writing. One type for both, so that a default's type follows from the field.
pub(crate) fn differs<T: PartialEq>(value: &T, default: &T) -> bool {
    value != default
}

/// Writes one tagged field: tag, size, content.
pub(crate) fn write_tagged<T: WriteField, O: Output>(
    encoder: &mut Encoder<O>,
    tag: u32,
    value: &T,
    at: At,
) {
    let content_bytes = measure(&Placed(value, at)).bytes();
    if i32::try_from(content_bytes).is_err() {
        encoder.output().refuse(EncodeError::FrameTooLong { bytes: content_bytes });
        return;
    }
    encoder.writer.tagged_field(tag, content_bytes);
    value.write(encoder, at);
}

/// Expands to its second part for a field without a tag.
macro_rules! untagged {
    ([] $($body:tt)*) => { $($body)* };
    ([$tag:literal] $($body:tt)*) => {};
}
pub(crate) use untagged;

/// Expands to its second part for a field with a tag.
macro_rules! tagged {
    ([] $($body:tt)*) => {};
    ([$tag:literal] $($body:tt)*) => { $($body)* };
}
pub(crate) use tagged;

/// A field's default: its own, or that of its type.
macro_rules! default_of {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}
pub(crate) use default_of;

/// Whether a version lies in an optional range.
macro_rules! in_range {
    ($version:expr) => {
        false
    };
    ($version:expr, $range:expr) => {
        ($range).contains(&$version)
    };
}
pub(crate) use in_range;

/// What a struct is: a message of its own, or part of one.
macro_rules! role {
    (request $api:ident $name:ident $($life:lifetime)?) => {
        impl<'a> $crate::message::Message<'a> for $name$(<$life>)? {
            const API: $crate::ApiKey = $crate::ApiKey::$api;
            const IS_REQUEST: bool = true;
        }
        impl<'a> $crate::message::Request<'a> for $name$(<$life>)? {}
    };
    (response $api:ident $name:ident $($life:lifetime)?) => {
        impl<'a> $crate::message::Message<'a> for $name$(<$life>)? {
            const API: $crate::ApiKey = $crate::ApiKey::$api;
            const IS_REQUEST: bool = false;
        }
        impl<'a> $crate::message::Response<'a> for $name$(<$life>)? {}
    };
    (part $name:ident $($life:lifetime)?) => {};
    (nullable $name:ident $($life:lifetime)?) => {
        #[cfg(test)]
        impl<'a> $crate::tests::json::Json<'a> for Option<$name$(<$life>)?> {
            fn to_json(&self, at: $crate::field::At) -> serde_json::Value {
                self.as_ref().map_or(serde_json::Value::Null, |value| value.to_json(at))
            }

            fn from_json(value: &serde_json::Value, at: $crate::field::At) -> Self {
                (!value.is_null()).then(|| $crate::tests::json::Json::from_json(value, at))
            }
        }

        impl<'a> $crate::field::ReadField<'a> for Option<$name$(<$life>)?> {
            fn read(
                decoder: &mut $crate::decode::Decoder<'a>,
                at: $crate::field::At,
            ) -> $crate::decode::Result<Self> {
                let start = decoder.reader.position();
                if decoder.reader.i8()? < 0 {
                    return $crate::field::null(at, stringify!($name), start);
                }
                $crate::field::ReadField::read(decoder, at.nullable(false)).map(Some)
            }
        }

        impl<'a> $crate::field::WriteField for Option<$name$(<$life>)?> {
            fn write<O: $crate::encode::Output>(
                &self,
                encoder: &mut $crate::encode::Encoder<O>,
                at: $crate::field::At,
            ) {
                encoder.writer.i8(if self.is_some() { 1 } else { -1 });
                if let Some(value) = self {
                    value.write(encoder, at.nullable(false));
                }
            }
        }
    };
}
pub(crate) use role;

/// Defines messages; the module's documentation says how.
macro_rules! message {
    ($(
        $(#[$doc:meta])*
        $role:ident $(($api:ident))? $name:ident $(<$life:lifetime>)? {
            $(
                $(#[$field_doc:meta])*
                $field:ident: $type:ty, in $in:expr
                $(, null $null:expr)?
                $(, tag $tag:literal)?
                $(, default $default:expr)?;
            )*
        }
    )*) => {$(
        $crate::message::role! { $role $($api)? $name $($life)? }

        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name $(<$life>)? {
            $(
                $(#[$field_doc])*
                pub $field: $type,
            )*
        }

        impl $(<$life>)? Default for $name $(<$life>)? {
            fn default() -> Self {
                Self { $($field: $crate::message::default_of!($($default)?),)* }
            }
        }

        impl<'a> $crate::field::ReadField<'a> for $name $(<$life>)? {
            fn read(
                decoder: &mut $crate::decode::Decoder<'a>,
                at: $crate::field::At,
            ) -> $crate::decode::Result<Self> {
                let mut value = Self::default();
                $(
                    $crate::message::untagged! { [$($tag)?]
                        if ($in).contains(&at.version) {
                            let at = at.nullable(
                                $crate::message::in_range!(at.version $(, $null)?),
                            );
                            value.$field = $crate::field::ReadField::read(decoder, at)?;
                        }
                    }
                )*
                if at.flexible {
                    decoder.tagged_fields(|_tag, _content| {
                        $(
                            $crate::message::tagged! { [$($tag)?]
                                if _tag == $($tag)? && ($in).contains(&at.version) {
                                    let at = at.nullable(
                                        $crate::message::in_range!(at.version $(, $null)?),
                                    );
                                    value.$field = $crate::field::ReadField::read(_content, at)?;
                                    return Ok($crate::decode::Tagged::Read);
                                }
                            }
                        )*
                        Ok($crate::decode::Tagged::Unknown)
                    })?;
                }
                Ok(value)
            }
        }

        impl $(<$life>)? $crate::field::WriteField for $name $(<$life>)? {
            fn write<O: $crate::encode::Output>(
                &self,
                encoder: &mut $crate::encode::Encoder<O>,
                at: $crate::field::At,
            ) {
                $(
                    $crate::message::untagged! { [$($tag)?]
                        if ($in).contains(&at.version) {
                            let at = at.nullable(
                                $crate::message::in_range!(at.version $(, $null)?),
                            );
                            self.$field.write(encoder, at);
                        }
                    }
                )*
                if at.flexible {
                    let mut _count = 0;
                    $(
                        $crate::message::tagged! { [$($tag)?]
                            let default = $crate::message::default_of!($($default)?);
                            if ($in).contains(&at.version) && $crate::message::differs(&self.$field, &default) {
                                _count += 1;
                            }
                        }
                    )*
                    encoder.writer.uvarint(_count);
                    $(
                        $crate::message::tagged! { [$($tag)?]
                            let default = $crate::message::default_of!($($default)?);
                            if ($in).contains(&at.version) && $crate::message::differs(&self.$field, &default) {
                                let at = at.nullable(
                                    $crate::message::in_range!(at.version $(, $null)?),
                                );
                                $crate::message::write_tagged(encoder, $($tag)?, &self.$field, at);
                            }
                        }
                    )*
                }
            }
        }

        #[cfg(test)]
        impl<'a> $crate::tests::json::Json<'a> for $name $(<$life>)? {
            fn to_json(&self, at: $crate::field::At) -> serde_json::Value {
                let mut object = $crate::tests::json::Object::default();
                $(
                    if ($in).contains(&at.version) {
                        let at = at.nullable($crate::message::in_range!(at.version $(, $null)?));
                        $crate::message::untagged! { [$($tag)?]
                            object.put(stringify!($field), self.$field.to_json(at));
                        }
                        $crate::message::tagged! { [$($tag)?]
                            let default = $crate::message::default_of!($($default)?);
                            if $crate::message::differs(&self.$field, &default) {
                                object.put(stringify!($field), self.$field.to_json(at));
                            }
                        }
                    }
                )*
                object.into_value()
            }

            fn from_json(value: &serde_json::Value, at: $crate::field::At) -> Self {
                let mut message = Self::default();
                $(
                    if ($in).contains(&at.version) {
                        let at = at.nullable($crate::message::in_range!(at.version $(, $null)?));
                        let _field = $crate::tests::json::field(value, stringify!($field));
                        $crate::message::untagged! { [$($tag)?]
                            let field = _field.expect(stringify!($field));
                            message.$field = $crate::tests::json::Json::from_json(field, at);
                        }
                        $crate::message::tagged! { [$($tag)?]
                            if let Some(field) = _field {
                                message.$field = $crate::tests::json::Json::from_json(field, at);
                            }
                        }
                    }
                )*
                message
            }
        }
    )*};
}
pub(crate) use message;
