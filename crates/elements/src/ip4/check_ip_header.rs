//! Checks IPv4 headers, and whether their addresses are allowed on a link.
//!
//! Makes the tests of RFC 1812, 5.2.2: length, version, checksum, header length, total length. It removes padding
//! that the link layer added after the packet, and sets the network header and destination address annotations.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14)
//!     -> c :: CheckIPHeader(INTERFACES 10.0.0.1/24 10.0.1.1/24) -> Discard;
//! ```
//!
//! A bad packet leaves by output 1, or is dropped under the name of its fault. A packet with a correct header whose
//! end is missing leaves by output 2 if that is connected: RFC 1812, 5.2.2, requires a Parameter Problem message that
//! points at the total length.
//!
//! With `INTERFACES`, `BADSRC` or `GOODDST` addresses are checked, too (RFC 1812, 5.3.7; RFC 1122, 3.2.1.3): a
//! source must be a unicast address outside networks 0 and 127 and not on the list of bad sources, and a
//! destination must not lie in network 0, network 127 or class E (but may be 255.255.255.255). `ashlar click`
//! checks only the list of bad sources.
//!
//! With `KERNEL true`, packets to other hosts are also bad if their source is an address of the router itself, by the
//! kernel's tables, or a broadcast address of its networks (`own_source`). Linux drops such packets from outside as
//! martians. Packets to the router itself are left to the kernel: a daemon's BFD echo comes back with the router's
//! address at both ends (RFC 5880, 6.4).
//!
//! Arguments:
//!
//! - `OFFSET`: offset of the header in the packet. Default 0. For old Click configurations: a list of addresses here
//!   means `BADSRC` with 0.0.0.0 and 255.255.255.255 added; the offset may follow.
//!
//! Keyword arguments:
//!
//! - `INTERFACES`: the router's addresses, with prefix lengths. Their broadcast addresses, 0.0.0.0 and
//!   255.255.255.255 become bad sources; the addresses themselves become good destinations.
//! - `BADSRC`: further bad sources.
//! - `GOODDST`: packets to these destinations are not checked against the list of bad sources.
//! - `KERNEL`: true if the addresses of the router's namespace are bad sources (see LinuxIPLookup). Default false.
//! - `CHECKSUM`: true to verify checksums. Default true.
//! - `VERBOSE`: true if every bad packet is reported on the standard error stream. Default false; Click's
//!   driver then reports the first.
//! - `DETAILS`: accepted for compatibility with Click: faults are always counted by kind.

use super::faults::{self, Faults, Wording};
use crate::ip4::{Addresses, Interfaces, PARAMETER};
use crate::prelude::*;
use arguments::Names;
use arguments::units::FromArg;
use engine::publish::Reader;
use forwarding::Listed;
use forwarding::Routes;
use std::net::Ipv4Addr;
use wire::{BadHeader, Ipv4, addr, ipv4};

const BAD_SOURCE: u8 = 6;
const BAD_DESTINATION: u8 = 7;
const OWN_SOURCE: u8 = 8;

/// Invalid source addresses of forwarded packets.
const NO_SOURCES: [Ipv4Addr; 2] = [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST];

/// Valid sources, by first octet: true if all addresses that begin with the octet are valid.
static SOURCES: [bool; 256] = valid_networks(true);
/// Valid destinations, by first octet: true if all addresses that begin with the octet are valid.
static DESTINATIONS: [bool; 256] = valid_networks(false);

/// Validity of sources or of destinations, by first octet (RFC 1812, 5.3.7). Only the destination 255.255.255.255
/// differs from other addresses with its first octet; the table says false for all of them.
const fn valid_networks(are_sources: bool) -> [bool; 256] {
    let mut valid = [false; 256];
    let mut net = 0;
    while net < valid.len() {
        let address = Ipv4Addr::new(net as u8, 0, 0, 0);
        valid[net] = if are_sources {
            !addr::is_martian_source4(address)
        } else {
            !addr::is_martian_destination4(address)
        };
        net += 1;
    }
    valid
}

/// Offset of the total length, for Parameter Problem messages.
const TOTAL_LENGTH: u8 = 2;

/// Configuration.
pub struct Config {
    offset: usize,
    checksum: bool,
    addresses: bool,
    bad_sources: Listed,
    /// The kernel's routes, if its own addresses are bad sources.
    kernel: Option<Arc<Routes<4>>>,
    good_destinations: Vec<Ipv4Addr>,
    verbose: bool,
}

/// Element of the class CheckIPHeader.
pub struct CheckIPHeader {
    config: Arc<Config>,
    /// Offset of the header in bytes; beyond the end of all packets if the configured offset is too large.
    offset: u16,
    checksum: bool,
    addresses: bool,
    /// True if only the list of bad sources is checked, as in Click.
    as_click: bool,
    pub(super) faults: Faults<9>,
}

/// The first six correspond to `BadHeader`'s variants, in their order, as in [`CheckIPHeader::CONTRACT.drops`].
const WORDING: &Wording<9> = &Wording {
    header: "IP",
    faults: [
        "tiny packet",
        "bad IP version",
        "bad IP header length",
        "bad IP checksum",
        "bad IP length",
        "bad IP length",
        "bad source address",
        "bad destination address",
        "own source address",
    ],
    lines: &[
        "tiny packet",
        "bad IP version",
        "bad IP header length",
        "bad IP length",
        "bad IP checksum",
        "bad source address",
    ],
};

/// First argument: the header offset, or a list of bad sources in Click's old syntax.
enum First {
    Offset(usize),
    BadSources(Addresses),
}

impl FromArg for First {
    const KIND: &'static str = "a number";

    fn from_arg(raw: &str, names: &Names) -> Result<First, String> {
        let list = |wrong| Addresses::from_arg(raw, names).map_err(|_| wrong);
        usize::from_arg(raw, names)
            .map(First::Offset)
            .or_else(|wrong| list(wrong).map(First::BadSources))
    }

    fn stand_in() -> First {
        First::Offset(0)
    }

    fn unparse(&self) -> String {
        match self {
            First::Offset(offset) => offset.to_string(),
            First::BadSources(list) => list.unparse(),
        }
    }
}

impl Config {
    /// Parses the arguments of a class whose header offset is an argument.
    pub(super) fn behind_offset(args: &mut Args, checksum: bool) -> Config {
        let mut config = Config::at_start(args, checksum, None);
        match args.optional("OFFSET", First::Offset(0), "where the header begins") {
            First::Offset(offset) => config.offset = offset,
            First::BadSources(list) => {
                config.addresses = true;
                config.bad_sources.extend(list.0);
                config.bad_sources.extend(NO_SOURCES);
                config.offset = args.maybe("OFFSET", "where the header begins").unwrap_or(0);
            }
        }
        config
    }

    /// Parses all arguments except the header offset. `listed` contains bad sources parsed before.
    pub(super) fn at_start(args: &mut Args, checksum: bool, listed: Option<Addresses>) -> Config {
        let interfaces: Option<Interfaces> =
            args.key_maybe("INTERFACES", "the router's addresses, with prefix lengths");
        let bad: Option<Addresses> = args.key_maybe("BADSRC", "further bad sources").or(listed);
        let good: Option<Addresses> = args.key_maybe(
            "GOODDST",
            "destinations for which the list of bad sources does not count",
        );
        let kernel = args.key(
            "KERNEL",
            false,
            "true if addresses of the router's namespace are bad sources",
        );
        let kernel = if kernel {
            forwarding::args::routes4(args)
        } else {
            None
        };
        let checksum = args.key("CHECKSUM", checksum, "true to verify checksums");
        let verbose = faults::verbose(args);
        let addresses = interfaces.is_some() || bad.is_some() || good.is_some() || kernel.is_some();
        let mut bad_sources = Listed::default();
        bad_sources.extend(bad.unwrap_or_default().0);
        let mut good_destinations = good.unwrap_or_default().0;
        if let Some(interfaces) = interfaces {
            bad_sources.extend(interfaces.broadcasts());
            bad_sources.extend(NO_SOURCES);
            good_destinations.extend(interfaces.addresses());
        }
        Config {
            offset: 0,
            checksum,
            addresses,
            bad_sources,
            kernel,
            good_destinations,
            verbose,
        }
    }

    /// The router's own addresses in the kernel, if they are bad sources.
    fn own<'a>(&'a self, reader: &'a Reader) -> Option<&'a Listed> {
        Some(self.kernel.as_ref()?.local_sources().read(reader))
    }

    /// Bit map of all bad sources.
    #[inline]
    fn bits(&self, reader: &Reader) -> u64 {
        self.bad_sources.bits() | self.own(reader).map_or(0, Listed::bits)
    }

    /// True if neither address needs a check, which holds for nearly all packets. `bits` is the bit map of all bad
    /// sources.
    #[inline]
    fn usual(&self, src: Ipv4Addr, dst: Ipv4Addr, bits: u64, reader: &Reader) -> bool {
        let net = |address: Ipv4Addr| usize::from(address.octets()[0]);
        SOURCES[net(src)] & DESTINATIONS[net(dst)]
            && (bits & Listed::bit(src) == 0 || !self.is_bad_source(src, reader))
    }

    /// True if a list of bad sources has the address.
    #[inline(never)]
    fn is_bad_source(&self, src: Ipv4Addr, reader: &Reader) -> bool {
        let own = self.own(reader);
        self.bad_sources.contains(src) || own.is_some_and(|own| own.contains(src))
    }

    /// Drop reason for the addresses (RFC 1812, 5.3.7). Bad sources count only for packets to other hosts.
    fn judge(&self, src: Ipv4Addr, dst: Ipv4Addr, list_alone: bool, reader: &Reader) -> Option<u8> {
        if let Some(own) = self.own(reader)
            && own.contains(src)
            && !own.contains(dst)
        {
            return Some(OWN_SOURCE);
        }
        let bad = match self.bad_sources.contains(src) {
            true => !self.good_destinations.contains(&dst),
            false => !list_alone && addr::is_martian_source4(src),
        };
        if bad {
            Some(BAD_SOURCE)
        } else {
            let bad = !list_alone && addr::is_martian_destination4(dst);
            bad.then_some(BAD_DESTINATION)
        }
    }
}

impl Element for CheckIPHeader {
    const CONTRACT: Contract = Contract::new("CheckIPHeader", manual!())
        .ports(Ports::new(&["in"], &["out", "bad?", "truncated?"]))
        .gives(&[
            Facts::IP4.and(Facts::DST4),
            Facts::NONE,
            Facts::IP4.and(Facts::DST4),
        ])
        .spoils(Facts::IP6.and(Facts::DST6))
        // The first six correspond to `BadHeader`'s variants, in their order.
        .drops(&[
            "too_short",
            "bad_version",
            "bad_header_length",
            "bad_checksum",
            "bad_length",
            "truncated",
            "bad_source",
            "bad_destination",
            "own_source",
        ])
        .carries_super_frames()
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config::behind_offset(args, true)
    }

    fn new(config: &Arc<Config>, init: &Init) -> CheckIPHeader {
        CheckIPHeader {
            config: Arc::clone(config),
            offset: u16::try_from(config.offset).unwrap_or(u16::MAX),
            checksum: config.checksum,
            addresses: config.addresses,
            as_click: init.as_click(),
            faults: Faults::new(config.verbose, WORDING, init),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    fn take(&mut self, old: CheckIPHeader) {
        self.faults.take(old.faults);
    }

    const HANDLERS: &'static [Handler<CheckIPHeader>] = &[
        Handler::sum("drops", "bad packets", |e| e.faults.total()),
        Handler::text("drop_details", "bad packets, by fault", |e, _| {
            Ok(e.faults.details())
        }),
    ];
}

impl Fuse for CheckIPHeader {
    /// Fast path for valid packets without options.
    #[inline]
    fn fast(&self, cx: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let (config, offset, reader) = (&*self.config, usize::from(self.offset), cx.reader());
        let (checksum, addresses) = (self.checksum, self.addresses);
        let bits = config.bits(reader);
        #[inline(always)]
        move |packet| {
            let head = packet.data().get(offset..offset + ipv4::MIN_LEN)?;
            let head = head.first_chunk()?;
            let came = packet.len() - offset;
            let total_len = ipv4::check_plain(head, came, checksum)?;
            let ip = Ipv4::new_unchecked(head);
            let (src, dst) = (ip.src(), ip.dst());
            if addresses && !config.usual(src, dst, bits, reader) {
                return None;
            }
            if total_len < came {
                packet.truncate(offset + total_len);
            }
            packet.set_network_offset(offset);
            packet.anno_mut().set_dst4(dst.octets());
            Some(Verdict::ON)
        }
    }

    #[inline(never)]
    fn slow(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let config = &*self.config;
        let bytes = packet.data().get(config.offset..).unwrap_or(&[]);
        let checked = match config.checksum {
            true => ipv4::check(bytes),
            false => ipv4::check_unsummed(bytes),
        };
        let (total_len, short) = match checked {
            Ok(checked) => (checked.total_len, false),
            Err(BadHeader::Truncated) if cx.connected(2) => (bytes.len(), true),
            Err(fault) => return self.faults.reject(fault.index() as u8),
        };
        let ip = Ipv4::new_unchecked(bytes);
        let (src, dst) = (ip.src(), ip.dst());
        if config.addresses
            && let Some(fault) = config.judge(src, dst, self.as_click, cx.reader())
        {
            return self.faults.reject(fault);
        }
        let offset = config.offset;
        packet.truncate(offset + total_len);
        packet.set_network_offset(offset);
        packet.anno_mut().set_dst4(dst.octets());
        if short {
            self.faults.note(BadHeader::Truncated.index() as u8);
            packet.cold_mut().user[PARAMETER] = TOTAL_LENGTH;
            return Verdict::out(2);
        }
        Verdict::ON
    }
}

#[cfg(test)]
#[path = "check_ip_header_tests.rs"]
mod tests;
