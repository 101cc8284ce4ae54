//! `warren exec`: a command in a sandbox, its bytes passed through unchanged.

use super::segment;
use crate::cli::{CommandFlags, ExecArgs};
use crate::client::{Client, Input, Output, Process, ProcessFailure, StartCommand};
use crate::exit::{self, End};
use crate::output;
use anyhow::{Context as _, Result};
use api::e2b::SandboxDetail;
use api::envd::process::{ProcessConfig, Signal};
use std::io::{self, Write};
use std::process::ExitCode;
use tokio::io::AsyncReadExt as _;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::task::JoinHandle;

/// One read of standard input.
const INPUT_BYTES: usize = 32 * 1024;

pub(super) async fn exec(client: &Client, args: ExecArgs) -> Result<ExitCode> {
    let path = format!("/sandboxes/{}", segment(&args.id));
    let sandbox: SandboxDetail = client.get(&path).await?;
    let command = start_command(args.command, args.env, &args.how);
    let token = sandbox.envd_access_token.as_deref();
    let interrupts = Interrupts::listen()?;
    let process = match Process::start(client, &sandbox.listed.sandbox_id, token, command).await {
        Ok(process) => process,
        Err(error) => return failed_start(&error),
    };
    if args.detach {
        output::line(process.pid())?;
        return Ok(ExitCode::SUCCESS);
    }
    attend(process, args.how.interactive, interrupts).await
}

/// The request of a command line.
pub(super) fn start_command(
    words: Vec<String>,
    env: Vec<(String, String)>,
    how: &CommandFlags,
) -> StartCommand {
    let mut words = words.into_iter();
    StartCommand {
        config: ProcessConfig {
            cmd: words.next().unwrap_or_default(),
            args: words.collect(),
            envs: env.into_iter().collect(),
            cwd: how.workdir.clone(),
        },
        user: how.user.clone(),
        stdin: how.interactive,
    }
}

/// Says why there is no command and gives docker's code for it.
pub(super) fn failed_start(error: &anyhow::Error) -> Result<ExitCode> {
    output::complain(error);
    let code = match error.downcast_ref() {
        Some(ProcessFailure::Agent(cause)) => exit::start_failure(cause),
        Some(ProcessFailure::Cut) | None => exit::PLATFORM,
    };
    Ok(ExitCode::from(code))
}

/// Ctrl-C and TERM for this program.
#[derive(Debug)]
pub(super) struct Interrupts {
    int: SignalStream,
    term: SignalStream,
}

impl Interrupts {
    /// From here on they no longer end this program by themselves.
    pub(super) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("listen for signals");
        Ok(Self {
            int: listen(SignalKind::interrupt())?,
            term: listen(SignalKind::terminate())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.int.recv() => {}
            _ = self.term.recv() => {}
        }
    }
}

/// Passes bytes in both directions until the command ends. The first interrupt asks the command to
/// end, the second kills it, the third leaves it.
pub(super) async fn attend(
    mut process: Process,
    interactive: bool,
    mut interrupts: Interrupts,
) -> Result<ExitCode> {
    let input = process.input();
    let feeding = interactive.then(|| tokio::spawn(feed(input.clone())));
    let mut signals = [Signal::Term, Signal::Kill].into_iter();
    let result = loop {
        tokio::select! {
            next = process.next() => match next {
                Ok(Output::Ended(end)) => break Ok(tell(&end)),
                Ok(output) => match write(&output) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                        input.signal(Signal::Kill).await?;
                        break Ok(ExitCode::from(exit::BROKEN_PIPE));
                    }
                    Err(error) => break Err(error).context("write the command's output"),
                },
                Err(error) => break Err(error),
            },
            () = interrupts.next() => match signals.next() {
                Some(signal) => input.signal(signal).await?,
                None => break Ok(ExitCode::from(exit::INTERRUPTED)),
            },
        }
    };
    stop(feeding);
    result
}

fn stop(feeding: Option<JoinHandle<()>>) {
    if let Some(task) = feeding {
        task.abort();
    }
}

/// A death by signal leaves no word of the command's own.
fn tell(end: &End) -> ExitCode {
    if let End::Signalled(words) = end {
        output::remark(format_args!("warren: the command ended by {words}"));
    }
    end.into()
}

fn write(output: &Output) -> io::Result<()> {
    let all = |mut to: Box<dyn Write>, bytes: &[u8]| to.write_all(bytes).and_then(|()| to.flush());
    match output {
        Output::Stdout(bytes) => all(Box::new(io::stdout().lock()), bytes),
        Output::Stderr(bytes) => all(Box::new(io::stderr().lock()), bytes),
        Output::Ended(_) => Ok(()),
    }
}

/// Sends standard input until it ends, or until the command no longer takes it.
async fn feed(input: Input) {
    let mut stdin = tokio::io::stdin();
    let mut buffer = vec![0; INPUT_BYTES];
    loop {
        let read = stdin.read(&mut buffer).await.unwrap_or(0);
        if read == 0 {
            break;
        }
        if input.write(buffer[..read].to_vec()).await.is_err() {
            return; // it ended, or closed its input: its output says how
        }
    }
    input.close().await.ok();
}
