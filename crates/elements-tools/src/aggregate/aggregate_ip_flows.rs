//! Numbers TCP and UDP flows: sets the AGGREGATE annotation to the number, and paint to the direction.
//!
//! ```click
//! FromDump(trace.pcap, STOP true, FORCE_IP true) -> af :: AggregateIPFlows
//!     -> ac :: AggregateCounter -> Discard;
//! DriverManager(pause, write af.clear, write ac.write_text_file -);
//! ```
//!
//! Flows get numbers from 1 on, in the order in which they are first seen. Packets from the side that was seen first
//! get paint 0, those of the other side paint 1. A flow ends when it has had no packet for some time, by the packets'
//! timestamps, or at the first SYN after a RST or after a FIN from both sides. Packets that belong to no flow leave
//! by output 1, or are dropped (`no_flow`).
//!
//! In push mode, fragments wait here until the first fragment of their datagram, which has the ports, has arrived.
//! Later packets between the same addresses wait, too. `clear` releases all waiting packets.
//!
//! Keyword arguments:
//!
//! - `TRACEINFO`: an XML file to which a summary of each flow is written.
//! - `SOURCE`: accepted for compatibility with Click.
//! - `TCP_TIMEOUT`: time without packets after which a TCP flow ends. Default 24 hours.
//! - `TCP_DONE_TIMEOUT`: the same for TCP flows with a RST, or with a FIN from both sides. Default 30 seconds.
//! - `UDP_TIMEOUT`: the same for UDP flows. Default 1 minute.
//! - `FRAGMENT_TIMEOUT`: time for which fragments wait. Default 30 seconds.
//! - `REAP`: time between two removals of flows that have ended. Default 20 minutes.
//! - `CAPACITY`: maximum number of flows. Default 1048576; with `ashlar click` 16777216. A further flow ends the one
//!   that was idle longest; the handler `evicted` counts those.
//! - `ICMP`: true if an ICMP error belongs to the flow that it reports, with paint 2 or 3. Default false.
//! - `FRAGMENTS`: true if fragments wait. Default true in push mode.

use super::bounded_map::BoundedMap;
use super::end_notices::Notifier;
use super::fragments::{Fragments, Ready};
use crate::dump::file::Output;
use crate::prelude::*;
use arguments::show::reason;
use captures::time_window::{Span, show};
use elements::stderr_messages::complain;
use engine::port::Slot;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use wire::ipv4::Ipv4;
use wire::{icmp, proto};

pub(super) struct Config {
    traceinfo: Option<String>,
    tcp: i64,
    tcp_done: i64,
    udp: i64,
    fragment: i64,
    reap: i64,
    icmp: bool,
    fragments: Option<bool>,
    capacity: Option<Capacity>,
    opened: Slot<Output>,
}

/// Protocol, then address and port of the lower and of the higher end.
type Key = (u8, (u32, u16), (u32, u16));

struct Flow {
    aggregate: u32,
    /// True if the lower end was the source of the first packet.
    low_first: bool,
    /// A bit for each direction that has ended by a FIN; a RST ends both.
    fins: u8,
    first: i64,
    last: i64,
    packets: [u64; 2],
}

pub(super) struct AggregateIpFlows {
    config: Arc<Config>,
    flows: BoundedMap<Key, Flow>,
    next: u32,
    fragments: Fragments,
    holds: bool,
    reap_at: Option<i64>,
    trace: Option<Output>,
    ready: Vec<Ready>,
    notifier: Notifier,
}

impl Flow {
    fn is_done(&self) -> bool {
        self.fins == 3
    }
}

drops! {
    NO_FLOW = "no_flow",
}
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;

/// Fields of a packet that identify its flow.
struct Seen {
    src: u32,
    dst: u32,
    protocol: u8,
    /// Source and destination port; `None` in a later fragment.
    ports: Option<[u16; 2]>,
    is_fragment: bool,
    ident: u16,
    flags: u8,
}

/// Parses an IPv4 packet, which may be truncated after its ports.
fn parse(bytes: &[u8]) -> Option<Seen> {
    let ip = super::header_of(bytes)?;
    let body = bytes.get(ip.header_len().max(wire::ipv4::MIN_LEN)..)?;
    let later = ip.fragment_offset() > 0;
    let ports = match body.get(..4) {
        Some(b) if !later => Some([
            u16::from_be_bytes([b[0], b[1]]),
            u16::from_be_bytes([b[2], b[3]]),
        ]),
        _ => None,
    };
    let flags = body
        .get(13)
        .filter(|_| ip.protocol() == proto::TCP && !later);
    Some(Seen {
        src: ip.src().to_bits(),
        dst: ip.dst().to_bits(),
        protocol: ip.protocol(),
        ports,
        is_fragment: ip.is_fragment(),
        ident: ip.ident(),
        flags: flags.copied().unwrap_or(0),
    })
}

/// Packet that an ICMP error quotes.
fn inner(bytes: &[u8]) -> Option<&[u8]> {
    let ip = Ipv4::new_unchecked(bytes);
    let body = bytes.get(ip.header_len()..)?;
    let about = icmp::is_error(*body.first()?) && ip.fragment_offset() == 0;
    body.get(8..).filter(|_| about)
}

/// Key of a flow, and true if the source is its lower end.
fn key(seen: &Seen, [sport, dport]: [u16; 2]) -> (Key, bool) {
    let (src, dst) = ((seen.src, sport), (seen.dst, dport));
    if src <= dst {
        ((seen.protocol, src, dst), true)
    } else {
        ((seen.protocol, dst, src), false)
    }
}

impl AggregateIpFlows {
    fn timeout(config: &Config, protocol: u8, flow: &Flow) -> i64 {
        match protocol {
            proto::TCP if flow.is_done() => config.tcp_done,
            proto::TCP => config.tcp,
            _ => config.udp,
        }
    }

    /// Sets the aggregate annotation of a packet with known ports.
    fn number(&mut self, packet: &mut Packet, seen: &Seen, ports: [u16; 2]) {
        let stamp = packet.cold().timestamp as i64;
        let (key, low) = key(seen, ports);
        let over = |flow: &Flow| {
            let begins_again = seen.flags & SYN != 0 && flow.is_done();
            begins_again
                || stamp.saturating_sub(flow.last) > Self::timeout(&self.config, key.0, flow)
        };
        if self.flows.get(&key).is_some_and(over)
            && let Some(flow) = self.flows.remove(&key)
        {
            self.report_end(&key, &flow);
        }
        if !self.flows.has(&key) {
            self.add_flow(key, low, stamp);
        }
        let Some(flow) = self.flows.use_of(&key) else {
            return;
        };
        let color = u8::from(flow.low_first != low);
        if seen.flags & RST != 0 {
            flow.fins = 3;
        } else if seen.flags & FIN != 0 {
            flow.fins |= 1 << color;
        }
        flow.last = stamp;
        flow.packets[usize::from(color)] += 1;
        packet.anno_mut().paint = color;
        packet.cold_mut().set_aggregate(flow.aggregate);
    }

    /// Adds a flow with a new number.
    fn add_flow(&mut self, key: Key, low_first: bool, stamp: i64) {
        // Numbers wrap around after 32 bits; 0 means no flow.
        self.next = self.next.wrapping_add(1).max(1);
        let flow = Flow {
            aggregate: self.next,
            low_first,
            fins: 0,
            first: stamp,
            last: stamp,
            packets: [0; 2],
        };
        let mut evicted = None;
        self.flows
            .insert(key, flow, |key, flow| evicted = Some((key, flow)));
        if let Some((key, flow)) = evicted {
            self.report_end(&key, &flow);
        }
    }

    /// Sets the aggregate annotation of an ICMP error to the flow of the quoted packet, if the flow is known.
    fn mark_error(&self, packet: &mut Packet) -> Option<()> {
        let about = parse(inner(packet.network())?)?;
        let (key, low) = key(&about, about.ports?);
        let flow = self.flows.get(&key)?;
        let color = u8::from(flow.low_first != low);
        packet.anno_mut().paint = 2 + color;
        packet.cold_mut().set_aggregate(flow.aggregate);
        Some(())
    }

    /// Sends packets that no longer need to wait.
    fn release(&mut self, cx: &mut Cx) {
        let mut ready = std::mem::take(&mut self.ready);
        for (mut packet, ports) in ready.drain(..) {
            let seen = parse(packet.network());
            let known = seen.and_then(|s| Some((ports.or(s.ports)?, s)));
            let verdict = known.map_or(Verdict::reject(NO_FLOW, 1), |(ports, seen)| {
                self.number(&mut packet, &seen, ports);
                Verdict::ON
            });
            cx.send(packet, verdict);
        }
        self.ready = ready;
    }

    /// Sends or holds a packet. Returns the packet if it belongs to no flow.
    fn send_or_hold(&mut self, mut packet: Packet, cx: &mut Cx) {
        // Devices set timestamps only on request; without timestamps no flow would end.
        if packet.cold().timestamp == 0 {
            packet.cold_mut().timestamp = cx.timestamp();
        }
        let stamp = packet.cold().timestamp as i64;
        self.remove_expired(stamp);
        self.release(cx);
        let other = Verdict::reject(NO_FLOW, 1);
        let Some(seen) = parse(packet.network()).filter(|_| packet.anno().network != 0) else {
            return cx.send(packet, other);
        };
        if seen.protocol == proto::ICMP && self.config.icmp {
            let marked = self.mark_error(&mut packet);
            let verdict = marked.map_or(other, |()| Verdict::ON);
            return cx.send(packet, verdict);
        }
        if !matches!(seen.protocol, proto::TCP | proto::UDP) {
            return cx.send(packet, other);
        }
        if !self.holds {
            let verdict = seen.ports.map_or(other, |ports| {
                self.number(&mut packet, &seen, ports);
                Verdict::ON
            });
            return cx.send(packet, verdict);
        }
        let datagram = (seen.src, seen.dst, seen.ident, seen.protocol);
        if let Some(ports) = seen.ports.filter(|_| seen.is_fragment) {
            self.fragments.learn(datagram, ports, stamp);
        }
        let needs = (seen.ports.is_none() && seen.is_fragment).then_some(datagram);
        let oldest = stamp.saturating_sub(self.config.fragment);
        self.fragments.add(
            packet,
            [seen.src, seen.dst],
            stamp,
            needs,
            oldest,
            &mut self.ready,
        );
        self.release(cx);
    }

    /// Periodically removes flows and fragments whose timeout has passed.
    fn remove_expired(&mut self, now: i64) {
        let at = *self
            .reap_at
            .get_or_insert(now.saturating_add(self.config.reap));
        if now < at {
            return;
        }
        self.reap_at = Some(now.saturating_add(self.config.reap));
        let oldest = now.saturating_sub(self.config.fragment);
        self.fragments.remove_expired(oldest, &mut self.ready);
        let config = Arc::clone(&self.config);
        let over = |key: &Key, flow: &Flow| {
            now.saturating_sub(flow.last) > Self::timeout(&config, key.0, flow)
        };
        for (key, flow) in self.flows.remove_if(over) {
            self.report_end(&key, &flow);
        }
    }

    /// Notifies listeners of an ended flow, and writes its record.
    fn report_end(&mut self, key: &Key, flow: &Flow) {
        self.notifier.ended(flow.aggregate);
        let Some(trace) = &mut self.trace else {
            return;
        };
        let (_, low, high) = *key;
        let (src, dst) = if flow.low_first {
            (low, high)
        } else {
            (high, low)
        };
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "<flow aggregate='{}' src='{}' sport='{}' dst='{}' dport='{}' begin='{}' duration='{}'>\n\
             <stream dir='0' packets='{}' /><stream dir='1' packets='{}' /></flow>",
            flow.aggregate,
            Ipv4Addr::from(src.0),
            src.1,
            Ipv4Addr::from(dst.0),
            dst.1,
            show(flow.first),
            show(flow.last.wrapping_sub(flow.first)),
            flow.packets[0],
            flow.packets[1],
        );
        if let Err(e) = trace.write(text.as_bytes()) {
            complain(&reason(&e));
            self.trace = None;
        }
    }

    /// Sends waiting packets, and removes all flows.
    fn clear(&mut self, cx: &mut Cx) {
        let mut ready = std::mem::take(&mut self.ready);
        self.fragments.clear(&mut ready);
        self.ready = ready;
        self.release(cx);
        let mut flows = self.flows.drain();
        flows.sort_unstable_by_key(|(_, flow)| flow.aggregate);
        for (key, flow) in flows {
            self.report_end(&key, &flow);
        }
        self.notifier.handle_now(cx);
    }
}

impl Element for AggregateIpFlows {
    const CONTRACT: Contract = Contract::new("AggregateIPFlows", manual!())
        .ports(Ports::coded(&["in"], &["out", "other?"], "a/ah"))
        .drops(DROPS)
        .copies(Copies::One)
        .extensions(&[&resources::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let mut span = |name, seconds: i64, doc| {
            let default = Span(seconds * 1_000_000_000);
            args.key(name, default, doc).0
        };
        let tcp = span("TCP_TIMEOUT", 24 * 3600, "when a TCP flow ends");
        let tcp_done = span(
            "TCP_DONE_TIMEOUT",
            30,
            "when one ends that both sides ended",
        );
        let udp = span("UDP_TIMEOUT", 60, "when a UDP flow ends");
        let fragment = span("FRAGMENT_TIMEOUT", 30, "time for which fragments wait");
        let reap = span("REAP", 1200, "time between two removals of ended flows");
        let _: Option<String> = args.key_maybe("SOURCE", "accepted for compatibility with Click");
        Config {
            traceinfo: args.key_maybe("TRACEINFO", "XML file for a summary of each flow"),
            tcp,
            tcp_done,
            udp,
            fragment,
            reap,
            icmp: args.key("ICMP", false, "true if ICMP errors belong to flows"),
            fragments: args.key_maybe("FRAGMENTS", "true if fragments wait"),
            capacity: super::capacity(args),
            opened: Slot::default(),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> AggregateIpFlows {
        AggregateIpFlows {
            flows: BoundedMap::new(super::bound(config.capacity, init)),
            next: 0,
            fragments: Fragments::default(),
            // Fragments are not held with a pull input: a pull could not return them later.
            holds: config.fragments.unwrap_or(true) && !init.input_pull,
            reap_at: None,
            trace: config.opened.take(),
            ready: Vec::new(),
            notifier: Notifier::new(init),
            config: Arc::clone(config),
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.drain() {
            self.send_or_hold(packet, cx);
        }
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let mut batch = cx.spare();
        cx.pull(0, max, &mut batch);
        for mut packet in batch.drain() {
            let stamp = packet.cold().timestamp as i64;
            self.remove_expired(stamp);
            let seen = parse(packet.network()).filter(|s| match s.protocol {
                proto::ICMP => self.config.icmp,
                protocol => matches!(protocol, proto::TCP | proto::UDP) && s.ports.is_some(),
            });
            let marked = match &seen {
                Some(seen) if seen.protocol == proto::ICMP => {
                    self.mark_error(&mut packet).map(|()| Verdict::ON)
                }
                Some(seen) => seen.ports.map(|ports| {
                    self.number(&mut packet, seen, ports);
                    Verdict::ON
                }),
                None => None,
            };
            match marked.unwrap_or(Verdict::reject(NO_FLOW, 1)) {
                Verdict::ON => into.push(packet),
                other => cx.send(packet, other),
            }
        }
        cx.keep_spare(batch);
    }

    fn held(&self) -> usize {
        self.fragments.held()
    }

    fn take(&mut self, old: AggregateIpFlows) {
        let fresh = self.trace.take();
        let config = Arc::clone(&self.config);
        let (holds, capacity) = (self.holds, self.flows.capacity());
        *self = old;
        (self.config, self.holds) = (config, holds);
        self.trace = fresh.or(self.trace.take());
        let mut evicted = Vec::new();
        self.flows
            .set_capacity(capacity, |key, flow| evicted.push((key, flow)));
        for (key, flow) in evicted {
            self.report_end(&key, &flow);
        }
    }

    const HANDLERS: &'static [Handler<AggregateIpFlows>] = &[
        Handler::set(
            "clear",
            "sends out fragments and forgets all flows",
            |e, _, cx| {
                e.clear(cx);
                Ok(())
            },
        ),
        Handler::text("nflows", "flows under way", |e, _| {
            Ok(e.flows.len().to_string())
        }),
        Handler::sum(
            "evicted",
            "flows that ended for others, see CAPACITY",
            |e| e.flows.evicted(),
        ),
    ];
}

impl Resources for AggregateIpFlows {
    fn initialize(config: &Config) -> Result<(), String> {
        if let Some(name) = &config.traceinfo {
            let mut file = Output::create(name)?;
            let head = b"<?xml version='1.0' standalone='yes'?>\n<trace>\n";
            file.write(head)
                .map_err(|e| format!("{name}: {}", reason(&e)))?;
            config.opened.put_back(file);
        }
        Ok(())
    }
}

impl Drop for AggregateIpFlows {
    fn drop(&mut self) {
        let mut flows = self.flows.drain();
        flows.sort_unstable_by_key(|(_, flow)| flow.aggregate);
        for (key, flow) in flows {
            self.report_end(&key, &flow);
        }
        if let Some(trace) = &mut self.trace {
            // The router has ended, so an error can no longer be reported.
            let _ = trace.write(b"</trace>\n").and_then(|()| trace.flush());
        }
    }
}

#[cfg(test)]
#[path = "aggregate_ip_flows_tests.rs"]
mod tests;
