//! SPECIFICATION.md names tests: each must be there, or the promise is held by nothing.

use super::Violation;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

const PAGE: &str = "SPECIFICATION.md";

pub(crate) fn check(root: &Path) -> Result<Vec<Violation>> {
    let page = fs::read_to_string(root.join(PAGE)).context("read SPECIFICATION.md")?;
    Ok(missing(&page, |file| {
        fs::read_to_string(root.join(file)).ok()
    }))
}

/// Names of the last column that point nowhere; `read` gives the text of a file that is there.
fn missing(page: &str, read: impl Fn(&str) -> Option<String>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(page.lines()) {
        let held_by = line.trim_end_matches([' ', '|']).rsplit(" | ").next();
        let cell = held_by
            .filter(|_| line.starts_with('|'))
            .unwrap_or_default();
        for name in cell
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|n| n.contains('/'))
        {
            let (file, test) = match name.split_once("::") {
                Some((file, test)) => (file, Some(test)),
                None => (name, None),
            };
            let there = read(file).is_some_and(|text| test.is_none_or(|t| defines(&text, t)));
            if !there {
                let rule = format!("a promise is held by {name}, which is not there");
                found.push(Violation::new(Path::new(PAGE), number, rule));
            }
        }
    }
    found
}

/// Whether a Rust or Python text defines this function.
fn defines(text: &str, function: &str) -> bool {
    let starts = [format!("fn {function}("), format!("def {function}(")];
    starts.iter().any(|start| text.contains(start.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(row: &str) -> Vec<String> {
        let read = |file: &str| (file == "a/b.rs").then(|| "fn holds() {}".to_owned());
        let found = missing(row, read);
        found.into_iter().map(|v| v.to_string()).collect()
    }

    #[test]
    fn names_that_are_there_and_words_without_a_path_are_fine() {
        for row in [
            "| x | `a/b.rs` |",
            "| x | `a/b.rs::holds`, pending |",
            "| `no/such` in the promise | `figure_ms` |",
            "`no/such` in running text",
        ] {
            assert!(rules(row).is_empty(), "{row}");
        }
    }

    #[test]
    fn a_missing_file_or_test_is_reported() {
        let want = "SPECIFICATION.md:1: a promise is held by a/b.rs::gone, which is not there";
        assert_eq!(rules("| x | `a/b.rs::gone` |"), [want]);
        assert_eq!(rules("| x | 10 | `a/c.rs` |").len(), 1);
    }
}
