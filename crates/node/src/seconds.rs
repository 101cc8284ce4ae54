//! Times to live as clients write them.

use crate::error::ApiError;
use serde_json::Number;
use std::time::Duration;

/// Whether zero means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zero {
    /// It ends the sandbox now.
    Allowed,
    /// It would make a sandbox that is over before it begins.
    Refused,
}

/// Whole seconds in the allowed range, or an error that quotes what was written.
pub(crate) fn parse(
    field: &str,
    number: &Number,
    zero: Zero,
    max: Duration,
) -> Result<Duration, ApiError> {
    let min = u64::from(zero == Zero::Refused);
    let range = || {
        ApiError::invalid(format!(
            "{field} is {number}, allowed are whole seconds from {min} to {} ({} hours)",
            max.as_secs(),
            max.as_secs() / 3600
        ))
    };
    let seconds = number.as_u64().ok_or_else(range)?;
    if seconds < min || seconds > max.as_secs() {
        return Err(range());
    }
    Ok(Duration::from_secs(seconds))
}

/// As [`parse`], with a value for what was left out.
pub(crate) fn parse_or(
    field: &str,
    number: Option<&Number>,
    default: u64,
    max: Duration,
) -> Result<Duration, ApiError> {
    match number {
        Some(number) => parse(field, number, Zero::Refused, max),
        None => Ok(Duration::from_secs(default).min(max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn number(text: &str) -> Number {
        serde_json::from_str(text).expect("a number")
    }

    #[test]
    fn numbers_out_of_range_are_quoted_back() {
        for bad in ["0", "-1", "1e12", "1000000000000", "1.5", "86401"] {
            let number = number(bad);
            let error = parse("timeout", &number, Zero::Refused, DAY).expect_err(bad);
            assert!(error.to_string().contains(&number.to_string()), "{error}");
            assert!(error.to_string().contains("1 to 86400"), "{error}");
        }
    }

    #[test]
    fn zero_is_allowed_where_it_means_now() {
        let now = parse("timeout", &number("0"), Zero::Allowed, DAY).expect("allowed");
        assert_eq!(now, Duration::ZERO);
        assert!(parse("timeout", &number("-1"), Zero::Allowed, DAY).is_err());
    }

    #[test]
    fn the_default_does_not_exceed_the_limit() {
        let max = Duration::from_secs(60);
        assert_eq!(parse_or("timeout", None, 300, max).expect("default"), max);
    }
}
