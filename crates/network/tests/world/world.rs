//! A small internet in namespaces: this process is the node, children are the outside and sandboxes.
//!
//! ```text
//! sandboxes -- wv<k> -- this namespace -- out0 198.51.100.1/24 -- 198.51.100.2 outside
//! ```

use network::{Network, NetworkConfig};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const PORT: u16 = 8080;
pub(crate) const NODE: &str = "198.51.100.1";
pub(crate) const OUTSIDE: &str = "198.51.100.2";
/// Addresses of the outside that a sandbox must never reach, though the node has a route.
pub(crate) const PRIVATE: [&str; 6] = [
    "10.9.9.9",
    "100.64.0.9",
    "169.254.169.254",
    "172.16.9.9",
    "192.168.9.9",
    "168.63.129.16",
];
/// A private resolver that the configuration names.
pub(crate) const RESOLVER: &str = "10.53.0.1";
/// Long enough for a local handshake on a loaded machine, paid by every refused one.
pub(crate) const PATIENCE: Duration = Duration::from_millis(700);

/// A process that only holds a network namespace.
pub(crate) struct Holder {
    child: Child,
    pub(crate) netns: OwnedFd,
}

impl Holder {
    pub(crate) fn start() -> Self {
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo; exec sleep 600"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare starts");
        let ready = child.stdout.as_mut().expect("piped").read(&mut [0]);
        assert_eq!(ready.expect("the holder speaks"), 1);
        let pid = i32::try_from(child.id()).expect("pid");
        let netns = sys::netns::of_pid(pid).expect("netns");
        Self { child, netns }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("pid")
    }

    /// Runs `ip` inside.
    pub(crate) fn ip(&self, line: &str) {
        let net = format!("--net=/proc/{}/ns/net", self.child.id());
        run(Command::new("nsenter")
            .arg(net)
            .arg("ip")
            .args(line.split(' ')));
    }

    /// Waits until this end `eth0` and the node's end `device` pass packets. The kernel gets there
    /// by itself some time after the addresses are set; an ARP request lost before costs a second.
    pub(crate) fn wait_for_link(&self, device: &str) {
        let show = |command: &mut Command| {
            let out = command.output().expect("program starts");
            String::from_utf8_lossy(&out.stdout).contains(" UP ")
        };
        let net = format!("--net=/proc/{}/ns/net", self.child.id());
        eventually("the link comes up", || {
            show(Command::new("ip").args(["-br", "link", "show", "dev", device]))
                && show(
                    Command::new("nsenter")
                        .arg(&net)
                        .args(["ip", "-br", "link", "show", "dev", "eth0"]),
                )
        });
    }

    /// What a server at `address` says to a client in here.
    pub(crate) fn dial(&self, address: IpAddr) -> io::Result<String> {
        sys::netns::run_in(self.netns.as_fd(), || dial((address, PORT).into()))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.child.kill().expect("kill the holder");
        self.child.wait().expect("reap the holder");
    }
}

pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Connects and reads all that the server says.
pub(crate) fn dial(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}

/// Answers every connection with the address it came from, until the process ends.
pub(crate) fn serve(listener: TcpListener) {
    std::thread::spawn(move || {
        while let Ok((mut stream, peer)) = listener.accept() {
            // A client that has already gone is no concern of the server.
            drop(stream.write_all(peer.ip().to_string().as_bytes()));
        }
    });
}

pub(crate) fn run(command: &mut Command) {
    let out = command.output().expect("program starts");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {said}");
}

pub(crate) fn ip(line: &str) {
    run(Command::new("ip").args(line.split(' ')));
}

pub(crate) struct World {
    pub(crate) outside: Holder,
}

impl World {
    pub(crate) fn new() -> Self {
        let outside = Holder::start();
        ip("link set lo up");
        ip(&format!(
            "link add out0 type veth peer name eth0 netns {}",
            outside.pid()
        ));
        ip(&format!("address add {NODE}/24 dev out0"));
        ip("link set out0 up");
        outside.ip("link set lo up");
        outside.ip(&format!("address add {OUTSIDE}/24 dev eth0"));
        outside.ip("link set eth0 up");
        outside.wait_for_link("out0");
        for address in PRIVATE.iter().chain([&RESOLVER]) {
            outside.ip(&format!("address add {address}/32 dev lo"));
        }
        ip(&format!("route add default via {OUTSIDE}"));
        let inside = outside.netns.as_fd();
        let listen = |port| sys::netns::run_in(inside, || TcpListener::bind(("::", port)));
        serve(listen(PORT).expect("server outside"));
        serve(listen(53).expect("resolver outside"));
        serve(TcpListener::bind(("::", PORT)).expect("server on the node"));
        Self { outside }
    }
}

pub(crate) fn open() -> Network {
    Network::open(NetworkConfig {
        forwarding_note: note(),
        table: "warren_test".to_owned(),
        veth_prefix: "wvt".to_owned(),
        subnet: "10.217.0.0/16".parse().expect("subnet"),
        dns: vec![RESOLVER.parse().expect("address")],
    })
    .expect("network opens")
}

/// Where a network of this process notes that it turned forwarding on.
pub(crate) fn note() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("warren-forwarding-{}", std::process::id()))
}
