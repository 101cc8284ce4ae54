//! Starts a program.

use super::input::Input;
use super::output::{Output, Subscription};
use super::supervise::{Followed, supervise};
use super::{Process, rpc};
use crate::accounts::User;
use crate::environment::{self, Command};
use crate::sandbox::Sandbox;
use crate::tree::Tree;
use crate::waiting::Launched;
use api::envd::process::{ProcessConfig, StartRequest};
use api::envd::{Code, ConnectError};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use sys::exec::{Credentials, ExecError, ExitStatus, Spawn, Started, Step};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

/// The shell that E2B clients run every command in, and what stands in for it where it is missing.
const CLIENT_SHELL: &str = "/bin/bash";
/// As the reference sets it.
const OOM_SCORE_ADJ: &[u8] = b"100";
const FALLBACK_SHELL: &str = "/bin/sh";

/// Starts what the request names. Its first reader is there before its first byte.
pub(super) async fn start(
    sandbox: Arc<Sandbox>,
    user: User,
    request: StartRequest,
    deadline: Option<Duration>,
) -> Result<(Arc<Process>, Subscription), ConnectError> {
    let mut config = request.process.unwrap_or_default();
    if config.cmd.is_empty() {
        return Err(ConnectError::new(Code::InvalidArgument, "no command given"));
    }
    let init = sandbox.init();
    let cwd = working_directory(&config, &user, init.workdir.as_deref())?;
    let requested = config.clone();
    if config.cmd == CLIENT_SHELL && !Path::new(CLIENT_SHELL).exists() {
        FALLBACK_SHELL.clone_into(&mut config.cmd);
    }
    let command = environment::command(&config, &user, &init, &sandbox.identity);
    let pipes = Pipes::new(request.stdin.unwrap_or(true)).map_err(|error| no_pipes(&error))?;
    let launched = launch(&sandbox, &user, &command, &cwd, &pipes, deadline).await;
    // Whatever became of this one, the next command shall find a process in waiting.
    let next = Arc::clone(&sandbox);
    drop(tokio::task::spawn_blocking(move || {
        if let Err(error) = next.line.refill(&next.trees, &next.reaper) {
            tracing::warn!(%error, "fork the process of the next command");
        }
    }));
    let (pid, exit, tree) = launched?;
    let Pipes {
        input,
        stdout,
        stderr,
        theirs,
    } = pipes;
    drop(theirs);
    let process = Arc::new(Process {
        pid,
        config: requested,
        tag: request.tag,
        input: Input::new(input),
        output: Output::default(),
        tree,
        ended: AtomicBool::new(false),
        timed_out: AtomicBool::new(false),
    });
    sandbox.processes.insert(&process);
    let subscription = process.output.subscribe();
    let followed = Followed::new(stdout, stderr, exit);
    drop(tokio::spawn(supervise(
        Arc::clone(&sandbox),
        Arc::clone(&process),
        followed,
    )));
    if let Some(deadline) = deadline {
        drop(tokio::spawn(end_at(deadline, Arc::clone(&process))));
    }
    Ok((process, subscription))
}

/// Ends the whole tree of the process once its time is over (P7).
async fn end_at(deadline: Duration, process: Arc<Process>) {
    let process = Arc::downgrade(&{ process });
    tokio::time::sleep(deadline).await;
    if let Some(process) = process.upgrade()
        && !process.has_ended()
    {
        process.timed_out.store(true, Ordering::Release);
        process.tree.kill(process.pid).await;
    }
}

/// The call's directory, else the sandbox's, else the home; one that is named must be there (P13).
fn working_directory(
    config: &ProcessConfig,
    user: &User,
    workdir: Option<&str>,
) -> Result<String, ConnectError> {
    let named = config
        .cwd
        .as_deref()
        .filter(|cwd| !cwd.is_empty())
        .or(workdir);
    let invalid = |text: String| ConnectError::new(Code::InvalidArgument, text);
    let path = crate::paths::expand(named.unwrap_or("~"), user, None)
        .map_err(|error| invalid(error.to_string()))?;
    if Path::new(&path).is_dir() {
        return Ok(path);
    }
    if named.is_none() {
        // A user without a home works from the root, as under docker.
        return Ok("/".to_owned());
    }
    if Path::new(&path).exists() {
        return Err(invalid(format!("cwd '{path}' is not a directory")));
    }
    Err(invalid(format!("cwd '{path}' does not exist")))
}

/// Our ends of the pipes, and the ends the program gets.
struct Pipes {
    input: Option<pipe::Sender>,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    theirs: [Option<OwnedFd>; 3],
}

impl Pipes {
    fn new(with_input: bool) -> io::Result<Self> {
        let (stdout, their_stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let (their_stdin, input) = if with_input {
            let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
            (
                Some(theirs),
                Some(pipe::Sender::from_owned_fd(nonblocking(ours)?)?),
            )
        } else {
            (None, None)
        };
        Ok(Self {
            input,
            stdout: pipe::Receiver::from_owned_fd(nonblocking(stdout)?)?,
            stderr: pipe::Receiver::from_owned_fd(nonblocking(stderr)?)?,
            theirs: [their_stdin, Some(their_stdout), Some(their_stderr)],
        })
    }
}

/// Sets our end only: the flag belongs to the end, the program's stays blocking.
fn nonblocking(fd: OwnedFd) -> io::Result<OwnedFd> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
    Ok(fd)
}

fn no_pipes(error: &io::Error) -> ConnectError {
    ConnectError::new(
        Code::ResourceExhausted,
        format!("error making pipes: {error}"),
    )
}

/// Starts the program, in the process in waiting if there is one, and waits until it runs.
async fn launch(
    sandbox: &Sandbox,
    user: &User,
    command: &Command,
    cwd: &str,
    pipes: &Pipes,
    deadline: Option<Duration>,
) -> Result<(u32, oneshot::Receiver<ExitStatus>, Tree), ConnectError> {
    let null = sandbox.null.as_fd();
    let [stdin, stdout, stderr] = &pipes.theirs;
    let spawn = Spawn {
        argv: c_strings(command.argv.iter().cloned())?,
        env: c_strings(
            command
                .env
                .iter()
                .map(|(name, value)| format!("{name}={value}")),
        )?,
        cwd: c_strings([cwd.to_owned()].into_iter())?.remove(0),
        credentials: credentials(user)?,
        stdin: stdin.as_ref().map_or(null, AsFd::as_fd),
        stdout: stdout.as_ref().map_or(null, AsFd::as_fd),
        stderr: stderr.as_ref().map_or(null, AsFd::as_fd),
        cgroups: Vec::new(),
    };
    let launched = sandbox
        .line
        .launch(&spawn, &sandbox.trees)
        .and_then(|waiting| match waiting {
            Some(launched) => Ok(launched),
            None => fork_now(sandbox, spawn),
        });
    let (Started { pid, outcome }, exit, tree) = launched.map_err(|error| {
        let text = format!("error starting process: {error}");
        ConnectError::new(Code::ResourceExhausted, text)
    })?;
    // Root inside can stop the process before it runs; the deadline holds for that, too.
    let limit = deadline.unwrap_or(Duration::MAX);
    let Ok(outcome) = tokio::time::timeout(limit, read_outcome(outcome)).await else {
        tree.kill(rpc::pid(pid)).await;
        sandbox.trees.fell(&tree);
        let text = "the process did not start within its time";
        return Err(ConnectError::new(Code::DeadlineExceeded, text));
    };
    let outcome = outcome.map_err(|error| {
        ConnectError::new(Code::Internal, format!("error starting process: {error}"))
    })?;
    if let Err(error) = outcome {
        // The reaper has collected the child once this resolves; nothing of it is left.
        exit.await.ok();
        sandbox.trees.fell(&tree);
        return Err(not_started(&command.argv, cwd, error));
    }
    offer_to_oom_killer(pid);
    Ok((rpc::pid(pid), exit, tree))
}

/// Forks a child for the program; it has to enter its cgroups first.
fn fork_now(sandbox: &Sandbox, spawn: Spawn<'_>) -> io::Result<Launched> {
    let tree = sandbox.trees.grow()?;
    let spawn = Spawn {
        cgroups: sandbox.trees.entrances(&tree),
        ..spawn
    };
    match sandbox.reaper.watch(|| sys::exec::spawn(&spawn)) {
        Ok((started, exit)) => Ok((started, exit, tree)),
        Err(error) => {
            sandbox.trees.fell(&tree);
            Err(error)
        }
    }
}

/// Programs die of memory shortage before the server does. Best effort: it needs `/proc`. Done from here,
/// once the program runs, because a child of an undumpable process may not write its own file.
fn offer_to_oom_killer(pid: i32) {
    let file = File::options()
        .write(true)
        .open(format!("/proc/{pid}/oom_score_adj"));
    file.and_then(|mut file| file.write_all(OOM_SCORE_ADJ)).ok();
}

async fn read_outcome(outcome: OwnedFd) -> io::Result<Result<(), ExecError>> {
    let mut report = Vec::new();
    let mut outcome = pipe::Receiver::from_owned_fd(nonblocking(outcome)?)?;
    outcome.read_to_end(&mut report).await?;
    Ok(sys::exec::exec_outcome(&report))
}

/// Words a failure as the reference does: the command is at fault, not the server.
fn not_started(argv: &[String], cwd: &str, error: ExecError) -> ConnectError {
    let cmd = argv.first().map_or("", String::as_str);
    let reason = error.errno;
    match error.step {
        Step::Exec if reason == Errno::NOENT && !cmd.contains('/') => ConnectError::new(
            Code::InvalidArgument,
            format!("error starting process: exec: \"{cmd}\": executable file not found in $PATH"),
        ),
        Step::Exec => ConnectError::new(
            Code::InvalidArgument,
            format!("error starting process: exec {cmd}: {reason}"),
        ),
        Step::Chdir => {
            let text = format!("error starting process: cwd '{cwd}': {reason}");
            ConnectError::new(Code::InvalidArgument, text)
        }
        Step::Cgroup | Step::Stdio | Step::Credentials => ConnectError::new(
            Code::Internal,
            format!("error starting process: {error}: {reason}"),
        ),
    }
}

/// As root the user's; otherwise only the server's own user can be had.
fn credentials(user: &User) -> Result<Option<Credentials>, ConnectError> {
    let own = rustix::process::geteuid();
    if own.is_root() {
        let User {
            uid, gid, groups, ..
        } = user.clone();
        return Ok(Some(Credentials { uid, gid, groups }));
    }
    if own.as_raw() == user.uid {
        return Ok(None);
    }
    let text = format!("cannot run as user '{}': the server is not root", user.name);
    Err(ConnectError::new(Code::PermissionDenied, text))
}

fn c_strings(strings: impl Iterator<Item = String>) -> Result<Vec<CString>, ConnectError> {
    let converted = strings.map(|string| {
        CString::new(string).map_err(|_| {
            let text = "arguments and environment must not hold zero bytes";
            ConnectError::new(Code::InvalidArgument, text)
        })
    });
    converted.collect()
}
