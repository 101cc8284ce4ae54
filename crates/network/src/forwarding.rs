//! The node's switch for forwarding IPv4, and how it stood before.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

const SWITCH: &str = "/proc/sys/net/ipv4/ip_forward";

/// Turns forwarding on in the calling thread's network namespace. `note` is a file that remembers, also
/// over a crash, that it was off before.
pub(crate) fn turn_on(note: &Path) -> io::Result<()> {
    if std::fs::read_to_string(SWITCH)?.trim() == "1" {
        return Ok(());
    }
    sys::durable::write_volatile(note, b"0", 0o600)?;
    put("1")
}

/// Puts the switch back if `note` says that it was off.
pub(crate) fn restore(note: &Path) -> io::Result<()> {
    match std::fs::remove_file(note) {
        Ok(()) => put("0"),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(sys::durable::named(e, note)),
    }
}

fn put(value: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(SWITCH)?
        .write_all(value.as_bytes())
}
