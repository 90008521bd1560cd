//! Classes that number packets by aggregate, and count and filter by that number.

mod aggregate_counter;
mod aggregate_filter;
mod aggregate_first;
mod aggregate_ip;
mod aggregate_ip_addr_pair;
mod aggregate_ip_flows;
mod aggregate_last;
mod aggregate_length;
mod aggregate_packet_counter;
mod aggregate_paint;
mod average_counter;
/// Tables that evict the least recently used entry.
mod bounded_map;
/// Notices about ended aggregates.
mod end_notices;
/// Fields of packets, as aggregates.
mod field;
mod flow_counter;
/// Fragments that wait for the ports of their datagram's first fragment.
mod fragments;
mod ip_rate_monitor;

use crate::prelude::*;
use wire::Ipv4;
use wire::ipv4::MIN_LEN;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<aggregate_counter::AggregateCounter>(),
    Class::of::<aggregate_filter::AggregateFilter>(),
    Class::of::<aggregate_first::AggregateFirst>(),
    Class::of::<aggregate_ip::AggregateIp>(),
    Class::of::<aggregate_ip_addr_pair::AggregateIpAddrPair>(),
    Class::of::<aggregate_ip_flows::AggregateIpFlows>(),
    Class::of::<aggregate_last::AggregateLast>(),
    Class::of::<aggregate_length::AggregateLength>(),
    Class::of::<aggregate_packet_counter::AggregatePacketCounter>(),
    Class::of::<aggregate_paint::AggregatePaint>(),
    Class::of::<average_counter::AverageCounter>(),
    Class::of::<flow_counter::FlowCounter>(),
    Class::of::<ip_rate_monitor::IPRateMonitor>(),
];

/// Parses the argument `CAPACITY` of classes with state per aggregate.
fn capacity(args: &mut Args) -> Option<Capacity> {
    args.key_maybe("CAPACITY", "aggregates that it keeps at a time")
}

/// Maximum number of aggregates, a million by default. Click's driver, which processes files, has no limit.
fn bound(capacity: Option<Capacity>, init: &Init) -> usize {
    let usual = match init.as_click() {
        true => Capacity::MAX,
        false => Capacity(1 << 20),
    };
    capacity.unwrap_or(usual).0
}

/// The IPv4 header of a packet whose network header annotation is set.
fn header(packet: &Packet) -> Option<Ipv4<&[u8]>> {
    header_of(packet.network()).filter(|_| packet.anno().network != 0)
}

/// An IPv4 header; the bytes after the first 20 may be missing.
fn header_of(bytes: &[u8]) -> Option<Ipv4<&[u8]>> {
    let sound = bytes.len() >= MIN_LEN && bytes[0] >> 4 == 4;
    sound.then(|| Ipv4::new_unchecked(bytes))
}
