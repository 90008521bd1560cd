//! Sends frames of internal links on by their Ethernet header, or to this node's output stage.
//!
//! ```click
//! vlb :: VLBNode(NODE a, NODES a 10Gbps b 10Gbps c 10Gbps, LINKS a-b a-c b-c);
//! FromDevice(null:64) -> t :: VLBTransit(vlb) -> ToDevice(null:);  // the link a-b
//! FromDevice(null:60) -> [1]t; t[1] -> ToDevice(null:);            // the link a-c
//! t[2] -> out :: VLBOutput(vlb) -> Discard; out[1] -> Discard;
//! t[3] -> Discard;
//! ```
//!
//! Input i takes frames from the node's own link i (see VLBNode). Outputs are the own links in the same order, then
//! one for frames whose output node is this one, then one for heartbeats, which carry the number of their link as
//! paint annotation. Connect nothing but internal links here: what comes by external ports must not be taken for
//! frames of the cluster.
//!
//! Only the 12 bytes of addresses are read. Dropped are frames whose addresses are none of the cluster's
//! (`malformed`), or of another cluster (`foreign`), that name nodes which do not exist (`unknown_node`), have
//! passed 15 links (`too_many_hops`), come back to their input node (`loop`), or to whose node no living link leads
//! (`no_way`).
//!
//! With VLBNode's KEY every frame must carry a tag that only who has the key can write, and come once: others
//! are dropped (`forged`, `replayed`). A worker watches for what it has seen itself, so a link should be
//! received by one worker. A frame that goes on gets a new tag for its link, one that has arrived loses it (with
//! RESEQUENCE in VLBResequencer only).
//!
//! Arguments:
//!
//! - `VLB`: the VLBNode that it belongs to.

use super::{ETHER_LEN, Lanes, Member, Node, lanes, remove_tag};
use crate::prelude::*;
use cluster::address::LEN;
use cluster::map::Ways;
use cluster::tag::{Bad, Tag, Windows};
use cluster::transit::{self, Fault, Step};

const FORGED: u8 = Fault::ALL.len() as u8;
const REPLAYED: u8 = FORGED + 1;

/// Different addresses whose ways are remembered.
const KNOWN: usize = 64;

pub(crate) struct Config {
    member: Member,
    links: usize,
}

/// A way that frames with some addresses have taken.
#[derive(Clone, Copy)]
struct Known {
    addresses: [u8; LEN],
    new: [u8; LEN],
    verdict: Verdict,
}

/// Of the addresses that no frame of ours has.
const UNKNOWN: Known = Known {
    addresses: [0; LEN],
    new: [0; LEN],
    verdict: Verdict::drop(Fault::Malformed as u8),
};

pub(crate) struct VlbTransit {
    node: Arc<Node>,
    known: Box<[Known; KNOWN]>,
    version: u64,
    /// Bytes sent on since the last batch, by own link.
    bytes: Box<[u64]>,
    links: usize,
    lanes: Lanes,
    /// Numbers that have come, by own link.
    windows: Box<[Windows]>,
}

impl Element for VlbTransit {
    const CLASS: &'static str = "VLBTransit";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["link*"], &["out*"], "h/h");
    const NEEDS: &'static [Facts] = &[Facts::ETHER];
    const GIVES: &'static [Facts] = &[Facts::ETHER];
    const DROPS: &'static [&'static str] = &[
        Fault::Malformed.name(),
        Fault::Foreign.name(),
        Fault::UnknownNode.name(),
        Fault::TooManyHops.name(),
        Fault::Loop.name(),
        Fault::NoWay.name(),
        "forged",
        "replayed",
    ];

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let (member, described) = Member::named(args);
        Config {
            member,
            links: described.map_or(0, |d| d.map.links_of(d.node).count()),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> VlbTransit {
        let node = config.member.node(init);
        VlbTransit {
            known: Box::new([UNKNOWN; KNOWN]),
            version: node.version(),
            bytes: vec![0; config.links].into(),
            links: config.links,
            lanes: lanes(&node, init),
            windows: vec![Windows::default(); config.links].into(),
            node,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        // Before the ways are read: what is remembered is never older than it says.
        let version = self.node.version();
        if version != self.version {
            self.version = version;
            self.known.fill(UNKNOWN);
        }
        match self.node.key {
            None => cx.sort(batch, |packet, cx| self.pass(input, packet, cx)),
            Some(_) => cx.sort(batch, |packet, cx| self.pass_tagged(input, packet, cx)),
        }
        for (link, bytes) in self.bytes.iter_mut().enumerate().filter(|(_, b)| **b > 0) {
            self.node.carry(link, *bytes);
            *bytes = 0;
        }
    }

    fn take(&mut self, old: VlbTransit) {
        // Links may have changed places.
        let mut known: Vec<_> = old.node.cables().into_iter().zip(old.windows).collect();
        for (new, cable) in self.windows.iter_mut().zip(self.node.cables()) {
            if let Some(at) = known.iter().position(|(was, _)| *was == cable) {
                *new = known.swap_remove(at).1;
            }
        }
    }

    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (Some(config.links), Some(config.links + 2))
    }
}

impl VlbTransit {
    #[inline(always)]
    fn pass(&mut self, input: usize, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let len = packet.len();
        let Some(addresses) = packet.data_mut().first_chunk_mut::<LEN>() else {
            return Verdict::drop(Fault::Malformed as u8);
        };
        let known = &mut self.known[place(addresses)];
        if known.addresses != *addresses {
            *known = decide(*addresses, self.node.ways().read(cx.reader()), &self.node);
        }
        *addresses = known.new;
        let verdict = known.verdict;
        match self.bytes.get_mut(verdict.port()) {
            Some(bytes) => *bytes += len as u64,
            None => return self.arrived(input, packet, verdict),
        }
        verdict
    }

    /// As [`pass`](Self::pass), where frames must have a tag.
    fn pass_tagged(&mut self, input: usize, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let (node, windows) = (Arc::clone(&self.node), self.windows.get_mut(input));
        let heartbeat = Verdict::out(self.links as u8 + 1);
        let ways = node.ways().read(cx.reader());
        let addresses = packet.data().first_chunk::<LEN>();
        if addresses.is_some_and(|addresses| decide(*addresses, ways, &node).verdict == heartbeat) {
            return self.pass(input, packet, cx); // VLBHeartbeat knows by itself what is forged
        }
        let mut tag = match Tag::parse(packet.data(), node.key.as_ref()) {
            Ok(tag) => tag,
            Err(Bad::Malformed) => return Verdict::drop(Fault::Malformed as u8),
            Err(Bad::Forged) => return Verdict::drop(FORGED),
        };
        if !windows.is_some_and(|windows| windows.take(tag.link)) {
            return Verdict::drop(REPLAYED);
        }
        let verdict = self.pass(input, packet, cx);
        match verdict.port() {
            link if link < self.links => {
                tag.link = self.lanes.borrow_mut()[link].number();
                tag.write(packet.data_mut(), node.key.as_ref());
            }
            here if here == self.links && node.resequence.is_none() => remove_tag(packet),
            _ => {}
        }
        verdict
    }

    /// What is not to go on by a link.
    #[inline]
    fn arrived(&self, input: usize, packet: &mut Packet, verdict: Verdict) -> Verdict {
        if packet.len() < ETHER_LEN {
            return Verdict::drop(Fault::Malformed as u8);
        }
        if verdict.port() == self.links + 1 {
            packet.anno_mut().paint = input as u8;
        }
        verdict
    }
}

/// Where ways of such addresses are remembered: by output and input node, port, and intermediate node.
#[inline(always)]
fn place(addresses: &[u8; LEN]) -> usize {
    let [_, n0, n1, port, g0, g1, _, i0, i1, v0, v1, _] = *addresses;
    let word = u64::from_ne_bytes([n1, port, i1, v1, n0, i0 ^ g0, v0, g1]);
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

#[cold]
fn decide(addresses: [u8; LEN], ways: &Ways, node: &Node) -> Known {
    let links = ways.rates().len();
    let (new, verdict) = match transit::pass(&addresses, ways, node.cookie) {
        Ok(Step::On { link, addresses }) => (addresses, Verdict::out(link as u8)),
        Ok(Step::Here) => (addresses, Verdict::out(links as u8)),
        Ok(Step::Heartbeat) => (addresses, Verdict::out(links as u8 + 1)),
        Err(fault) => (addresses, Verdict::drop(fault as u8)),
    };
    Known {
        addresses,
        new,
        verdict,
    }
}

#[cfg(test)]
mod tests {
    use cluster::address::{Address, HOPS_MAX, Kind, NO_NODE, PORT_SELF, cookie};
    use testkit::{Bench, ip4};

    const NODE: &str = "vlb :: VLBNode(NAME t, NODE b, NODES a 1Gbps b 1Gbps c 1Gbps d 1Gbps,
        LINKS a-b a-c a-d b-c b-d c-d);";

    fn bench() -> Bench {
        let text = format!(
            "{NODE} t :: VLBTransit(vlb); Idle -> [1]t; Idle -> [2]t;
             t[0] -> a :: Collect; t[1] -> c :: Collect; t[2] -> d :: Collect;
             t[3] -> here :: Collect; t[4] -> beats :: Collect;"
        );
        Bench::new(crate::CLASSES, &text)
    }

    fn address() -> Address {
        Address {
            kind: Kind::Data,
            hops: HOPS_MAX,
            node: 3,
            port: 1,
            gateway: 0,
            input: 0,
            via: 1,
            cookie: cookie("t"),
        }
    }

    fn frame(address: Address) -> Vec<u8> {
        let mut frame = address.bytes().to_vec();
        frame.extend([8, 0]);
        frame.extend(ip4().udp(1, 2).bytes());
        frame
    }

    #[test]
    fn frames_go_where_their_addresses_say_and_nothing_else_is_changed() {
        let mut bench = bench();
        let to_c = Address {
            node: 2,
            ..address()
        };
        let here = Address {
            node: 1,
            via: NO_NODE,
            ..address()
        };
        let beat = Address {
            kind: Kind::Heartbeat,
            ..address()
        };
        let all = [address(), to_c, here, beat, address()].map(frame);
        bench.push("t", &all);
        let on = |from: Address| {
            frame(Address {
                hops: HOPS_MAX - 1,
                via: NO_NODE,
                ..from
            })
        };
        assert_eq!(bench.take("d"), [on(address()), on(address())]);
        assert_eq!(bench.take("c"), [on(to_c)]);
        assert_eq!(bench.take("here"), [frame(here)]);
        bench.push_at("t", 2, &[frame(beat)]);
        let beats = bench.take_packets("beats");
        let paints: Vec<u8> = beats.iter().map(|beat| beat.anno.paint).collect();
        assert_eq!(paints, [0, 2]);
        let carried: u64 = 2 * all[0].len() as u64;
        assert_eq!(
            bench.read("vlb.carried"),
            format!("0 {} {carried}", carried / 2)
        );
    }

    #[test]
    fn a_link_that_goes_down_is_left_at_once() {
        let mut bench = bench();
        bench.push("t", &[frame(address())]);
        assert_eq!(bench.take("d").len(), 1);
        bench.write("vlb.link", "b-d down");
        bench.push("t", &[frame(address())]);
        assert_eq!(bench.take("d").len(), 0);
        assert_eq!(bench.take("a").len() + bench.take("c").len(), 1);
    }

    #[test]
    fn bad_frames_are_dropped_by_name() {
        let mut bench = bench();
        let port = Address {
            port: PORT_SELF,
            ..address()
        };
        for (bad, name) in [
            (
                Address {
                    cookie: 1,
                    ..address()
                },
                "foreign",
            ),
            (
                Address {
                    node: 9,
                    ..address()
                },
                "unknown_node",
            ),
            (Address { hops: 0, ..port }, "too_many_hops"),
            (
                Address {
                    input: 1,
                    ..address()
                },
                "loop",
            ),
        ] {
            bench.push("t", &[frame(bad), frame(address()), frame(bad)]);
            assert_eq!(bench.drops("t", name), 2, "{name}");
        }
        bench.push(
            "t",
            &[
                &b"short"[..],
                &[0xff; 60],
                &[0; 60],
                &frame(address())[..13],
            ],
        );
        assert_eq!(
            bench.drops("t", "malformed"),
            3,
            "what is cut is sent on, if it is not for this node"
        );
        let here = frame(Address {
            node: 1,
            ..address()
        });
        bench.push("t", &[&here[..13]]);
        assert_eq!(bench.drops("t", "malformed"), 4);
        for link in ["a-b", "b-c", "b-d"] {
            bench.write("vlb.link", &format!("{link} down"));
        }
        bench.push("t", &[frame(address())]);
        assert_eq!(bench.drops("t", "no_way"), 1);
    }

    /// A cluster with a key, of these nodes in a mesh, as one of them knows it.
    fn keyed(node: &str, nodes: &str, links: &str) -> String {
        format!(
            "vlb :: VLBNode(NAME t, NODE {node}, NODES {nodes}, LINKS {links},
             KEY 000102030405060708090a0b0c0d0e0f);"
        )
    }

    #[test]
    fn with_a_key_links_go_on_where_they_were_when_a_reload_numbers_them_anew() {
        let all = ("a 1Gbps b 1Gbps c 1Gbps", "a-b a-c b-c");
        let two = ("a 1Gbps c 1Gbps", "a-c");
        let input = "check :: CheckIPHeader -> in :: VLBInput(vlb, c/0);";
        let both = "in[0] -> Discard; in[1] -> out :: Collect;";
        let mut a = Bench::new(
            crate::CLASSES,
            &format!("{}{input}{both}", keyed("a", all.0, all.1)),
        );
        let transit = |links: usize| {
            let outs = (0..links).map(|link| format!("t[{link}] -> Discard; Idle -> [{link}]t;"));
            let outs: String = outs.collect();
            let beats = links + 1;
            format!(
                "t :: VLBTransit(vlb); {outs}
                 t[{links}] -> here :: Collect; t[{beats}] -> Discard;"
            )
        };
        let mut c = Bench::new(
            crate::CLASSES,
            &format!("{}{}", keyed("c", all.0, all.1), transit(2)),
        );
        let packet = ip4().udp(1, 2).bytes();
        let old = (0..5).map(|_| {
            a.push("check", &[&packet]);
            a.take("out").remove(0)
        });
        let old: Vec<_> = old.collect();
        c.push("t", &old);
        assert_eq!(c.take("here").len(), 5);
        let one = "in[0] -> out :: Collect;";
        a.reload(&format!("{}{input}{one}", keyed("a", two.0, two.1)))
            .expect("it is right");
        c.reload(&format!("{}{}", keyed("c", two.0, two.1), transit(1)))
            .expect("it is right");
        a.push("check", &[&packet]);
        c.push("t", &a.take("out"));
        assert_eq!(c.take("here").len(), 1, "it is newer than all before");
        c.push("t", &old);
        assert_eq!((c.take("here").len(), c.drops("t", "replayed")), (0, 5));
    }
}
