//! The one nftables ruleset: written once, loaded once; sandboxes come and go in its sets.
//!
//! It decides about packets that enter or leave by an interface of ours and passes all others on
//! untouched. Another table's drop still holds: a verdict of ours cannot overrule it.

use crate::network::{NetworkConfig, OpenError};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Set of all addresses that are a sandbox's.
pub(crate) const SANDBOXES: &str = "sandboxes";
/// Set of those that may reach the outside.
pub(crate) const INTERNET: &str = "internet";

/// Never reached from a sandbox, whatever route the node has: private, shared, link-local (and
/// with it the metadata service of clouds), loopback, "this network", multicast, reserved; and the
/// one public address by which a cloud talks to its own machines.
const FORBIDDEN: [&str; 10] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "224.0.0.0/4",
    "240.0.0.0/4",
];

/// The ruleset as `nft -f` reads it: replaces the table of that name and nothing else, at once.
pub(crate) fn text(config: &NetworkConfig) -> String {
    let table = &config.table;
    let ours = format!("\"{}*\"", config.veth_prefix);
    let forbidden = FORBIDDEN.join(", ");
    let subnet = config.subnet;
    let mut resolvers = String::new();
    if !config.dns.is_empty() {
        let list: Vec<String> = config.dns.iter().map(ToString::to_string).collect();
        write!(resolvers, "elements = {{ {} }}", list.join(", "))
            .expect("writing to a String cannot fail");
    }
    format!(
        r#"table inet {table} {{}}
delete table inet {table}
table inet {table} {{
  set {SANDBOXES} {{ type ipv4_addr; }}
  set {INTERNET} {{ type ipv4_addr; }}
  set dns {{ type ipv4_addr; {resolvers} }}
  set forbidden {{
    type ipv4_addr; flags interval; auto-merge
    elements = {{ {forbidden}, {subnet} }}
  }}

  # Before connection tracking: only IPv4, only from an address that is the sender's own.
  chain prerouting {{
    type filter hook prerouting priority raw; policy accept;
    iifname {ours} jump entering
  }}
  chain entering {{
    meta nfproto != ipv4 drop
    ip saddr != @{SANDBOXES} drop
    fib saddr . iif oif missing drop
  }}

  # To the node itself: answers, and resolvers that the operator named.
  chain input {{
    type filter hook input priority filter; policy accept;
    iifname {ours} jump to_node
  }}
  chain to_node {{
    ct state established,related accept
    ip saddr @{INTERNET} ip daddr @dns meta l4proto {{ tcp, udp }} th dport 53 accept
    drop
  }}

  chain forward {{
    type filter hook forward priority filter; policy accept;
    iifname {ours} jump from_sandbox
    oifname {ours} jump to_sandbox
  }}
  # The check of the set comes before that of the state: taking the internet away cuts
  # connections that are already there.
  chain from_sandbox {{
    oifname {ours} drop
    ip saddr != @{INTERNET} drop
    ip daddr @dns meta l4proto {{ tcp, udp }} th dport 53 accept
    ip daddr @forbidden drop
    accept
  }}
  chain to_sandbox {{
    ct state established,related accept
    drop
  }}

  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr @{SANDBOXES} oifname != {ours} masquerade
  }}
}}
"#
    )
}

/// Loads the ruleset; the only call of the `nft` program.
pub(crate) fn load(config: &NetworkConfig) -> Result<(), OpenError> {
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| OpenError::Nft { source })?;
    let sent = nft
        .stdin
        .take()
        .expect("stdin is piped")
        .write_all(text(config).as_bytes());
    let out = nft
        .wait_with_output()
        .map_err(|source| OpenError::Nft { source })?;
    if out.status.success() {
        return sent.map_err(|source| OpenError::Nft { source });
    }
    Err(OpenError::Ruleset {
        table: config.table.clone(),
        message: String::from_utf8_lossy(&out.stderr).trim().to_owned(),
    })
}
