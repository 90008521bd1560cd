//! Policies: the required protection of packets by addresses, protocol and ports; the first matching policy decides.

use crate::spec::Direction;
use std::net::IpAddr;
use tables::classify::{FIELDS, Key, Rule, Test, Tree};
use wire::{Prefix4, Prefix6, ext, ipv4, proto};

/// Treatment of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Protected by the associations of this reqid; inbound packets must have been protected by them.
    Protect(u32),
    /// The packet passes unprotected.
    Bypass,
    /// The packet is dropped.
    Discard,
}

/// A prefix of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// IPv4 prefix.
    V4(Prefix4),
    /// IPv6 prefix.
    V6(Prefix6),
}

/// Ports, from the first to the last.
pub type Range = (u16, u16);

/// A policy for packets of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Direction of the packets.
    pub direction: Direction,
    /// Source prefix.
    pub src: Net,
    /// Destination prefix, of the same family.
    pub dst: Net,
    /// Protocol; `None` for all.
    pub protocol: Option<u8>,
    /// Source ports. Later fragments do not contain ports: see [`Policies::find`].
    pub src_ports: Option<Range>,
    /// Destination ports.
    pub dst_ports: Option<Range>,
    /// Treatment of the packets.
    pub action: Action,
}

/// Indices of the key's words: addresses (for IPv4 only the first word of each), protocol, ports, and a word that
/// says if there are ports ([`NO_PORTS`], [`PORTS`] or [`HIDDEN`]).
const SRC: u8 = 0;
const DST: u8 = 4;
const PROTOCOL: u8 = 8;
const SRC_PORT: u8 = 9;
const DST_PORT: u8 = 10;
const HAS_PORTS: u8 = 11;

const NO_PORTS: u32 = 0;
const PORTS: u32 = 1;
/// Value of a field: the packet may have ports, but hides them.
const HIDDEN: u32 = 2;
/// Stands for the protocol of a packet that hides it.
const UNKNOWN: u32 = 256;

/// Policies of both directions, compiled.
#[derive(Debug)]
pub struct Policies {
    list: Vec<Policy>,
    trees: [Compiled; 4],
}

/// Policies of one family and direction.
#[derive(Debug)]
struct Compiled {
    tree: Tree,
    rules: Vec<Rule>,
    /// Action of each rule.
    actions: Vec<Action>,
    /// True if a policy tests more than addresses.
    tests_upper_layer: bool,
}

impl Default for Policies {
    fn default() -> Policies {
        Policies::new(Vec::new())
    }
}

impl Policies {
    /// Compiles a list; the first matching policy decides.
    pub fn new(list: Vec<Policy>) -> Policies {
        let compiled = |direction: Direction, is_v4: bool| {
            let mut rules = Vec::new();
            let mut actions = Vec::new();
            for policy in &list {
                let fits = matches!(policy.src, Net::V4(_)) == is_v4;
                if policy.direction == direction && fits {
                    rules.push(policy.rule());
                    actions.push(policy.action);
                }
            }
            let tests = rules.iter().flatten();
            Compiled {
                tree: Tree::new(&rules),
                tests_upper_layer: tests.map(|test| test.field).any(|field| field >= PROTOCOL),
                rules,
                actions,
            }
        };
        let trees = [
            compiled(Direction::In, true),
            compiled(Direction::In, false),
            compiled(Direction::Out, true),
            compiled(Direction::Out, false),
        ];
        Policies { list, trees }
    }

    /// All policies, in order.
    pub fn list(&self) -> &[Policy] {
        &self.list
    }

    /// Action for an IP packet whose header was checked; `None` if no policy matches.
    ///
    /// A packet may hide its protocol or its ports: a later fragment, a truncated packet, or one with more extension
    /// headers than are followed. It is discarded unless all policies that may match have the same action.
    #[inline]
    pub fn find(&self, direction: Direction, packet: &[u8]) -> Option<Action> {
        let is_v4 = packet.first()? >> 4 == 4;
        let way = match direction {
            Direction::In => 0,
            Direction::Out => 2,
        };
        let compiled = &self.trees[way + usize::from(!is_v4)];
        if compiled.actions.is_empty() {
            return None;
        }
        match is_v4 {
            true => match key4(packet, compiled.tests_upper_layer) {
                Some(key) => compiled.find(&key),
                None => Some(Action::Discard),
            },
            false => compiled.find6(packet),
        }
    }
}

impl Compiled {
    #[inline]
    fn find(&self, key: &Key) -> Option<Action> {
        if key[usize::from(HAS_PORTS)] == HIDDEN {
            return self.find_hidden(key);
        }
        let rule = self.tree.first(key)?;
        self.actions.get(rule as usize).copied()
    }

    #[inline(never)] // keeps the key of IPv4 out of the stack frame of IPv6
    fn find6(&self, packet: &[u8]) -> Option<Action> {
        match key6(packet, self.tests_upper_layer) {
            Some(key) => self.find(&key),
            None => Some(Action::Discard),
        }
    }

    /// Action for a packet that hides its protocol or ports: the common action of all policies that may match, up to
    /// the first one that certainly does. If the actions differ, the packet is discarded.
    #[cold]
    fn find_hidden(&self, key: &Key) -> Option<Action> {
        let hides_protocol = key[usize::from(PROTOCOL)] == UNKNOWN;
        let is_hidden = |test: &Test| match test.field {
            PROTOCOL => hides_protocol,
            SRC_PORT | DST_PORT | HAS_PORTS => true,
            _ => false,
        };
        let fits = |test: &Test| {
            let value = key[usize::from(test.field)] & test.mask;
            is_hidden(test) || (test.lo..=test.hi).contains(&value)
        };
        let mut said = None;
        for (rule, &action) in self.rules.iter().zip(&self.actions) {
            if !rule.iter().all(fits) {
                continue;
            }
            if said.is_some_and(|said| said != action) {
                return Some(Action::Discard);
            }
            said = Some(action);
            if !rule.iter().any(is_hidden) {
                return said;
            }
        }
        // A policy may or may not match, so the packet is discarded.
        said.map(|_| Action::Discard)
    }
}

/// True if the first four bytes of a protocol's header are ports.
fn has_ports(protocol: u8) -> bool {
    [
        proto::TCP,
        proto::UDP,
        proto::SCTP,
        proto::UDP_LITE,
        proto::DCCP,
    ]
    .contains(&protocol)
}

/// The key's words for a protocol and its ports; `upper` begins with the ports.
#[inline]
fn upper_words(protocol: u8, upper: Option<&[u8]>) -> [u32; 4] {
    let protocol_word = u32::from(protocol);
    if !has_ports(protocol) {
        return [protocol_word, 0, 0, NO_PORTS];
    }
    match upper.and_then(<[u8]>::first_chunk) {
        Some(ports) => {
            let ports = u32::from_be_bytes(*ports);
            [protocol_word, ports >> 16, ports & 0xffff, PORTS]
        }
        None => [protocol_word, 0, 0, HIDDEN],
    }
}

#[inline]
fn key4(packet: &[u8], tests_upper_layer: bool) -> Option<Key> {
    let header = packet.first_chunk::<{ ipv4::MIN_LEN }>()?;
    let ip = wire::Ipv4::new_unchecked(header);
    let (src, dst) = (ip.src().to_bits(), ip.dst().to_bits());
    let [a, b, c, d] = match tests_upper_layer {
        true => {
            let upper = packet.get(ip.header_len()..);
            upper_words(ip.protocol(), upper.filter(|_| ip.fragment_offset() == 0))
        }
        false => [0; 4],
    };
    Some([src, 0, 0, 0, dst, 0, 0, 0, a, b, c, d, 0, 0, 0, 0])
}

fn key6(packet: &[u8], tests_upper_layer: bool) -> Option<Key> {
    let mut key = [0; FIELDS];
    for (n, word) in key[..8].iter_mut().enumerate() {
        *word = u32::from_be_bytes(*packet.get(8 + 4 * n..)?.first_chunk()?);
    }
    if tests_upper_layer {
        key[usize::from(PROTOCOL)..][..4].copy_from_slice(&upper6(packet));
    }
    Some(key)
}

fn upper6(packet: &[u8]) -> [u32; 4] {
    const NOT_SHOWN: [u32; 4] = [UNKNOWN, 0, 0, HIDDEN];
    let Ok(walk) = ext::walk(packet) else {
        return NOT_SHOWN;
    };
    // In a later fragment, further extension headers may have been in the first fragment.
    let is_later = walk.fragment.is_some_and(|fragment| fragment.offset > 0);
    if is_later && is_extension(walk.protocol) {
        return NOT_SHOWN;
    }
    let upper = packet.get(walk.offset..);
    upper_words(walk.protocol, upper.filter(|_| walk.has_upper_header()))
}

fn is_extension(protocol: u8) -> bool {
    [
        proto::HOP_BY_HOP,
        proto::ROUTING,
        proto::FRAGMENT,
        proto::AH,
        proto::DEST_OPTS,
    ]
    .contains(&protocol)
}

/// Checks the layout that [`key4`] and [`upper_words`] write.
const _: () = assert!(SRC == 0 && DST == 4 && PROTOCOL == 8 && FIELDS == 16);
const _: () = assert!(SRC_PORT == 9 && DST_PORT == 10 && HAS_PORTS == 11);

impl Policy {
    fn rule(&self) -> Rule {
        let mut rule = Rule::new();
        let mut is = |field: u8, mask: u32, lo: u32, hi: u32| {
            if mask != 0 {
                rule.push(Test {
                    field,
                    mask,
                    lo,
                    hi,
                });
            }
        };
        for (first, net) in [(SRC, self.src), (DST, self.dst)] {
            match net {
                Net::V4(net) => {
                    let (mask, value) = (net.mask().to_bits(), net.addr().to_bits());
                    is(first, mask, value, value);
                }
                Net::V6(net) => {
                    let (mask, value) = (wire::prefix::mask6(net.len()), net.addr().to_bits());
                    for n in 0..4 {
                        let word = |whole: u128| (whole >> (96 - 32 * u32::from(n))) as u32;
                        is(first + n, word(mask), word(value), word(value));
                    }
                }
            }
        }
        if let Some(protocol) = self.protocol {
            let protocol = u32::from(protocol);
            is(PROTOCOL, u32::MAX, protocol, protocol);
        }
        for (field, ports) in [(SRC_PORT, self.src_ports), (DST_PORT, self.dst_ports)] {
            if let Some((first, last)) = ports {
                is(HAS_PORTS, u32::MAX, PORTS, PORTS);
                is(
                    field,
                    u32::MAX,
                    u32::from(first),
                    u32::from(last.max(first)),
                );
            }
        }
        rule
    }

    /// True if the policy's addresses are of one family.
    pub fn is_of_one_family(&self) -> bool {
        matches!(
            (self.src, self.dst),
            (Net::V4(_), Net::V4(_)) | (Net::V6(_), Net::V6(_))
        )
    }
}

impl Net {
    /// True if the prefix contains `address`.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self, address) {
            (Net::V4(net), IpAddr::V4(address)) => net.contains(address),
            (Net::V6(net), IpAddr::V6(address)) => net.contains(address),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{Rng, ip4, ip6};
    use wire::FlowKey;

    /// Reference model: true if a policy matches a packet, tested field by field.
    fn speaks(policy: &Policy, direction: Direction, packet: &[u8]) -> bool {
        let flow = FlowKey::of_ip(packet).expect("it is sound");
        let (protocol, ports) = match flow {
            FlowKey::V4(flow) => (flow.protocol, (flow.src_port, flow.dst_port)),
            FlowKey::V6(flow) => (flow.protocol, (flow.src_port, flow.dst_port)),
        };
        let has_ports = [6, 17].contains(&protocol) && ports != (0, 0);
        let within = |range: Option<Range>, port: u16| {
            range.is_none_or(|(first, last)| has_ports && (first..=last).contains(&port))
        };
        policy.direction == direction
            && policy.src.contains(flow.src())
            && policy.dst.contains(flow.dst())
            && policy.protocol.is_none_or(|wanted| wanted == protocol)
            && within(policy.src_ports, ports.0)
            && within(policy.dst_ports, ports.1)
    }

    fn net(rng: &mut Rng, is_v4: bool) -> Net {
        let (a, b) = (rng.below(4) as u8, rng.below(4) as u8);
        if is_v4 {
            let len = *rng.pick(&[0, 8, 15, 16, 31, 32]);
            Net::V4(Prefix4::new([10, a, 0, b].into(), len))
        } else {
            let len = *rng.pick(&[0, 7, 32, 33, 127, 128]);
            Net::V6(Prefix6::new(
                [0xfd00, a.into(), 0, 0, 0, 0, 0, b.into()].into(),
                len,
            ))
        }
    }

    fn random(rng: &mut Rng) -> Policy {
        let is_v4 = rng.one_in(2);
        let ports = |rng: &mut Rng| {
            let first = rng.below(5) as u16 + 1;
            rng.one_in(3).then(|| (first, first + rng.below(3) as u16))
        };
        Policy {
            direction: *rng.pick(&[Direction::In, Direction::Out]),
            src: net(rng, is_v4),
            dst: net(rng, is_v4),
            protocol: rng.one_in(2).then(|| *rng.pick(&[1, 6, 17, 58])),
            src_ports: ports(rng),
            dst_ports: ports(rng),
            action: *rng.pick(&[Action::Bypass, Action::Discard, Action::Protect(7)]),
        }
    }

    fn packet(rng: &mut Rng) -> Vec<u8> {
        let (a, b, c, d) = (rng.below(4), rng.below(4), rng.below(4), rng.below(4));
        let made = match rng.one_in(2) {
            true => ip4()
                .src(format!("10.{a}.0.{b}"))
                .dst(format!("10.{c}.0.{d}")),
            false => ip6()
                .src(format!("fd00:{a}::{b}"))
                .dst(format!("fd00:{c}::{d}")),
        };
        let (from, to) = (rng.below(8) as u16 + 1, rng.below(8) as u16 + 1);
        let made = match rng.below(4) {
            0 => made.tcp(from, to),
            1 | 2 => made.udp(from, to),
            _ => made.proto(99),
        };
        made.bytes()
    }

    #[test]
    fn the_first_policy_that_speaks_of_a_packet_counts() {
        let mut rng = Rng::seed(4301);
        for policies in [0, 1, 3, 20, 300] {
            let list: Vec<_> = (0..policies)
                .map(|n| Policy {
                    action: Action::Protect(n),
                    ..random(&mut rng)
                })
                .collect();
            let compiled = Policies::new(list.clone());
            for _ in 0..2000 {
                let packet = packet(&mut rng);
                for direction in [Direction::In, Direction::Out] {
                    let first = list.iter().find(|p| speaks(p, direction, &packet));
                    let found = compiled.find(direction, &packet);
                    assert_eq!(found, first.map(|p| p.action), "{packet:x?}");
                }
            }
        }
    }

    fn all(net: Net, action: Action) -> Policy {
        Policy {
            direction: Direction::In,
            src: net,
            dst: net,
            protocol: None,
            src_ports: None,
            dst_ports: None,
            action,
        }
    }

    #[test]
    fn malformed_packets_are_discarded() {
        let mut rng = Rng::seed(1);
        let nets = [Net::V4(Prefix4::ALL), Net::V6(Prefix6::ALL)];
        let policies = Policies::new(nets.map(|net| all(net, Action::Bypass)).to_vec());
        for len in 0..60 {
            for _ in 0..200 {
                policies.find(Direction::In, &rng.bytes(len));
            }
        }
        let found = policies.find(Direction::In, &[0x45; 19]);
        assert_eq!(found, Some(Action::Discard));
    }

    /// An IPv6 packet with `count` headers of destination options before UDP.
    fn with_headers(count: usize) -> Vec<u8> {
        let udp = [0, 9, 0, 53, 0, 8, 0, 0];
        let mut packet = vec![0x60, 0, 0, 0, 0, (8 * count + 8) as u8, 60, 64];
        packet[4] = ((8 * count + 8) >> 8) as u8;
        packet.extend([0xfd; 32]);
        for n in 1..=count {
            let next = if n == count { 17 } else { 60 };
            packet.extend([next, 0, 1, 4, 0, 0, 0, 0]);
        }
        packet.extend(udp);
        packet
    }

    #[test]
    fn more_extension_headers_than_are_followed_hide_no_packet() {
        let any = |action| all(Net::V6(Prefix6::ALL), action);
        let dns = |action| Policy {
            protocol: Some(17),
            dst_ports: Some((53, 53)),
            ..any(action)
        };
        let (one, two) = (Action::Protect(1), Action::Protect(2));
        for (policies, readable, hidden) in [
            (vec![any(one)], Some(one), Some(one)),
            (vec![dns(one)], Some(one), Some(Action::Discard)),
            (vec![dns(one), any(one)], Some(one), Some(one)),
            (vec![dns(one), any(two)], Some(one), Some(Action::Discard)),
            (
                vec![dns(one), any(Action::Bypass)],
                Some(one),
                Some(Action::Discard),
            ),
            (
                vec![any(Action::Bypass), dns(one)],
                Some(Action::Bypass),
                Some(Action::Bypass),
            ),
        ] {
            let policies = Policies::new(policies);
            for count in [1, 8, 9, 20, 100] {
                let right = if count > ext::MAX_HEADERS {
                    hidden
                } else {
                    readable
                };
                let found = policies.find(Direction::In, &with_headers(count));
                assert_eq!(found, right, "{count}: {:?}", policies.list());
            }
        }
    }

    #[test]
    fn later_fragments_do_not_leave_by_a_policy_behind_one_about_ports() {
        let dns = |net, action| Policy {
            protocol: Some(17),
            dst_ports: Some((53, 53)),
            ..all(net, action)
        };
        let v4 = Net::V4(Prefix4::ALL);
        let one = Action::Protect(1);
        let mut first = ip4().udp(9, 53).bytes();
        first[6] |= 0x20;
        let mut later = first.clone();
        later[7] = 3;
        let mut other = later.clone();
        other[9] = 99;
        let short = &ip4().udp(9, 53).bytes()[..22];
        let policies = Policies::new(vec![dns(v4, one), all(v4, Action::Bypass)]);
        let found = |packet: &[u8]| policies.find(Direction::In, packet);
        assert_eq!(found(&first), Some(one));
        assert_eq!(found(&later), Some(Action::Discard));
        assert_eq!(found(short), Some(Action::Discard));
        assert_eq!(found(&other), Some(Action::Bypass));
        let same = Policies::new(vec![dns(v4, one), all(v4, one)]);
        assert_eq!(same.find(Direction::In, &later), Some(one));
        let v6 = Net::V6(Prefix6::ALL);
        let policies = Policies::new(vec![dns(v6, one), all(v6, Action::Bypass)]);
        let mut later = with_headers(1);
        // Inserts a fragment header of the same length; the headers after it are then hidden.
        later[6] = 44;
        later[43] = 0x10;
        for (next, right) in [
            (17, Action::Discard),
            (60, Action::Discard),
            (99, Action::Bypass),
        ] {
            later[40] = next;
            assert_eq!(policies.find(Direction::In, &later), Some(right), "{next}");
        }
    }
}
