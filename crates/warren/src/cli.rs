//! The command line: names, flags, help.

use crate::duration;
use crate::output::Format;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Parser)]
#[command(
    name = "warren",
    version,
    about = "Isolated Linux sandboxes in milliseconds, driven by the E2B SDKs",
    after_help = "Exit codes: the command's own for run and exec (128+n after signal n); 125 if Warren could \
                  not do it, 126 if the command cannot be run, 127 if it is not there.",
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the server is and how answers look.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Server [default: E2B_API_URL, else http://127.0.0.1:9277]
    #[arg(
        long,
        global = true,
        env = "WARREN_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) url: Option<String>,
    /// API key [default: E2B_API_KEY, else the file api-key in the data directory]
    #[arg(
        long,
        global = true,
        env = "WARREN_API_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    pub(crate) api_key: Option<String>,
    /// How data is printed
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub(crate) output: Format,
    /// Print ids or names only
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a node: API, sandboxes, templates
    Serve(ServeFlags),
    /// Parent of the sandboxes; started by serve
    #[command(hide = true)]
    Spawner(SpawnerFlags),
    /// Make a sandbox, run a command in it, remove the sandbox
    Run(RunArgs),
    /// Make a sandbox and print its id
    Start(StartArgs),
    /// Run a command in a sandbox
    Exec(ExecArgs),
    /// List sandboxes
    Ls(LsArgs),
    /// Show a sandbox
    Inspect(IdArgs),
    /// Remove sandboxes
    Rm(IdsArgs),
    /// Set how long a sandbox lives from now
    Timeout(TimeoutArgs),
    /// Make a template from an OCI image
    Pull(PullArgs),
    /// Templates: list, show, remove
    #[command(subcommand)]
    Template(TemplateCommand),
    /// Show the API key and what an SDK needs to find this server
    Auth,
    /// Show what this host can do, and how to get what is missing
    Doctor,
    /// Show the versions of this program and of the server
    Version,
}

/// Flags of `serve`. Precedence: flag, environment, file, default.
#[derive(Debug, Default, Args)]
pub(crate) struct ServeFlags {
    /// Address and port of the API
    #[arg(
        long,
        env = "WARREN_LISTEN",
        hide_env_values = true,
        value_name = "ADDR"
    )]
    pub(crate) listen: Option<String>,
    /// Everything that outlives a restart
    #[arg(
        long,
        env = "WARREN_DATA_DIR",
        hide_env_values = true,
        value_name = "DIR"
    )]
    pub(crate) data_dir: Option<PathBuf>,
    /// Sockets and mounts
    #[arg(
        long,
        env = "WARREN_RUN_DIR",
        hide_env_values = true,
        value_name = "DIR"
    )]
    pub(crate) run_dir: Option<PathBuf>,
    /// IPv4 range for sandboxes, two addresses each
    #[arg(
        long,
        env = "WARREN_SUBNET",
        hide_env_values = true,
        value_name = "CIDR"
    )]
    pub(crate) subnet: Option<String>,
    /// Name servers of the sandboxes
    #[arg(
        long,
        env = "WARREN_DNS",
        hide_env_values = true,
        value_delimiter = ',',
        value_name = "IP"
    )]
    pub(crate) dns: Option<Vec<String>>,
    /// Sandboxes kept waiting
    #[arg(long, env = "WARREN_POOL", hide_env_values = true, value_name = "N")]
    pub(crate) pool: Option<u32>,
    /// The program warren-agent [default: beside this program]
    #[arg(
        long,
        env = "WARREN_AGENT",
        hide_env_values = true,
        value_name = "FILE"
    )]
    pub(crate) agent: Option<PathBuf>,
    /// Domain under which sandboxes have host names
    #[arg(long, env = "WARREN_DOMAIN", hide_env_values = true)]
    pub(crate) domain: Option<String>,
    /// Configuration file [default: /etc/warren/config.toml if it is there]
    #[arg(
        long,
        env = "WARREN_CONFIG",
        hide_env_values = true,
        value_name = "FILE"
    )]
    pub(crate) config: Option<PathBuf>,
}

/// Flags of the internal role `spawner`.
#[derive(Debug, Args)]
pub(crate) struct SpawnerFlags {
    /// Run directory of the node
    #[arg(long)]
    pub(crate) run_dir: PathBuf,
    /// The program warren-agent
    #[arg(long)]
    pub(crate) agent: PathBuf,
}

/// What both `run` and `start` take.
#[derive(Debug, Args)]
pub(crate) struct SandboxFlags {
    /// Label of the sandbox; may be repeated
    #[arg(short, long, value_parser = pair, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<(String, String)>,
    /// Environment variable; may be repeated
    #[arg(short, long, value_parser = pair, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<(String, String)>,
}

/// How a command is run.
#[derive(Debug, Args)]
pub(crate) struct CommandFlags {
    /// Working directory
    #[arg(short, long, value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// Linux user
    #[arg(short, long)]
    pub(crate) user: Option<String>,
    /// Pass standard input on; without it the command reads an empty one
    #[arg(short, long)]
    pub(crate) interactive: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Template, see `warren template ls`
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,
    #[command(flatten)]
    pub(crate) how: CommandFlags,
    /// Longest life of the sandbox
    #[arg(long, value_parser = duration::parse, default_value = "1h", value_name = "DURATION")]
    pub(crate) timeout: Duration,
    /// Remove the sandbox at the end; this is the default
    #[arg(long, conflicts_with_all = ["keep", "detach"])]
    pub(crate) rm: bool,
    /// Keep the sandbox at the end, until its timeout
    #[arg(long)]
    pub(crate) keep: bool,
    /// Leave the command running and print the id of the sandbox
    #[arg(short, long, conflicts_with = "interactive")]
    pub(crate) detach: bool,
    /// Command and arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Template, see `warren template ls`
    pub(crate) template: String,
    #[command(flatten)]
    pub(crate) sandbox: SandboxFlags,
    /// Life of the sandbox [default: the server's, 5 minutes]
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// Id of the sandbox
    pub(crate) id: String,
    /// Environment variable; may be repeated
    #[arg(short, long, value_parser = pair, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) how: CommandFlags,
    /// Leave the command running and print its pid
    #[arg(short, long, conflicts_with = "interactive")]
    pub(crate) detach: bool,
    /// Command and arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Only sandboxes with this label; may be repeated
    #[arg(short, long, value_parser = pair, value_name = "KEY=VALUE")]
    pub(crate) metadata: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub(crate) struct IdArgs {
    /// Id of the sandbox
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct IdsArgs {
    /// Ids of the sandboxes
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TimeoutArgs {
    /// Id of the sandbox
    pub(crate) id: String,
    /// Life from now, such as 10m; 0 ends it
    #[arg(value_parser = duration::parse)]
    pub(crate) duration: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// Image reference, or oci:DIR, oci-archive:FILE, docker-archive:FILE on the server's disk
    pub(crate) image: String,
    /// Name of the template
    #[arg(long, value_name = "NAME[:TAG]")]
    pub(crate) name: String,
    /// User name at the registry
    #[arg(long, requires = "password_stdin")]
    pub(crate) username: Option<String>,
    /// Read the registry's password or token from standard input
    #[arg(long, requires = "username")]
    pub(crate) password_stdin: bool,
    /// CPUs of its sandboxes
    #[arg(long, value_name = "N")]
    pub(crate) cpu: Option<u32>,
    /// Memory of its sandboxes, MiB
    #[arg(long, value_name = "MIB")]
    pub(crate) memory: Option<u32>,
    /// Writable disk of its sandboxes, MiB
    #[arg(long, value_name = "MIB")]
    pub(crate) disk: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TemplateCommand {
    /// List templates
    Ls,
    /// Show a template
    Inspect(NameArgs),
    /// Remove a template
    Rm(NameArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Name of the template
    pub(crate) name: String,
}

/// `KEY=VALUE`; the value may hold further equal signs, the key may not be empty.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not KEY=VALUE")),
    }
}

#[cfg(test)]
mod tests;
