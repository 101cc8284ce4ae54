//! Names and texts that may not be in the tree.

use super::Violation;
use std::path::{Path, PathBuf};

/// Names that say nothing; a file is named after the noun it defines.
const EMPTY_NAMES: [&str; 8] = [
    "util", "utils", "common", "helpers", "misc", "manager", "service", "core",
];

/// Registries by host name, in two parts so that this file does not break its own rule.
/// Users bring their own mirrors: what a tool uses is its configuration, not our text.
const REGISTRY_HOSTS: [(&str, &str); 10] = [
    ("docker", "io"),
    ("ghcr", "io"),
    ("quay", "io"),
    ("gcr", "io"),
    ("crates", "io"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("debian", "org"),
];

/// Absolute paths that exist only on the machine of whoever wrote the text.
#[derive(Debug)]
pub(crate) struct MachinePaths(Vec<String>);

impl MachinePaths {
    /// The checkout's own path, and dot files of any home.
    pub(crate) fn of(root: &Path) -> Self {
        let mut paths = vec![["/root", "/."].concat(), ["/Users", "/"].concat()];
        // A checkout at /src or the like is a word that a text may well contain.
        if root.components().count() > 2 {
            paths.push(root.display().to_string());
        }
        Self(paths)
    }
}

/// File and directory names.
pub(crate) fn file_name(path: &Path) -> Vec<Violation> {
    let mut found = Vec::new();
    let is_rust = path.extension().is_some_and(|e| e == "rs");
    let mut names: Vec<PathBuf> = path.ancestors().skip(1).map(Path::to_owned).collect();
    if is_rust {
        names.push(path.with_extension(""));
    }
    let names = names.iter().filter_map(|n| n.file_name()?.to_str());
    for name in names.filter(|n| EMPTY_NAMES.contains(n)) {
        let rule = format!("the name {name:?} says nothing; name it after what it holds");
        found.push(Violation::new(path, 1, rule));
    }
    if path.file_name().is_some_and(|n| n == "mod.rs") {
        found.push(Violation::new(path, 1, "mod.rs: write foo.rs beside foo/"));
    }
    found
}

/// Texts of any kind of file. The lock file names its registry by necessity.
pub(crate) fn everywhere(path: &Path, text: &str, machine: &MachinePaths) -> Vec<Violation> {
    if path.file_name().is_some_and(|n| n == "Cargo.lock") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (name, zone) in REGISTRY_HOSTS {
            if names_host(line, &format!("{name}.{zone}")) {
                found.push(Violation::new(path, number, "names a registry host"));
            }
        }
        if machine.0.iter().any(|p| line.contains(p.as_str())) {
            found.push(Violation::new(path, number, "names a path of one machine"));
        }
    }
    found
}

/// Whether `host`, or a sub-domain of it, stands in `line` as a name of its own.
fn names_host(line: &str, host: &str) -> bool {
    line.match_indices(host).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + host.len()..].chars().next();
        let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !inside(before) && !inside(after)
    })
}

/// Texts of Rust files; `code` is `text` masked.
pub(crate) fn rust(path: &Path, text: &str, code: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    if !text.starts_with("//!") {
        let rule = "does not start with //! saying what the file is";
        found.push(Violation::new(path, 1, rule));
    }
    let in_sys = path.starts_with("crates/sys");
    for (number, line) in (1..).zip(code.lines()) {
        let mut add = |rule: &str| found.push(Violation::new(path, number, rule));
        if !in_sys && has_word(line, "unsafe") {
            add("unsafe outside crates/sys");
        }
        if line.contains("#[ignore") {
            add("#[ignore]: assert the known wrong, or skip aloud");
        }
        if ["todo", "unimplemented"].iter().any(|m| is_macro(line, m)) {
            add("unfinished code");
        }
        if is_bare_io_from(line) {
            add("bare #[from] io::Error loses what was attempted on which path");
        }
    }
    found
}

fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.split(|c| !part(c)).any(|w| w == word)
}

fn is_macro(line: &str, name: &str) -> bool {
    has_word(line, name) && line.contains(&format!("{name}!"))
}

fn is_bare_io_from(line: &str) -> bool {
    line.split_once("#[from]").is_some_and(|(_, field)| {
        let kind = field
            .split_once(": ")
            .map_or(field, |(_, kind)| kind)
            .trim();
        kind.starts_with("io::Error") || kind.starts_with("std::io::Error")
    })
}

#[cfg(test)]
mod tests {
    use super::super::mask::mask;
    use super::*;

    fn rules(text: &str) -> Vec<String> {
        let path = Path::new("crates/node/src/a.rs");
        let found = rust(path, text, &mask(text));
        found.into_iter().map(|v| v.to_string()).collect()
    }

    #[test]
    fn names_that_say_nothing_are_refused_as_file_and_as_directory() {
        for bad in ["a/util.rs", "a/core/x.rs", "a/service.rs", "a/mod.rs"] {
            assert_eq!(file_name(Path::new(bad)).len(), 1, "{bad}");
        }
        for good in ["a/core_file.rs", "deploy/warren.service", "a/models.rs"] {
            assert_eq!(file_name(Path::new(good)), [], "{good}");
        }
    }

    #[test]
    fn each_rust_rule_is_reported_with_its_line() {
        let cases = [
            (
                "fn x() {}\n",
                "1: does not start with //! saying what the file is",
            ),
            (
                "//! x\n\nunsafe fn x() {}\n",
                "3: unsafe outside crates/sys",
            ),
            (
                "//! x\n#[ignore]\n",
                "2: #[ignore]: assert the known wrong, or skip aloud",
            ),
            ("//! x\nfn f() { todo!() }\n", "2: unfinished code"),
            (
                "//! x\nenum E { A(#[from] std::io::Error) }\n",
                "2: bare #[from] io::Error loses what was attempted on which path",
            ),
            (
                "//! x\nstruct E { #[from] source: io::Error }\n",
                "2: bare #[from] io::Error loses what was attempted on which path",
            ),
        ];
        for (text, rule) in cases {
            let want = format!("crates/node/src/a.rs:{rule}");
            assert_eq!(rules(text), [want], "{text}");
        }
    }

    #[test]
    fn words_in_comments_and_strings_break_no_rust_rule() {
        assert!(rules("//! unsafe\n// todo!()\nconst A: &str = \"unsafe\";\n").is_empty());
        assert!(rules("//! x\n#![deny(unsafe_code)]\n").is_empty());
    }

    #[test]
    fn registry_hosts_and_machine_paths_are_found_in_any_file() {
        let machine = MachinePaths::of(Path::new("/some/checkout"));
        let host = ["FROM quay", ".io/x:1"].concat();
        let home = ["/root", "/.cache"].concat();
        for bad in [&host, &home, "cd /some/checkout/crates"] {
            let found = everywhere(Path::new("README.md"), bad, &machine);
            assert_eq!(found.len(), 1, "{bad}");
        }
        for good in ["std::io", "a.docker.iota", "WORKDIR /root"] {
            assert_eq!(everywhere(Path::new("a"), good, &machine), [], "{good}");
        }
        assert_eq!(everywhere(Path::new("Cargo.lock"), &host, &machine), []);
    }

    #[test]
    fn a_checkout_right_below_the_root_is_too_short_a_word_to_forbid() {
        let machine = MachinePaths::of(Path::new("/src"));
        let text = "COPY . /src";
        assert_eq!(everywhere(Path::new("a"), text, &machine), []);
    }
}
