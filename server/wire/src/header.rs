//! The headers before bodies, and whole frames in both directions.
//!
//! Owns the decision what a server does about a request that it does not know: [`HeaderError`] says whether the connection
//! can go on. It never looks into a body.

use alloc::string::String;

use record::codec::{DecodeError, Reader};

use crate::api::{ApiKey, name_of_key};
use crate::decode::{BodyError, Decoder};
use crate::encode::{Content, EncodeError, Encoded, Encoder, Output, encode};
use crate::field::{Placed, Text, WriteField};
use crate::message::{Request, Response, body_at};

/// The header of a request that this release serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// What is asked.
    pub api: ApiKey,
    /// The version of the body, and of the answer.
    pub version: i16,
    /// The client's number for this request; the answer carries it.
    pub correlation_id: i32,
    /// What the client calls itself. Only a name: bytes that are no text are replaced, as Kafka does.
    pub client_id: Option<Text<'a>>,
}

/// Why a request is not served. All but [`HeaderError::ApiVersionsTooNew`] end the connection, as with Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The bytes are no header.
    #[error("request header: {0}")]
    Malformed(#[from] DecodeError),
    /// A key that is not served.
    #[error("{} (key {key}) v{version} is not served", name_of_key(*.key))]
    UnknownApi {
        /// The key asked for.
        key: i16,
        /// The version asked for.
        version: i16,
    },
    /// A version that is not served.
    #[error("{api} v{version} is not served")]
    UnsupportedVersion {
        /// The API.
        api: ApiKey,
        /// The version asked for.
        version: i16,
    },
    /// ApiVersions itself in a version that is not served: the answer is
    /// [`crate::api_versions::ApiVersionsResponse::unsupported`] in version 0, and the client asks again.
    #[error("ApiVersions v{version} is not served")]
    ApiVersionsTooNew {
        /// The version asked for.
        version: i16,
        /// The number that the answer carries.
        correlation_id: i32,
    },
}

/// A request header before anyone judged its key and version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawRequestHeader<'a> {
    pub key: i16,
    pub version: i16,
    pub correlation_id: i32,
    pub client_id: Option<Text<'a>>,
}

impl<'a> RawRequestHeader<'a> {
    /// Reads the three numbers that every version of the header begins with.
    fn read_start(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let key = reader.i16()?;
        let version = reader.i16()?;
        Ok(Self { key, version, correlation_id: reader.i32()?, client_id: None })
    }

    /// Reads what follows them. The client id is a classic string in every version.
    fn read_rest(&mut self, reader: &mut Reader<'a>, header: i16) -> Result<(), DecodeError> {
        self.client_id = read_name(reader)?;
        if header >= 2 {
            reader.skip_tagged_fields()?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn read(reader: &mut Reader<'a>, header: i16) -> Result<Self, DecodeError> {
        let mut raw = Self::read_start(reader)?;
        raw.read_rest(reader, header)?;
        Ok(raw)
    }

    pub(crate) fn write<O: Output>(&self, encoder: &mut Encoder<O>, header: i16) {
        encoder.writer.i16(self.key);
        encoder.writer.i16(self.version);
        encoder.writer.i32(self.correlation_id);
        match self.client_id.as_deref() {
            Some(client_id) if client_id.len() > crate::decode::STRING_BYTES_MAX => {
                encoder.output().refuse(EncodeError::StringTooLong { bytes: client_id.len() });
            }
            client_id => encoder.writer.nullable_string(client_id),
        }
        if header >= 2 {
            encoder.writer.no_tagged_fields();
        }
    }

    fn judge(&self) -> Result<ApiKey, HeaderError> {
        let Self { key, version, correlation_id, .. } = *self;
        let served = |api: &ApiKey| api.api().served.is_some();
        let Some(api) = ApiKey::from_key(key).filter(served) else {
            return Err(HeaderError::UnknownApi { key, version });
        };
        if api.is_served(version) {
            return Ok(api);
        }
        Err(match api {
            ApiKey::ApiVersions => HeaderError::ApiVersionsTooNew { version, correlation_id },
            api => HeaderError::UnsupportedVersion { api, version },
        })
    }
}

/// A classic string or null that is only shown.
fn read_name<'a>(reader: &mut Reader<'a>) -> Result<Option<Text<'a>>, DecodeError> {
    let start = *reader;
    match reader.nullable_string() {
        Err(DecodeError::NotUtf8 { .. }) => {
            *reader = start;
            let len = usize::from(reader.u16()?);
            reader.take(len).map(|bytes| Some(String::from_utf8_lossy(bytes)))
        }
        name => Ok(name?.map(Text::Borrowed)),
    }
}

impl<'a> RequestHeader<'a> {
    /// Reads the header of a frame and gives it with the body behind it.
    ///
    /// Shape   `frame` without its size field.
    pub fn decode(frame: &'a [u8]) -> Result<(Self, &'a [u8]), HeaderError> {
        let mut reader = Reader::new(frame);
        let mut raw = RawRequestHeader::read_start(&mut reader)?;
        let api = raw.judge()?;
        raw.read_rest(&mut reader, api.request_header_version(raw.version))?;
        let RawRequestHeader { version, correlation_id, client_id, .. } = raw;
        Ok((Self { api, version, correlation_id, client_id }, reader.rest()))
    }

    /// Judges a frame by the first bytes that have arrived of it, so that a request which nobody serves is not read to its
    /// end. Says nothing against a frame of which too little is here.
    pub fn check_start(first_bytes: &[u8]) -> Result<(), HeaderError> {
        match RawRequestHeader::read_start(&mut Reader::new(first_bytes)) {
            Ok(raw) => match raw.judge() {
                // This one is answered, and for that it is read whole.
                Ok(_) | Err(HeaderError::ApiVersionsTooNew { .. }) => Ok(()),
                Err(error) => Err(error),
            },
            Err(_) => Ok(()),
        }
    }
}

/// The header of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The number of the request that is answered.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// Reads the header of a frame that answers `api` in `version`, and gives it with the body behind it.
    ///
    /// Shape   `frame` without its size field.
    pub fn decode(api: ApiKey, version: i16, frame: &[u8]) -> Result<(Self, &[u8]), BodyError> {
        let mut decoder = Decoder::new(frame);
        let header = Self::read(&mut decoder.reader, api.response_header_version(version))?;
        Ok((header, decoder.reader.rest()))
    }

    pub(crate) fn read(reader: &mut Reader<'_>, header: i16) -> Result<Self, DecodeError> {
        let correlation_id = reader.i32()?;
        if header >= 1 {
            reader.skip_tagged_fields()?;
        }
        Ok(Self { correlation_id })
    }

    pub(crate) fn write<O: Output>(self, encoder: &mut Encoder<O>, header: i16) {
        encoder.writer.i32(self.correlation_id);
        if header >= 1 {
            encoder.writer.no_tagged_fields();
        }
    }
}

/// A client's end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// The version to speak.
    pub version: i16,
    /// The number that the answer will carry.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<&'a str>,
}

/// Writes a whole request frame, size field first.
pub fn encode_request<'a, M: Request<'a>>(
    call: Call<'_>,
    body: &M,
) -> Result<Encoded, EncodeError> {
    let Call { version, correlation_id, client_id } = call;
    let client_id = client_id.map(Text::Borrowed);
    let header = RawRequestHeader { key: M::API.key(), version, correlation_id, client_id };
    encode(&RequestFrame { header, api: M::API, body })
}

/// Writes a whole response frame, size field first. Records that are apart are left out: see [`Encoded`].
pub fn encode_response<'a, M: Response<'a>>(
    header: ResponseHeader,
    version: i16,
    body: &M,
) -> Result<Encoded, EncodeError> {
    encode(&ResponseFrame { header, api: M::API, version, body })
}

struct RequestFrame<'b, M> {
    header: RawRequestHeader<'b>,
    api: ApiKey,
    body: &'b M,
}

impl<M: WriteField> Content for RequestFrame<'_, M> {
    fn write<O: Output>(&self, encoder: &mut Encoder<O>) {
        let version = self.header.version;
        self.header.write(encoder, self.api.request_header_version(version));
        Placed(self.body, body_at(self.api, version)).write(encoder);
    }
}

struct ResponseFrame<'b, M> {
    header: ResponseHeader,
    api: ApiKey,
    version: i16,
    body: &'b M,
}

impl<M: WriteField> Content for ResponseFrame<'_, M> {
    fn write<O: Output>(&self, encoder: &mut Encoder<O>) {
        self.header.write(encoder, self.api.response_header_version(self.version));
        Placed(self.body, body_at(self.api, self.version)).write(encoder);
    }
}

#[cfg(test)]
mod tests;
