//! Restores the order of packets that crossed the cluster on different paths.
//!
//! ```click
//! vlb :: VLBNode(NODE a, NODES a 10Gbps b 10Gbps, LINKS a-b, RESEQUENCE 2ms);
//! FromDevice(null:64) -> t :: VLBTransit(vlb) -> ToDevice(null:);
//! t[1] -> VLBResequencer(vlb) -> out :: VLBOutput(vlb) -> Discard;
//! out[1] -> Discard; t[2] -> Discard;
//! ```
//!
//! With VLBNode's RESEQUENCE, input nodes number the packets of each flow (more exactly: of all flows whose hashes
//! agree in 12 bits) in a tag of 30 bytes after the addresses. This element removes the tag. A packet that has
//! overtaken others waits until they have arrived, but not longer than RESEQUENCE. So nothing is reordered if the
//! delays of a flow's paths differ by less than RESEQUENCE. The first packet of a new flow always waits, because it
//! may have overtaken others. Each worker of the input node has its own numbers; up to 16 workers are supported, in
//! one VLBInput.
//!
//! Put it between VLBTransit and VLBOutput of every node. Internal links need an MTU that is 30 bytes larger
//! than that of external ports. Frames without a tag pass. A frame is dropped if it is too short for its tag
//! (`malformed`) or if its tag still has a code, which VLBTransit checks and removes (`forged`).
//!
//! Arguments:
//!
//! - `VLB`: the VLBNode that it belongs to.
//!
//! Keyword arguments:
//!
//! - `CAPACITY`: packets that wait at a time; if there is no room for a packet, all waiting packets of its flow
//!   go on at once. Default 4096.

use super::{ETHER_LEN, Member, tagged};
use crate::prelude::*;
use cluster::address::LEN;
use cluster::resequencer::{Bounds, Counts, Resequencer};
use cluster::tag::{Bad, ETHERTYPE, Tag};
use engine::clock::Time;
use std::time::Duration;

drops! {
    MALFORMED = "malformed",
    FORGED = "forged",
}

pub(crate) struct Config {
    bounds: Bounds,
}

pub(crate) struct VlbResequencer {
    waiting: Resequencer<Packet>,
}

impl Element for VlbResequencer {
    const CONTRACT: Contract = Contract::new("VLBResequencer", manual!())
        .ports(Ports::coded(&["in"], &["out"], "h/h"))
        .needs(&[Facts::ETHER])
        .gives(&[Facts::ETHER])
        .drops(DROPS)
        .copies(Copies::Owner);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let (_, described) = Member::named(args);
        let capacity = args.capacity("CAPACITY", 4096, "packets that wait at a time");
        let wait = match &described {
            Some(described) => described.resequence,
            None => Some(Duration::ZERO),
        };
        if wait.is_none() {
            args.error_in_whole(
                "its VLBNode has no RESEQUENCE, so packets have no numbers",
                "give VLBNode the time that packets may wait: RESEQUENCE 2ms",
            );
        }
        let wait = wait.unwrap_or_default().as_nanos();
        Config {
            bounds: Bounds {
                wait: u64::try_from(wait).unwrap_or(u64::MAX),
                capacity,
            },
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> VlbResequencer {
        VlbResequencer {
            waiting: Resequencer::new(config.bounds),
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let mut came = cx.spare();
        std::mem::swap(&mut came, batch);
        let now = cx.now().0;
        for mut packet in came.drain() {
            let frame = packet.data();
            if frame.get(LEN..ETHER_LEN) != Some(&ETHERTYPE.to_be_bytes()) {
                batch.push(packet);
                continue;
            }
            match Tag::read(frame) {
                Ok(tag) => {
                    let input = u16::from_be_bytes([frame[7], frame[8]]);
                    tagged::remove(&mut packet);
                    let place = (tag.flow, tag.sequence);
                    let mut out = |packet| batch.push(packet);
                    self.waiting.take(now, input, place, packet, &mut out);
                }
                Err(Bad::Malformed) => cx.drop(packet, MALFORMED),
                Err(Bad::Forged) => cx.drop(packet, FORGED),
            }
        }
        cx.keep_spare(came);
        self.wait(cx);
    }

    fn timer(&mut self, cx: &mut Cx) {
        let mut batch = cx.spare();
        self.waiting
            .tick(cx.now().0, &mut |packet| batch.push(packet));
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        self.wait(cx);
    }

    fn held(&self) -> usize {
        self.waiting.held()
    }

    fn take(&mut self, old: VlbResequencer) {
        let bounds = self.waiting.bounds();
        self.waiting = old.waiting;
        self.waiting.set_bounds(bounds);
    }

    fn start(&mut self, cx: &mut Cx) {
        // The previous graph may have left packets.
        self.wait(cx);
    }

    const HANDLERS: &'static [Handler<VlbResequencer>] = &[
        Handler::sum("in_order", "packets that came in order", |r| {
            r.counts().in_order
        }),
        Handler::sum("waited", "packets that waited for others", |r| {
            r.counts().held
        }),
        Handler::sum("late", "packets that came too late", |r| r.counts().late),
        Handler::sum("missed", "packet numbers that never came in time", |r| {
            r.counts().missed
        }),
        Handler::sum("length", "packets that wait", |r| r.waiting.held() as u64),
    ];
}

impl VlbResequencer {
    fn counts(&self) -> &Counts {
        self.waiting.counts()
    }

    fn wait(&self, cx: &mut Cx) {
        if let Some(due) = self.waiting.due() {
            cx.set_timer(Time(due));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::{Bench, errors, ip4};

    const NODES: &str = "NAME t, NODES a 1Gbps b 1Gbps, LINKS a-b, RESEQUENCE 2ms";

    /// Packets as node a tags them.
    fn tagged(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let text = format!(
            "vlb :: VLBNode(NODE a, {NODES}); c :: CheckIPHeader -> VLBInput(vlb, b/0) -> out :: Collect;"
        );
        let mut bench = Bench::new(crate::with_basics(), &text);
        bench.push("c", packets);
        bench.take("out")
    }

    fn bench() -> Bench {
        let text = format!(
            "vlb :: VLBNode(NODE b, {NODES}); links :: Null -> t :: VLBTransit(vlb) -> Discard; t[2] -> Discard;
             t[1] -> r :: VLBResequencer(vlb) -> o :: VLBOutput(vlb) -> out :: Collect; o[1] -> Discard;"
        );
        Bench::new(crate::with_basics(), &text)
    }

    fn packets(n: u32) -> Vec<Vec<u8>> {
        let packet = |n| ip4().udp(1, 2).ident(n).bytes();
        (0..n).map(packet).collect()
    }

    #[test]
    fn packets_leave_in_the_order_in_which_they_entered_and_as_they_were() {
        let (sent, mut bench) = (packets(8), bench());
        let mut frames = tagged(&sent);
        assert_eq!(frames[0].len(), sent[0].len() + 44);
        bench.push("links", &frames[..1]);
        bench.advance(Duration::from_millis(3));
        assert_eq!(bench.take("out").len(), 1);
        frames[1..].reverse();
        bench.push("links", &frames[1..]);
        assert!(bench.take("out") == sent[1..]);
        assert_eq!(bench.read("r.waited"), "7");
    }

    #[test]
    fn missing_packets_are_awaited_up_to_the_limit() {
        let (sent, mut bench) = (packets(4), bench());
        let frames = tagged(&sent);
        bench.push("links", &frames[..1]);
        bench.advance(Duration::from_millis(2));
        bench.take("out");
        bench.push("links", &frames[2..]);
        bench.advance(Duration::from_micros(1990));
        assert_eq!(
            (bench.take("out").len(), bench.read("r.length")),
            (0, "2".into())
        );
        bench.advance(Duration::from_micros(10));
        assert!(bench.take("out") == sent[2..]);
        bench.push("links", &frames[1..2]);
        assert!(bench.take("out") == sent[1..2]);
        let counts = ["late", "missed"].map(|name| bench.read(&format!("r.{name}")));
        assert_eq!(counts, ["1", "1"]);
    }

    #[test]
    fn bad_tags_are_dropped_by_name() {
        let mut bench = bench();
        let mut frames = tagged(&packets(2));
        frames[0][20] ^= 1;
        frames[1].truncate(43);
        bench.push("links", &frames);
        assert_eq!(bench.drops("r", "forged"), 1);
        assert_eq!(bench.drops("r", "malformed"), 1);
    }

    #[test]
    fn a_reload_keeps_waiting_packets() {
        let (sent, mut bench) = (packets(3), bench());
        let frames = tagged(&sent);
        bench.push("links", &frames[..1]);
        let text = format!(
            "vlb :: VLBNode(NODE b, {}); links :: Null -> t :: VLBTransit(vlb) -> Discard; t[2] -> Discard;
             t[1] -> r :: VLBResequencer(vlb) -> o :: VLBOutput(vlb) -> out :: Collect; o[1] -> Discard;",
            NODES.replace("2ms", "1ms")
        );
        bench.reload(&text).expect("it is right");
        assert_eq!(bench.read("r.length"), "1");
        bench.advance(Duration::from_millis(2));
        assert!(bench.take("out") == sent[..1]);
    }

    #[test]
    fn without_numbers_there_is_no_order() {
        let text = "vlb :: VLBNode(NODE a, NODES a 1Gbps b 1Gbps, LINKS a-b);
            Idle -> EtherEncap(1, 1:0:0:0:0:1, 1:0:0:0:0:1) -> VLBResequencer(vlb) -> Discard;";
        let all = errors(crate::with_basics(), text);
        assert!(all.contains("has no RESEQUENCE"), "{all}");
    }
}
