//! The crate edges: the table of ARCHITECTURE.md section 5 against the Cargo.toml files.

use super::Violation;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const TABLE_FILE: &str = "ARCHITECTURE.md";
/// Written in the last column by crates that may use every other.
const ANY: &str = "any";
/// The one crate that others may use in their tests only.
const TEST_CRATE: &str = "testkit";

/// Crate name → what it may use; `None` is anything.
type Table = BTreeMap<String, Option<BTreeSet<String>>>;

/// One crate of the workspace as its manifest says.
struct Manifest {
    path: PathBuf,
    text: String,
    parsed: toml::Table,
}

pub(crate) fn check(root: &Path) -> Result<Vec<Violation>> {
    let page = fs::read_to_string(root.join(TABLE_FILE)).context("read ARCHITECTURE.md")?;
    let table = table(&page);
    let mut manifests = BTreeMap::new();
    for folder in ["crates", "dev"] {
        let entries = fs::read_dir(root.join(folder)).with_context(|| format!("list {folder}"))?;
        for entry in entries {
            let name = entry.with_context(|| format!("list {folder}"))?.file_name();
            let path = Path::new(folder).join(&name).join("Cargo.toml");
            if let Ok(text) = fs::read_to_string(root.join(&path)) {
                let parsed = text
                    .parse()
                    .with_context(|| format!("parse {}", path.display()))?;
                let manifest = Manifest { path, text, parsed };
                manifests.insert(name.to_string_lossy().into_owned(), manifest);
            }
        }
    }
    Ok(compare(&table, &manifests))
}

/// Rows are `| level | crate | purpose | may use |`, names in back quotes.
fn table(page: &str) -> Table {
    let section = page
        .split("\n## ")
        .find(|s| s.starts_with("5."))
        .unwrap_or_default();
    let mut table = Table::new();
    for line in section.lines().filter(|l| l.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, names, _, uses] = cells[..] else {
            continue;
        };
        let uses = (uses != ANY).then(|| {
            let names = uses.split(',').map(str::trim);
            names.filter(|n| *n != "–").map(str::to_owned).collect()
        });
        for name in names.split(',').filter_map(quoted) {
            let short = name.rsplit('/').next().unwrap_or(name);
            table.insert(short.to_owned(), uses.clone());
        }
    }
    table
}

fn quoted(cell: &str) -> Option<&str> {
    cell.trim().strip_prefix('`')?.strip_suffix('`')
}

fn compare(table: &Table, manifests: &BTreeMap<String, Manifest>) -> Vec<Violation> {
    let mut found = Vec::new();
    for name in table.keys().filter(|n| !manifests.contains_key(*n)) {
        let rule = format!("the crate table has {name}, the workspace has not");
        found.push(Violation::new(Path::new(TABLE_FILE), 1, rule));
    }
    for (name, manifest) in manifests {
        let mut add = |line, rule| found.push(Violation::new(&manifest.path, line, rule));
        let lints = manifest
            .parsed
            .get("lints")
            .and_then(|l| l.get("workspace"));
        if lints.and_then(toml::Value::as_bool) != Some(true) {
            add(1, "does not take the workspace lints".to_owned());
        }
        let Some(allowed) = table.get(name) else {
            add(
                1,
                format!("{name} is not in the crate table of {TABLE_FILE}"),
            );
            continue;
        };
        let Some(allowed) = allowed else { continue };
        for (section, dependency) in dependencies(&manifest.parsed) {
            let in_tests = section == "dev-dependencies";
            let ours = manifests.contains_key(dependency);
            let fine = allowed.contains(dependency) || (in_tests && dependency == TEST_CRATE);
            if ours && !fine {
                let rule = format!("{name} may not use {dependency} ({TABLE_FILE} section 5)");
                add(line_of(&manifest.text, dependency), rule);
            }
        }
    }
    found
}

fn dependencies(manifest: &toml::Table) -> impl Iterator<Item = (&'static str, &str)> {
    ["dependencies", "build-dependencies", "dev-dependencies"]
        .into_iter()
        .filter_map(|section| Some((section, manifest.get(section)?.as_table()?)))
        .flat_map(|(section, names)| names.keys().map(move |n| (section, n.as_str())))
}

fn line_of(text: &str, dependency: &str) -> usize {
    let starts = |l: &str| {
        l.strip_prefix(dependency)
            .is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
    };
    text.lines().position(starts).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n\n## 5. The map\n\n| level | crate | purpose | may use |\n|---|---|---|---|\n\
        | 0 | `model` | values | – |\n| 1 | `api` | wire | model |\n\
        | – | `dev/testkit`, `dev/xtask` | tools | any |\n\n## 6. Next\n| 0 | `x` | y | z |\n";

    fn manifest(name: &str, text: &str) -> (String, Manifest) {
        let text = format!("{text}\n[lints]\nworkspace = true\n");
        let manifest = Manifest {
            path: PathBuf::from(format!("crates/{name}/Cargo.toml")),
            parsed: text.parse().expect("a manifest"),
            text,
        };
        (name.to_owned(), manifest)
    }

    fn found(model: &str, api: &str) -> Vec<String> {
        let all = BTreeMap::from([
            manifest("model", model),
            manifest("api", api),
            manifest("testkit", "[dependencies]\napi.workspace = true"),
            manifest("xtask", ""),
        ]);
        let found = compare(&table(PAGE), &all);
        found.into_iter().map(|v| v.to_string()).collect()
    }

    #[test]
    fn edges_of_the_table_and_outside_crates_are_allowed() {
        let api = "[dependencies]\nmodel.workspace = true\nserde = \"1\"\n[dev-dependencies]\ntestkit.workspace = true";
        assert!(found("", api).is_empty());
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_reported_with_its_line() {
        let want = "crates/model/Cargo.toml:2: model may not use api (ARCHITECTURE.md section 5)";
        assert_eq!(found("[dependencies]\napi.workspace = true", ""), [want]);
    }

    #[test]
    fn the_test_crate_is_for_tests_only() {
        assert_eq!(
            found("[dependencies]\ntestkit = { path = \"x\" }", "").len(),
            1
        );
    }

    #[test]
    fn a_crate_missing_on_either_side_is_reported() {
        let all = BTreeMap::from([manifest("model", ""), manifest("new", "")]);
        let rules: Vec<_> = compare(&table(PAGE), &all)
            .into_iter()
            .map(|v| v.rule)
            .collect();
        assert_eq!(rules.len(), 4, "{rules:?}");
        assert!(rules.contains(&"new is not in the crate table of ARCHITECTURE.md".to_owned()));
        assert!(rules.contains(&"the crate table has api, the workspace has not".to_owned()));
    }
}
