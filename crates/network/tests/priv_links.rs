//! Links made, taken over after a restart, and many at once; setting up and tearing down leave no trace.

#[path = "world/world.rs"]
mod world;

use network::{ChangeError, Internet, Network, NetworkConfig, OpenError};
use std::net::IpAddr;
use std::process::Command;
use std::time::Instant;
use testkit::alone;
use world::{Holder, OUTSIDE, World, eventually, note, open};

const FLAGS: [&str; 2] = ["--net", "--mount"];

fn outside() -> IpAddr {
    OUTSIDE.parse().expect("address")
}

#[test]
fn fifty_sandboxes_connect_and_their_devices_go_with_them() {
    let name = "fifty_sandboxes_connect_and_their_devices_go_with_them";
    if !alone(name, &FLAGS) {
        return;
    }
    let world = World::new();
    let network = open();
    let holders: Vec<_> = (0..50).map(|_| Holder::start()).collect();
    let mut times = Vec::new();
    for holder in &holders {
        let index = network.reserve().expect("a free link");
        let start = Instant::now();
        network.connect(index, holder.pid()).expect("connects");
        times.push(start.elapsed());
    }
    times.sort();
    eprintln!("connect: median {:?}, max {:?}", times[25], times[49]);
    holders[49].wait_for_link("wvt49");
    assert!(holders[49].dial(outside()).is_ok());
    let last = network
        .config()
        .subnet
        .addresses(49)
        .expect("in the subnet");
    assert!(world.outside.dial(last.sandbox.into()).is_err());
    assert_eq!(network.list().expect("lists").len(), 50);
    drop(holders);
    for index in 0..50 {
        network.disconnect(index).expect("disconnects");
    }
    eventually("devices go with their namespaces", || {
        network.list().expect("lists").is_empty()
    });
    network.close().expect("closes");
}

#[test]
fn a_device_that_an_ended_sandbox_left_is_replaced() {
    if !alone("a_device_that_an_ended_sandbox_left_is_replaced", &FLAGS) {
        return;
    }
    let _world = World::new();
    let network = open();
    let (ended, fresh) = (Holder::start(), Holder::start());
    let index = network.reserve().expect("a free link");
    network.connect(index, ended.pid()).expect("connects");
    let link = network.connect(index, fresh.pid()).expect("connects again");
    fresh.wait_for_link(&link.device);
    assert!(fresh.dial(outside()).is_ok());
    network.close().expect("closes");
}

#[test]
fn a_restarted_node_takes_its_links_over() {
    if !alone("a_restarted_node_takes_its_links_over", &FLAGS) {
        return;
    }
    let _world = World::new();
    let holder = Holder::start();
    let index = {
        let network = open();
        let index = network.reserve().expect("a free link");
        let link = network.connect(index, holder.pid()).expect("connects");
        holder.wait_for_link(&link.device);
        index
    };
    let network = open();
    assert!(holder.dial(outside()).is_err(), "closed until taken over");
    network.adopt(index, Internet::Allowed).expect("takes over");
    assert!(holder.dial(outside()).is_ok());
    let twice = network.adopt(index, Internet::Allowed);
    assert!(matches!(twice, Err(ChangeError::Unavailable { .. })));
    assert_ne!(network.reserve().expect("a free link"), index);
    network.close().expect("closes");
}

#[test]
fn closing_leaves_no_table_and_the_switch_as_it_was() {
    if !alone("closing_leaves_no_table_and_the_switch_as_it_was", &FLAGS) {
        return;
    }
    let switch = || std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").expect("switch");
    let rules = || {
        let out = Command::new("nft").args(["list", "ruleset"]).output();
        String::from_utf8(out.expect("nft runs").stdout).expect("text")
    };
    let (before, foreign) = (switch(), "table ip foreign {\n}\n");
    let added = Command::new("nft")
        .args(["add", "table", "ip", "foreign"])
        .status();
    assert!(added.expect("nft runs").success());
    drop(open()); // As a node that was killed leaves it.
    let network = open();
    assert_eq!(switch().trim(), "1");
    assert!(rules().contains("warren_test"));
    network.close().expect("closes");
    assert_eq!(switch(), before);
    assert_eq!(rules(), foreign, "other tables are not touched");
}

#[test]
fn a_missing_process_is_an_error_that_names_the_link() {
    if !alone("a_missing_process_is_an_error_that_names_the_link", &FLAGS) {
        return;
    }
    let network = open();
    let index = network.reserve().expect("a free link");
    let error = network
        .connect(index, i32::MAX)
        .expect_err("no such process");
    assert_eq!(error.to_string(), "open network namespace for link wvt0");
    assert!(network.list().expect("lists").is_empty());
    network.close().expect("closes");
}

#[test]
fn names_that_would_break_the_ruleset_are_refused() {
    let open = |table: &str, prefix: &str| {
        Network::open(NetworkConfig {
            forwarding_note: note(),
            table: table.to_owned(),
            veth_prefix: prefix.to_owned(),
            subnet: "10.217.0.0/16".parse().expect("subnet"),
            dns: Vec::new(),
        })
    };
    for (table, prefix) in [
        ("", "wv"),
        ("a b", "wv"),
        ("t; flush ruleset", "wv"),
        ("warren", ""),
        ("warren", "wv1"),
        ("warren", "toolongname"),
        ("warren", "w*"),
    ] {
        let result = open(table, prefix);
        assert!(
            matches!(result, Err(OpenError::Config { .. })),
            "{table:?} {prefix:?}"
        );
    }
}
