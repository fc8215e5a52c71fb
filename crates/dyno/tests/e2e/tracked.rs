//! Tests a machine whose connection tracking table is full: dropped packets are not the server's
//! fault. The tests use a separate network namespace, so that the machine's settings do not change.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::{fs, thread};

use dyno_launch::network::Network;
use dyno_observer::tracking::{IpVersion, is_loopback_tracked};
use netlink_sys::{Socket, SocketAddr};
use serde_json::Value;

use crate::drive::{DYNO, Sandbox, free_port, not_run, text};

/// Netlink protocol of netfilter, and the type of a message that creates an entry (ctnetlink).
const NETLINK_NETFILTER: isize = 12;
const CREATE_ENTRY: u16 = 1 << 8;

/// Maximum number of entries that a test makes. Each takes about 300 bytes of the kernel's memory.
const MAX_ENTRIES: u64 = 1 << 20;

const RULES: &str = "table inet tracked { chain in { type filter hook input priority 0; \
                     ct state established accept; }; }";

fn setting(name: &str) -> Option<u64> {
    fs::read_to_string(format!("/proc/sys/net/netfilter/{name}")).ok()?.trim().parse().ok()
}

/// Runs a function in a network namespace that tracks its loopback and has room for this number of
/// further connections. `None`: such a namespace cannot be created here.
fn with_room<T: Send>(free: u64, work: impl FnOnce() -> T + Send) -> Option<T> {
    let network = match Network::pair() {
        Ok(network) => network,
        Err(reason) => return unavailable(&format!("a separate network namespace: {reason}")),
    };
    let within = || {
        let rules = Command::new("nft").arg(RULES).output();
        match rules {
            Ok(output) if output.status.success() => {}
            Ok(output) => return unavailable(&format!("nft: {}", text(&output))),
            Err(error) => {
                return unavailable(&format!("nft: {error}; `scripts/setup test` gets it"));
            }
        }
        let Some(max) = setting("nf_conntrack_max").filter(|max| *max <= MAX_ENTRIES) else {
            return unavailable("the table of tracked connections is too large to be filled");
        };
        fill(max - free);
        Some(work())
    };
    thread::scope(|scope| {
        let here = scope.spawn(|| network.as_server(within).expect("root may go there"));
        here.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn unavailable<T>(reason: &str) -> Option<T> {
    not_run(&format!("a full table of tracked connections: {reason}"));
    None
}

/// Adds this number of entries for open connections, which the kernel does not evict.
fn fill(entries: u64) {
    let mut socket = Socket::new(NETLINK_NETFILTER).expect("netfilter answers");
    socket.bind_auto().unwrap();
    socket.connect(&SocketAddr::new(0, 0)).unwrap();
    let mut batch = Vec::new();
    for number in 0..entries {
        batch.extend(entry(number as u32));
        if batch.len() > 60_000 || number + 1 == entries {
            socket.send(&batch, 0).unwrap();
            batch.clear();
        }
    }
    assert_eq!(setting("nf_conntrack_count"), Some(entries), "all entries were made");
}

/// A message that makes the entry of one connection (linux/netfilter/nfnetlink_conntrack.h).
fn entry(number: u32) -> Vec<u8> {
    const IPV4: u8 = 2;
    /// SEEN_REPLY, ASSURED, CONFIRMED.
    const STATUS: u32 = 2 | 4 | 8;
    const SECONDS: u32 = 3600;
    let [high, middle, low, _] = number.to_be_bytes();
    let client = Ipv4Addr::new(10, high, middle, low);
    let server = Ipv4Addr::new(10, 255, 0, u8::MAX);
    let port = number as u16 | 0x100;
    let body = [
        vec![IPV4, 0, 0, 0],
        attribute(1 | NESTED, &tuple((client, port), (server, 9))),
        attribute(2 | NESTED, &tuple((server, 9), (client, port))),
        attribute(3, &STATUS.to_be_bytes()),
        attribute(7, &SECONDS.to_be_bytes()),
    ]
    .concat();
    const REQUEST_AND_CREATE: u16 = 0x401;
    let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
    message.extend(CREATE_ENTRY.to_ne_bytes());
    message.extend(REQUEST_AND_CREATE.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

const NESTED: u16 = 0x8000;

fn tuple(source: (Ipv4Addr, u16), destination: (Ipv4Addr, u16)) -> Vec<u8> {
    const TCP: u8 = 6;
    let addresses =
        [attribute(1, &source.0.octets()), attribute(2, &destination.0.octets())].concat();
    let ports = [
        attribute(1, &[TCP]),
        attribute(2, &source.1.to_be_bytes()),
        attribute(3, &destination.1.to_be_bytes()),
    ]
    .concat();
    [attribute(1 | NESTED, &addresses), attribute(2 | NESTED, &ports)].concat()
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn dropped_packets(caveats: &Value) -> Option<&Value> {
    caveats.as_array().unwrap().iter().find(|caveat| caveat["code"] == "dropped_packets")
}

#[test]
#[ignore = "long: runs in make nightly"]
fn load_that_fills_tracking_table_is_invalid() {
    let sandbox = Sandbox::new();
    let load = || {
        let port = free_port();
        let mut server = Command::new(DYNO)
            .args(["serve-null", "--port", &port.to_string()])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            thread::yield_now();
        }
        let url = format!("http://127.0.0.1:{port}/plaintext");
        let asked = ["-n", "1500", "--requests-per-connection", "1", "--connect-timeout", "1s"];
        let output = sandbox.dyno(&[&["load", &url, "--format", "json"][..], &asked].concat());
        server.kill().unwrap();
        server.wait().unwrap();
        output
    };
    let Some(output) = with_room(500, load) else { return };
    let printed = text(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let is_expected = printed.contains("These connections fill the table");
    assert!(is_expected, "1,500 connections are known before: {printed}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let dropped = dropped_packets(&result["caveats"]).unwrap_or_else(|| panic!("{printed}"));
    assert_eq!(dropped["severity"], "invalid");
    assert!(dropped["message"].as_str().unwrap().contains("`dyno doctor`"), "{dropped}");
}

/// The kernel drops the SYN of the first request, so that nothing is known about the server. Only
/// loads with full checks begin with a test request.
#[test]
fn load_and_search_with_full_table_blame_machine() {
    let sandbox = Sandbox::without_load();
    let load = |options: &[&str]| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let asked = ["load", &url, "-c", "1", "-d", "1s", "--connect-timeout", "1s"];
        text(&sandbox.dyno(&[&asked[..], options].concat()))
    };
    let checks = ["--expect-contains", "x"];
    let search = ["--find", "p99<10ms"];
    let all = || {
        let tested = load(&checks);
        let tested_search = load(&[checks, search].concat());
        (load(&[]), [tested, tested_search])
    };
    let Some((untested, tested)) = with_room(0, all) else { return };
    for printed in tested.iter().chain([&untested]) {
        assert!(printed.contains("The table is full"), "{printed}");
        assert!(printed.contains("notrack"), "{printed}");
        assert!(!printed.contains("fit in the table"), "{printed}");
        assert!(!printed.contains("fix the server"), "{printed}");
    }
    for printed in tested {
        assert!(printed.contains("The machine dropped packets during the request: "), "{printed}");
        assert!(printed.contains("hint: Exempt loopback from connection tracking"), "{printed}");
    }
    let caveat = "The machine dropped packets while this step ran: ";
    assert!(untested.contains(caveat), "{untested}");
}

#[test]
fn doctor_reports_tracking_and_its_remedies_work() {
    assert_doctor_reports_tracking(&Sandbox::without_load());
    assert_remedies_exempt_loopback();
}

/// Without tracking, the check of the doctor itself leaves no hooks.
fn assert_doctor_reports_tracking(sandbox: &Sandbox) {
    let clean = || {
        let output = sandbox.dyno(&["doctor"]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (text(&output), setting("nf_conntrack_count"))
    };
    let Ok(network) = Network::pair() else {
        return not_run("doctor in a separate network namespace");
    };
    let (printed, entries) =
        thread::scope(|scope| scope.spawn(|| network.as_server(clean).unwrap()).join().unwrap());
    assert!(printed.contains("netfilter does not track these connections"), "{printed}");
    assert_eq!(entries.unwrap_or(0), 0, "nothing is tracked after the check");
    let Some(printed) = with_room(1000, || text(&sandbox.dyno(&["doctor"]))) else { return };
    assert!(printed.contains("tracked (netfilter), which costs time per packet"), "{printed}");
    for (_, command) in dyno_suite::tracking::REMEDIES {
        assert!(printed.contains(command), "{printed}");
    }
}

/// Runs the suggested commands, because a remedy that fails would mislead the user.
fn assert_remedies_exempt_loopback() {
    let for_ipv4 = dyno_suite::tracking::REMEDIES.into_iter().take(2);
    let for_ipv6 = [dyno_suite::tracking::REMEDIES[0], dyno_suite::tracking::IPV6_REMEDY];
    let remedies = for_ipv4.map(|remedy| (remedy, IpVersion::V4));
    for ((name, command), version) in remedies.chain(for_ipv6.map(|remedy| (remedy, IpVersion::V6)))
    {
        let run = || {
            let output = Command::new("sh").args(["-c", command]).output().unwrap();
            (output.status.success(), text(&output), is_loopback_tracked(version))
        };
        let Some((ok, printed, is_tracked)) = with_room(1 << 17, run) else { return };
        if !ok {
            not_run(&format!("the remedy by {name}: {printed}"));
            continue;
        }
        if version == IpVersion::V6 && is_tracked.is_none() {
            not_run(&format!("the remedy by {name}: a network without IPv6"));
            continue;
        }
        assert_eq!(is_tracked, Some(false), "{name}: {printed}");
    }
    for version in [IpVersion::V4, IpVersion::V6] {
        let tracked = with_room(1 << 17, || is_loopback_tracked(version)).flatten();
        assert_ne!(tracked, Some(false), "loopback is tracked without a remedy: {version:?}");
    }
}
