//! Durations as people write them: `90`, `45s`, `10m`, `1h30m`, `2d`.

use std::time::Duration;

const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];

/// Parses a duration; a bare number is seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 90, 45s, 10m, 1h30m or 2d");
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let (mut rest, mut seconds, mut smallest) = (text, 0_u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let letter = rest[digits..].chars().next().ok_or_else(wrong)?;
        let unit = UNITS
            .iter()
            .find(|(c, _)| *c == letter)
            .ok_or_else(wrong)?
            .1;
        if unit >= smallest {
            return Err(wrong()); // 5m1h and 1h1h are slips
        }
        let more = number.checked_mul(unit).ok_or_else(wrong)?;
        seconds = seconds.checked_add(more).ok_or_else(wrong)?;
        (rest, smallest) = (&rest[digits + 1..], unit);
    }
    if smallest == u64::MAX {
        return Err(wrong());
    }
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_add_up_and_a_bare_number_is_seconds() {
        let cases = [
            ("0", 0),
            ("90", 90),
            ("45s", 45),
            ("10m", 600),
            ("1h30m", 5400),
            ("2d", 172_800),
        ];
        for (text, seconds) in cases {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in [
            "",
            "m",
            "10x",
            "-1",
            "1.5h",
            "5m1h",
            "1h1h",
            "1h5",
            "10é",
            "99999999999999999999d",
            "18446744073709551615m",
        ] {
            let message = parse(text).expect_err(text);
            assert!(message.contains("1h30m"), "{message}");
        }
    }
}
