//! Classes with a fast path for common packets and a general path for all: both give the same results.

use crate::{Bench, Rng};
use engine::packet::anno::PacketType;
use engine::prelude::*;
use std::net::Ipv6Addr;
use wire::Ipv4;

/// An element that tries its fast path first, or uses its general path alone.
pub struct FastOrSlow<E: Fuse, const FAST: bool> {
    element: E,
    config: Arc<E::Config>,
    /// Number of packets that the fast path handled.
    known: u64,
}

impl<E: Fuse, const FAST: bool> Element for FastOrSlow<E, FAST> {
    const CONTRACT: Contract = Contract::new(E::CONTRACT.name, E::CONTRACT.source)
        .ports(E::CONTRACT.ports)
        .drops(E::CONTRACT.drops);

    type Config = E::Config;

    fn configure(args: &mut Args) -> E::Config {
        E::configure(args)
    }

    fn new(config: &Arc<E::Config>, init: &Init) -> Self {
        FastOrSlow {
            element: E::new(config, init),
            config: Arc::clone(config),
            known: 0,
        }
    }

    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        if FAST && let Some(verdict) = self.element.fast(cx)(packet) {
            self.known += 1;
            return verdict;
        }
        self.element.slow(packet, cx)
    }

    const HANDLERS: &'static [Handler<Self>] = &[
        Handler::sum("known", "packets of which the fast path knew", |e| e.known),
        Handler::text("counts", "what the class's own handlers say", |e, _| {
            let read = |h: &Handler<E>| h.run_read(&e.element, &e.config, "").ok();
            let all: Vec<String> = E::HANDLERS.iter().filter_map(read).collect();
            Ok(all.join("\n"))
        }),
    ];
}

/// Address of the station that a packet is for.
pub const ME: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Address of another station.
pub const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 9];
const STATIONS: [[u8; 6]; 5] = [ME, ME, OTHER, [0xff; 6], [1, 0, 0x5e, 0, 0, 5]];

/// Valid addresses, those of interfaces and their broadcasts, listed ones, and invalid ones.
const ADDRESSES: [[u8; 4]; 12] = [
    [20, 0, 0, 1],
    [20, 0, 0, 2],
    [223, 255, 255, 255],
    [10, 0, 0, 1],
    [10, 0, 0, 255],
    [10, 0, 0, 0],
    [30, 0, 0, 1],
    [127, 0, 0, 1],
    [224, 0, 0, 5],
    [240, 0, 0, 1],
    [255, 255, 255, 255],
    [0, 1, 2, 3],
];

/// No option, a record route that is full or bad, source routes, an unknown option.
const OPTIONS: [[u8; 4]; 6] = [
    [1, 1, 1, 0],
    [7, 3, 4, 0],
    [7, 3, 2, 0],
    [131, 3, 4, 0],
    [137, 3, 4, 0],
    [99, 4, 0, 0],
];

/// Writes random headers, some of them with mistakes.
fn write_header(header: &mut [u8], rng: &mut Rng) {
    let len = header.len();
    header[0] = *rng.pick(&[0x45, 0x45, 0x45, 0x45, 0x46, 0x4a, 0x44, 0x65]);
    let total = match rng.below(8) {
        0 => rng.below(21),
        1 => len + 1,
        2..5 => len - rng.below(3),
        _ => len,
    };
    header[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    header[6] = *rng.pick(&[0, 17, 64]); // of IPv6 the next header
    header[8] = *rng.pick(&[0, 1, 2, 64]);
    header[12..16].copy_from_slice(&rng.pick(&ADDRESSES)[..]);
    header[16..20].copy_from_slice(&rng.pick(&ADDRESSES)[..]);
    if let Some(options) = header.get_mut(20..24) {
        options.copy_from_slice(&rng.pick(&OPTIONS)[..]);
    }
    let header_len = usize::from(header[0] & 0xf) * 4;
    if !rng.one_in(4) && (20..=len).contains(&header_len) {
        Ipv4::new_unchecked(header).fill_checksum();
    }
}

/// Good addresses and invalid ones.
const ADDRESSES6: [&str; 9] = [
    "2001:db8::1",
    "2001:db8::2",
    "fe80::1",
    "ff02::5",
    "ff01::1",
    "ff0e::9",
    "::",
    "::1",
    "::ffff:1.2.3.4",
];

/// Writes random IPv6 headers, some of them with mistakes.
fn write_header6(header: &mut [u8], rng: &mut Rng) {
    let payload = header.len() - 40;
    header[0] = *rng.pick(&[0x60, 0x60, 0x60, 0x6f, 0x45]);
    let length = match rng.below(6) {
        0 => payload + 1,
        1..3 => payload.saturating_sub(3),
        _ => payload,
    };
    header[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    header[6] = *rng.pick(&[0, 17, 59]);
    header[7] = *rng.pick(&[0, 1, 2, 64]);
    for at in [8, 24] {
        let address: Ipv6Addr = match rng.one_in(2) {
            true => *rng.pick(&ADDRESSES6),
            false => "2001:db8::77",
        }
        .parse()
        .expect("an address");
        header[at..at + 16].copy_from_slice(&address.octets());
    }
}

/// A packet that mostly has a header at some offset. The network offset may be right, wrong or unset.
fn packet(rng: &mut Rng) -> Packet {
    let (len, odd) = (rng.below(81).max(rng.below(81)), rng.below(20));
    let mut bytes = rng.bytes(len);
    let at = *rng.pick(&[0, 0, 0, 14, 14, odd]);
    if let Some(header) = bytes.get_mut(at..).filter(|header| header.len() >= 20) {
        match header.len() >= 40 && rng.one_in(2) {
            true => write_header6(header, rng),
            false => write_header(header, rng),
        }
    }
    if len >= 14 && rng.one_in(8) {
        bytes[12..14].copy_from_slice(&[0x81, 0]);
    }
    if len >= 12 && (at >= 12 || rng.one_in(4)) {
        bytes[..6].copy_from_slice(&rng.pick(&STATIONS)[..]);
        bytes[6..12].copy_from_slice(&rng.pick(&STATIONS)[..]);
    }
    let mut packet = Packet::from_bytes(&bytes).expect("it fits");
    match rng.below(8) {
        0 => {}
        1 => packet.set_network_offset(len + rng.below(3)),
        2 => {
            packet.set_network_offset(at);
            assert!(packet.pull(rng.below(len + 1)));
        }
        _ => packet.set_network_offset(at),
    }
    let anno = packet.anno_mut();
    anno.paint = *rng.pick(&[0, 7, 8]);
    anno.packet_type = *rng.pick(&[PacketType::Host, PacketType::OtherHost]);
    anno.set_dst4(*rng.pick(&ADDRESSES));
    packet
}

/// Checks that elements treat packets alike with and without the fast path: output, drops by name, and answers of
/// handlers. `classes` are the same classes as [`FastOrSlow`] with and without it; `prepare` sets what the elements
/// need, `vary` sets further annotations of a packet.
pub fn both_paths_agree(
    classes: [&'static [Class]; 2],
    elements: &[&str],
    prepare: impl Fn(&mut Bench),
    vary: impl Fn(&mut Packet, &mut Rng),
) {
    let (mut rng, mut known, mut asked) = (Rng::seed(17), 0, 0);
    for element in elements {
        let name = element.split('(').next();
        let class = classes[0].iter().find(|class| Some(class.name) == name);
        let names = class.expect("it is listed").ports.outputs;
        for outputs in [Ports::range(names).0, names.len()] {
            let collect = |port| format!("e[{port}] -> o{port} :: Collect;");
            let sinks: String = (0..outputs).map(collect).collect();
            let text = format!("e :: {element}; {sinks}");
            let mut both = classes.map(|list| Bench::new(&[list], &text));
            both.iter_mut().for_each(&prepare);
            for n in 0..2000 {
                let made = |rng: &mut Rng| {
                    let mut packet = packet(rng);
                    vary(&mut packet, rng);
                    packet
                };
                let made = [made(&mut rng.clone()), made(&mut rng)];
                let shown = made[0].data().to_vec();
                for (bench, packet) in both.iter_mut().zip(made) {
                    bench.push_packets("e", 0, [packet].into_iter().collect());
                }
                let [fast, slow] = both.each_mut().map(|bench| {
                    let sent = (0..outputs).map(|port| bench.take_packets(&format!("o{port}")));
                    let sent: Vec<_> = sent.collect();
                    (sent, bench.all_drops(), bench.read("e.counts"))
                });
                assert_eq!(fast, slow, "{element}, packet {n}: {shown:02x?}");
                asked += 1;
            }
            known += both[0].read("e.known").parse::<u64>().expect("a number");
        }
    }
    assert!((asked / 50..asked - asked / 50).contains(&known), "{known}");
}
