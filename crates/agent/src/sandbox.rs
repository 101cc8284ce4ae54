//! All state of one sandbox's server.

use crate::accounts::{Accounts, User};
use crate::environment::Identity;
use crate::process::Table;
use crate::reaper::{Reaper, Reaping};
use crate::tree::{Cgroups, Trees};
use crate::waiting::{Line, Waiting};
use model::attach::Init;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex};

/// What a server is made from.
#[derive(Debug)]
pub struct Config {
    /// Sandbox id, also `E2B_SANDBOX_ID`.
    pub sandbox_id: String,
    /// Template id, also `E2B_TEMPLATE_ID`.
    pub template_id: String,
    /// Process defaults and token.
    pub init: Init,
    /// Where commands are limited and tracked.
    pub cgroups: Cgroups,
    /// Whose children are collected.
    pub reaping: Reaping,
    /// The process of the first command, if it was forked ahead.
    pub first: Option<Waiting>,
}

/// The state; shared by all connections.
#[derive(Debug)]
pub struct Sandbox {
    pub(crate) identity: Identity,
    /// Replaced whole by `POST /init`.
    init: Mutex<Arc<Init>>,
    pub(crate) processes: Table,
    pub(crate) reaper: Reaper,
    pub(crate) trees: Trees,
    pub(crate) line: Line,
    /// Standard input of programs that shall have none.
    pub(crate) null: File,
}

impl Sandbox {
    pub(crate) fn new(config: Config) -> io::Result<Self> {
        let Config {
            sandbox_id,
            template_id,
            init,
            cgroups,
            reaping,
            first,
        } = config;
        let reaper = Reaper::new(reaping);
        Ok(Self {
            identity: Identity {
                sandbox_id,
                template_id,
            },
            init: Mutex::new(Arc::new(init)),
            processes: Table::default(),
            line: Line::new(first, &reaper),
            reaper,
            trees: Trees::new(cgroups),
            null: File::options().read(true).write(true).open("/dev/null")?,
        })
    }

    pub(crate) fn init(&self) -> Arc<Init> {
        Arc::clone(&crate::locked(&self.init))
    }

    pub(crate) fn change_init(&self, change: impl FnOnce(&mut Init)) {
        let mut init = crate::locked(&self.init);
        change(Arc::make_mut(&mut init));
    }

    /// The user a call names, or the default; `Err` is the name that leads nowhere.
    pub(crate) fn user(&self, name: Option<&str>) -> Result<(User, Accounts), String> {
        let accounts = Accounts::load();
        let init = self.init();
        let user = match name {
            Some(name) => accounts.user(name),
            None => accounts.default_user(init.user.as_deref()),
        };
        match user {
            Some(user) => Ok((user, accounts)),
            None => Err(name.or(init.user.as_deref()).unwrap_or("user").to_owned()),
        }
    }
}
