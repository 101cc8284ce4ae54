//! `cargo xtask`: build, tidy and ci of this workspace.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer tool talks on the terminal"
)]

mod ci;
mod dist;
mod tidy;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use workspace::Workspace;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Build, check and test Warren")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build `warren` and the static `warren-agent` into <target>/warren-dist.
    Build,
    /// Check sizes, names, crate edges and forbidden texts.
    Tidy,
    /// Everything `make test` runs; the last line counts passed, failed and skipped.
    Ci,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let workspace = Workspace::find()?;
    match args.task {
        Task::Build => {
            let dist = dist::build(&workspace)?;
            println!("{}", dist.display());
            Ok(ExitCode::SUCCESS)
        }
        Task::Tidy => tidy::run(&workspace),
        Task::Ci => ci::run(&workspace),
    }
}
