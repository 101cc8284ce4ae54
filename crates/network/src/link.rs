//! veth pairs over rtnetlink: make one into a netns, give both ends their addresses, list, delete.

use crate::address::Addresses;
use crate::message::{Kind, Request, find_attribute, number};
use crate::socket::{Refused, Socket};
use libc::{
    AF_INET, IFF_UP, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, RTM_DELLINK, RTM_GETLINK,
    RTM_NEWADDR, RTM_NEWLINK, RTM_NEWROUTE,
};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Name of the sandbox's end of the pair.
pub(crate) const INNER_NAME: &str = "eth0";
/// `lo` is the first device of every network namespace.
const LOOPBACK: u32 = 1;
/// Size of `struct ifinfomsg`.
const IFINFO: usize = 16;
const VETH_INFO_PEER: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const ROUTE_SCOPE_UNIVERSE: u8 = 0;
const ROUTE_UNICAST: u8 = 1;

const fn kind(message: u16, flags: i32) -> Kind {
    Kind { message, flags }
}

/// `struct ifinfomsg`; with `up` the device is brought up.
fn device(index: u32, up: bool) -> [u8; IFINFO] {
    let mut bytes = [0; IFINFO];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    if up {
        bytes[8..12].copy_from_slice(&IFF_UP.to_ne_bytes());
        bytes[12..16].copy_from_slice(&IFF_UP.to_ne_bytes());
    }
    bytes
}

/// Makes a pair: `name` here and up, its peer as `eth0` directly in `netns` and down.
///
/// Made there and not moved: a move waits 13-19 ms for readers of the old namespace. The peer may
/// not be up in this message, or the kernel answers ENOTCONN.
pub(crate) fn create_pair(
    socket: &mut Socket,
    name: &str,
    netns: BorrowedFd<'_>,
) -> Result<(), Refused> {
    let mut request = socket.request();
    let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    let new = kind(RTM_NEWLINK, flags);
    request.message("create veth pair", new, &device(0, true));
    request.text(libc::IFLA_IFNAME, name);
    request.nested(libc::IFLA_LINKINFO, |info| {
        info.attribute(libc::IFLA_INFO_KIND, b"veth");
        info.nested(libc::IFLA_INFO_DATA, |data| {
            data.nested(VETH_INFO_PEER, |peer| {
                peer.append(&device(0, false));
                peer.text(libc::IFLA_IFNAME, INNER_NAME);
                peer.attribute(libc::IFLA_NET_NS_FD, &netns.as_raw_fd().to_ne_bytes());
            });
        });
    });
    socket.exchange(&request).map(drop)
}

/// Gives the node's end its address.
pub(crate) fn configure_host_end(
    socket: &mut Socket,
    name: &str,
    addresses: Addresses,
) -> Result<(), Refused> {
    let index = index_of(socket, name)?;
    let mut request = socket.request();
    add_address(&mut request, index, addresses.host);
    socket.exchange(&request).map(drop)
}

/// Brings up the inside: loopback, `eth0` with its address, the default route.
pub(crate) fn configure_inside(socket: &mut Socket, addresses: Addresses) -> Result<(), Refused> {
    let index = index_of(socket, INNER_NAME)?;
    let set = kind(RTM_NEWLINK, NLM_F_ACK);
    let mut request = socket.request();
    request.message("bring up loopback", set, &device(LOOPBACK, true));
    add_address(&mut request, index, addresses.sandbox);
    request.message("bring up eth0", set, &device(index, true));
    add_default_route(&mut request, index, addresses.host);
    socket.exchange(&request).map(drop)
}

fn add_address(request: &mut Request, index: u32, address: Ipv4Addr) {
    let new = kind(RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
    let prefix = 31;
    let mut fixed = [family(), prefix, 0, ROUTE_SCOPE_UNIVERSE, 0, 0, 0, 0];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    request.message("add address", new, &fixed);
    request.attribute(libc::IFA_LOCAL, &address.octets());
    request.attribute(IFA_ADDRESS, &address.octets());
}

fn add_default_route(request: &mut Request, index: u32, gateway: Ipv4Addr) {
    let new = kind(RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
    let (table, protocol) = (libc::RT_TABLE_MAIN, libc::RTPROT_STATIC);
    // `struct rtmsg`: a destination of length 0 is the default route.
    let head = [family(), 0, 0, 0, table, protocol];
    let tail = [ROUTE_SCOPE_UNIVERSE, ROUTE_UNICAST, 0, 0, 0, 0];
    request.message("add default route", new, &[head, tail].concat());
    request.attribute(libc::RTA_GATEWAY, &gateway.octets());
    request.attribute(libc::RTA_OIF, &index.to_ne_bytes());
}

fn family() -> u8 {
    u8::try_from(AF_INET).expect("AF_INET is 2")
}

fn without_counters(request: &mut Request) {
    let mask = libc::RTEXT_FILTER_SKIP_STATS;
    request.attribute(libc::IFLA_EXT_MASK, &mask.to_ne_bytes());
}

fn index_of(socket: &mut Socket, name: &str) -> Result<u32, Refused> {
    let mut request = socket.request();
    let get = kind(RTM_GETLINK, NLM_F_ACK);
    request.message("find device", get, &device(0, false));
    request.text(libc::IFLA_IFNAME, name);
    without_counters(&mut request);
    let data = socket.exchange(&request)?;
    data.first()
        .and_then(|payload| number(payload, 4..8))
        .ok_or_else(|| Refused {
            step: "find device",
            source: std::io::ErrorKind::InvalidData.into(),
        })
}

/// Deletes the pair whose end here is `name`. Waits for readers in the kernel: 14-26 ms.
pub(crate) fn delete(socket: &mut Socket, name: &str) -> Result<(), Refused> {
    let mut request = socket.request();
    let delete = kind(RTM_DELLINK, NLM_F_ACK);
    request.message("delete veth pair", delete, &device(0, false));
    request.text(libc::IFLA_IFNAME, name);
    socket.exchange(&request).map(drop)
}

/// The names of all devices in the socket's namespace.
pub(crate) fn names(socket: &mut Socket) -> Result<Vec<String>, Refused> {
    let mut request = socket.request();
    let dump = kind(RTM_GETLINK, NLM_F_DUMP);
    request.message("list devices", dump, &device(0, false));
    without_counters(&mut request);
    let data = socket.exchange(&request)?;
    let name = |payload: &Vec<u8>| {
        let name = find_attribute(payload, IFINFO, libc::IFLA_IFNAME)?;
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        Some(String::from_utf8_lossy(name).into_owned())
    };
    Ok(data.iter().filter_map(name).collect())
}
