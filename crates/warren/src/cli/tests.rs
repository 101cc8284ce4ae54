//! Arguments as users write them, and the whole help text as a snapshot.

use super::*;
use clap::CommandFactory as _;

fn parse(line: &str) -> Command {
    try_parse(line).expect(line).command
}

fn try_parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn run_takes_flags_before_the_command_and_leaves_the_rest_to_it() {
    let Command::Run(run) =
        parse("warren run py:v1 -e A=1=2 -m k=v -w /tmp -u root --timeout 10m -- sh -c exit -e x")
    else {
        panic!("not run");
    };
    assert_eq!(run.template, "py:v1");
    assert_eq!(run.sandbox.env, [("A".to_owned(), "1=2".to_owned())]);
    assert_eq!(run.sandbox.metadata, [("k".to_owned(), "v".to_owned())]);
    assert_eq!(run.how.workdir.as_deref(), Some("/tmp"));
    assert_eq!(run.how.user.as_deref(), Some("root"));
    assert_eq!(run.timeout, Duration::from_secs(600));
    assert_eq!(run.command, ["sh", "-c", "exit", "-e", "x"]);
}

#[test]
fn the_two_dashes_may_be_left_out() {
    let Command::Exec(exec) = parse("warren exec -i iabc ls -l --color /") else {
        panic!("not exec");
    };
    assert_eq!((exec.id.as_str(), exec.how.interactive), ("iabc", true));
    assert_eq!(exec.command, ["ls", "-l", "--color", "/"]);
}

#[test]
fn global_flags_stand_before_or_behind_the_subcommand() {
    for line in ["warren -q -o json ls", "warren ls -q --output json"] {
        let cli = try_parse(line).expect(line);
        assert!(cli.global.quiet);
        assert_eq!(cli.global.output, Format::Json);
    }
}

#[test]
fn mistakes_are_refused() {
    for line in [
        "warren",
        "warren run base",
        "warren run base -e NOVALUE -- true",
        "warren run base -e =x -- true",
        "warren run base --timeout soon -- true",
        "warren run base --rm --keep -- true",
        "warren exec iabc",
        "warren rm",
        "warren pull image",
        "warren pull image --name x --username u",
        "warren ls -o yaml",
    ] {
        let error = try_parse(line).expect_err(line);
        assert!(error.use_stderr(), "{line}");
    }
}

#[test]
fn the_definition_of_the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

/// Help of the program and of every subcommand, at a fixed width.
fn whole_help() -> String {
    let mut text = String::new();
    collect_help(Cli::command().term_width(100), "warren", &mut text);
    text
}

fn collect_help(mut command: clap::Command, name: &str, text: &mut String) {
    let help = command
        .clone()
        .bin_name(name)
        .render_long_help()
        .to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    text.push_str(&format!("$ {name} --help\n{}\n\n", lines.join("\n")));
    command.build();
    let visible = command.get_subcommands().filter(|c| !c.is_hide_set());
    for sub in visible.filter(|c| c.get_name() != "help") {
        let sub_name = format!("{name} {}", sub.get_name());
        collect_help(sub.clone().term_width(100), &sub_name, text);
    }
}

#[test]
fn the_help_text_is_the_one_that_was_reviewed() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/help.txt");
    let now = whole_help();
    if std::env::var_os("WARREN_UPDATE_SNAPSHOTS").is_some() {
        use std::io::Write as _;
        let mut out = std::fs::File::create(file).expect("create help.txt");
        out.write_all(now.as_bytes()).expect("write help.txt");
    }
    let reviewed = std::fs::read_to_string(file).expect("read help.txt");
    assert!(
        now == reviewed,
        "the help changed; set WARREN_UPDATE_SNAPSHOTS=1, run this test again and review the diff:\n{now}"
    );
}
