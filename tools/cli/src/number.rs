//! Numbers of the command line, and the bounds that they must keep.
//!
//! Owns the words of the refusal. clap has ranges of its own, which it prints as Rust writes them.

use std::fmt::Display;
use std::str::FromStr;

use cluster::Bounds;

/// What the command line takes numbers as.
pub(crate) trait Number:
    FromStr + Display + PartialOrd + Copy + Send + Sync + 'static
{
    /// The largest there is.
    const MAX: Self;
}

macro_rules! numbers {
    ($($number:ident)*) => {
        $(impl Number for $number {
            const MAX: Self = $number::MAX;
        })*
    };
}

numbers! { i16 i32 i64 u32 u64 }

/// Why it is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NumberError<T: Display + PartialEq> {
    /// Outside what it is taken as.
    #[error("must be a whole number, {0}")]
    Outside(Bounds<T>),
    /// The same, where the largest number says nothing to anybody.
    #[error("must be a whole number, {0} or more")]
    Below(T),
}

/// Parses a number that is at least `minimum`.
pub(crate) fn from<T: Number>(
    minimum: T,
) -> impl Fn(&str) -> Result<T, NumberError<T>> + Clone + Send + Sync + 'static {
    move |text| match text.parse() {
        Ok(number) if number >= minimum => Ok(number),
        _ if size_of::<T>() == size_of::<u64>() => Err(NumberError::Below(minimum)),
        _ => Err(NumberError::Outside(Bounds(minimum, T::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_outside_its_bounds_is_told_of_them() {
        assert_eq!(from(1_i16)("1"), Ok(1));
        assert_eq!(from(0_i32)("2147483647"), Ok(i32::MAX));
        for text in ["0", "-1", "32768", "x", "", "1.5"] {
            let error = from(1_i16)(text).unwrap_err();
            assert_eq!(error.to_string(), "must be a whole number, 1 to 32767", "{text}");
        }
        assert_eq!(from(1_u64)("0").unwrap_err().to_string(), "must be a whole number, 1 or more");
    }
}
