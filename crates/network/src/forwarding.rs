//! The node's switch for forwarding IPv4, and how it stood before.

use std::fs::OpenOptions;
use std::io::{self, Write};

const SWITCH: &str = "/proc/sys/net/ipv4/ip_forward";

/// How the switch stood when it was turned on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    On,
    Off,
}

/// Turns forwarding on in the calling thread's network namespace.
pub(crate) fn turn_on() -> io::Result<Before> {
    if std::fs::read_to_string(SWITCH)?.trim() == "1" {
        return Ok(Before::On);
    }
    put("1")?;
    Ok(Before::Off)
}

/// Puts the switch back.
pub(crate) fn restore(before: Before) -> io::Result<()> {
    match before {
        Before::On => Ok(()),
        Before::Off => put("0"),
    }
}

fn put(value: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(SWITCH)?
        .write_all(value.as_bytes())
}
