//! Internal links, and the underlay that some of them pass through.

use super::fields::{MTU_DEFAULT, external, mtu, pair, port_spelling, rate, server};
use super::ports::same_network;
use super::{Reading, Word};
use crate::description::addresses::{is_host4, network};
use crate::description::cluster::description::{Description, Link, LinkCarrier, Underlay};
use crate::description::reader::{Fields, Reader};
use cluster::address::NodeId;
use cluster::map::Map;
use lang::Span;
use std::net::{IpAddr, Ipv4Addr};

/// UDP port of links over UDP, from the dynamic range (RFC 6335, 6).
const UDP_PORT: u16 = 49789;
const VNI: u32 = 1;
const VNI_MAX: u32 = 0xff_ffff;
/// Minimum MTU in bytes, enough for complete heartbeats.
const UNDERLAY_MTU_MIN: u16 = 576;

/// Fields of a `[[link]]` section that describe its carrier.
struct Carrier {
    over: Option<Word>,
    devices: Option<[Word; 2]>,
    port: Option<(u16, Span)>,
    vni: Option<(u32, Span)>,
    mtu: Option<(u16, Span)>,
}

impl Reading {
    /// Parses a link. Returns the link, and the position of its MTU.
    pub(super) fn link(
        &mut self,
        mut fields: Fields,
        description: &Description,
        map: &Map,
    ) -> Option<(Link, Span)> {
        let span = fields.span;
        let r = &mut self.reader;
        let between = pair(&mut fields, r, "between", "between = [\"a\", \"b\"]");
        let carrier = Carrier::read(&mut fields, r);
        let given = fields.has("rate");
        let rate = rate(&mut fields, r);
        fields.end(r);
        let ends = between?.map(|word| server(r, description, &word));
        let [a, b] = match ends {
            [Some(a), Some(b)] => [a, b],
            _ => return None,
        };
        if a == b {
            let wrong = "a link from a server to itself".to_owned();
            r.wrong("cluster-link", span, wrong, "name two servers");
            return None;
        }
        let usual = || Some(map.usual_rate([a, b].map(|end| end as NodeId))? as u64);
        let rate = match given {
            true => rate,
            false => match usual() {
                Some(..8) => rate_of_nothing(r, span),
                known => known.or_else(|| rate_unknown(r, description, [a, b], span)),
            },
        };
        let given = carrier.mtu;
        let mut over = carrier.parse_carrier(r)?;
        let ends = [a.min(b), a.max(b)];
        if let (LinkCarrier::Devices(devices), true) = (&mut over, a > b) {
            devices.swap(0, 1);
        }
        let mtu = match over {
            LinkCarrier::Devices(_) => given.map_or(MTU_DEFAULT, |(mtu, _)| mtu),
            _ => self
                .underlay_mtu(description, ends, span)?
                .saturating_sub(over.overhead()),
        };
        let link = Link {
            ends,
            over,
            rate: rate?,
            mtu,
        };
        Some((link, given.map_or(span, |(_, span)| span)))
    }

    /// Parses the port to the IP network between servers.
    pub(super) fn underlay(&mut self, mut fields: Fields, number: usize) -> Option<Underlay> {
        let whole = fields.span;
        let r = &mut self.reader;
        let help = "write device = \"eth1\", as FromDevice takes it";
        let device = fields.needed(r, "device", help);
        let device = device.and_then(|word| external(r, word));
        let help = "write address = \"192.0.2.1/24\"";
        let address = fields.needed(r, "address", help);
        let gateway = fields.word(r, "gateway");
        let mtu = mtu(&mut fields, r);
        fields.end(r);
        if let Some((mtu @ ..UNDERLAY_MTU_MIN, place)) = mtu {
            let wrong = format!("heartbeats do not pass where packets are of {mtu} bytes at most");
            let help = "internal links need an IP network with an MTU of 576 at least";
            r.wrong("cluster-mtu", place, wrong, help);
        }
        let place = address.as_ref().map_or(whole, |word| word.span);
        self.places.underlays.push((number, place));
        let r = &mut self.reader;
        let address = address?;
        let (own, length) = underlay_address(r, &address)?;
        let gateway = gateway.and_then(|word| {
            let found = word.text.parse().ok();
            let near = found.filter(|gateway| same_network((own, length), *gateway));
            if near.is_none() {
                let wrong = format!("`{}` is no neighbour on this network", word.text);
                let help = "the gateway's address lies in the network of `address`";
                r.wrong("cluster-gateway", word.span, wrong, help);
            }
            near
        });
        Some(Underlay {
            device: device?,
            address: own,
            length,
            gateway,
            mtu: mtu.map_or(MTU_DEFAULT, |(mtu, _)| mtu),
        })
    }

    /// Maximum packet length between the underlay ports of two servers, in bytes.
    fn underlay_mtu(
        &mut self,
        description: &Description,
        ends: [usize; 2],
        place: Span,
    ) -> Option<u16> {
        let (r, given) = (&mut self.reader, &self.places.underlays);
        let [a, b] = ends.map(|end| {
            let server = &description.servers[end];
            if !given.iter().any(|(number, _)| *number == end) {
                let wrong = format!("`{}` has no underlay for this link", server.name);
                let help = "add [server.underlay] with a device and an address to that server";
                r.wrong("cluster-link", place, wrong, help);
            }
            server.underlay.as_ref().map(|underlay| (underlay, server))
        });
        let (a, b) = (a?, b?);
        for ((from, server), (to, other)) in [(a, b), (b, a)] {
            let near = same_network((from.address, from.length), to.address);
            if !near && from.gateway.is_none() && from.address != to.address {
                let wrong = format!(
                    "`{}` does not know the way to {} of `{}`",
                    server.name, to.address, other.name
                );
                let help =
                    "put both into one network, or name a `gateway` in the [server.underlay]";
                r.wrong("cluster-link", place, wrong, help);
            }
        }
        Some(a.0.mtu.min(b.0.mtu))
    }
}

/// Reports a link without a rate, unless errors of its servers are the cause.
fn rate_unknown(
    r: &mut Reader,
    description: &Description,
    ends: [usize; 2],
    place: Span,
) -> Option<u64> {
    let without = ends.map(|end| &description.servers[end]);
    let without = without.iter().find(|server| server.ports.is_empty())?;
    let wrong = format!(
        "the rate of this link is not known: `{}` has no external port",
        without.name
    );
    let help = "write rate = \"10Gbps\", what the link carries each way";
    r.wrong("cluster-missing", place, wrong, help);
    None
}

/// Reports a link whose derived rate is below one byte per second, the minimum of elements.
fn rate_of_nothing(r: &mut Reader, place: Span) -> Option<u64> {
    let wrong = "the rates of its servers give this link less than 8 bit/s".to_owned();
    let help = "write rate = \"10Gbps\", what the link carries each way";
    r.wrong("cluster-value", place, wrong, help);
    None
}

fn underlay_address(r: &mut Reader, word: &Word) -> Option<(Ipv4Addr, u8)> {
    let (wrong, help) = match network(&word.text) {
        Some((IpAddr::V6(_), _)) => (
            format!(
                "links do not pass through IPv6 networks, such as that of `{}`",
                word.text
            ),
            "give the server an IPv4 address there",
        ),
        Some((IpAddr::V4(v4), length)) if length < 32 && is_host4(v4, length) => {
            return Some((v4, length));
        }
        Some(_) => (
            format!("`{}` is no address of a host in a network", word.text),
            "write the server's own address with the length of the network's prefix",
        ),
        None => (
            format!("`{}` is no address with a prefix length", word.text),
            "write it as 192.0.2.1/24",
        ),
    };
    r.wrong("cluster-address", word.span, wrong, help);
    None
}

impl Carrier {
    fn read(fields: &mut Fields, r: &mut Reader) -> Carrier {
        let over = fields.word(r, "over");
        let devices = match over {
            None => pair(fields, r, "devices", "devices = [\"eth1\", \"eth1\"]"),
            Some(_) => {
                for word in fields.words(r, "devices").into_iter().take(1) {
                    let wrong = "this link has both `devices` and `over`".to_owned();
                    let help = "remove `devices`: the link passes through the servers' underlay";
                    r.wrong("cluster-link", word.span, wrong, help);
                }
                None
            }
        };
        Carrier {
            over,
            devices,
            port: fields.value(r, "port"),
            vni: fields.value(r, "vni"),
            mtu: mtu(fields, r),
        }
    }

    /// Parses the carrier. Errors are recorded in `r`.
    fn parse_carrier(self, r: &mut Reader) -> Option<LinkCarrier> {
        let vxlan = self.over.as_ref().is_some_and(|word| word.text == "vxlan");
        let only = "only links over UDP and VXLAN have one";
        let unfit = [
            (
                self.port.filter(|_| self.over.is_none()).map(|port| port.1),
                "port",
                only,
            ),
            (
                self.vni.filter(|_| !vxlan).map(|vni| vni.1),
                "vni",
                "only links over VXLAN have one",
            ),
            (
                self.mtu.filter(|_| self.over.is_some()).map(|mtu| mtu.1),
                "mtu",
                "that of a link over an IP network follows from `mtu` in [server.underlay]",
            ),
        ];
        for (place, key, help) in unfit {
            if let Some(place) = place {
                let wrong = format!("this link has no `{key}`");
                r.wrong("cluster-link", place, wrong, help);
            }
        }
        if let Some((0, place)) = self.port {
            let wrong = "there is no UDP port 0".to_owned();
            r.wrong(
                "cluster-value",
                place,
                wrong,
                "write a port from 1 to 65535",
            );
        }
        if let Some((vni, place)) = self.vni.filter(|(vni, _)| *vni > VNI_MAX) {
            let wrong = format!("there is no VXLAN network {vni}");
            let help = format!("write a number from 0 to {VNI_MAX}");
            r.wrong("cluster-value", place, wrong, &help);
        }
        let port = self.port.map(|(port, _)| port);
        match self.over {
            None => {
                let devices = self.devices?.map(|word| port_spelling(r, word));
                let [Some(a), Some(b)] = devices else {
                    return None;
                };
                Some(LinkCarrier::Devices([a, b]))
            }
            Some(word) if word.text == "udp" => Some(LinkCarrier::Udp {
                port: port.unwrap_or(UDP_PORT),
            }),
            Some(word) if word.text == "vxlan" => Some(LinkCarrier::Vxlan {
                port: port.unwrap_or(wire::tunnel::VXLAN_PORT),
                vni: self.vni.map_or(VNI, |(vni, _)| vni),
            }),
            Some(word) => {
                let wrong = format!("links do not pass over `{}`", word.text);
                let help = "write over = \"udp\" or over = \"vxlan\", or name `devices` instead";
                r.wrong("cluster-link", word.span, wrong, help);
                None
            }
        }
    }
}
