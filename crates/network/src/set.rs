//! Members of the ruleset's sets, and the table's end, over nfnetlink: one transaction per call.

use crate::message::{Kind, Request};
use crate::socket::{Refused, Socket};
use libc::{NFPROTO_INET, NLM_F_ACK, NLM_F_CREATE};
use std::net::Ipv4Addr;

const NFTA_TABLE_NAME: u16 = 1;
const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_DATA_VALUE: u16 = 1;

/// What happens to one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is in the set afterwards.
    Add,
    /// It is not in the set afterwards.
    Remove,
}

/// Changes members of sets of `table`, all or none: (set, member, change). Repeatable.
pub(crate) fn change(
    socket: &mut Socket,
    table: &str,
    changes: &[(&str, Ipv4Addr, Change)],
) -> Result<(), Refused> {
    let mut request = socket.request();
    begin(&mut request);
    for (set, member, change) in changes {
        // A removal adds first, so that a member that is not there is no error: the form of it
        // that older kernels know too.
        element(&mut request, table, set, *member, Change::Add);
        if *change == Change::Remove {
            element(&mut request, table, set, *member, Change::Remove);
        }
    }
    end(&mut request);
    socket.exchange(&request).map(drop)
}

/// Deletes `table` with everything in it. Repeatable.
pub(crate) fn delete_table(socket: &mut Socket, table: &str) -> Result<(), Refused> {
    let mut request = socket.request();
    begin(&mut request);
    for (message, flags) in [
        (libc::NFT_MSG_NEWTABLE, NLM_F_ACK | NLM_F_CREATE),
        (libc::NFT_MSG_DELTABLE, NLM_F_ACK),
    ] {
        let kind = nftables(message, flags);
        request.message("delete nftables table", kind, &family(NFPROTO_INET, 0));
        request.text(NFTA_TABLE_NAME, table);
    }
    end(&mut request);
    socket.exchange(&request).map(drop)
}

fn element(request: &mut Request, table: &str, set: &str, member: Ipv4Addr, change: Change) {
    let (name, kind) = match change {
        Change::Add => (
            "add set member",
            nftables(libc::NFT_MSG_NEWSETELEM, NLM_F_ACK | NLM_F_CREATE),
        ),
        Change::Remove => (
            "remove set member",
            nftables(libc::NFT_MSG_DELSETELEM, NLM_F_ACK),
        ),
    };
    request.message(name, kind, &family(NFPROTO_INET, 0));
    request.text(NFTA_SET_ELEM_LIST_TABLE, table);
    request.text(NFTA_SET_ELEM_LIST_SET, set);
    request.nested(NFTA_SET_ELEM_LIST_ELEMENTS, |list| {
        list.nested(NFTA_LIST_ELEM, |element| {
            element.nested(NFTA_SET_ELEM_KEY, |key| {
                key.attribute(NFTA_DATA_VALUE, &member.octets());
            });
        });
    });
}

fn begin(request: &mut Request) {
    boundary(request, libc::NFNL_MSG_BATCH_BEGIN);
}

fn end(request: &mut Request) {
    boundary(request, libc::NFNL_MSG_BATCH_END);
}

fn boundary(request: &mut Request, message: i32) {
    let kind = Kind {
        message: u16::try_from(message).expect("message types are 16 bits"),
        flags: 0,
    };
    let fixed = family(libc::AF_UNSPEC, libc::NFNL_SUBSYS_NFTABLES);
    request.message("commit nftables transaction", kind, &fixed);
}

fn nftables(message: i32, flags: i32) -> Kind {
    let message = libc::NFNL_SUBSYS_NFTABLES << 8 | message;
    Kind {
        message: u16::try_from(message).expect("message types are 16 bits"),
        flags,
    }
}

/// `struct nfgenmsg`: family, version, resource in network byte order.
fn family(family: i32, resource: i32) -> [u8; 4] {
    let family = u8::try_from(family).expect("families are small");
    let resource = u16::try_from(resource).expect("subsystems are small");
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}
