//! The table of an ARPTable or ARPQuerier: its arguments and handlers.

use crate::prelude::*;
use forwarding::neighbour::{self, Bounds, Link};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::Duration;
use tables::neighbours::{Refused, Timing};
use wire::EtherAddr;

const ENTRIES_MAX: usize = 1 << 20;
const MILLISECOND: u64 = 1_000_000;

/// Schedule of queries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryPolicy {
    /// Queries for every packet: up to ten within a second, then one every two seconds. Packets wait until the table
    /// entry expires.
    Unlimited,
    /// Three queries at intervals of a second; then the neighbour is unreachable (RFC 1122, 2.3.2.1).
    ThreeTimes,
}

/// Parses the table's arguments. An answer is confirmed again at the age of `poll`.
pub(super) fn bounds(args: &mut Args, manner: QueryPolicy, poll: Duration) -> Bounds {
    let packets = args.capacity("CAPACITY", 2048, "packets that may wait; 0 = 1048576");
    let entries: usize = args.key("ENTRY_CAPACITY", 4096, "neighbours in the table; 0 = 65536");
    let each = args.key(
        "ENTRY_PACKET_CAPACITY",
        0,
        "packets that wait for one; 0 = no limit",
    );
    let slim: usize = args.key(
        "CAPACITY_SLIM_FACTOR",
        2,
        "to make room, one of this number of packets is dropped",
    );
    let timeout = args.key(
        "TIMEOUT",
        Duration::from_secs(300),
        "time for which an entry is kept",
    );
    if entries > ENTRIES_MAX {
        args.error_in_whole(
            format!("a table of {entries} neighbours is too large"),
            format!("ENTRY_CAPACITY goes up to {ENTRIES_MAX}"),
        );
    }
    if slim == 0 {
        args.error_in_whole("CAPACITY_SLIM_FACTOR cannot be zero", "2 halves what waits");
    }
    let nanos = |time: Duration| match time.as_nanos() {
        0 => u64::MAX,
        n => u64::try_from(n).unwrap_or(u64::MAX),
    };
    let timing = Timing {
        reachable: nanos(poll).min(nanos(timeout)),
        idle: nanos(timeout),
        ..Timing::default()
    };
    let packets = if packets == 0 { ENTRIES_MAX } else { packets };
    Bounds {
        entries: match entries {
            0 => 65_536,
            n => n.min(ENTRIES_MAX),
        },
        packets,
        packets_each: if each == 0 { usize::MAX } else { each },
        drop_divisor: slim.max(1),
        asks: neighbour::asks(args),
        timing: match manner {
            QueryPolicy::ThreeTimes => timing,
            QueryPolicy::Unlimited => Timing {
                retry: 100 * MILLISECOND,
                tries: 10,
                slow_interval: Some(2000 * MILLISECOND),
                ..timing
            },
        },
    }
}

/// Text form of the neighbours, one per line: address, state (known or not), Ethernet address, age in seconds.
pub(super) fn show(link: &Link<u32>) -> String {
    let mut entries = link.entries();
    entries.sort_unstable_by_key(|(ip, ..)| std::cmp::Reverse(*ip));
    let mut text = String::new();
    for (ip, neighbour, age) in entries {
        let known = u8::from(neighbour.known().is_some() && !link.has_expired(age));
        let mac = match neighbour.mac {
            EtherAddr::ZERO => EtherAddr::BROADCAST,
            mac => mac,
        };
        let (ip, mac, age) = (Ipv4Addr::from(ip), mac.dashed(), age.as_secs_f64());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{ip} {known} {mac} {age:.6}");
    }
    text
}

/// Adds an entry `IP ETH`. Unlike a reply, an operator may use a group address, which clusters with a common address
/// need.
pub(super) fn insert(link: &Link<u32>, value: &str) -> Result<String, String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let &[ip, mac] = words.as_slice() else {
        return Err("write an IPv4 address and an Ethernet address".to_owned());
    };
    let (ip, mac): (Ipv4Addr, EtherAddr) =
        (arguments::units::parse(ip)?, arguments::units::parse(mac)?);
    if matches!(mac, EtherAddr::ZERO | EtherAddr::BROADCAST) {
        return Err(format!("{mac} is the address of no station"));
    }
    let done = link.insert(ip.to_bits(), mac);
    done.map(|()| String::new()).map_err(refused)
}

/// Removes the entry of an address.
pub(super) fn delete(link: &Link<u32>, value: &str) -> Result<String, String> {
    let ip: Ipv4Addr = arguments::units::parse(value)?;
    match link.table().remove(ip.to_bits()).map_err(refused)? {
        true => Ok(String::new()),
        false => Err(format!("there is no entry for {ip}")),
    }
}

/// Removes all entries.
pub(super) fn clear(link: &Link<u32>) -> Result<String, String> {
    link.clear(true);
    Ok(String::new())
}

fn refused(why: Refused) -> String {
    match why {
        Refused::Full => "the table is full; give ENTRY_CAPACITY a larger value".to_owned(),
        Refused::Contended => "the entry is being changed at this moment; try again".to_owned(),
    }
}
