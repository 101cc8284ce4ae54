//! The program as a user's shell sees it: exit codes and streams, no server running.

use std::process::{Command, Output};

/// Runs `warren` with an address where nothing listens and no settings of the caller.
fn warren(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warren"));
    for name in ["WARREN_API_KEY", "E2B_API_KEY", "E2B_API_URL"] {
        command.env_remove(name);
    }
    command
        .env("WARREN_URL", "http://127.0.0.1:1")
        .env("WARREN_DATA_DIR", "/nonexistent")
        .args(args)
        .output()
        .expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn no_server_is_125_and_says_what_to_do() {
    for args in [
        &["run", "base", "--", "true"][..],
        &["exec", "iabc", "true"],
        &["start", "base"],
        &["ls"],
        &["rm", "iabc"],
        &["pull", "image", "--name", "x"],
        &["template", "ls"],
    ] {
        let output = warren(args);
        assert_eq!(output.status.code(), Some(125), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        let text = stderr(&output);
        assert!(
            text.contains("no server answers at http://127.0.0.1:1"),
            "{args:?}: {text}"
        );
    }
}

#[test]
fn a_wrong_flag_is_125_and_never_looks_like_the_code_of_a_command() {
    let output = warren(&["run", "base", "--no-such-flag", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("--no-such-flag"));
}

#[test]
fn help_and_version_are_answers_on_standard_output() {
    for args in [&["--help"][..], &["--version"], &["exec", "--help"]] {
        let output = warren(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(
            !output.stdout.is_empty() && output.stderr.is_empty(),
            "{args:?}"
        );
    }
}

#[test]
fn auth_without_a_key_names_the_file_and_the_variable() {
    let output = warren(&["auth"]);
    assert_eq!(output.status.code(), Some(125));
    let text = stderr(&output);
    assert!(
        text.contains("/nonexistent/api-key") && text.contains("E2B_API_KEY"),
        "{text}"
    );
}

#[test]
fn auth_with_a_key_prints_lines_that_a_shell_can_eval() {
    let output = warren(&["auth", "--api-key", "e2b_00ff"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("export E2B_API_KEY=e2b_00ff\n"), "{text}");
}

#[test]
fn doctor_needs_no_server_and_agrees_with_its_own_report() {
    let output = warren(&["doctor", "-o", "json"]);
    let checks: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(!checks.is_empty());
    let missing = checks
        .iter()
        .any(|c| c["required"] == true && c["ok"] == false);
    assert_eq!(output.status.code(), Some(i32::from(missing)));
}

#[test]
fn serve_refuses_a_wrong_configuration_before_it_does_anything() {
    let output = warren(&["serve", "--subnet", "10.0.0.0/99", "--listen", "nowhere"]);
    assert_eq!(output.status.code(), Some(125));
    let text = stderr(&output);
    assert!(
        text.contains("subnet: ") && text.contains("listen: "),
        "{text}"
    );
}
