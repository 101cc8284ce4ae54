//! `cargo xtask tidy`: the rules of the house that no compiler checks.
//!
//! Each broken rule is one line `file:line: rule`. The crate edges are those of the table in
//! ARCHITECTURE.md section 5, so changing an edge is a change of that page.

mod edges;
mod mask;
mod promises;
mod size;
mod words;

use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// One broken rule at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    file: PathBuf,
    line: usize,
    rule: String,
}

impl Violation {
    fn new(file: &Path, line: usize, rule: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            rule: rule.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.rule)
    }
}

/// Prints every violation; fails if there is one.
pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode> {
    let violations = check(workspace)?;
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("tidy: {} rules broken", violations.len());
    Ok(ExitCode::FAILURE)
}

fn check(workspace: &Workspace) -> Result<Vec<Violation>> {
    let paths = words::MachinePaths::of(workspace.root());
    let mut found = Vec::new();
    for path in workspace.files()? {
        found.extend(words::file_name(&path));
        let bytes = std::fs::read(workspace.root().join(&path))
            .with_context(|| format!("read {}", path.display()))?;
        let Ok(text) = String::from_utf8(bytes) else {
            continue; // not a text: nothing to read in it
        };
        found.extend(words::everywhere(&path, &text, &paths));
        if path.extension().is_some_and(|e| e == "rs") {
            let code = mask::mask(&text);
            found.extend(size::check(&path, &code));
            found.extend(words::rust(&path, &text, &code));
        }
    }
    found.extend(edges::check(workspace.root())?);
    found.extend(promises::check(workspace.root())?);
    found.sort();
    Ok(found)
}
