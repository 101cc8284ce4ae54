//! A shell as root of a mapped user namespace, to see files as a sandbox does.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// First host id of the range.
pub(crate) const BASE: u32 = 1_000_000;

/// Runs a script as that root, in this mount namespace; returns what it wrote.
pub(crate) fn in_userns(script: &str) -> String {
    let mut holder = Command::new("unshare")
        .args(["--user", "sh", "-c", "echo; exec sleep 60"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("unshare starts");
    let ready = holder.stdout.as_mut().expect("piped").read(&mut [0]);
    assert_eq!(ready.expect("the holder speaks"), 1);
    for file in ["uid_map", "gid_map"] {
        let map = OpenOptions::new()
            .write(true)
            .open(format!("/proc/{}/{file}", holder.id()));
        let map = map.and_then(|mut f| f.write_all(format!("0 {BASE} 65536").as_bytes()));
        map.expect("map");
    }
    let out = Command::new("nsenter")
        .arg(format!("--user=/proc/{}/ns/user", holder.id()))
        .args(["--setuid=0", "--setgid=0", "sh", "-ec", script])
        .output()
        .expect("nsenter runs");
    holder.kill().expect("kill the holder");
    holder.wait().expect("reap the holder");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}
