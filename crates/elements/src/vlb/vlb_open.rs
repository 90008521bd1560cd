//! Lets frames of an internal link in that the cluster's key has sealed, each once.
//!
//! ```click
//! vlb :: VLBNode(NODE a, NODES a 10Gbps b 10Gbps, LINKS a-b, KEY 000102030405060708090a0b0c0d0e0f);
//! FromDevice(null:64) -> VLBOpen(vlb) -> t :: VLBTransit(vlb);
//! t[1] -> out :: VLBOutput(vlb) -> Discard; out[1] -> Discard;
//! t[2] -> hb :: VLBHeartbeat(vlb);
//! t -> seal :: VLBSeal(vlb) -> ToDevice(null:);
//! hb -> seal;
//! ```
//!
//! Put one behind the device of each internal link, and VLBSeal before it. It removes the tag that VLBSeal has
//! written; what an input node wrote there for VLBResequencer stays. A frame may come up to 960 frames of its sender's
//! worker behind the newest one.
//!
//! Heartbeats have a digest of their own and pass, as all frames do where VLBNode has no KEY. Dropped are frames that
//! have no tag or one with a wrong digest (`forged`), those that came before or too late (`replayed`), and what is too
//! short for addresses (`malformed`).
//!
//! Arguments:
//!
//! - `VLB`: the VLBNode that it belongs to.

use super::{ETHER_LEN, Member, Node, is_heartbeat};
use crate::prelude::*;
use cluster::address::LEN;
use cluster::tag::{ADDED, Tag, Windows};

const MALFORMED: u8 = 0;
const FORGED: u8 = 1;
const REPLAYED: u8 = 2;

pub(crate) struct VlbOpen {
    node: Arc<Node>,
    windows: Windows,
}

impl Element for VlbOpen {
    const CLASS: &'static str = "VLBOpen";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);
    const NEEDS: &'static [Facts] = &[Facts::ETHER];
    const DROPS: &'static [&'static str] = &["malformed", "forged", "replayed"];

    type Config = Member;

    fn configure(args: &mut Args) -> Member {
        Member::named(args).0
    }

    fn new(member: &Arc<Member>, init: &Init) -> VlbOpen {
        VlbOpen {
            node: member.node(init),
            windows: Windows::default(),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let Some(key) = &self.node.key else {
            return Verdict::ON;
        };
        let Some(head) = packet.data().first_chunk::<ETHER_LEN>() else {
            return Verdict::drop(MALFORMED);
        };
        if is_heartbeat(head) {
            return Verdict::ON;
        }
        let Ok(tag) = Tag::parse(packet.data(), Some(key)) else {
            return Verdict::drop(FORGED);
        };
        if !self.windows.take(tag.link) {
            return Verdict::drop(REPLAYED);
        }
        if self.node.resequence.is_some() {
            Tag { link: 0, ..tag }.write(packet.data_mut(), None);
            return Verdict::ON;
        }
        packet.data_mut().copy_within(..LEN, ADDED);
        // Who has a tag is longer than it.
        let _ = packet.pull(ADDED);
        packet.set_mac_here();
        Verdict::ON
    }

    fn take(&mut self, old: VlbOpen) {
        self.windows = old.windows;
    }
}

#[cfg(test)]
mod tests {
    use cluster::address::{Address, Kind, NO_NODE, cookie};
    use cluster::tag::{ADDED, ETHERTYPE, PACKET};
    use testkit::Bench;

    const KEY: &str = ", KEY 000102030405060708090a0b0c0d0e0f";

    /// What node a seals by `s` comes to `sealed`; what node b opens by `o` comes to `out`.
    fn bench(a: &str, b: &str) -> Bench {
        let node = |node: &str, more: &str| {
            format!("{node} :: VLBNode(NODE {node}, NODES a 1Gbps b 1Gbps, LINKS a-b{more});")
        };
        let text = "s :: VLBSeal(a) -> sealed :: Collect; o :: VLBOpen(b) -> out :: Collect";
        let text = [&node("a", a), &node("b", b), text].concat();
        Bench::new(crate::CLASSES, &text)
    }

    fn frame(kind: Kind, number: u8) -> Vec<u8> {
        let address = Address {
            kind,
            hops: 15,
            node: 1,
            port: 0,
            gateway: 0,
            input: 0,
            via: NO_NODE,
            cookie: cookie("cluster"),
        };
        let mut frame = address.bytes().to_vec();
        frame.extend([0x08, 0x00]);
        frame.extend([number; 50]);
        frame
    }

    fn frames(kind: Kind) -> Vec<Vec<u8>> {
        (0..20).map(|number| frame(kind, number)).collect()
    }

    #[test]
    fn what_is_sealed_is_let_in_once_as_it_was() {
        let mut bench = bench(KEY, KEY);
        let sent = frames(Kind::Data);
        bench.push("s", &sent);
        let sealed = bench.take("sealed");
        for (sealed, sent) in sealed.iter().zip(&sent) {
            assert_eq!(sealed.len(), sent.len() + ADDED);
            assert_eq!(sealed[12..14], ETHERTYPE.to_be_bytes());
        }
        bench.push("o", &sealed);
        assert_eq!(bench.take("out"), sent);
        bench.push("o", &sealed);
        assert_eq!(bench.take("out"), Vec::<Vec<u8>>::new());
        assert_eq!(bench.drops("o", "replayed"), 20);
    }

    #[test]
    fn what_the_key_did_not_seal_is_forged() {
        let mut bench = bench(KEY, KEY);
        bench.push("s", &frames(Kind::Data));
        let mut changed = bench.take("sealed");
        for (at, frame) in changed.iter_mut().enumerate() {
            frame[at * (PACKET + 40) / 20] ^= 1;
        }
        bench.push("o", &changed);
        bench.push("o", &frames(Kind::Data));
        assert_eq!(bench.drops("o", "forged"), 40);
        bench.push("o", &[[0; 13]]);
        assert_eq!(bench.drops("o", "malformed"), 1);
        assert_eq!(bench.take("out"), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn the_numbers_for_a_resequencer_stay() {
        let more = format!("{KEY}, RESEQUENCE 2ms");
        let mut bench = bench(&more, &more);
        let tag = cluster::tag::Tag {
            link: 0,
            flow: 7,
            sequence: 8,
            ethertype: 0x0800,
        };
        let mut tagged = frame(Kind::Data, 1);
        tag.write(&mut tagged, None);
        bench.push("s", &[&tagged]);
        let sealed = bench.take("sealed");
        assert_eq!(sealed[0].len(), tagged.len());
        assert_ne!(sealed[0], tagged);
        bench.push("o", &sealed);
        assert_eq!(bench.take("out"), [tagged]);
    }

    #[test]
    fn heartbeats_and_frames_of_a_cluster_without_a_key_pass() {
        for (key, kind) in [(KEY, Kind::Heartbeat), ("", Kind::Data)] {
            let mut bench = bench(key, key);
            bench.push("s", &frames(kind));
            let sealed = bench.take("sealed");
            assert_eq!(sealed, frames(kind));
            bench.push("o", &sealed);
            assert_eq!(bench.take("out"), sealed);
        }
    }
}
