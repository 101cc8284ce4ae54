//! The network of one node: opened once, then one link per sandbox.

use crate::address::{Addresses, Subnet};
use crate::forwarding;
use crate::indices::Indices;
use crate::link;
use crate::ruleset::{self, INTERNET, SANDBOXES};
use crate::set::{self, Change};
use crate::socket::{Refused, Socket};
use rustix::net::netlink::NETFILTER;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Device names have 15 characters at most; the rest is for the index.
const PREFIX_CHARACTERS_MAX: usize = 6;

/// What the network of a node is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConfig {
    /// Name of the nftables table, which is replaced if it exists.
    pub table: String,
    /// Names of veth devices begin so; nothing else on the node may.
    pub veth_prefix: String,
    /// Where addresses come from.
    pub subnet: Subnet,
    /// Resolvers that sandboxes may ask (port 53) even at a private address.
    pub dns: Vec<Ipv4Addr>,
    /// File that remembers, also over a crash, that this node turned forwarding on.
    pub forwarding_note: PathBuf,
}

/// The network could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A name that would not do.
    #[error("network {field} {value:?}: {rule}")]
    Config {
        /// Which value.
        field: &'static str,
        /// It.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// The program cannot be run.
    #[error("run nft (install the package nftables)")]
    Nft {
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The kernel or the program refused the rules.
    #[error("load nftables table {table}: {message}")]
    Ruleset {
        /// Name of the table.
        table: String,
        /// What `nft` said.
        message: String,
    },
    /// The switch could not be turned.
    #[error("turn on net.ipv4.ip_forward")]
    Forwarding {
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// No socket to the kernel.
    #[error("open netlink socket")]
    Socket {
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// A change of the network failed. The sandbox it was about is closed rather than open.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The kernel refused.
    #[error("{step} for {subject}")]
    Refused {
        /// What was attempted.
        step: &'static str,
        /// On what: a link, a table.
        subject: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// All links of the subnet are in use.
    #[error("no free address in subnet {subnet}: {capacity} sandboxes at most")]
    Exhausted {
        /// The range.
        subnet: Subnet,
        /// Links in it.
        capacity: u32,
    },
    /// The index belongs to another sandbox or lies outside the subnet.
    #[error("link {index} of subnet {subnet} is taken or does not exist")]
    Unavailable {
        /// Which.
        index: u32,
        /// The range.
        subnet: Subnet,
    },
}

/// Whether a sandbox reaches the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Internet {
    /// Everything public, and the resolvers.
    Allowed,
    /// Nothing but answers to the node.
    Denied,
}

/// A sandbox's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Number of the link.
    pub index: u32,
    /// The node's end; the sandbox's end is `eth0`.
    pub device: String,
    /// Both ends' addresses.
    pub addresses: Addresses,
}

/// The network of one node. All calls block for about a millisecond and may come from any thread.
#[derive(Debug)]
pub struct Network {
    config: NetworkConfig,
    netns: OwnedFd,
    /// Never held together with `sets` or `indices`.
    routes: Mutex<Socket>,
    sets: Mutex<Socket>,
    indices: Mutex<Indices>,
}

/// A panic cannot leave half a change behind in these: they are sockets and a set of numbers.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Network {
    /// Loads the ruleset in the calling thread's network namespace and turns forwarding on.
    ///
    /// An earlier table of that name is replaced, so its sandboxes are closed until [`Self::adopt`].
    pub fn open(config: NetworkConfig) -> Result<Self, OpenError> {
        check(&config)?;
        let socket =
            |protocol| Socket::open(protocol).map_err(|source| OpenError::Socket { source });
        let (routes, sets) = (socket(None)?, socket(Some(NETFILTER))?);
        let netns = sys::netns::current().map_err(|source| OpenError::Socket { source })?;
        ruleset::load(&config)?;
        forwarding::turn_on(&config.forwarding_note)
            .map_err(|source| OpenError::Forwarding { source })?;
        Ok(Self {
            indices: Mutex::new(Indices::new(config.subnet.capacity())),
            config,
            netns,
            routes: Mutex::new(routes),
            sets: Mutex::new(sets),
        })
    }

    /// What it was opened with.
    #[must_use]
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// Takes a free link number. It comes back by [`Self::disconnect`].
    pub fn reserve(&self) -> Result<u32, ChangeError> {
        let subnet = self.config.subnet;
        lock(&self.indices).take().ok_or(ChangeError::Exhausted {
            subnet,
            capacity: subnet.capacity(),
        })
    }

    /// Joins the network namespace of `pid` to the node by link `index` (from [`Self::reserve`])
    /// and allows it the internet.
    ///
    /// The kernel lets packets through some milliseconds after the return.
    /// On failure the caller still disconnects; a half-made pair dies with the namespace.
    pub fn connect(&self, index: u32, pid: i32) -> Result<Link, ChangeError> {
        let link = self.link(index)?;
        let refused = |e: Refused| self.refused(&link, e);
        let netns = sys::netns::of_pid(pid).map_err(|source| Refused {
            step: "open network namespace",
            source,
        });
        let netns = netns.map_err(refused)?;
        self.create(&link, netns.as_fd()).map_err(refused)?;
        let inside = Socket::open_in(netns.as_fd(), None).map_err(|source| Refused {
            step: "open socket in network namespace",
            source,
        });
        let mut inside = inside.map_err(refused)?;
        link::configure_inside(&mut inside, link.addresses).map_err(refused)?;
        self.set_members(&link, &[(SANDBOXES, Change::Add), (INTERNET, Change::Add)])?;
        Ok(link)
    }

    fn create(&self, link: &Link, netns: BorrowedFd<'_>) -> Result<(), Refused> {
        let mut routes = lock(&self.routes);
        match link::create_pair(&mut routes, &link.device, netns) {
            Err(e) if e.source.kind() == io::ErrorKind::AlreadyExists => {
                // Of a sandbox whose namespace the kernel has not yet taken down.
                match link::delete(&mut routes, &link.device) {
                    Err(e) if !is_gone(&e) => return Err(e),
                    _ => link::create_pair(&mut routes, &link.device, netns)?,
                }
            }
            other => other?,
        }
        link::configure_host_end(&mut routes, &link.device, link.addresses)
    }

    /// Takes over a link that an earlier process made.
    pub fn adopt(&self, index: u32, internet: Internet) -> Result<Link, ChangeError> {
        if !lock(&self.indices).take_exactly(index) {
            let subnet = self.config.subnet;
            return Err(ChangeError::Unavailable { index, subnet });
        }
        let link = self.link(index)?;
        self.set_members(&link, &[(SANDBOXES, Change::Add), of(internet)])?;
        Ok(link)
    }

    /// Opens or closes the outside to a connected sandbox; also for connections that exist.
    pub fn set_internet(&self, index: u32, internet: Internet) -> Result<(), ChangeError> {
        let link = self.link(index)?;
        self.set_members(&link, &[of(internet)])
    }

    /// Closes the network to link `index` and gives the number back. Repeatable.
    ///
    /// The devices go with the network namespace: a delete of their own would hold the kernel's
    /// one lock of all devices for 14-26 ms. What still stays is found by [`Self::reap`].
    pub fn disconnect(&self, index: u32) -> Result<(), ChangeError> {
        let link = self.link(index)?;
        self.set_members(
            &link,
            &[(SANDBOXES, Change::Remove), (INTERNET, Change::Remove)],
        )?;
        lock(&self.indices).give_back(index);
        Ok(())
    }

    /// Numbers of the links whose device is there.
    pub fn list(&self) -> Result<Vec<u32>, ChangeError> {
        let names = link::names(&mut lock(&self.routes)).map_err(|e| self.refused_all(e))?;
        let number = |name: &String| name.strip_prefix(&self.config.veth_prefix)?.parse().ok();
        Ok(names.iter().filter_map(number).collect())
    }

    /// Deletes every device of ours whose number is not in `keep`; returns their names.
    pub fn reap(&self, keep: &[u32]) -> Result<Vec<String>, ChangeError> {
        let mut removed = Vec::new();
        for index in self.list()?.into_iter().filter(|i| !keep.contains(i)) {
            let device = self.device(index);
            match link::delete(&mut lock(&self.routes), &device) {
                Ok(()) => removed.push(device),
                Err(e) if is_gone(&e) => {}
                Err(e) => return Err(self.refused_all(e)),
            }
        }
        Ok(removed)
    }

    /// [`Self::reap`] for all links that are neither connected nor adopted since [`Self::open`].
    pub fn reap_unused(&self) -> Result<Vec<String>, ChangeError> {
        let keep: Vec<u32> = lock(&self.indices).taken().collect();
        self.reap(&keep)
    }

    /// Removes the ruleset and puts the forwarding switch back, in the namespace of [`Self::open`].
    ///
    /// A switch that this node did not turn stays on.
    pub fn close(self) -> Result<(), ChangeError> {
        set::delete_table(&mut lock(&self.sets), &self.config.table)
            .map_err(|e| self.refused_all(e))?;
        let note = &self.config.forwarding_note;
        sys::netns::run_in(self.netns.as_fd(), || forwarding::restore(note)).map_err(|source| {
            self.refused_all(Refused {
                step: "restore net.ipv4.ip_forward",
                source,
            })
        })
    }

    fn device(&self, index: u32) -> String {
        format!("{}{index}", self.config.veth_prefix)
    }

    fn link(&self, index: u32) -> Result<Link, ChangeError> {
        let subnet = self.config.subnet;
        let addresses = subnet.addresses(index);
        Ok(Link {
            index,
            device: self.device(index),
            addresses: addresses.ok_or(ChangeError::Unavailable { index, subnet })?,
        })
    }

    fn set_members(&self, link: &Link, changes: &[(&str, Change)]) -> Result<(), ChangeError> {
        let member = link.addresses.sandbox;
        let changes: Vec<_> = changes.iter().map(|(s, c)| (*s, member, *c)).collect();
        set::change(&mut lock(&self.sets), &self.config.table, &changes)
            .map_err(|e| self.refused(link, e))
    }

    fn refused(&self, link: &Link, refused: Refused) -> ChangeError {
        ChangeError::Refused {
            step: refused.step,
            subject: format!("link {}", link.device),
            source: refused.source,
        }
    }

    fn refused_all(&self, refused: Refused) -> ChangeError {
        ChangeError::Refused {
            step: refused.step,
            subject: format!("network {}", self.config.table),
            source: refused.source,
        }
    }
}

fn of(internet: Internet) -> (&'static str, Change) {
    match internet {
        Internet::Allowed => (INTERNET, Change::Add),
        Internet::Denied => (INTERNET, Change::Remove),
    }
}

fn is_gone(refused: &Refused) -> bool {
    refused.source.raw_os_error() == Some(libc::ENODEV)
}

/// The names go into a ruleset text and into device names.
fn check(config: &NetworkConfig) -> Result<(), OpenError> {
    let wrong = |field, value: &str, rule| OpenError::Config {
        field,
        value: value.to_owned(),
        rule,
    };
    let word = |s: &str| s.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    let letter = |s: &str| s.starts_with(|c: char| c.is_ascii_alphabetic());
    if !word(&config.table) || !letter(&config.table) || config.table.len() > 31 {
        let rule = "is not a letter followed by letters, digits and _, 31 at most";
        return Err(wrong("table", &config.table, rule));
    }
    let prefix = &config.veth_prefix;
    // A digit at the end would make `a1` + 2 and `a` + 12 the same device.
    let ends_in_digit = prefix.ends_with(|c: char| c.is_ascii_digit());
    if !word(prefix) || !letter(prefix) || ends_in_digit || prefix.len() > PREFIX_CHARACTERS_MAX {
        let rule = "is not a letter followed by letters and digits, 6 at most, the last no digit";
        return Err(wrong("veth_prefix", prefix, rule));
    }
    Ok(())
}
