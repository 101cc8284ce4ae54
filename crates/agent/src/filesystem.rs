//! The methods of `filesystem.Filesystem`.
//!
//! The server works as root inside the sandbox and gives what it makes to the user, as the reference does;
//! paths resolve in the sandbox's own mount namespace, so no link leads out of it.

mod directories;
mod entry;
mod failure;

pub(crate) use directories::ensure as ensure_directories;
pub(crate) use failure::is_full;

use crate::accounts::{Accounts, User};
use crate::connect::{self, Call, Reply};
use crate::paths;
use crate::sandbox::Sandbox;
use api::envd::filesystem::{
    EntryResponse, ListDirRequest, ListDirResponse, MoveRequest, PathRequest,
};
use api::envd::process::Empty;
use api::envd::{Code, ConnectError};
use failure::FileError;
use hyper::body::Incoming;
use std::fs;
use std::path::Path;

/// On whose behalf a call works.
struct Caller {
    user: User,
    accounts: Accounts,
    workdir: Option<String>,
}

impl Caller {
    fn path(&self, path: &str) -> Result<String, ConnectError> {
        let expanded = paths::expand(path, &self.user, self.workdir.as_deref());
        expanded.map_err(|error| ConnectError::new(Code::InvalidArgument, error.to_string()))
    }

    fn entry(&self, path: &str) -> Result<EntryResponse, ConnectError> {
        let entry = entry::read(path, &self.accounts)
            .map_err(|error| FileError::new("error getting file info", path, error))?;
        Ok(EntryResponse { entry })
    }
}

/// Answers one call; `None`: no such method.
pub(crate) async fn call(
    sandbox: &Sandbox,
    method: &str,
    call: Call,
    body: Incoming,
) -> Option<Reply> {
    Some(match method {
        "Stat" => connect::unary(run(sandbox, &call, body, stat).await),
        "MakeDir" => connect::unary(run(sandbox, &call, body, make_dir).await),
        "Move" => connect::unary(run(sandbox, &call, body, move_entry).await),
        "ListDir" => connect::unary(run(sandbox, &call, body, list_dir).await),
        "Remove" => connect::unary(run(sandbox, &call, body, remove).await),
        "CreateWatcher" | "GetWatcherEvents" | "RemoveWatcher" => {
            connect::unary(Err::<Empty, _>(no_watching()))
        }
        "WatchDir" => connect::single_message_stream(Err::<Empty, _>(no_watching())),
        _ => return None,
    })
}

fn no_watching() -> ConnectError {
    ConnectError::new(
        Code::Unimplemented,
        "watching directories is not available yet",
    )
}

/// Runs a method on the blocking pool: files may be on slow filesystems.
async fn run<Q, R>(
    sandbox: &Sandbox,
    call: &Call,
    body: Incoming,
    method: fn(&Caller, Q) -> Result<R, ConnectError>,
) -> Result<R, ConnectError>
where
    Q: serde::de::DeserializeOwned + Send + 'static,
    R: Send + 'static,
{
    let request = connect::read_unary(body).await?;
    let (user, accounts) = call.user(sandbox)?;
    let caller = Caller {
        user,
        accounts,
        workdir: sandbox.init().workdir.clone(),
    };
    let done = tokio::task::spawn_blocking(move || method(&caller, request)).await;
    done.map_err(|error| ConnectError::new(Code::Internal, error.to_string()))?
}

fn stat(caller: &Caller, request: PathRequest) -> Result<EntryResponse, ConnectError> {
    caller.entry(&caller.path(&request.path)?)
}

fn make_dir(caller: &Caller, request: PathRequest) -> Result<EntryResponse, ConnectError> {
    let path = caller.path(&request.path)?;
    match fs::metadata(&path) {
        Ok(found) if found.is_dir() => {
            let text = format!("directory already exists: {path}");
            return Err(ConnectError::new(Code::AlreadyExists, text));
        }
        Ok(_) => {
            let text = format!("path already exists but it is not a directory: {path}");
            return Err(ConnectError::new(Code::InvalidArgument, text));
        }
        Err(_) => {}
    }
    directories::ensure(&path, &caller.user)
        .map_err(|error| FileError::new("error creating directory", &path, error))?;
    caller.entry(&path)
}

fn move_entry(caller: &Caller, request: MoveRequest) -> Result<EntryResponse, ConnectError> {
    let source = caller.path(&request.source)?;
    let destination = caller.path(&request.destination)?;
    // First, so that a missing source leaves no directories behind.
    fs::symlink_metadata(&source)
        .map_err(|error| FileError::new("source file not found", &source, error))?;
    let parent = paths::parent(&destination);
    directories::ensure(parent, &caller.user)
        .map_err(|error| FileError::new("error creating directory", parent, error))?;
    directories::rename(&source, &destination)
        .map_err(|error| FileError::new("error renaming", &source, error))?;
    caller.entry(&destination)
}

fn list_dir(caller: &Caller, request: ListDirRequest) -> Result<ListDirResponse, ConnectError> {
    let path = caller.path(&request.path)?;
    let found = fs::metadata(&path).map_err(|error| {
        if rustix::io::Errno::from_io_error(&error) == Some(rustix::io::Errno::LOOP) {
            let text = format!("cyclic symlink or chain >255 links at \"{path}\"");
            return ConnectError::new(Code::FailedPrecondition, text);
        }
        FileError::new("path not found", &path, error).into()
    })?;
    if !found.is_dir() {
        let text = format!("path is not a directory: {path}");
        return Err(ConnectError::new(Code::InvalidArgument, text));
    }
    let depth = request.depth.max(1);
    let entries = directories::walk(&path, depth, &caller.accounts)
        .map_err(|error| FileError::new("error reading directory", &path, error))?;
    Ok(ListDirResponse { entries })
}

fn remove(caller: &Caller, request: PathRequest) -> Result<Empty, ConnectError> {
    let path = caller.path(&request.path)?;
    if path == "/" {
        return Err(ConnectError::new(
            Code::InvalidArgument,
            "the root cannot be removed",
        ));
    }
    directories::remove(Path::new(&path))
        .map_err(|error| FileError::new("error removing file or directory", &path, error))?;
    Ok(Empty {})
}
