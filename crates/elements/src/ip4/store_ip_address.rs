//! Writes an IPv4 address into packets.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> StoreIPAddress(192.0.2.1, src) -> Discard;
//! ```
//!
//! With `src` or `dst` the address is written into the IPv4 header at the network header annotation, and the
//! checksums of the header and of TCP or UDP are updated. With a number only the four bytes change. Without
//! `ADDR` the address is the destination annotation; if that is zero, the packet stays as it is. A packet that
//! is too short for the address leaves by output 1, or is dropped (`too_short`).
//!
//! Arguments:
//!
//! - `ADDR`: the address; may be left out.
//! - `OFFSET`: offset at which it is written, in bytes, or `src` or `dst`.

use crate::prelude::*;
use arguments::Names;
use arguments::units::FromArg;
use std::net::Ipv4Addr;
use wire::{Ipv4, checksum, ipv4, proto};

drops! {
    TOO_SHORT = "too_short",
}
const BAD: u8 = 1;

/// Field to which the address is written.
#[derive(Clone, Copy)]
enum Place {
    Source,
    Destination,
    At(usize),
}

impl FromArg for Place {
    const KIND: &'static str = "a number, src or dst";

    fn from_arg(raw: &str, names: &Names) -> Result<Place, String> {
        match raw {
            "src" => Ok(Place::Source),
            "dst" => Ok(Place::Destination),
            _ => usize::from_arg(raw, names)
                .map(Place::At)
                .map_err(|_| format!("must be {}, not `{raw}`", Self::KIND)),
        }
    }

    fn stand_in() -> Place {
        Place::At(0)
    }

    fn unparse(&self) -> String {
        match self {
            Place::Source => "src".to_owned(),
            Place::Destination => "dst".to_owned(),
            Place::At(at) => at.to_string(),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct StoreIPAddress {
    address: Option<Ipv4Addr>,
    place: Place,
}

/// Writes the address into the marked header, and updates the checksums.
fn store(packet: &mut Packet, address: Ipv4Addr, source: bool) -> Option<()> {
    let bytes = packet.network_mut();
    if bytes.len() < ipv4::MIN_LEN {
        return None;
    }
    let mut ip = Ipv4::new_unchecked(bytes);
    let old = if source { ip.src() } else { ip.dst() };
    if source {
        ip.patch_src(address);
    } else {
        ip.patch_dst(address);
    }
    let (start, first) = (ip.header_len(), ip.fragment_offset() == 0);
    let at = match ip.protocol() {
        proto::TCP => start + 16,
        proto::UDP => start + 6,
        _ => return Some(()),
    };
    let udp = ip.protocol() == proto::UDP;
    let upper = packet.network_mut().get_mut(at..at + 2).filter(|_| first);
    if let Some([high, low]) = upper {
        let check = u16::from_be_bytes([*high, *low]);
        let (old, new) = (old.to_bits(), address.to_bits());
        let check = match udp {
            true => checksum::update_udp32(check, old, new),
            false => checksum::update32(check, old, new),
        };
        [*high, *low] = check.to_be_bytes();
    }
    Some(())
}

impl Element for StoreIPAddress {
    const CONTRACT: Contract = Contract::new("StoreIPAddress", manual!())
        .ports(Ports::new(&["in"], &["out", "bad?"]))
        .drops(DROPS);

    type Config = StoreIPAddress;

    fn configure(args: &mut Args) -> StoreIPAddress {
        let first: Option<String> = args.maybe("ADDR", "the address");
        let place: Option<Place> = args.maybe("OFFSET", "where it goes: a number, src or dst");
        let names = args.names();
        let parsed = match (first, place) {
            (Some(address), Some(place)) => Ipv4Addr::from_arg(&address, names)
                .map(|address| StoreIPAddress {
                    address: Some(address),
                    place,
                })
                .map_err(|wrong| format!("ADDR {wrong}")),
            (Some(place), None) => Place::from_arg(&place, names)
                .map(|place| StoreIPAddress {
                    address: None,
                    place,
                })
                .map_err(|wrong| format!("OFFSET {wrong}")),
            (None, Some(place)) => Ok(StoreIPAddress {
                address: None,
                place,
            }),
            (None, None) => Err("required argument OFFSET is missing".to_owned()),
        };
        parsed.unwrap_or_else(|wrong| {
            args.error_in_whole(
                wrong,
                "write StoreIPAddress(16) or StoreIPAddress(192.0.2.1, dst)",
            );
            StoreIPAddress {
                address: None,
                place: Place::At(0),
            }
        })
    }

    fn new(config: &Arc<StoreIPAddress>, _: &Init) -> StoreIPAddress {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let address = match self.address {
            Some(address) => address,
            None if packet.anno().dst4() == [0; 4] => return Verdict::ON,
            None => Ipv4Addr::from(packet.anno().dst4()),
        };
        let stored = match self.place {
            Place::At(at) => {
                let place = packet
                    .data_mut()
                    .get_mut(at..)
                    .and_then(<[u8]>::first_chunk_mut);
                place.map(|bytes| *bytes = address.octets())
            }
            Place::Source => store(packet, address, true),
            Place::Destination => store(packet, address, false),
        };
        stored.map_or(Verdict::reject(TOO_SHORT, BAD), |()| Verdict::ON)
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4};

    fn stored(configuration: &str, packet: &[u8]) -> Vec<u8> {
        let text = format!(
            "m :: MarkIPHeader -> SetIPAddress(1.0.0.2) -> StoreIPAddress({configuration})
                -> out :: Collect"
        );
        let mut bench = Bench::new(crate::CLASSES, &text);
        bench.push("m", &[packet]);
        bench.take("out").remove(0)
    }

    #[test]
    fn in_the_header_all_checksums_follow() {
        let packet = |src: &str, dst: &str| ip4().src(src).dst(dst).payload("data");
        let (before, after) = (packet("9.9.9.9", "2.2.2.2"), packet("1.0.0.2", "2.2.2.2"));
        assert_eq!(
            stored("src", &before.clone().udp(1, 2).bytes()),
            after.clone().udp(1, 2).bytes()
        );
        assert_eq!(
            stored("src", &before.tcp(1, 2).bytes()),
            after.tcp(1, 2).bytes()
        );
        let (before, after) = (packet("9.9.9.9", "2.2.2.2"), packet("9.9.9.9", "3.3.3.3"));
        let none = |p: testkit::Build| p.udp(1, 2).no_udp_checksum().bytes();
        assert_eq!(stored("3.3.3.3, dst", &none(before)), none(after));
    }

    #[test]
    fn elsewhere_only_the_bytes_change() {
        let packet = ip4().udp(1, 2).bytes();
        let mut expected = packet.clone();
        expected[4..8].copy_from_slice(&[0, 0, 0, 0]);
        assert_eq!(stored("0.0.0.0, 4", &packet), expected);
        expected = packet.clone();
        expected[16..20].copy_from_slice(&[1, 0, 0, 2]);
        assert_eq!(stored("16", &packet), expected);
    }

    #[test]
    fn without_an_annotation_nothing_changes_and_without_room_it_leaves() {
        let text = "s :: StoreIPAddress(2) -> out :: Collect; t :: StoreIPAddress(0.0.0.0, 2) -> out2 :: Collect; \
            t[1] -> bad :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("s", &[b"abcdef"]);
        assert_eq!(bench.take("out"), [b"abcdef"]);
        bench.push("t", &[&b"abcdef"[..], b"abcde"]);
        assert_eq!(bench.take("out2"), [b"ab\0\0\0\0"]);
        assert_eq!(bench.take("bad"), [b"abcde"]);
        for wrong in ["", "here", "1.2.3.4", "1.2.3, 4"] {
            testkit::errors(
                crate::CLASSES,
                &format!("Idle -> StoreIPAddress({wrong}) -> Discard"),
            );
        }
    }
}
