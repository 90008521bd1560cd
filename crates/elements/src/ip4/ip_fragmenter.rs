//! Fragments IPv4 packets that are longer than the next link's MTU.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> f :: IPFragmenter(1500) -> Discard;
//! f[1] -> ICMPError(10.0.0.1, unreachable, needfrag, PMTU 1500) -> Discard;
//! ```
//!
//! A long packet is replaced by its fragments, in order (RFC 791, 3.2). The first fragment has all options, the
//! others have those with the copied flag. Fragments can be fragmented again. A long packet with DF set leaves
//! by output 1, or is dropped. Every fragment has the packet's annotations, and a copy of the bytes before its
//! IP header.
//!
//! Arguments:
//!
//! - `MTU`: maximum length of packets, from the IP header on; at least 28. (Real links have 68 or more, RFC 791.)
//!   `eth0:mtu` is the MTU of the port eth0, also after a change. A packet whose header leaves less than 8 bytes of
//!   the MTU for data is dropped (`mtu`).
//!
//! Keyword arguments:
//!
//! - `HONOR_DF`: if false, packets with DF set are fragmented, too. Default true.
//! - `INTERFACE`: an interface of the kernel (see LinuxInput); its current MTU is used instead of `MTU`.
//! - `ANNO`: true if a smaller MTU in an annotation of the packet, which IPsecEncap sets, is used instead. Default
//!   false.
//! - `HEADROOM`: bytes of headroom before each fragment, at most 65535. Default is that of a new packet. A fragment
//!   that does not fit into a buffer with this headroom is dropped (`no_buffer`).
//! - `VERBOSE`: true if every long packet with DF set is reported on the standard error stream. Default false;
//!   `ashlar click` then reports the first five.

use crate::prelude::*;
use crate::stderr_messages::complain;
use engine::element::AnyConfig;
use forwarding::Interface;
use planner::LimitsLength;
use wire::ipv4::{self, DF, MAX_LEN, MF, MIN_LEN};
use wire::{Ipv4, ipv4_options};

drops! {
    DONT_FRAGMENT = "dont_fragment",
    NO_BUFFER = "no_buffer",
    NO_HEADER = "no_header",
    TOO_LONG = "too_long",
    MTU = "mtu",
}

/// Minimum MTU: a header without options, and 8 bytes of data (RFC 791, 3.2).
const MTU_MIN: usize = 28;

#[derive(Clone)]
pub(super) struct Config {
    mtu: usize,
    /// Interface whose MTU applies; `None` for a configured MTU.
    interface: Option<Arc<Interface>>,
    honor_df: bool,
    by_anno: bool,
    headroom: Option<usize>,
    verbose: bool,
}

pub(super) struct IPFragmenter {
    config: Config,
    fragments: u64,
    made: u64,
    uncut: u64,
    /// Number of unfragmentable packets that are still to be logged.
    to_report: u64,
}

/// Number of packets with DF that Click's driver logs by default.
const REPORTS: u64 = 5;

fn longest(config: &AnyConfig) -> Option<usize> {
    let config = config_of::<IPFragmenter>(config);
    config.interface.is_none().then_some(config.mtu)
}

impl Element for IPFragmenter {
    const CONTRACT: Contract = Contract::new("IPFragmenter", manual!())
        .ports(Ports::new(&["in"], &["out", "dont_fragment?"]))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .extensions(&[&LimitsLength(longest)])
        .carries_super_frames();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let verbose = args.key("VERBOSE", false, "true if all packets with DF are reported");
        let headroom: Option<u16> = args.key_maybe("HEADROOM", "headroom of fragments");
        let honor_df = args.key("HONOR_DF", true, "if false, DF is ignored");
        let by_anno = args.key(
            "ANNO",
            false,
            "true if a lesser MTU of the packet's annotation counts",
        );
        let interface: Option<String> = args.key_maybe("INTERFACE", "interface whose MTU is used");
        let interface = interface.map(|name| forwarding::args::interface(args, &name));
        let mtu = match interface {
            Some(_) => MTU_MIN,
            None => {
                let doc = "the longest packet, from the IP header on";
                args.required_in("MTU", Mtu::of(MTU_MIN)..=Mtu::of(SIZE_MAX), doc)
                    .bytes
            }
        };
        Config {
            mtu,
            interface,
            honor_df,
            by_anno,
            headroom: headroom.map(usize::from),
            verbose,
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> IPFragmenter {
        IPFragmenter {
            config: Config::clone(config),
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
        if let Some(interface) = &self.config.interface {
            self.config.mtu = interface.mtu().max(MTU_MIN);
        }
        let (mtu, by_anno) = (self.config.mtu, self.config.by_anno);
        let mtu_of = move |p: &Packet| match by_anno {
            false => mtu,
            true => match p.cold().path_mtu() as usize {
                0 => mtu,
                noted => noted.clamp(MTU_MIN, mtu.max(MTU_MIN)),
            },
        };
        let long = |p: &Packet| {
            // A header beyond the end of the packet counts as too long; `cut` refuses the packet.
            let (len, mtu) = (
                || p.segment_len().checked_sub(p.network_offset()),
                mtu_of(p),
            );
            p.len() > mtu && len().is_none_or(|len| len > mtu)
        };
        if !batch.iter().any(long) {
            return;
        }
        cx.segment(batch);
        let mut out = cx.spare();
        let mut rest = cx.spare();
        for mut packet in batch.drain() {
            if !long(&packet) {
                out.push(packet);
                continue;
            }
            let mtu = mtu_of(&packet);
            match self.cut(&mut packet, mtu, &mut rest, cx) {
                Ok(()) => {
                    out.push(packet);
                    out.append(&mut rest);
                }
                Err(reason) => {
                    rest.clear();
                    let uncut = matches!(reason, DONT_FRAGMENT | MTU);
                    if uncut {
                        self.report(&packet);
                    }
                    match uncut && cx.connected(1) {
                        true => cx.emit(1, packet),
                        false => cx.drop(packet, reason),
                    }
                }
            }
        }
        batch.append(&mut out);
        cx.keep_spare(out);
        cx.keep_spare(rest);
    }

    const HANDLERS: &'static [Handler<IPFragmenter>] = &[
        counter!("fragments", "fragments that left", fragments),
        counter!("made", "packets that left, less those that came", made),
        counter!(
            "drops",
            "long packets with DF set, or with a header that leaves no room",
            uncut
        ),
        Handler::show("mtu", "the longest packet", |e| &e.config.mtu),
        Handler::set("mtu", "changes MTU, 28 to 65535", |e, value, _| {
            e.config.mtu = arguments::units::parse_in(value, MTU_MIN..=65535)?;
            Ok(())
        }),
    ];
}

impl IPFragmenter {
    /// Logs a packet that is too long and cannot be fragmented.
    #[cold]
    fn report(&mut self, packet: &Packet) {
        self.uncut += 1;
        if let Some(ip) = super::header(packet).filter(|_| self.to_report > 0) {
            self.to_report -= 1;
            let (mtu, src, dst, len) = (self.config.mtu, ip.src(), ip.dst(), packet.len());
            complain(&format!("IPFragmenter({mtu}) DF {src} {dst} len={len}"));
        }
    }

    /// Truncates `packet` to its first fragment, and appends the others to `rest`.
    ///
    /// # Errors
    ///
    /// The drop reason; `packet` is unchanged.
    fn cut(
        &mut self,
        packet: &mut Packet,
        mtu: usize,
        rest: &mut Batch,
        cx: &mut Cx,
    ) -> Result<(), u8> {
        let before = packet.network_offset();
        let ip = super::header(packet).ok_or(NO_HEADER)?;
        let mut word = ip.fragment_word();
        if word & DF != 0 && self.config.honor_df {
            return Err(DONT_FRAGMENT);
        }
        let header_len = ip.header_len();
        let payload = before + header_len..before + super::datagram(packet).len();
        if ip.fragment_offset() + payload.len() > usize::from(u16::MAX) {
            return Err(TOO_LONG); // fragments would have offsets above the maximum
        }
        let first_len = mtu.saturating_sub(header_len) & !7;
        if first_len == 0 {
            return Err(MTU);
        }
        if word & DF != 0 && payload.len() > first_len {
            // The identification may not be unique, because the packet was not meant to be fragmented (RFC 6864, 4.1).
            word &= !DF;
            super::header_mut(packet)
                .ok_or(NO_HEADER)?
                .set_ident(cx.random() as u16);
        }
        let short = short_header(super::header(packet).ok_or(NO_HEADER)?.header());
        let more_len = (mtu - short.1) & !7;
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

    /// Ensures that a fragment has the requested headroom.
    fn make_room(&self, fragment: &mut Packet) -> Result<(), u8> {
        let made = self
            .config
            .headroom
            .is_none_or(|room| fragment.realign(room));
        made.then_some(()).ok_or(NO_BUFFER)
    }
}

/// Header of all fragments but the first, without options that lack the copied flag.
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

/// Fragment with the bytes `data` of `packet`; `from` is the fragment offset in bytes.
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
#[path = "ip_fragmenter_tests.rs"]
mod tests;
