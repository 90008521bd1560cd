//! Shared ports and links of a process's routers: `[[port]]` and `[[link]]`. Fields are described in docs/routers.md.

use super::routers::{Section, is_name};
use crate::description::reader::{Fields, Reader, Word};
use crate::description::source::Source;
use lang::Span;
use ports::shared_port::{Kind, LinkOf, PortOf, SHARES, Selector, ShareOf, SharingSpec, Tunnel};
use router::worker::share::{AHEAD, IN_LINE, Share};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::EtherAddr;
use wire::vlan::Tag;

/// Default queue length of a shared port, in packets.
const QUEUE_PACKETS: usize = 512;
const QUEUE_MAX: usize = 1 << 16;
/// Number of MPLS labels, and number of VXLAN network identifiers.
const LABEL_COUNT: u32 = 1 << 20;
const NETWORKS: u32 = 1 << 24;

/// Parses the sections of shared ports. Inserts the routers that own the ports before all others.
pub(super) fn read(r: &mut Reader, top: &mut Fields, routers: &mut Vec<Section>) -> SharingSpec {
    let mut names = Names::of(routers);
    let mut sharing = SharingSpec::default();
    let mut own = Vec::new();
    for fields in top.tables(r, "port", "[[port]]") {
        if let Some((of, section)) = port(r, fields, &mut names) {
            sharing.ports.push(of);
            own.push(section);
        }
    }
    names.ports.clone_from(&names.others);
    for fields in top.tables(r, "link", "[[link]]") {
        sharing.links.extend(link(r, fields, &mut names));
    }
    routers.splice(0..0, own);
    sharing
}

/// Names already in use.
struct Names {
    /// Names of routers, with their tickets.
    routers: BTreeMap<String, u32>,
    others: BTreeSet<String>,
    /// Names of shared ports; complete once all are parsed.
    ports: BTreeSet<String>,
}

impl Names {
    fn of(routers: &[Section]) -> Names {
        Names {
            routers: routers
                .iter()
                .map(|router| (router.name.clone(), router.share.tickets))
                .collect(),
            others: BTreeSet::new(),
            ports: BTreeSet::new(),
        }
    }

    /// Records a name, which must not be in use.
    fn add(&mut self, r: &mut Reader, name: Word) -> Option<String> {
        if !is_name(r, &name) {
            return None;
        }
        let taken = self.routers.contains_key(&name.text) || !self.others.insert(name.text.clone());
        if taken {
            let wrong = format!("there are two of the name `{}`", name.text);
            let help = "routers, shared ports and links have names of their own";
            r.wrong("port-twice", name.span, wrong, help);
        }
        (!taken).then_some(name.text)
    }

    /// Checks the name of a router; for a link, a shared port is valid, too.
    fn router(&self, r: &mut Reader, name: Word) -> Option<String> {
        let is_there = self.routers.contains_key(&name.text) || self.ports.contains(&name.text);
        if !is_there {
            let wrong = format!("there is no router `{}`", name.text);
            let near = arguments::near::nearest(&name.text, self.routers.keys().map(|n| &**n));
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "name a [[router]] of this file".to_owned(),
            };
            r.wrong("port-router", name.span, wrong, &help);
        }
        is_there.then_some(name.text)
    }
}

fn port(r: &mut Reader, mut fields: Fields, names: &mut Names) -> Option<(PortOf, Section)> {
    let span = fields.span;
    let help = "write name = \"...\": routers name their shares by it";
    let name = fields.needed(r, "name", help);
    let device = fields.word(r, "device");
    let scheme = fields.word(r, "scheme");
    let mut shares = Vec::new();
    let mut seen = BTreeMap::new();
    for share_fields in fields.tables(r, "share", "[[port.share]]") {
        shares.extend(share(r, share_fields, names, &mut seen));
    }
    fields.end(r);
    let priority = match scheme.as_ref().map(|word| &*word.text) {
        None | Some("queues") => AHEAD,
        Some("inline") => IN_LINE,
        Some(other) => {
            let wrong = format!("there is no scheme `{other}`");
            let help = "write \"queues\": each router gets its share, whatever the load of others; or \"inline\": \
                        packets are processed in order of arrival";
            r.wrong("port-scheme", scheme.as_ref()?.span, wrong, help);
            AHEAD
        }
    };
    let name = names.add(r, name?)?;
    let device = device.map_or_else(|| name.clone(), |word| word.text);
    let quoted = lang::args::quote(&device);
    let own = lang::args::quote(&format!("{SHARES}{name}"));
    let source = Source {
        name: format!("shared port {name}"),
        text: format!(
            "FromDevice({quoted}, PROMISC true) -> ToDevice({own});\nFromDevice({own}) -> ToDevice({quoted});\n"
        )
        .into(),
        ..Source::default()
    };
    let section = Section {
        name: name.clone(),
        source,
        netns: None,
        share: Share {
            priority,
            ..Share::default()
        },
        isolation: None,
        machine: None,
        place: span,
    };
    let of = PortOf {
        name,
        device,
        shares,
    };
    Some((of, section))
}

/// Selectors of a port's frames that are in use, with their positions in the file.
type Seen = BTreeMap<String, Span>;

fn share(r: &mut Reader, mut fields: Fields, names: &Names, seen: &mut Seen) -> Option<ShareOf> {
    let place = fields.span;
    let router = fields.needed(
        r,
        "router",
        "write router = \"...\", the router that gets this share",
    );
    let vlan = vlans(r, &mut fields);
    let mac = fields.value::<EtherAddr>(r, "mac");
    let label = fields.value::<u32>(r, "mpls");
    let tunnel = fields.word(r, "tunnel");
    let to = fields.word(r, "to").and_then(|word| address(r, word));
    let key = fields.value::<u32>(r, "key");
    let broadcast = fields.value::<bool>(r, "broadcast");
    let rate = fields.value::<u32>(r, "rate");
    let queue = fields.value::<usize>(r, "queue");
    fields.end(r);
    if let Some((_, span)) = label.filter(|(label, _)| *label >= LABEL_COUNT) {
        let help = "write a number below 1048576";
        r.wrong(
            "port-share",
            span,
            "there is no such label".to_owned(),
            help,
        );
    }
    if let Some((address, span)) = mac.filter(|(address, _)| address.0[0] & 1 != 0) {
        let wrong = format!("{address} is no station's address");
        let help = "write one whose first byte is even, such as 02:00:00:00:00:01";
        r.wrong("port-share", span, wrong, help);
    }
    if let Some((_, span)) = queue.filter(|(n, _)| !(1..=QUEUE_MAX).contains(n)) {
        let help = format!("write a number from 1 to {QUEUE_MAX}");
        r.wrong(
            "port-share",
            span,
            "there is no such queue".to_owned(),
            &help,
        );
    }
    if let Some((_, span)) = rate.filter(|(rate, _)| *rate == 0) {
        let help = "write packets a second, or leave it out";
        r.wrong(
            "port-share",
            span,
            "a rate of 0 lets nothing pass".to_owned(),
            help,
        );
    }
    let mut by: Vec<Selector> = Vec::new();
    by.extend(mac.map(|(address, _)| Selector::Mac(address.0)));
    by.extend(label.map(|(label, _)| Selector::Label(label)));
    match &tunnel {
        Some(kind) => by.extend(tunnel_of(r, kind, to.map(|t| t.0), key)),
        None => {
            if let Some(span) = to.map(|t| t.1).or(key.map(|k| k.1)) {
                let help = "add tunnel = \"gre\", \"ipip\" or \"vxlan\"";
                r.wrong(
                    "port-share",
                    span,
                    "this is of a tunnel, and none is named".to_owned(),
                    help,
                );
            }
        }
    }
    if by.is_empty() {
        by.push(Selector::Remaining);
    }
    let router = names.router(r, router?)?;
    for what in std::iter::once(format!("router {router}"))
        .chain(by.iter().map(|by| format!("{vlan:?} {by:?}")))
    {
        if seen.insert(what.clone(), place).is_some() {
            let (wrong, help) = match what.starts_with("router ") {
                true => (
                    format!("router `{router}` has two shares of this port"),
                    "give it one share; several of mac, mpls and tunnel may stand in it",
                ),
                false => (
                    format!("router `{router}` would get the same frames as a router before it"),
                    "tell them apart by vlan, mac, mpls or tunnel",
                ),
            };
            r.wrong("port-share", place, wrong, help);
        }
    }
    Some(ShareOf {
        tickets: names.routers.get(&router).copied().unwrap_or(1),
        router,
        vlan,
        by,
        broadcast: broadcast.is_none_or(|(wants, _)| wants),
        rate: rate.map(|(rate, _)| rate),
        queue: queue.map_or(QUEUE_PACKETS, |(n, _)| n.clamp(1, QUEUE_MAX)),
    })
}

fn address(r: &mut Reader, word: Word) -> Option<(IpAddr, Span)> {
    let address = word.text.parse();
    if address.is_err() {
        let wrong = format!("`{}` is no address", word.text);
        let help = "write an IPv4 or IPv6 address such as 192.0.2.1";
        r.wrong("port-share", word.span, wrong, help);
    }
    Some((address.ok()?, word.span))
}

fn vlans(r: &mut Reader, fields: &mut Fields) -> Vec<Tag> {
    let outer = fields.value::<Tag>(r, "vlan");
    let inner = fields.value::<Tag>(r, "inner_vlan");
    if let Some((_, span)) = inner.filter(|_| !fields.has("vlan")) {
        let help = "add vlan, the number of the outer tag";
        r.wrong(
            "port-share",
            span,
            "there is an inner VLAN and no outer one".to_owned(),
            help,
        );
    }
    [outer, inner]
        .into_iter()
        .flatten()
        .map(|(tag, _)| tag)
        .collect()
}

fn tunnel_of(
    r: &mut Reader,
    kind: &Word,
    to: Option<IpAddr>,
    key: Option<(u32, Span)>,
) -> Option<Selector> {
    let wrong = match (&*kind.text, key) {
        ("gre", _) => None,
        ("ipip", Some((_, span))) => Some((span, "IP in IP has no key", "leave `key` out")),
        ("ipip", None) => None,
        ("vxlan", Some((key, span))) if key >= NETWORKS => Some((
            span,
            "there is no such network",
            "write a number below 16777216",
        )),
        ("vxlan", _) => None,
        _ => Some((
            kind.span,
            "there is no such tunnel",
            "write \"gre\", \"ipip\" or \"vxlan\"",
        )),
    };
    if let Some((span, what, help)) = wrong {
        r.wrong("port-share", span, what.to_owned(), help);
        return None;
    }
    let kind = match &*kind.text {
        "gre" => Kind::Gre,
        "ipip" => Kind::Ipip,
        _ => Kind::Vxlan,
    };
    let key = key.map(|(key, _)| key);
    Some(Selector::Tunnel(Tunnel { kind, to, key }))
}

fn link(r: &mut Reader, mut fields: Fields, names: &mut Names) -> Option<LinkOf> {
    let place = fields.span;
    let help = "write name = \"...\": both routers name their ends by it";
    let name = fields.needed(r, "name", help);
    let ends = fields.words(r, "routers");
    let queue = fields.value::<usize>(r, "queue");
    fields.end(r);
    if let Some((_, span)) = queue.filter(|(n, _)| !(1..=QUEUE_MAX).contains(n)) {
        let help = format!("write a number from 1 to {QUEUE_MAX}");
        r.wrong(
            "link-queue",
            span,
            "there is no such queue".to_owned(),
            &help,
        );
    }
    let count = ends.len();
    let ends: Vec<String> = ends
        .into_iter()
        .filter_map(|end| names.router(r, end))
        .collect();
    if count != 2 || ends.len() == 2 && ends[0] == ends[1] {
        let help = "write routers = [\"red\", \"blue\"]";
        r.wrong(
            "link-ends",
            place,
            "a link joins two routers".to_owned(),
            help,
        );
        return None;
    }
    Some(LinkOf {
        name: names.add(r, name?)?,
        routers: ends.try_into().ok()?,
        queue: queue.map_or(QUEUE_PACKETS, |(n, _)| n.clamp(1, QUEUE_MAX)),
    })
}
