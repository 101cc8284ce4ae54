//! The client's subcommands.

mod doctor;
mod exec;
mod pull;
mod run;
mod sandboxes;
mod server;
mod templates;

use crate::cli::{Cli, Command, Global};
use crate::client::{self, Client};
use crate::config;
use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use std::process::ExitCode;

/// Runs a subcommand to its end.
pub(crate) fn run(global: &Global, command: Command) -> Result<ExitCode> {
    if matches!(command, Command::Doctor) {
        return doctor::run(global);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the client's runtime")?;
    let result = runtime.block_on(dispatch(global, command));
    // A read of standard input cannot be cancelled; do not wait for a line that nobody types.
    runtime.shutdown_background();
    result
}

async fn dispatch(global: &Global, command: Command) -> Result<ExitCode> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::Run(args) => run::run(&client(global)?, args).await,
        Command::Exec(args) => exec::exec(&client(global)?, args).await,
        Command::Start(args) => run::start(&client(global)?, args).await.map(done),
        Command::Ls(args) => sandboxes::ls(&client(global)?, global, &args)
            .await
            .map(done),
        Command::Inspect(args) => sandboxes::inspect(&client(global)?, global, &args.id)
            .await
            .map(done),
        Command::Rm(args) => sandboxes::rm(&client(global)?, global, &args.ids).await,
        Command::Timeout(args) => sandboxes::timeout(&client(global)?, &args).await.map(done),
        Command::Pull(args) => pull::pull(&client(global)?, global, args).await.map(done),
        Command::Template(args) => templates::run(&client(global)?, global, args)
            .await
            .map(done),
        Command::Auth => server::auth(global).map(done),
        Command::Version => server::version(global).await.map(done),
        Command::Serve(_) | Command::Spawner(_) | Command::Doctor => {
            // main() and run() took these; reaching this line shows the help instead of doing nothing.
            Cli::command().print_help().context("print the help")?;
            Ok(ExitCode::from(crate::exit::PLATFORM))
        }
    }
}

fn client(global: &Global) -> Result<Client> {
    let url = client::server_url(global.url.as_deref());
    let key = client::api_key(global.api_key.as_deref(), &config::data_dir_of_clients());
    Client::new(&url, key.as_deref())
}

/// One segment of a path; ids and names come from the user's keyboard.
fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
