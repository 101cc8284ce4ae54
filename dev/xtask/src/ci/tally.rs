//! Counts tests from the lines that cargo test and pytest print.

use std::fmt;
use std::ops::AddAssign;

/// Numbers of tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Tally {
    pub(crate) const PASSED: Self = Self::of(1, 0, 0);
    pub(crate) const FAILED: Self = Self::of(0, 1, 0);
    pub(crate) const SKIPPED: Self = Self::of(0, 0, 1);

    const fn of(passed: usize, failed: usize, skipped: usize) -> Self {
        Self {
            passed,
            failed,
            skipped,
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Reads the lines of one stage.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    libtest: Tally,
    pytest: Tally,
    /// Tests that said `SKIPPED:` and then returned; their runner counted them as passed.
    aloud: usize,
}

impl Counter {
    pub(crate) fn line(&mut self, line: &str) {
        let line = line.trim();
        if line.starts_with("SKIPPED:") {
            self.aloud += 1;
        } else if let Some(rest) = line.strip_prefix("test result:") {
            // libtest: "ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out"
            self.libtest += count(rest, ';', &["ignored"]);
        } else if is_summary_of_pytest(line) {
            self.pytest += count(line.trim_matches('='), ',', &["skipped"]);
        }
    }

    pub(crate) fn join(&mut self, other: Self) {
        self.libtest += other.libtest;
        self.pytest += other.pytest;
        self.aloud += other.aloud;
    }

    pub(crate) fn tally(&self) -> Tally {
        let mut tally = self.libtest;
        tally += self.pytest;
        tally.passed = tally.passed.saturating_sub(self.aloud);
        tally.skipped += self.aloud;
        tally
    }
}

/// "===== 5 passed, 1 skipped in 2.33s =====" with or without the bars.
fn is_summary_of_pytest(line: &str) -> bool {
    let line = line.trim_matches(['=', ' ']);
    let counts = line.split_once(" in ").map(|(counts, _)| counts);
    let is_count = |part: &str| {
        let mut words = part.split_whitespace();
        words.next().is_some_and(|n| n.parse::<usize>().is_ok()) && words.count() == 1
    };
    counts.is_some_and(|c| c.split(", ").all(is_count))
}

/// Adds up the "N word" pieces of a summary line.
fn count(text: &str, separator: char, skips: &[&str]) -> Tally {
    let mut tally = Tally::default();
    for piece in text.split(separator) {
        let words: Vec<&str> = piece.split_whitespace().collect();
        let number = words.iter().position(|w| w.parse::<usize>().is_ok());
        let Some(at) = number else { continue };
        let n = words[at].parse().unwrap_or(0);
        match words.get(at + 1..).unwrap_or_default() {
            ["passed" | "xpassed" | "xfailed", ..] => tally.passed += n,
            ["failed" | "error" | "errors", ..] => tally.failed += n,
            [word, ..] if skips.contains(word) => tally.skipped += n,
            _ => {}
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> String {
        let mut counter = Counter::default();
        for line in lines {
            counter.line(line);
        }
        counter.tally().to_string()
    }

    #[test]
    fn summaries_of_both_runners_are_counted() {
        let cases = [
            (
                "test result: FAILED. 7 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.1s",
                "7 passed, 2 failed, 1 skipped",
            ),
            (
                "===== 1 failed, 4 passed, 2 skipped, 3 warnings, 1 error in 2.33s =====",
                "4 passed, 2 failed, 2 skipped",
            ),
            ("5 passed in 0.12s", "5 passed, 0 failed, 0 skipped"),
            (
                "1 test run: 1 passed, done in a hurry",
                "0 passed, 0 failed, 0 skipped",
            ),
            ("copied 3 files in 2s", "0 passed, 0 failed, 0 skipped"),
        ];
        for (line, want) in cases {
            assert_eq!(tally(&[line]), want, "{line}");
        }
    }

    #[test]
    fn a_test_that_skipped_aloud_is_not_a_pass() {
        let lines = [
            "    SKIPPED: needs root",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        ];
        assert_eq!(tally(&lines), "2 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn the_word_skipped_inside_a_line_is_no_skip() {
        assert_eq!(tally(&["not SKIPPED: x"]), "0 passed, 0 failed, 0 skipped");
    }
}
