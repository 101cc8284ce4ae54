//! `warren`: every role of the node and the command line, by subcommand.

mod cli;
mod client;
mod commands;
mod config;
mod duration;
mod exit;
mod output;
mod serve;

use clap::Parser as _;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let result = match cli.command {
        Command::Serve(flags) => serve::serve(flags),
        Command::Spawner(flags) => serve::spawner(&flags),
        command => commands::run(&cli.global, command),
    };
    result.unwrap_or_else(|error| {
        output::complain(&error);
        ExitCode::from(exit::PLATFORM)
    })
}

/// Help and version are answers; anything else is a platform error, so that a wrong flag of
/// `run` or `exec` is never taken for the exit code of the command.
fn usage(error: &clap::Error) -> ExitCode {
    error.print().ok();
    if error.use_stderr() {
        ExitCode::from(exit::PLATFORM)
    } else {
        ExitCode::SUCCESS
    }
}
