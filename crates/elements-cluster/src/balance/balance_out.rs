//! Sends frames of back ends by the front port of their next hop.
//!
//! ```click
//! lb :: BalancePool(r1 02:00:00:00:00:01, OWN 10.0.1.1);
//! out :: BalanceOut(FRONT 02:00:00:00:01:01 02:00:00:00:01:02, BACK 02:00:00:00:01:03);
//! FromDevice(eth0) -> in :: BalanceIn(lb, 02:00:00:00:01:01, OUT out) -> ToDevice(null:);
//! in[1] -> Discard;
//! FromDevice(eth1) -> out;
//! out[0] -> ToDevice(null:); out[1] -> ToDevice(null:); out[2] -> Discard;
//! ```
//!
//! A frame leaves by the front port of its destination, with the router's Ethernet address there as its source: to
//! stations outside, the router has one address on each port. BalanceIn learns the port of each station. A frame for
//! an unknown station, and a multicast or broadcast frame, is copied to all front ports (counter `copies`).
//!
//! The last output gets ARP, neighbour discovery, and frames for BACK.
//!
//! With POOL, multicast and broadcast frames leave only if they come from the back end that speaks for the router.
//! Other back ends may run the same routing daemons and be ready to take its place: their hellos are dropped
//! (`not_speaker`).
//!
//! The table has room for CAPACITY stations in sets of four. A station that was silent for TIMEOUT is removed. If its
//! set is full, a new station replaces one that was silent for TIMEOUT, or else one that no back end has sent to. If
//! there is none, it is not learnt (BalanceIn's `not_learnt`), and frames to it are copied.
//!
//! Keyword arguments:
//!
//! - `FRONT`: the router's Ethernet address on each front port.
//! - `BACK`: the balancer's Ethernet addresses on its back ports, and those of other stations there. A switch may
//!   flood frames for these: they leave by the last output.
//! - `POOL`: the BalancePool with the back ends. Default: multicast and broadcast frames of any sender leave.
//! - `TIMEOUT`: default 300 s.
//! - `CAPACITY`: default 4096.

use super::shared::Shared;
use super::stations::{Stations, tick};
use super::ways::Ways;
use super::{FRONTS_MAX, Head, Peer, arrived, is_discovery};
use crate::prelude::*;
use crate::sides::{Sides, Step};
use arguments::units::FromArg;
use elements::switch::hub::no_buffer;
use engine::element::Annotates;
use std::fmt::Write;
use std::time::Duration;
use wire::{EtherAddr, ether};

drops! {
    SHORT = "short",
    NO_FRONT = "no_front",
    NOT_SPEAKER = "not_speaker",
}

/// Table of senders, shared with BalanceIn, which adds to it.
pub(crate) struct Out {
    fronts: Vec<EtherAddr>,
    backs: Vec<EtherAddr>,
    pool: Peer,
    pub(super) stations: Stations,
}

impl Out {
    /// True if the address belongs to the balancer.
    pub(super) fn is_own(&self, station: EtherAddr) -> bool {
        self.fronts.contains(&station) || self.backs.contains(&station)
    }
}

pub(super) struct BalanceOut {
    back: Back,
    sides: Sides,
    /// For each output, true if packets must get annotations when they leave.
    annotates: Box<[bool]>,
}

/// Per-worker state for packets from back ends to front ports.
struct Back {
    out: Arc<Out>,
    shared: Option<Arc<Shared>>,
    /// Number of connected front ports.
    fronts: usize,
    /// True if the element has an output for frames to the balancer itself.
    has_rest: bool,
    ways: Ways,
    /// Copies of flooded packets, with their front ports.
    twins: Vec<(usize, Packet)>,
    copies: u64,
    no_buffer: u64,
}

/// Parses a list of Ethernet addresses. Errors are recorded in `args`.
fn list(args: &mut Args, name: &'static str, doc: &'static str) -> Vec<EtherAddr> {
    let text: Option<String> = args.key_maybe(name, doc);
    let mut all = Vec::new();
    for word in text.iter().flat_map(|text| text.split_whitespace()) {
        match EtherAddr::from_arg(word, args.names()) {
            Ok(address) => all.push(address),
            Err(_) if args.names().has_mistake(word) => {}
            Err(wrong) => args.error_in_whole(
                format!("{name}: {wrong}"),
                "write an Ethernet address for each port, or DEVICE:eth",
            ),
        }
    }
    all
}

impl Element for BalanceOut {
    const CONTRACT: Contract = Contract::new("BalanceOut", manual!())
        .ports(Ports::coded(&["in"], &["front+"], "h/h"))
        .needs(&[Facts::ETHER])
        .drops(DROPS)
        .extensions(&[&Annotates])
        .carries_super_frames()
        .ignores_annotations();

    type Config = Out;

    fn configure(args: &mut Args) -> Out {
        let fronts = list(args, "FRONT", "the router's address on each front port");
        let backs = list(
            args,
            "BACK",
            "addresses of the back ports and of stations behind",
        );
        let pool: Option<String> =
            args.key_maybe("POOL", "the BalancePool that knows the back ends");
        let pool = pool.map(|name| Peer::named(args, &name, "BalancePool"));
        let timeout = args.key(
            "TIMEOUT",
            Duration::from_secs(300),
            "time for which a silent station is known",
        );
        let capacity = args.capacity("CAPACITY", 4096, "stations in the table");
        if fronts.len() > FRONTS_MAX {
            args.error_in_whole(
                format!("there are more than {FRONTS_MAX} front ports"),
                "let several balancers share them",
            );
        }
        Out {
            fronts,
            backs,
            pool: pool.unwrap_or_default(),
            stations: Stations::new(
                capacity,
                u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX),
            ),
        }
    }

    fn new(config: &Arc<Out>, init: &Init) -> BalanceOut {
        BalanceOut {
            sides: Sides::new(init.outputs),
            annotates: (0..init.outputs).map(|out| init.annotates(out)).collect(),
            back: Back {
                fronts: config.fronts.len().min(init.outputs),
                has_rest: init.outputs > config.fronts.len(),
                shared: config.pool.find(init),
                out: Arc::clone(config),
                ways: Ways::new(),
                twins: Vec::new(),
                copies: 0,
                no_buffer: 0,
            },
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let now = tick(cx.now().0);
        let (back, annotates) = (&mut self.back, &self.annotates);
        back.ways.follow(now, back.out.stations.version());
        let leave = |output, batch: &mut Batch, cx: &Cx| arrived(annotates, output, batch, cx);
        let each = Batch::iter_of_same_length;
        self.sides.part(batch, each, cx, Send { back, now }, leave);
        for (front, twin) in self.back.twins.drain(..) {
            cx.emit(front, twin);
        }
    }

    fn inherit(config: &mut Out, old: &Out) {
        // Front port numbers keep their meaning only if the old ports are the first of the new ones.
        if config.fronts.starts_with(&old.fronts) {
            config.stations.follow(&old.stations, old.fronts.len());
        }
    }

    fn take(&mut self, old: BalanceOut) {
        self.back.no_buffer = old.back.no_buffer;
    }

    const HANDLERS: &'static [Handler<BalanceOut>] = &[
        Handler::shared(
            "stations",
            "a line per station: Ethernet address, front port, seconds since it was heard",
            |out: &Out, _| Ok(show(out)),
        ),
        counter!(
            "copies",
            "copies made of frames for groups and unknown stations",
            back.copies
        ),
        no_buffer(|e| e.back.no_buffer),
    ];
}

/// Text form of recently heard hosts, one per line. The timeout counts back from the most recently heard host.
fn show(out: &Out) -> String {
    let newest = out.stations.newest();
    let mut text = String::new();
    for (station, front, age) in out.stations.all(newest) {
        let _ = writeln!(text, "{station} {front} {age:.0}");
    }
    text
}

/// Batch step: sends frames to their front ports. `now` is in ticks.
struct Send<'a> {
    back: &'a mut Back,
    now: u32,
}

impl Step for Send<'_> {
    #[inline(always)]
    fn fast(&mut self, packet: &mut Packet, _: &Cx) -> Option<Verdict> {
        self.back.ways.send(packet.data_mut())
    }

    fn slow(&mut self, packet: &mut Packet, _: &Cx) -> Verdict {
        self.back.send(packet, self.now)
    }
}

impl Back {
    #[inline(never)] // so that the loop over a batch has its registers
    fn send(&mut self, packet: &mut Packet, now: u32) -> Verdict {
        let Some(&bytes) = packet.data().first_chunk() else {
            return Verdict::drop(SHORT);
        };
        let head = Head::new(&bytes);
        if head.kind != ether::IPV4 && is_control(&head, packet) {
            return self.other_frame();
        }
        match self.out.stations.front(head.to, now).map(usize::from) {
            Some(front) if front < self.fronts => {
                let (source, verdict) = (self.out.fronts[front], Verdict::out(front as u8));
                set_source(packet, source);
                self.ways.note(&bytes, source, verdict);
                verdict
            }
            _ => self.flood(packet, &head),
        }
    }

    /// True if a back end may not send group frames outside, because it is not the speaker.
    fn is_muted(&self, station: EtherAddr) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| shared.at(station) != Some(shared.pool.speaker()))
    }

    fn other_frame(&self) -> Verdict {
        match self.has_rest {
            true => Verdict::out(self.out.fronts.len() as u8),
            false => Verdict::drop(NO_FRONT),
        }
    }

    #[cold]
    fn flood(&mut self, packet: &mut Packet, head: &Head) -> Verdict {
        if self.out.is_own(EtherAddr::from_u64(head.to)) {
            return self.other_frame();
        }
        if head.is_for_group() && self.is_muted(EtherAddr::from_u64(head.from)) {
            return Verdict::drop(NOT_SPEAKER);
        }
        let Some(last) = self.fronts.checked_sub(1) else {
            return Verdict::drop(NO_FRONT);
        };
        for front in 0..last {
            match packet.copy() {
                Some(mut copy) => {
                    self.copies += 1;
                    set_source(&mut copy, self.out.fronts[front]);
                    self.twins.push((front, copy));
                }
                None => self.no_buffer += 1,
            }
        }
        set_source(packet, self.out.fronts[last]);
        Verdict::out(last as u8)
    }
}

/// True if a non-IPv4 frame is handled by BalanceARP or BalanceND.
fn is_control(head: &Head, packet: &Packet) -> bool {
    match head.kind {
        ether::ARP => true,
        ether::IPV6 => is_discovery(&packet.data()[ether::LEN..]),
        _ => false,
    }
}

#[inline]
fn set_source(packet: &mut Packet, ether: EtherAddr) {
    if let Some(addresses) = packet.data_mut().first_chunk_mut::<12>() {
        addresses[6..].copy_from_slice(&ether.0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::{Bench, ip4};

    const TEXT: &str = "lb :: BalancePool(r1 2:0:0:0:0:1);
        out :: BalanceOut(FRONT 2:0:0:0:1:1 2:0:0:0:1:2, BACK 2:0:0:0:1:3, TIMEOUT 60);
        in0 :: BalanceIn(lb, 2:0:0:0:1:1, OUT out, FRONT 0) -> back :: Collect; in0[1] -> arp0 :: Collect;
        in1 :: BalanceIn(lb, 2:0:0:0:1:2, OUT out, FRONT 1) -> back; in1[1] -> arp0;
        out[0] -> front0 :: Collect; out[1] -> front1 :: Collect; out[2] -> own :: Collect";

    const A: &str = "2:0:0:0:9:a";
    const B: &str = "2:0:0:0:9:b";

    fn frame(src: &str, dst: &str) -> Vec<u8> {
        ip4().ether(src, dst).udp(1, 2).bytes()
    }

    /// Frames that left by each front port and by the last output.
    fn ways(bench: &mut Bench, dst: &str) -> [usize; 3] {
        bench.push("out", &[frame("2:0:0:0:0:1", dst)]);
        ["front0", "front1", "own"].map(|out| bench.take(out).len())
    }

    #[test]
    fn frames_leave_where_their_station_was_heard_with_the_address_of_that_port() {
        let mut bench = Bench::new(crate::with_basics(), TEXT);
        bench.push("in0", &[frame(A, "2:0:0:0:1:1")]);
        bench.push("in1", &[frame(B, "2:0:0:0:1:2")]);
        bench.push("out", &[frame("2:0:0:0:0:1", A), frame("2:0:0:0:0:1", B)]);
        assert_eq!(bench.take("front0"), [frame("2:0:0:0:1:1", A)]);
        assert_eq!(bench.take("front1"), [frame("2:0:0:0:1:2", B)]);
        assert_eq!(
            bench.read("out.stations"),
            "02:00:00:00:09:0a 0 0\n02:00:00:00:09:0b 1 0\n"
        );
        // A station that has moved is learnt at its new port.
        bench.advance(Duration::from_secs(2));
        bench.push("in1", &[frame(A, "2:0:0:0:1:2")]);
        assert_eq!(ways(&mut bench, A), [0, 1, 0]);
    }

    #[test]
    fn groups_and_unknown_stations_are_copied_to_all_front_ports_once() {
        let mut bench = Bench::new(crate::with_basics(), TEXT);
        assert_eq!(ways(&mut bench, A), [1, 1, 0]);
        bench.push("out", &[frame("2:0:0:0:0:1", "1:0:5e:0:0:5")]);
        assert_eq!(bench.take("front0"), [frame("2:0:0:0:1:1", "1:0:5e:0:0:5")]);
        assert_eq!(bench.take("front1"), [frame("2:0:0:0:1:2", "1:0:5e:0:0:5")]);
        assert_eq!(bench.read("out.copies"), "2");
        assert!(
            bench.take("back").is_empty(),
            "nothing goes back where it came from"
        );
    }

    #[test]
    fn groups_receive_only_frames_of_the_speaker() {
        let text = TEXT
            .replace(
                "r1 2:0:0:0:0:1",
                "r1 2:0:0:0:0:1, r2 2:0:0:0:0:2, SPEAKER r1 r2",
            )
            .replace("TIMEOUT 60", "POOL lb");
        let mut bench = Bench::new(crate::with_basics(), &text);
        let hello = |of: &str| frame(of, "1:0:5e:0:0:5");
        let hellos = |bench: &mut Bench| {
            bench.push(
                "out",
                &["2:0:0:0:0:1", "2:0:0:0:0:2", "2:0:0:0:9:9"].map(hello),
            );
            bench.take("front1");
            bench.take("front0").len()
        };
        assert_eq!(hellos(&mut bench), 1);
        assert_eq!(bench.drops("out", "not_speaker"), 2);
        // The other back end becomes the speaker, and the first one is muted.
        bench.write("lb.drain", "r1 0s");
        bench.advance(Duration::from_millis(200));
        bench.push("out", &[hello("2:0:0:0:0:1")]);
        assert!(bench.take("front0").is_empty());
        bench.push("out", &[hello("2:0:0:0:0:2")]);
        assert_eq!(bench.take("front0").len(), 1);
        // Frames for an unknown station leave, whatever their sender.
        bench.push("out", &[frame("2:0:0:0:0:1", A)]);
        assert_eq!(bench.take("front0").len(), 1);
    }

    #[test]
    fn stations_are_forgotten_and_told_of_again() {
        let mut bench = Bench::new(crate::with_basics(), TEXT);
        for _ in 0..3 {
            bench.push("in0", &[frame(A, "2:0:0:0:1:1")]);
            assert_eq!(ways(&mut bench, A), [1, 0, 0]);
            bench.advance(Duration::from_secs(50));
        }
        assert_eq!(ways(&mut bench, A), [1, 0, 0]);
        bench.advance(Duration::from_secs(20));
        assert_eq!(ways(&mut bench, A), [1, 1, 0]);
    }

    #[test]
    fn arp_and_frames_to_the_balancer_leave_by_the_last_output() {
        let mut bench = Bench::new(crate::with_basics(), TEXT);
        assert_eq!(ways(&mut bench, "2:0:0:0:1:3"), [0, 0, 1]);
        bench.push(
            "out",
            &[
                testkit::arp_request("2:0:0:0:0:1", "10.0.0.1", "10.0.0.2"),
                b"short".to_vec(),
            ],
        );
        assert_eq!(bench.take("own").len(), 1);
        assert_eq!(bench.drops("out", "short"), 1);
    }

    #[test]
    fn a_reload_keeps_stations_if_front_ports_keep_their_numbers() {
        let mut bench = Bench::new(crate::with_basics(), TEXT);
        bench.push("in1", &[frame(B, "2:0:0:0:1:2")]);
        bench
            .reload(&TEXT.replace("TIMEOUT 60", "TIMEOUT 61"))
            .expect("it is right");
        assert_eq!(ways(&mut bench, B), [0, 1, 0]);
        let turned = TEXT.replace(
            "FRONT 2:0:0:0:1:1 2:0:0:0:1:2",
            "FRONT 2:0:0:0:1:2 2:0:0:0:1:1",
        );
        bench.reload(&turned).expect("it is right");
        assert_eq!(ways(&mut bench, B), [1, 1, 0]);
    }
}
