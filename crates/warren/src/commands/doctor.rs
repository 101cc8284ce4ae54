//! `warren doctor`: what this host can do, and how to get what is missing. Asks no server.

use crate::cli::Global;
use crate::exit;
use crate::output::{self, Format};
use anyhow::Result;
use node::HostCheck as Check;
use serde_json::json;
use std::process::ExitCode;

pub(super) fn run(global: &Global) -> Result<ExitCode> {
    let checks = node::host_report();
    match global.output {
        Format::Json => output::json(&checks.iter().map(as_json).collect::<Vec<_>>())?,
        Format::Table if global.quiet => {
            let missing = checks.iter().filter(|c| !c.ok);
            missing.into_iter().try_for_each(|c| output::line(c.name))?;
        }
        Format::Table => output::line(table(&checks))?,
    }
    Ok(verdict(&checks))
}

/// Unfit if something required is missing.
fn verdict(checks: &[Check]) -> ExitCode {
    if checks.iter().any(|c| c.required && !c.ok) {
        ExitCode::from(exit::UNFIT)
    } else {
        ExitCode::SUCCESS
    }
}

/// One line per check; the fix of what is missing below its line.
fn table(checks: &[Check]) -> String {
    let width = checks.iter().map(|c| c.name.chars().count()).max();
    let width = width.unwrap_or(0);
    let mut lines = Vec::new();
    for check in checks {
        let word = mark(check);
        lines.push(format!("{word:8} {:width$}  {}", check.name, check.found));
        let fix = check.fix.as_ref().filter(|_| !check.ok);
        lines.extend(fix.map(|fix| format!("{:8} {:width$}  fix: {fix}", "", "")));
    }
    lines.join("\n")
}

fn mark(check: &Check) -> &'static str {
    match (check.ok, check.required) {
        (true, _) => "ok",
        (false, true) => "MISSING",
        (false, false) => "absent",
    }
}

fn as_json(check: &Check) -> serde_json::Value {
    json!({
        "name": check.name,
        "ok": check.ok,
        "required": check.required,
        "found": check.found,
        "fix": check.fix,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, ok: bool, required: bool) -> Check {
        Check {
            name,
            ok,
            required,
            found: "6.1".to_owned(),
            fix: Some("get a newer one".to_owned()),
        }
    }

    #[test]
    fn the_fix_is_shown_only_for_what_is_missing() {
        let checks = [check("kernel", true, true), check("kvm", false, false)];
        let want =
            "ok       kernel  6.1\nabsent   kvm     6.1\n                 fix: get a newer one";
        assert_eq!(table(&checks), want);
    }

    #[test]
    fn only_something_required_makes_a_host_unfit() {
        let fit = [check("a", true, true), check("b", false, false)];
        assert_eq!(verdict(&fit), ExitCode::SUCCESS);
        let unfit = [check("a", false, true)];
        assert_eq!(verdict(&unfit), ExitCode::from(exit::UNFIT));
    }
}
