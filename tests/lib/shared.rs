//! A port that routers share by VLAN, and numbered frames for them.

use engine::port::PortDirectory;
use ports::Directory;
use ports::shared_port::{PortOf, Selector, ShareOf, SharingSpec};

/// The router of the port `wan`, which is `mem:x`.
pub const PORT: &str =
    "FromDevice(mem:x) -> ToDevice(shares:wan); FromDevice(shares:wan) -> ToDevice(mem:x)";

/// The share of a router that gets a VLAN, with a queue of 128 packets.
pub fn share(router: &str, vlan: u16) -> ShareOf {
    ShareOf {
        router: router.to_owned(),
        vlan: vec![vlan.into()],
        by: vec![Selector::Remaining],
        broadcast: true,
        rate: None,
        queue: 128,
        tickets: 1,
    }
}

/// The port `wan` with these shares.
pub fn port(shares: Vec<ShareOf>) -> SharingSpec {
    SharingSpec {
        ports: vec![PortOf {
            name: "wan".to_owned(),
            device: "mem:x".to_owned(),
            shares,
        }],
        links: Vec::new(),
    }
}

/// A frame of a VLAN with a number: IPv4, UDP.
pub fn frame(vlan: u16, number: u32) -> Vec<u8> {
    let mut frame = testkit::ip4().bytes();
    frame.resize(60, 0);
    let mut ether = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0];
    ether.extend(vlan.to_be_bytes());
    ether.extend([8, 0]);
    ether.extend(frame);
    let end = ether.len();
    ether[end - 4..].copy_from_slice(&number.to_be_bytes());
    ether
}

/// The number of a frame.
pub fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[frame.len() - 4..].try_into().expect("four bytes"))
}

/// The VLAN of a frame.
pub fn vlan(frame: &[u8]) -> u16 {
    u16::from_be_bytes([frame[14], frame[15]])
}

/// A count of an open port, over its queues.
pub fn count(ports: &Directory, port: &str, name: &str) -> u64 {
    let port = ports.get(port).expect("it is open").port;
    let all = port.counters().into_iter();
    all.filter(|(n, ..)| *n == name).map(|(.., n)| n).sum()
}
