//! The network of sandboxes: a veth pair each, one static nftables ruleset for all.
//!
//! ```text
//! sandbox netns                 node's netns
//! eth0 .2k+1/31  <--- veth ---> wv<k> .2k/31  --> forward hook --> NAT --> outside
//! ```
//!
//! Nothing here is asynchronous and nothing runs a process per sandbox: links are made over
//! rtnetlink, and the address of a sandbox is put into the ruleset's sets over nfnetlink. A source
//! address that is in no set may do nothing, so every failure half-way leaves a sandbox closed.

mod address;
mod forwarding;
mod indices;
mod link;
mod message;
mod network;
mod ruleset;
mod set;
mod socket;

pub use address::{Addresses, Subnet, SubnetError};
pub use network::{ChangeError, Internet, Link, Network, NetworkConfig, OpenError};
