//! How large records are: all alike, or by a distribution.
//!
//! Owns the three shapes, their bounds and their text form.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::chance::Chance;

/// The largest value of a record.
pub(crate) const RECORD_BYTES_MAX: u32 = 64 << 20;
/// The widest log-normal: beyond it a median says nothing about the sizes.
const SIGMA_MAX: f64 = 3.0;
/// A log-normal draw is cut off at so many medians: one record in millions would else be a batch of its own.
const MEDIANS_MAX: u32 = 64;

/// How many bytes the value of a record has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "snake_case")]
pub enum RecordSize {
    /// All alike.
    Fixed {
        /// So many.
        bytes: u32,
    },
    /// Each size between two as likely as any other.
    Uniform {
        /// The smallest.
        bytes_min: u32,
        /// The largest.
        bytes_max: u32,
    },
    /// Most near the median, a few much larger, as real records are.
    LogNormal {
        /// Half of them are smaller.
        bytes_median: u32,
        /// How wide: 0 is all alike, 1 has one in six above 2.7 medians.
        sigma: f64,
    },
}

/// Why a text is no size.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SizeError {
    /// Another form.
    #[error("must be BYTES, uniform:MIN-MAX or lognormal:MEDIAN:SIGMA")]
    Form,
    /// A size that no record may have here.
    #[error("record of {bytes} bytes: must be 1 to {RECORD_BYTES_MAX}")]
    Bytes {
        /// What was asked.
        bytes: u64,
    },
    /// A range that holds nothing.
    #[error("uniform:{min}-{max}: the first must not be above the second")]
    Empty {
        /// The first.
        min: u32,
        /// The second.
        max: u32,
    },
    /// No width.
    #[error("sigma {sigma}: must be 0 to {SIGMA_MAX}")]
    Sigma {
        /// What was asked.
        sigma: f64,
    },
}

impl RecordSize {
    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Result<Self, SizeError> {
        let size = match text.split_once(':') {
            None => Self::Fixed { bytes: bytes(text)? },
            Some(("uniform", range)) => {
                let (min, max) = range.split_once('-').ok_or(SizeError::Form)?;
                Self::Uniform { bytes_min: bytes(min)?, bytes_max: bytes(max)? }
            }
            Some(("lognormal", rest)) => {
                let (median, sigma) = rest.split_once(':').ok_or(SizeError::Form)?;
                let sigma = sigma.parse().map_err(|_| SizeError::Form)?;
                Self::LogNormal { bytes_median: bytes(median)?, sigma }
            }
            Some(_) => return Err(SizeError::Form),
        };
        size.check()?;
        Ok(size)
    }

    /// Whether it can be drawn from.
    pub fn check(self) -> Result<(), SizeError> {
        let in_bounds = |bytes: u32| match bytes {
            1..=RECORD_BYTES_MAX => Ok(()),
            bytes => Err(SizeError::Bytes { bytes: u64::from(bytes) }),
        };
        match self {
            Self::Fixed { bytes } => in_bounds(bytes),
            Self::Uniform { bytes_min, bytes_max } => {
                in_bounds(bytes_min)?;
                in_bounds(bytes_max)?;
                if bytes_min > bytes_max {
                    return Err(SizeError::Empty { min: bytes_min, max: bytes_max });
                }
                Ok(())
            }
            Self::LogNormal { bytes_median, sigma } => {
                in_bounds(bytes_median)?;
                let is_width = (0.0..=SIGMA_MAX).contains(&sigma);
                if is_width { Ok(()) } else { Err(SizeError::Sigma { sigma }) }
            }
        }
    }

    /// The largest that is drawn.
    pub(crate) fn bytes_max(self) -> u32 {
        match self {
            Self::Fixed { bytes } => bytes,
            Self::Uniform { bytes_max, .. } => bytes_max,
            Self::LogNormal { bytes_median, .. } => {
                bytes_median.saturating_mul(MEDIANS_MAX).min(RECORD_BYTES_MAX)
            }
        }
    }

    /// One record's.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to what a record may have"
    )]
    pub(crate) fn draw(self, chance: &mut Chance) -> usize {
        let bytes = match self {
            Self::Fixed { bytes } => bytes,
            Self::Uniform { bytes_min, bytes_max } => chance.between(bytes_min, bytes_max),
            Self::LogNormal { bytes_median, sigma } => {
                let median = f64::from(bytes_median);
                let drawn = median * (sigma * chance.normal()).exp();
                drawn.round().clamp(1.0, f64::from(self.bytes_max())) as u32
            }
        };
        bytes as usize
    }
}

fn bytes(text: &str) -> Result<u32, SizeError> {
    let bytes: u64 = text.parse().map_err(|_| SizeError::Form)?;
    u32::try_from(bytes).map_err(|_| SizeError::Bytes { bytes })
}

impl fmt::Display for RecordSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed { bytes } => write!(formatter, "{bytes}"),
            Self::Uniform { bytes_min, bytes_max } => {
                write!(formatter, "uniform:{bytes_min}-{bytes_max}")
            }
            Self::LogNormal { bytes_median, sigma } => {
                write!(formatter, "lognormal:{bytes_median}:{sigma}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for text in ["1", "1024", "67108864", "uniform:1-9", "uniform:5-5", "lognormal:500:0.8"] {
            assert_eq!(RecordSize::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_its_bound() {
        let check = |text: &str, expected: SizeError| {
            assert_eq!(RecordSize::parse(text), Err(expected), "{text}");
        };
        for text in ["", "x", "-1", "normal:5", "uniform:5", "uniform:a-b", "lognormal:5", "1.5"] {
            check(text, SizeError::Form);
        }
        check("0", SizeError::Bytes { bytes: 0 });
        check("67108865", SizeError::Bytes { bytes: 67_108_865 });
        check("99999999999", SizeError::Bytes { bytes: 99_999_999_999 });
        check("uniform:9-1", SizeError::Empty { min: 9, max: 1 });
        check("lognormal:5:3.5", SizeError::Sigma { sigma: 3.5 });
        assert!(RecordSize::parse("lognormal:5:nan").is_err());
    }

    #[test]
    fn draws_follow_their_shape() {
        let draws = |text: &str| {
            let size = RecordSize::parse(text).unwrap();
            let mut chance = Chance::new(1);
            let mut drawn: Vec<usize> = (0..20_001).map(|_| size.draw(&mut chance)).collect();
            drawn.sort_unstable();
            drawn
        };
        assert!(draws("700").iter().all(|bytes| *bytes == 700));
        let uniform = draws("uniform:100-300");
        assert_eq!((uniform[0], uniform[20_000]), (100, 300));
        assert!((195..=205).contains(&uniform[10_000]), "{}", uniform[10_000]);
        let lognormal = draws("lognormal:500:1");
        assert!((480..=520).contains(&lognormal[10_000]), "{}", lognormal[10_000]);
        // 84 % lie within one sigma above the median: e times as large.
        assert!((1_250..=1_470).contains(&lognormal[16_827]), "{}", lognormal[16_827]);
        assert!(lognormal[20_000] <= 500 * 64);
        let wide = RecordSize::parse("lognormal:1000:3").unwrap();
        let mut chance = Chance::new(2);
        let largest = (0..20_000).map(|_| wide.draw(&mut chance)).max();
        assert_eq!(largest, Some(64_000), "cut off where it says");
        assert_eq!(wide.bytes_max(), 64_000);
    }
}
