//! What is printed: data on stdout, talk on stderr.

use anyhow::{Context as _, Result};
use serde::Serialize;
use std::io::{self, IsTerminal as _, Write as _};
use tabled::builder::Builder;
use tabled::settings::{Padding, Style};

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// JSON for programs.
    Json,
}

/// Prints one line of data.
pub(crate) fn line(text: impl std::fmt::Display) -> Result<()> {
    writeln!(io::stdout().lock(), "{text}").context("write to standard output")
}

/// Prints a value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    line(serde_json::to_string_pretty(value).context("write a value as JSON")?)
}

/// Prints a remark; a terminal that went away does not matter.
pub(crate) fn remark(text: impl std::fmt::Display) {
    writeln!(io::stderr().lock(), "{text}").ok();
}

/// Prints an error with its causes on one line.
pub(crate) fn complain(error: &anyhow::Error) {
    remark(format_args!("warren: {error:#}"));
}

/// Whether progress may be drawn.
pub(crate) fn talks_to_a_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Rows under a heading, columns two spaces apart, no trailing spaces.
pub(crate) fn table<const N: usize>(heading: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut builder = Builder::default();
    builder.push_record(heading);
    for row in rows {
        builder.push_record(row.map(|cell| one_line(&cell)));
    }
    let mut table = builder.build();
    table.with(Style::empty()).with(Padding::new(0, 2, 0, 0));
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// `KEY  value` lines for one thing.
pub(crate) fn pairs(rows: Vec<[String; 2]>) -> String {
    let width = rows.iter().map(|[key, _]| key.chars().count()).max();
    let width = width.unwrap_or(0);
    let lines = rows.iter().map(|[key, value]| {
        let line = format!("{key:width$}  {}", one_line(value));
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Metadata and environments come from users: a control character would break the columns, or the terminal.
fn one_line(text: &str) -> String {
    let safe = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(safe).collect()
}

/// `a=1,b=2`.
pub(crate) fn labels<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let pairs = pairs.into_iter().map(|(k, v)| format!("{k}={v}"));
    pairs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = vec![
            ["i1".to_owned(), "base".to_owned(), String::new()],
            ["i22222".to_owned(), "py".to_owned(), "a=1".to_owned()],
        ];
        let want = "ID      TEMPLATE  META\ni1      base\ni22222  py        a=1";
        assert_eq!(table(["ID", "TEMPLATE", "META"], rows), want);
    }

    #[test]
    fn an_empty_listing_is_its_heading() {
        assert_eq!(table(["ID", "STATE"], Vec::new()), "ID  STATE");
    }

    #[test]
    fn control_characters_of_users_do_not_reach_the_terminal() {
        let rows = vec![["k".to_owned(), "a\nb\u{1b}[2J".to_owned()]];
        assert_eq!(pairs(rows), "k  a\u{fffd}b\u{fffd}[2J");
    }

    #[test]
    fn labels_are_joined_in_order() {
        let labels_in = std::collections::BTreeMap::from([
            ("b".to_owned(), "2".to_owned()),
            ("a".to_owned(), "1".to_owned()),
        ]);
        assert_eq!(labels(&labels_in), "a=1,b=2");
    }
}
