//! Configuration of `warren serve`: flag over environment over file over default.
//!
//! Read as written first, checked after, so that all mistakes are reported together with their keys.

use crate::cli::ServeFlags;
use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Read when it is there and no other file is named.
const DEFAULT_FILE: &str = "/etc/warren/config.toml";
const DEFAULT_LISTEN: &str = "127.0.0.1:9277";
const DEFAULT_DATA_DIR: &str = "/var/lib/warren";
const DEFAULT_RUN_DIR: &str = "/run/warren";
const DEFAULT_SUBNET: &str = "10.217.0.0/16";
/// Public resolvers; those of the node's own network are opened to sandboxes only if they are named.
const DEFAULT_DNS: [&str; 2] = ["1.1.1.1", "8.8.8.8"];
const DEFAULT_POOL: u32 = 16;
/// The waiting sandboxes of a full /16.
const POOL_MAX: u32 = 4096;
const AGENT_NAME: &str = "warren-agent";
/// A /30 holds two sandboxes; a /8 is all of a private range.
const PREFIX_RANGE: std::ops::RangeInclusive<u8> = 8..=30;

/// What a node needs to know, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) data_dir: PathBuf,
    pub(crate) run_dir: PathBuf,
    pub(crate) subnet: (Ipv4Addr, u8),
    pub(crate) dns: Vec<Ipv4Addr>,
    pub(crate) pool: u32,
    pub(crate) agent: PathBuf,
    pub(crate) domain: Option<String>,
}

/// The file, exactly as written.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct File {
    listen: Option<String>,
    data_dir: Option<PathBuf>,
    run_dir: Option<PathBuf>,
    subnet: Option<String>,
    dns: Option<Vec<String>>,
    pool: Option<u32>,
    agent: Option<PathBuf>,
    domain: Option<String>,
}

/// The data directory of a server on this host, for clients that look for its key.
pub(crate) fn data_dir_of_clients() -> PathBuf {
    std::env::var_os("WARREN_DATA_DIR").map_or_else(|| DEFAULT_DATA_DIR.into(), PathBuf::from)
}

impl Config {
    /// Reads the file, if any, and checks everything.
    pub(crate) fn load(flags: ServeFlags) -> Result<Self> {
        let file = match &flags.config {
            Some(path) => read(path)?,
            None if Path::new(DEFAULT_FILE).exists() => read(Path::new(DEFAULT_FILE))?,
            None => File::default(),
        };
        Self::check(flags, file)
    }

    fn check(flags: ServeFlags, file: File) -> Result<Self> {
        let mut wrong = Wrong::default();
        let listen = flags.listen.or(file.listen);
        let listen = listen.as_deref().unwrap_or(DEFAULT_LISTEN);
        let subnet = flags.subnet.or(file.subnet);
        let subnet = subnet.as_deref().unwrap_or(DEFAULT_SUBNET);
        let dns = flags.dns.or(file.dns);
        let dns = dns.unwrap_or_else(|| DEFAULT_DNS.map(str::to_owned).to_vec());
        let dir = |flag: Option<PathBuf>, file: Option<PathBuf>, default: &str| {
            flag.or(file).unwrap_or_else(|| default.into())
        };
        let config = Self {
            listen: wrong.take("listen", parse_listen(listen)),
            data_dir: dir(flags.data_dir, file.data_dir, DEFAULT_DATA_DIR),
            run_dir: dir(flags.run_dir, file.run_dir, DEFAULT_RUN_DIR),
            subnet: wrong.take("subnet", parse_subnet(subnet)),
            dns: wrong.take("dns", parse_dns(&dns)),
            pool: flags.pool.or(file.pool).unwrap_or(DEFAULT_POOL),
            agent: flags.agent.or(file.agent).unwrap_or_else(agent_beside_us),
            domain: flags.domain.or(file.domain),
        };
        for (key, path) in [("data-dir", &config.data_dir), ("run-dir", &config.run_dir)] {
            if !path.is_absolute() {
                wrong.add(key, format!("{} is not an absolute path", path.display()));
            }
        }
        if config.pool > POOL_MAX {
            wrong.add("pool", format!("{} is more than {POOL_MAX}", config.pool));
        }
        wrong.none()?;
        Ok(config)
    }
}

fn read(path: &Path) -> Result<File> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("read the configuration {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("read the configuration {}", path.display()))
}

/// `cargo xtask build` and every package put the agent beside `warren`.
fn agent_beside_us() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name(AGENT_NAME)
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not ADDRESS:PORT such as {DEFAULT_LISTEN}"))
}

fn parse_subnet(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let wrong = || format!("{text:?} is not an IPv4 range such as {DEFAULT_SUBNET}");
    let (address, prefix) = text.split_once('/').ok_or_else(wrong)?;
    let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
    let prefix: u8 = prefix.parse().map_err(|_| wrong())?;
    if !PREFIX_RANGE.contains(&prefix) {
        return Err(format!("{text:?}: the prefix must be 8 to 30"));
    }
    if u32::from(address) & (u32::MAX >> prefix) != 0 {
        return Err(format!("{text:?} has bits behind its prefix"));
    }
    Ok((address, prefix))
}

fn parse_dns(texts: &[String]) -> Result<Vec<Ipv4Addr>, String> {
    let one = |text: &String| {
        text.trim()
            .parse()
            .map_err(|_| format!("{text:?} is not an IPv4 address"))
    };
    texts.iter().map(one).collect()
}

/// Mistakes, collected.
#[derive(Debug, Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn add(&mut self, key: &str, why: String) {
        self.0.push(format!("{key}: {why}"));
    }

    /// The value, or a placeholder that never leaves [`Config::check`] because the mistake is noted.
    fn take<T: Placeholder>(&mut self, key: &str, value: Result<T, String>) -> T {
        value.unwrap_or_else(|why| {
            self.add(key, why);
            T::placeholder()
        })
    }

    fn none(self) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        bail!("configuration: {}", self.0.join("; "))
    }
}

trait Placeholder {
    fn placeholder() -> Self;
}

impl Placeholder for SocketAddr {
    fn placeholder() -> Self {
        Self::from((Ipv4Addr::UNSPECIFIED, 0))
    }
}

impl Placeholder for (Ipv4Addr, u8) {
    fn placeholder() -> Self {
        (Ipv4Addr::UNSPECIFIED, 0)
    }
}

impl Placeholder for Vec<Ipv4Addr> {
    fn placeholder() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documented file; every key stands in it as a comment with its default.
    const DOCUMENTED: &str = include_str!("../../../docs/configuration/default.toml");

    #[test]
    fn the_documented_file_holds_every_key_with_its_default() {
        let text = DOCUMENTED.replace("\n#: ", "\n");
        let file: File = toml::from_str(&text).expect("valid TOML");
        assert!(file.listen.is_some() && file.pool.is_some() && file.dns.is_some());
        let mut documented = Config::check(ServeFlags::default(), file).expect("valid values");
        let mut default = Config::check(ServeFlags::default(), File::default()).expect("valid");
        // These two have no fixed default: the agent is beside the program, the domain is absent.
        documented.agent = PathBuf::new();
        default.agent = PathBuf::new();
        assert_eq!(
            documented.domain.take().as_deref(),
            Some("sandboxes.example")
        );
        assert_eq!(documented, default);
    }

    #[test]
    fn the_documented_file_as_it_is_changes_nothing() {
        assert_eq!(
            toml::from_str::<File>(DOCUMENTED).expect("valid"),
            File::default()
        );
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let flags = ServeFlags {
            pool: Some(3),
            ..ServeFlags::default()
        };
        let file: File = toml::from_str("pool = 9\nlisten = '[::1]:80'").expect("valid");
        let config = Config::check(flags, file).expect("valid");
        assert_eq!((config.pool, config.listen.port()), (3, 80));
    }

    #[test]
    fn all_mistakes_are_reported_together_with_their_keys() {
        let file =
            "listen = 'here'\nsubnet = '10.0.0.1/16'\ndns = ['x']\ndata-dir = 'rel'\npool = 5000";
        let file = toml::from_str(file).expect("valid TOML");
        let error = Config::check(ServeFlags::default(), file)
            .expect_err("wrong")
            .to_string();
        for key in ["listen: ", "subnet: ", "dns: ", "data-dir: ", "pool: "] {
            assert!(error.contains(key), "{key} is not in {error}");
        }
    }

    #[test]
    fn unknown_keys_are_errors_that_name_the_key() {
        let error = toml::from_str::<File>("listne = 'x'").expect_err("unknown");
        assert!(error.to_string().contains("listne"));
    }

    #[test]
    fn subnets_are_whole_ranges() {
        assert_eq!(
            parse_subnet("10.0.0.0/8"),
            Ok((Ipv4Addr::new(10, 0, 0, 0), 8))
        );
        for bad in [
            "10.0.0.0",
            "10.0.0.0/31",
            "10.0.0.0/7",
            "10.1.0.0/8",
            "x/16",
            "10.0.0.0/x",
        ] {
            assert!(parse_subnet(bad).is_err(), "{bad}");
        }
    }
}
