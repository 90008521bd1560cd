//! Cuts IPv4 packets that are longer than the next link takes.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> f :: IPFragmenter(1500) -> Discard;
//! f[1] -> ICMPError(10.0.0.1, unreachable, needfrag, PMTU 1500) -> Discard;
//! ```
//!
//! A long packet becomes fragments (RFC 791, 3.2), the first one first; they leave in the place of
//! the packet. The first has all options, the others those with the copied flag. Fragments can be cut
//! again. A long packet that must not be cut (DF) leaves by output 1, or is dropped. Every fragment
//! has the packet's annotations, and a copy of what stands before its IP header.
//!
//! Arguments:
//!
//! - `MTU`: the longest packet, from the IP header on; at least 28. Links have 68 or
//!   more (RFC 791); a packet whose header leaves less than 8 bytes of a shorter one is dropped (`mtu`).
//!
//! Keyword arguments:
//!
//! - `HONOR_DF`: if false, packets are cut even if they say that they must not be. Default true.
//! - `HEADROOM`: bytes that are free before each fragment. Default is what a new packet has; a fragment that
//!   does not fit behind so many has no buffer (`no_buffer`).
//! - `VERBOSE`: whether every long packet that must not be cut is reported on the standard error stream.
//!   Default false; Click's driver then reports the first five.

use crate::dump::file::complain;
use crate::prelude::*;
use wire::ipv4::{self, DF, MAX_LEN, MF, MIN_LEN};
use wire::{Ipv4, ipv4_options};

const DONT_FRAGMENT: usize = 0;
const NO_BUFFER: usize = 1;
const NO_HEADER: usize = 2;
const TOO_LONG: usize = 3;
const MTU: usize = 4;

/// A header without options and the least piece of data (RFC 791, 3.2).
const MTU_MIN: usize = 28;

#[derive(Clone, Copy)]
pub(super) struct Config {
    mtu: usize,
    honor_df: bool,
    headroom: Option<usize>,
    verbose: bool,
}

pub(super) struct IPFragmenter {
    config: Config,
    fragments: u64,
    made: u64,
    uncut: u64,
    /// Packets that must not be cut that are still to be reported.
    to_report: u64,
}

/// How many of those Click's driver reports unasked.
const REPORTS: u64 = 5;

impl Element for IPFragmenter {
    const CLASS: &'static str = "IPFragmenter";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out", "dont_fragment?"]);
    const NEEDS: &'static [Facts] = &[Facts::IP4];
    const DROPS: &'static [&'static str] =
        &["dont_fragment", "no_buffer", "no_header", "too_long", "mtu"];

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let verbose = args.key("VERBOSE", false, "whether all packets with DF are reported");
        let headroom = args.key_maybe("HEADROOM", "bytes that are free before fragments");
        let honor_df = args.key("HONOR_DF", true, "if false, DF is ignored");
        let mtu = args.required("MTU", "the longest packet, from the IP header on");
        if (1..MTU_MIN).contains(&mtu) {
            args.error_in_whole(
                format!("MTU {mtu} is too small"),
                format!("the least is {MTU_MIN}: a header and 8 bytes"),
            );
        }
        Config {
            mtu: mtu.max(MTU_MIN),
            honor_df,
            headroom,
            verbose,
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> IPFragmenter {
        IPFragmenter {
            config: **config,
            fragments: 0,
            made: 0,
            uncut: 0,
            to_report: match (config.verbose, init.as_click()) {
                (true, _) => u64::MAX,
                (false, true) => REPORTS,
                (false, false) => 0,
            },
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let long = |p: &Packet| p.len() - p.network_offset() > self.config.mtu;
        if !batch.iter().any(long) {
            return;
        }
        let mut out = cx.spare();
        let mut rest = cx.spare();
        for mut packet in batch.drain() {
            if packet.len() - packet.network_offset() <= self.config.mtu {
                out.push(packet);
                continue;
            }
            match self.cut(&mut packet, &mut rest) {
                Ok(()) => {
                    out.push(packet);
                    out.append(&mut rest);
                }
                Err(reason) => {
                    rest.clear();
                    if reason == DONT_FRAGMENT {
                        self.report(&packet);
                    }
                    match reason {
                        DONT_FRAGMENT if cx.connected(1) => cx.emit(1, packet),
                        _ => cx.drop(packet, reason),
                    }
                }
            }
        }
        batch.append(&mut out);
        cx.keep_spare(out);
        cx.keep_spare(rest);
    }

    fn take(&mut self, old: IPFragmenter) {
        (self.fragments, self.made, self.uncut) = (old.fragments, old.made, old.uncut);
    }

    const HANDLERS: &'static [Handler<IPFragmenter>] = &[
        Handler::sum("fragments", "fragments that left", |e| e.fragments),
        Handler::sum("made", "packets more that left than came", |e| e.made),
        Handler::sum("drops", "long packets that must not be cut", |e| e.uncut),
        Handler::text("mtu", "the longest packet", |e, _| {
            Ok(e.config.mtu.to_string())
        }),
        Handler::set("mtu", "changes MTU, 28 to 65535", |e, value, _| {
            e.config.mtu = engine::units::parse_in(value, MTU_MIN..=65535)?;
            Ok(())
        }),
    ];
}

impl IPFragmenter {
    /// Notes a long packet that must not be cut.
    #[cold]
    fn report(&mut self, packet: &Packet) {
        self.uncut += 1;
        if let Some(ip) = super::header(packet).filter(|_| self.to_report > 0) {
            self.to_report -= 1;
            let (mtu, src, dst, len) = (self.config.mtu, ip.src(), ip.dst(), packet.len());
            complain(&format!("IPFragmenter({mtu}) DF {src} {dst} len={len}"));
        }
    }

    /// Shortens `packet` to its first fragment; the others are appended to `rest`. The error is the
    /// reason why not, and leaves `packet` as it was.
    fn cut(&mut self, packet: &mut Packet, rest: &mut Batch) -> Result<(), usize> {
        let before = packet.network_offset();
        let ip = super::header(packet).ok_or(NO_HEADER)?;
        let word = ip.fragment_word();
        if word & DF != 0 && self.config.honor_df {
            return Err(DONT_FRAGMENT);
        }
        let header_len = ip.header_len();
        let payload = before + header_len..before + super::datagram(packet).len();
        if ip.fragment_offset() + payload.len() > usize::from(u16::MAX) {
            return Err(TOO_LONG); // its pieces would have offsets that do not exist
        }
        let short = short_header(super::header(packet).ok_or(NO_HEADER)?.header());
        let first_len = self.config.mtu.saturating_sub(header_len) & !7;
        if first_len == 0 {
            return Err(MTU);
        }
        let more_len = (self.config.mtu - short.1) & !7;
        let mut from = first_len.min(payload.len());
        let mut count = 1;
        while from < payload.len() {
            let len = more_len.min(payload.len() - from);
            let last = from + len == payload.len();
            let data = payload.start + from..payload.start + from + len;
            let twin = fragment(packet, before, &short.0[..short.1], data, word, from, last);
            let mut twin = twin.ok_or(NO_BUFFER)?;
            self.make_room(&mut twin)?;
            rest.push(twin);
            from += len;
            count += 1;
        }
        if count > 1 {
            packet.truncate(payload.start + first_len);
            packet.leave_large();
            self.make_room(packet)?;
            set_fields(packet, word | MF, header_len + first_len);
            self.fragments += count;
            self.made += count - 1;
        } else {
            packet.truncate(payload.end);
        }
        Ok(())
    }

    /// Sees that a fragment has the headroom that was asked for.
    fn make_room(&self, fragment: &mut Packet) -> Result<(), usize> {
        let made = self
            .config
            .headroom
            .is_none_or(|room| fragment.realign(room));
        made.then_some(()).ok_or(NO_BUFFER)
    }
}

/// The header of fragments behind the first: options without the copied flag are left out.
fn short_header(header: &[u8]) -> ([u8; MAX_LEN], usize) {
    let mut short = [0; MAX_LEN];
    short[..MIN_LEN].copy_from_slice(&header[..MIN_LEN]);
    let mut options = [0; MAX_LEN - MIN_LEN];
    let options_len = ipv4_options::copied(header, &mut options);
    let len = MIN_LEN + options_len;
    short[MIN_LEN..len].copy_from_slice(&options[..options_len]);
    Ipv4::new_unchecked(&mut short[..]).set_header_len(len);
    (short, len)
}

/// A fragment with the bytes `data` of `packet`, which are `from` bytes into its payload.
fn fragment(
    packet: &Packet,
    before: usize,
    header: &[u8],
    data: std::ops::Range<usize>,
    word: u16,
    from: usize,
    last: bool,
) -> Option<Packet> {
    let mut twin = Packet::new()?;
    let at = before + header.len();
    let bytes = twin.put(at + data.len())?;
    bytes[..before].copy_from_slice(&packet.data()[..before]);
    bytes[before..at].copy_from_slice(header);
    let total_len = header.len() + data.len();
    bytes[at..].copy_from_slice(&packet.data()[data]);
    *twin.anno_mut() = *packet.anno();
    *twin.cold_mut() = *packet.cold();
    twin.anno_mut().mac = 0;
    twin.anno_mut().transport = 0;
    twin.set_network_offset(before);
    twin.set_hash(packet.hash());
    twin.set_vlan_tci(packet.vlan_tci());
    let more = if last { word & MF } else { MF };
    let offset = (word & ipv4::OFFSET_MASK) + (from / 8) as u16;
    set_fields(
        &mut twin,
        word & !(MF | ipv4::OFFSET_MASK) | more | offset & ipv4::OFFSET_MASK,
        total_len,
    );
    Some(twin)
}

fn set_fields(packet: &mut Packet, word: u16, total_len: usize) {
    if let Some(mut ip) = super::header_mut(packet) {
        ip.set_fragment_word(word);
        ip.set_total_len(total_len as u16);
        ip.fill_checksum();
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::{Random, edited, ip, make, with_options};
    use testkit::Bench;
    use wire::ipv4::{DF, MF};
    use wire::ipv4_options::{LSRR, NOP, RR};
    use wire::{Ipv4, ipv4_options};

    fn bench(mtu: usize, more: &str) -> Bench {
        let text = format!(
            "c :: CheckIPHeader -> f :: IPFragmenter({mtu}{more}) -> out :: Collect;
             f[1] -> df :: Collect"
        );
        Bench::new(crate::CLASSES, &text)
    }

    fn cut(mtu: usize, packet: &[u8]) -> Vec<Vec<u8>> {
        let mut bench = bench(mtu, "");
        bench.push("c", &[packet]);
        assert_eq!(bench.all_drops(), []);
        bench.take("out")
    }

    /// The payload that fragments carry together, each checked for itself.
    fn join(fragments: &[Vec<u8>], mtu: usize) -> Vec<u8> {
        let mut payload = Vec::new();
        for (i, fragment) in fragments.iter().enumerate() {
            let ip = Ipv4::new_checked(fragment).unwrap();
            assert!(ip.verify_checksum());
            assert!(fragment.len() <= mtu && ip.total_len() == fragment.len());
            assert_eq!(ip.fragment_offset(), payload.len());
            assert_eq!(ip.more_fragments(), i + 1 < fragments.len());
            payload.extend(ip.payload());
        }
        payload
    }

    #[test]
    fn fragments_obey_the_mtu_and_carry_the_whole_payload_at_every_length() {
        let mut random = Random(1);
        for _ in 0..400 {
            let len = random.below(1900);
            let mtu = 68 + random.below(600);
            let payload = random.bytes(len);
            let packet = ip([1, 1, 1, 1], [2, 2, 2, 2], &payload);
            let out = cut(mtu, &packet);
            if packet.len() <= mtu {
                assert_eq!(out, [packet]);
            } else {
                assert!(out.len() > 1);
                assert_eq!(join(&out, mtu), payload);
                let full = (mtu - 20) & !7;
                assert_eq!(out.len(), len.div_ceil(full), "no more than needed");
            }
        }
    }

    #[test]
    fn fragments_have_the_headroom_that_was_asked_for() {
        let mut roomy = bench(100, ", HEADROOM 60");
        roomy.push("c", &[ip([1, 1, 1, 1], [2, 2, 2, 2], &[7; 200])]);
        let out = roomy.take_packets("out");
        assert_eq!(out.len(), 3);
        assert!(out.iter().all(|p| p.headroom == 60));
        let mut full = bench(100, ", HEADROOM 60000");
        full.push("c", &[ip([1, 1, 1, 1], [2, 2, 2, 2], &[7; 200])]);
        assert_eq!(full.drops("f", "no_buffer"), 1);
        assert!(full.take("out").is_empty());
    }

    #[test]
    fn only_copied_options_are_on_every_fragment() {
        let options = [RR, 7, 4, 0, 0, 0, 0, NOP, LSRR, 7, 8, 9, 9, 9, 9];
        let payload = vec![7; 200];
        let out = cut(100, &with_options(&options, &payload));
        assert_eq!(join(&out, 100), payload);
        assert_eq!(out[0][20..35], options);
        for fragment in &out[1..] {
            let ip = Ipv4::new_checked(fragment).unwrap();
            let kinds: Vec<u8> = ip.options().map(|o| o.unwrap().bytes[0]).collect();
            assert_eq!(kinds, [LSRR]);
            assert_eq!(ip.header_len(), 28);
            assert!(ipv4_options::is_copied(LSRR));
        }
    }

    #[test]
    fn fragments_are_cut_again_with_the_right_offsets() {
        let payload: Vec<u8> = (0..1000).map(|i| i as u8).collect();
        let packet = ip([1, 1, 1, 1], [2, 2, 2, 2], &payload);
        let again: Vec<_> = cut(600, &packet).iter().flat_map(|f| cut(100, f)).collect();
        assert_eq!(join(&again, 100), payload);
    }

    #[test]
    fn a_packet_that_must_not_be_cut_leaves_by_output_1_as_it_is() {
        let packet = edited(ip([1, 1, 1, 1], [2, 2, 2, 2], &[0; 200]), |ip| {
            ip.set_fragment_word(DF);
        });
        let mut stubborn = bench(100, "");
        stubborn.push("c", &[&packet]);
        assert_eq!(stubborn.take("df"), std::slice::from_ref(&packet));
        let mut relaxed = bench(100, ", HONOR_DF false");
        relaxed.push("c", &[&packet]);
        let out = relaxed.take("out");
        assert_eq!(out.len(), 3);
        for fragment in &out {
            assert!(Ipv4::new_checked(fragment).unwrap().dont_fragment());
        }
    }

    #[test]
    fn order_and_annotations_are_kept() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "p :: Paint(3) -> c :: CheckIPHeader(4) -> f :: IPFragmenter(68) -> out :: Collect",
        );
        let small = |n| [b"MAC!", &ip([1, 1, 1, 1], [n, 2, 2, 2], b"")[..]].concat();
        let long = [b"MAC!", &ip([1, 1, 1, 1], [2, 2, 2, 2], &[9; 90])[..]].concat();
        bench.push("p", &[small(1), long, small(3)]);
        let out = bench.take_packets("out");
        assert_eq!(out.len(), 4);
        assert_eq!((&out[0].bytes, &out[3].bytes), (&small(1), &small(3)));
        for packet in &out[1..3] {
            assert_eq!(packet.anno.paint, 3);
            assert_eq!(packet.anno.dst4(), [2, 2, 2, 2]);
            assert_eq!(
                (packet.network_offset, &packet.bytes[..4]),
                (4, &b"MAC!"[..])
            );
        }
        assert_eq!(
            (bench.read("f.fragments"), bench.read("f.made")),
            ("2".into(), "1".into())
        );
    }

    #[test]
    fn every_header_length_leaves_room_for_data_at_the_least_mtu() {
        for words in 0..=10 {
            let options = vec![NOP; words * 4];
            let payload = vec![5; 300];
            let packet = make([1, 1, 1, 1], [2, 2, 2, 2], &options, &payload);
            assert_eq!(join(&cut(68, &packet), 68), payload);
        }
    }

    #[test]
    fn the_last_piece_of_a_middle_fragment_says_that_more_follow() {
        let middle = edited(ip([1, 1, 1, 1], [2, 2, 2, 2], &[1; 160]), |ip| {
            ip.set_fragment_word(MF | 100);
        });
        let out = cut(100, &middle);
        let words: Vec<u16> = out
            .iter()
            .map(|f| Ipv4::new_checked(f).unwrap().fragment_word())
            .collect();
        assert_eq!(words, [MF | 100, MF | 110]);
    }

    #[test]
    fn an_mtu_that_no_header_fits_is_refused_and_one_that_this_header_does_not_fit_drops_it() {
        let long = crate::ip4::tests::with_options(&[1; 20], &[7; 40]);
        let text = "c :: CheckIPHeader -> f :: IPFragmenter(47) -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("c", &[long]);
        assert_eq!(bench.drops("f", "mtu"), 1);
        let errors = testkit::errors(crate::CLASSES, "Idle -> IPFragmenter(27) -> Discard");
        assert!(errors.contains("MTU 27 is too small"), "{errors}");
    }
}
