//! Cost of the model of the kernel's routes: memory, and time per message.
//!
//! ```sh
//! cargo run --release -p control --example model
//! ```
//!
//! A table of January 2024 of ../shared/data/rib (or $ASHLAR_SHARED) is fed in as netlink messages, with 256 gateways
//! on two links, then again as a dump. There is no image; its cost is not counted.
#![allow(clippy::print_stdout)]

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::time::Instant;

use control::netlink::model::{ForwardingTable, Link, Model, Part, Source};
use forwarding::{Full, GroupError, GroupId, Member, Prefix};
use wire::netlink::{
    Event, NLM_F_CREATE, NLM_F_MULTI, NewHop, NewRoute, RTM_NEWROUTE, RouteKind, TABLE_MAIN,
    Target, Writer, messages,
};

/// Image that accepts all changes and stores nothing.
#[derive(Default)]
struct Nowhere(Cell<u16>);

impl<const N: usize> ForwardingTable<N> for Nowhere {
    fn add_group(&self, _: &[Member]) -> Result<GroupId, GroupError> {
        self.0.set(self.0.get() + 1);
        NonZeroU16::new(self.0.get()).ok_or(GroupError::OutOfIds)
    }
    fn change_groups(&self, _: &[(GroupId, &[Member])]) -> Result<(), GroupError> {
        Ok(())
    }
    fn remove_group(&self, _: GroupId) {}
    fn apply(&self, _: &[(Prefix<N>, Option<GroupId>)]) -> Result<(), Full> {
        Ok(())
    }
}

/// Makes a message of each line `PREFIX ...`.
fn tell(text: &str, flags: u16) -> Vec<u8> {
    let mut told = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let Some((dst, len)) = line.split(' ').next().and_then(|p| p.split_once('/')) else {
            continue;
        };
        let (Ok(dst), Ok(dst_len)) = (dst.parse::<IpAddr>(), len.parse()) else {
            continue;
        };
        let gateway = (n % 256) as u8;
        let hop = NewHop {
            interface: 1 + u32::from(gateway % 2),
            gateway: Some(match dst {
                IpAddr::V4(_) => Ipv4Addr::new(10, 0, 0, gateway).into(),
                IpAddr::V6(_) => Ipv6Addr::from(0xfe80 << 112 | u128::from(gateway)).into(),
            }),
            weight: 1,
            flags: 0,
        };
        let route = NewRoute {
            dst,
            dst_len,
            table: TABLE_MAIN,
            protocol: 12,
            kind: RouteKind::Unicast,
            priority: 32,
            target: Target::Hops(&[hop]),
        };
        let mut buffer = [0; 256];
        let mut writer = Writer::new(&mut buffer);
        let written = writer.route(RTM_NEWROUTE, flags, 0, &route);
        written.expect("a route of one hop takes less");
        told.extend_from_slice(writer.bytes());
    }
    told
}

/// Gives the messages to the model, and flushes every 4096.
fn feed(model: &mut Model, told: &[u8], images: &(Nowhere, Nowhere)) -> usize {
    let mut count = 0;
    for message in messages(told).flatten() {
        if let Ok(Event::Route(change, route)) = message.event() {
            model.route(Source::Kernel, message.flags, change, &route);
            count += 1;
        }
        if model.pending() == 4096 {
            let _ = model.flush(&images.0, &images.1);
        }
    }
    let _ = model.flush(&images.0, &images.1);
    count
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|n| n.parse().ok());
    pages.unwrap_or(0) * 4096
}

fn main() {
    let names = ["ipv4-20240128-bart.txt.zst", "ipv6-20240128-bart.txt.zst"];
    let [v4, v6] = names.map(|name| testkit::recorded_inputs::text(&format!("rib/{name}")));
    let mut model = Model::new(false);
    for index in [1, 2] {
        let link = Link {
            number: Some(2 + index as u16),
            up: true,
            carrier: true,
        };
        model.link(index, Some(link));
    }
    let images = (Nowhere::default(), Nowhere::default());
    for (pass, flags) in [("new", NLM_F_CREATE), ("dump", NLM_F_MULTI)] {
        for (part, text) in [(Part::Routes4, &v4), (Part::Routes6, &v6)] {
            let told = tell(text, flags);
            if pass == "dump" {
                model.begin_sync(Source::Kernel, part);
            }
            let (resident, start) = (resident_bytes(), Instant::now());
            let count = feed(&mut model, &told, &images);
            let nanos = start.elapsed().as_nanos() / count.max(1) as u128;
            if pass == "dump" {
                model.end_sync(Source::Kernel, part);
            }
            let grown = resident_bytes().saturating_sub(resident);
            println!(
                "{pass} {part:?}: {count} messages, {nanos} ns each, resident {grown:+} bytes"
            );
        }
    }
    let (v4, v6) = model.len();
    println!("{v4} + {v6} routes take {} bytes", model.memory_bytes());
}
