//! What a sandbox may reach and what not, by real packets between network namespaces.

#[path = "world/world.rs"]
mod world;

use network::{Internet, Link, Network};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::process::Command;
use testkit::alone;
use world::{
    Holder, NODE, OUTSIDE, PATIENCE, PORT, PRIVATE, RESOLVER, World, dial, ip, open, serve,
};

const FLAGS: [&str; 2] = ["--net", "--mount"];

fn at(text: &str) -> IpAddr {
    text.parse().expect("address")
}

/// The datagrams that reach the outside.
struct Datagrams(UdpSocket);

impl Datagrams {
    fn receive_at(world: &World) -> Self {
        let inside = world.outside.netns.as_fd();
        let socket = sys::netns::run_in(inside, || UdpSocket::bind((OUTSIDE, PORT)));
        let socket = socket.expect("datagram server outside");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("set a timeout");
        Self(socket)
    }

    /// The next one: its text and where it came from.
    fn next(&self) -> Option<(String, IpAddr)> {
        let mut buffer = [0; 64];
        let (size, from) = self.0.recv_from(&mut buffer).ok()?;
        let text = String::from_utf8_lossy(&buffer[..size]).into_owned();
        Some((text, from.ip()))
    }
}

/// A socket of `sender` whose datagrams go to the outside with the given source.
fn sending_from(sender: &Holder, source: &str) -> UdpSocket {
    let socket = sys::netns::run_in(sender.netns.as_fd(), || {
        let socket = UdpSocket::bind((source, 0))?;
        socket.connect((OUTSIDE, PORT))?;
        Ok(socket)
    });
    socket.expect("socket in the sandbox")
}

/// Members of a set of the ruleset, as `nft` prints the set.
fn set(name: &str) -> String {
    let out = Command::new("nft")
        .args(["list", "set", "inet", "warren_test", name])
        .output()
        .expect("nft runs");
    assert!(out.status.success());
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn sandbox(network: &Network) -> (Holder, Link) {
    let holder = Holder::start();
    let index = network.reserve().expect("a free link");
    let link = network.connect(index, holder.pid()).expect("connects");
    holder.wait_for_link(&link.device);
    (holder, link)
}

#[test]
fn the_outside_sees_the_address_of_the_node() {
    if !alone("the_outside_sees_the_address_of_the_node", &FLAGS) {
        return;
    }
    let world = World::new();
    let network = open();
    let (inside, link) = sandbox(&network);
    let seen = inside.dial(at(OUTSIDE)).expect("the outside is reachable");
    assert_eq!(seen.trim_start_matches("::ffff:"), NODE);
    let resolver = (at(RESOLVER), 53).into();
    let asked = sys::netns::run_in(inside.netns.as_fd(), || dial(resolver));
    assert!(asked.is_ok(), "a named resolver is reachable: {asked:?}");
    let entered = world.outside.dial(link.addresses.sandbox.into());
    assert!(
        entered.is_err(),
        "nobody outside opens a connection inwards"
    );
    network.close().expect("closes");
}

#[test]
fn the_node_and_other_sandboxes_and_private_ranges_are_out_of_reach() {
    let name = "the_node_and_other_sandboxes_and_private_ranges_are_out_of_reach";
    if !alone(name, &FLAGS) {
        return;
    }
    let _world = World::new();
    let network = open();
    let (one, link) = sandbox(&network);
    let (two, other) = sandbox(&network);
    let listener = sys::netns::run_in(two.netns.as_fd(), || TcpListener::bind(("::", PORT)));
    serve(listener.expect("server in a sandbox"));
    let reached = |address: IpAddr| one.dial(address).is_ok();
    for node in [
        link.addresses.host.into(),
        other.addresses.host.into(),
        at(NODE),
    ] {
        assert!(!reached(node), "a service of the node at {node}");
    }
    assert!(!reached(other.addresses.sandbox.into()), "another sandbox");
    let answer = dial((other.addresses.sandbox, PORT).into());
    assert!(answer.is_ok(), "the node itself reaches it: {answer:?}");
    for address in PRIVATE.iter().chain([&RESOLVER]) {
        assert!(
            dial((at(address), PORT).into()).is_ok(),
            "{address} has a route"
        );
        assert!(!reached(at(address)), "{address}");
    }
    network.close().expect("closes");
}

#[test]
fn a_packet_with_a_source_that_is_not_the_senders_is_dropped() {
    let name = "a_packet_with_a_source_that_is_not_the_senders_is_dropped";
    if !alone(name, &FLAGS) {
        return;
    }
    let world = World::new();
    let datagrams = Datagrams::receive_at(&world);
    let network = open();
    let (one, link) = sandbox(&network);
    let (_two, other) = sandbox(&network);
    let stranger = "203.0.113.7";
    let neighbour = other.addresses.sandbox.to_string();
    for source in [stranger, &neighbour] {
        one.ip(&format!("address add {source}/32 dev lo"));
        sending_from(&one, source).send(b"forged").expect("sends");
        assert_eq!(datagrams.next(), None, "from {source}");
    }
    let own = link.addresses.sandbox.to_string();
    sending_from(&one, &own).send(b"honest").expect("sends");
    assert_eq!(datagrams.next(), Some(("honest".to_owned(), at(NODE))));
    network.close().expect("closes");
}

#[test]
fn ipv6_from_a_sandbox_is_dropped() {
    if !alone("ipv6_from_a_sandbox_is_dropped", &FLAGS) {
        return;
    }
    let _world = World::new();
    let network = open();
    let (one, link) = sandbox(&network);
    ip(&format!("address add fd00::1/64 dev {} nodad", link.device));
    one.ip("address add fd00::2/64 dev eth0 nodad");
    assert!(one.dial(at("fd00::1")).is_err());
    network.close().expect("closes");
    assert!(
        one.dial(at("fd00::1")).is_ok(),
        "without the ruleset it works"
    );
}

#[test]
fn taking_the_internet_away_and_giving_it_back_takes_effect_at_once() {
    let name = "taking_the_internet_away_and_giving_it_back_takes_effect_at_once";
    if !alone(name, &FLAGS) {
        return;
    }
    let world = World::new();
    let datagrams = Datagrams::receive_at(&world);
    let network = open();
    let (one, link) = sandbox(&network);
    let own = link.addresses.sandbox.to_string();
    let socket = sending_from(&one, &own);
    socket.send(b"before").expect("sends");
    assert!(datagrams.next().is_some());
    for change in [Internet::Denied, Internet::Denied] {
        network
            .set_internet(link.index, change)
            .expect("repeatable");
    }
    socket.send(b"during").expect("sends");
    assert_eq!(
        datagrams.next(),
        None,
        "a connection that existed is cut too"
    );
    assert!(one.dial(at(OUTSIDE)).is_err());
    network
        .set_internet(link.index, Internet::Allowed)
        .expect("allows");
    assert!(one.dial(at(OUTSIDE)).is_ok());
    network.close().expect("closes");
}

#[test]
fn a_disconnected_sandbox_reaches_nothing_and_leaves_nothing() {
    let name = "a_disconnected_sandbox_reaches_nothing_and_leaves_nothing";
    if !alone(name, &FLAGS) {
        return;
    }
    let _world = World::new();
    let network = open();
    let (one, link) = sandbox(&network);
    let own = link.addresses.sandbox.to_string();
    assert!(set("sandboxes").contains(&own) && set("internet").contains(&own));
    for _ in 0..2 {
        network.disconnect(link.index).expect("repeatable");
    }
    assert!(one.dial(at(OUTSIDE)).is_err());
    assert!(
        !set("sandboxes").contains("elements"),
        "{}",
        set("sandboxes")
    );
    assert!(!set("internet").contains("elements"), "{}", set("internet"));
    assert_eq!(
        network.list().expect("lists"),
        [link.index],
        "its process lives"
    );
    assert_eq!(network.reap(&[link.index]).expect("reaps"), [""; 0]);
    assert_eq!(network.reap(&[]).expect("reaps"), [link.device]);
    network.close().expect("closes");
}
