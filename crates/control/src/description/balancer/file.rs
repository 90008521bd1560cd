//! The sections of a file that describe a balancer: `[balancer]`, `[[balancer.port]]`, `[[balancer.class]]` and
//! `[[backend]]`. Fields are described in docs/multistage.md.

use super::cross_checks::check_sections;
use super::description::{Backend, Class, Description, Health, Inside, Port, Vrrp};
use super::peer;
use crate::description::addresses::{is_host4, network};
use crate::description::cluster::generate::is_plain;
use crate::description::reader::{Fields, Reader, Word};
use cluster::balance::WEIGHT_MAX;
use lang::Span;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use wire::EtherAddr;

const BACKENDS_MAX: usize = 256;
const PORTS_MAX: usize = 64;
const CLASSES_MAX: usize = 8;
/// Maximum of the configurable times.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Parses the sections of a balancer. Errors are recorded in `r`; the description may then be `None`.
pub(crate) fn read(r: &mut Reader, top: &mut Fields) -> Option<Description> {
    let balancer = top.table(r, "balancer", "[balancer]");
    if balancer.is_none() {
        let wrong = "there is no table [balancer]".to_owned();
        r.wrong(
            "balancer-missing",
            top.span,
            wrong,
            "begin with [balancer] and name = \"...\"",
        );
    }
    let mut backends = Vec::new();
    let mut places = Vec::new();
    for fields in top.tables(r, "backend", "[[backend]]") {
        places.push(fields.span);
        backends.extend(backend(r, fields));
    }
    let mut fields = balancer?;
    let span = fields.span;
    if backends.is_empty() || backends.len() > BACKENDS_MAX {
        let wrong = format!("a balancer with {} back ends", backends.len());
        let help =
            format!("describe 1 to {BACKENDS_MAX}: [[backend]] with name, ether and address");
        r.wrong("balancer-backend", span, wrong, &help);
    }
    let name = fields.needed(
        r,
        "name",
        "write name = \"edge\": commands name the balancer by it",
    );
    let name = name.filter(|word| is_name(r, word));
    let inside = choice(r, &mut fields, "inside", &["flat", "vlan"]);
    let inside = if inside == 1 {
        Inside::Vlan
    } else {
        Inside::Flat
    };
    let back = back(r, &mut fields, inside);
    let help = "write address = \"10.255.0.1/24\", the balancer's own on the network behind it";
    let address = fields.needed(r, "address", help);
    let address = address.and_then(|word| match network(&word.text) {
        Some((IpAddr::V4(address), length)) if length <= 30 => Some((address, length)),
        _ => {
            let wrong = format!(
                "`{}` is no IPv4 address with the length of a network",
                word.text
            );
            r.wrong("balancer-value", word.span, wrong, help);
            None
        }
    });
    let algorithms = ["flows", "least-loaded", "round-robin"];
    let algorithm = algorithms[choice(r, &mut fields, "algorithm", &algorithms)].to_owned();
    let keys = ["symmetric", "flow", "outside"];
    let key = keys[choice(r, &mut fields, "key", &keys)].to_owned();
    let seed = fields.value::<u32>(r, "seed").map_or(0, |(seed, _)| seed);
    let speakers = fields.word_or_words(r, "speaker");
    let idle = time(r, &mut fields, "idle", 100);
    let deadline = time(r, &mut fields, "deadline", 30_000);
    let settle = time(r, &mut fields, "settle", 5000);
    let health = health(r, &mut fields);
    let mut ports = Vec::new();
    for fields in fields.tables(r, "port", "[[balancer.port]]") {
        let at = (ports.len(), inside, true);
        ports.extend(port(r, fields, at));
    }
    if ports.is_empty() || ports.len() > PORTS_MAX {
        let wrong = format!("a balancer with {} front ports", ports.len());
        let help =
            format!("describe 1 to {PORTS_MAX}: [[balancer.port]] with device and addresses");
        r.wrong("balancer-port", span, wrong, &help);
    }
    let names: Vec<String> = backends
        .iter()
        .map(|of: &Backend| of.name.clone())
        .collect();
    let classes = classes(r, &mut fields, &names);
    let peers = peer::read(r, &mut fields, inside);
    fields.end(r);
    let mut speaking: Vec<usize> = speakers
        .iter()
        .filter_map(|word| number(r, &names, word))
        .collect();
    if speaking.is_empty() {
        speaking.push(0);
    }
    let description = Description {
        name: name?.text,
        inside,
        back,
        address: address?,
        algorithm,
        key,
        seed,
        speakers: speaking,
        idle,
        deadline,
        settle,
        health,
        ports: ports.iter().map(|(port, _)| port.clone()).collect(),
        backends,
        classes,
        peers: peers.iter().map(|(peer, _)| peer.clone()).collect(),
    };
    peer::check(r, &description, &peers);
    let ports: Vec<Span> = ports.into_iter().map(|(_, span)| span).collect();
    check_sections(r, &description, (span, &ports, &places));
    let is_whole = !description.back.is_empty()
        && !description.ports.is_empty()
        && !description.backends.is_empty();
    is_whole.then_some(description)
}

fn back(r: &mut Reader, fields: &mut Fields, inside: Inside) -> Vec<String> {
    let span = fields.span;
    let words = fields.word_or_words(r, "back");
    if words.is_empty() {
        let wrong = "[balancer] has no `back`".to_owned();
        r.wrong(
            "file-missing",
            span,
            wrong,
            "write back = \"eth2\", the port to the switch",
        );
    }
    if let (Inside::Vlan, [_, second, ..]) = (inside, &words[..]) {
        let wrong = "with inside = \"vlan\" there is one back port".to_owned();
        r.wrong(
            "balancer-value",
            second.span,
            wrong,
            "bind several ports to one (bond), or take inside = \"flat\"",
        );
    }
    words
        .into_iter()
        .filter_map(|word| device(r, word))
        .collect()
}

fn health(r: &mut Reader, fields: &mut Fields) -> Health {
    let kinds = ["echo", "arp", "icmp", "bfd"];
    let kind = kinds[choice(r, fields, "health", &kinds)].to_owned();
    let mut interval = time(r, fields, "interval", 10);
    if interval < Duration::from_millis(1) || interval > Duration::from_secs(60) {
        let wrong = "`interval` must be from 1ms to 60s".to_owned();
        r.wrong(
            "balancer-value",
            fields.span,
            wrong,
            "write interval = \"10ms\"",
        );
        interval = Duration::from_millis(10);
    }
    Health {
        kind,
        interval,
        misses: bounded(r, fields, "misses", 3, (2, 31)),
        answers: bounded(r, fields, "answers", 10, (1, 1000)),
    }
}

pub(super) fn port(
    r: &mut Reader,
    mut fields: Fields,
    (at, inside, is_own): (usize, Inside, bool),
) -> Option<(Port, Span)> {
    let place = fields.span;
    let name = fields.word(r, "name").filter(|word| is_name(r, word));
    let help = "write device = \"eth0\", as FromDevice takes it";
    let device_word = is_own.then(|| fields.needed(r, "device", help));
    let addresses = fields.words(r, "addresses");
    let vlan = fields.value::<u16>(r, "vlan");
    let outside = fields
        .value::<bool>(r, "outside")
        .is_some_and(|(is_so, _)| is_so);
    let proxies = fields.words(r, "proxy");
    let vrrp = is_own.then(|| vrrp(r, &mut fields, inside)).flatten();
    fields.end(r);
    if let Some((id, span)) = vlan.filter(|(id, _)| !(1..=4094).contains(id)) {
        r.wrong(
            "balancer-value",
            span,
            format!("there is no VLAN {id}"),
            "write 1 to 4094",
        );
    }
    match (inside, vlan) {
        (Inside::Vlan, None) => {
            let wrong = "this port has no VLAN".to_owned();
            r.wrong(
                "balancer-port",
                place,
                wrong,
                "write vlan = 101, or inside = \"flat\" in [balancer]",
            );
        }
        (Inside::Flat, Some((_, span))) => {
            let wrong = "front ports have VLANs only with inside = \"vlan\"".to_owned();
            r.wrong(
                "balancer-port",
                span,
                wrong,
                "leave it out, or write inside = \"vlan\" in [balancer]",
            );
        }
        _ => {}
    }
    if addresses.is_empty() {
        let wrong = "this port has no address".to_owned();
        r.wrong(
            "file-missing",
            place,
            wrong,
            "write addresses = [\"10.0.1.1/24\"], the router's own with its network",
        );
    }
    let mut port = Port {
        name: name.map_or_else(|| format!("p{at}"), |word| word.text),
        device: String::new(),
        v4: Vec::new(),
        v6: Vec::new(),
        vlan: vlan.map(|(id, _)| id),
        outside,
        proxy: Vec::new(),
        vrrp: None,
    };
    port.vrrp = vrrp.map(|(id, control)| Vrrp {
        id,
        control: control.unwrap_or_else(|| port.name.clone()),
    });
    for word in addresses {
        match network(&word.text) {
            Some((IpAddr::V4(address), length)) if is_host4(address, length) => {
                port.v4.push((address, length))
            }
            Some((IpAddr::V6(address), length)) if is_host6(address) => {
                port.v6.push((address, length))
            }
            _ => {
                let wrong = format!(
                    "`{}` is no address of a host with the length of its network",
                    word.text
                );
                r.wrong(
                    "balancer-value",
                    word.span,
                    wrong,
                    "write it as 10.0.1.1/24 or fd00:1::1/64",
                );
            }
        }
    }
    for word in proxies {
        match network(&word.text) {
            Some((IpAddr::V4(address), length)) => port.proxy.push((address, length)),
            _ => {
                let wrong = format!("`{}` is no IPv4 network", word.text);
                r.wrong(
                    "balancer-value",
                    word.span,
                    wrong,
                    "write it as 203.0.113.0/26",
                );
            }
        }
    }
    if let Some(word) = device_word {
        port.device = device(r, word?)?;
    }
    Some((port, place))
}

/// Parses the virtual router of a front port: its identifier, and the control-plane interface if one is given.
fn vrrp(r: &mut Reader, fields: &mut Fields, inside: Inside) -> Option<(u8, Option<String>)> {
    let control = fields.word(r, "control");
    let Some((id, place)) = fields.value::<u16>(r, "vrrp") else {
        if let Some(word) = control {
            let wrong = "only a port that balancers share by VRRP has a `control`".to_owned();
            r.wrong(
                "balancer-port",
                word.span,
                wrong,
                "write vrrp = 1, or leave it out",
            );
        }
        return None;
    };
    let control = control.filter(|word| is_name(r, word));
    if inside == Inside::Flat {
        let wrong = "ports that balancers share by VRRP need a VLAN of their own inside".to_owned();
        r.wrong(
            "balancer-port",
            place,
            wrong,
            "write inside = \"vlan\" in [balancer]",
        );
    }
    match u8::try_from(id) {
        Ok(id) if id > 0 => Some((id, control.map(|word| word.text))),
        _ => {
            let wrong = format!("there is no virtual router {id}");
            r.wrong("balancer-value", place, wrong, "write 1 to 255");
            None
        }
    }
}

fn backend(r: &mut Reader, mut fields: Fields) -> Option<Backend> {
    let name = fields.needed(r, "name", "write name = \"r1\": its buckets follow from it");
    let ether_help = "write ether = \"02:00:00:00:00:01\", the address of its port to the switch";
    let ether = fields.needed(r, "ether", ether_help);
    let address_help =
        "write address = \"10.255.0.11\", its own on the network behind the balancer";
    let address = fields.needed(r, "address", address_help);
    let weight = bounded(r, &mut fields, "weight", 1, (1, WEIGHT_MAX.into())) as u16;
    let owned = fields.words(r, "owns");
    let port = fields.word(r, "device");
    fields.end(r);
    let name = name.filter(|word| is_name(r, word));
    let ether = ether.and_then(|word| {
        let found = word
            .text
            .parse::<EtherAddr>()
            .ok()
            .filter(|ether| ether.is_unicast());
        if found.is_none() {
            let wrong = format!("`{}` is the Ethernet address of no port", word.text);
            r.wrong("balancer-value", word.span, wrong, ether_help);
        }
        found
    });
    let address = address.and_then(|word| {
        let found = word.text.parse::<Ipv4Addr>().ok();
        if found.is_none() {
            let wrong = format!("`{}` is no IPv4 address", word.text);
            r.wrong("balancer-value", word.span, wrong, address_help);
        }
        found
    });
    let mut owns = Vec::new();
    for word in owned {
        match network(&word.text) {
            Some(network) => owns.push(network),
            None => {
                let wrong = format!("`{}` is no network", word.text);
                r.wrong(
                    "balancer-value",
                    word.span,
                    wrong,
                    "write it as 203.0.113.0/26",
                );
            }
        }
    }
    let device = match port {
        Some(word) => device(r, word)?,
        None => "eth0".to_owned(),
    };
    Some(Backend {
        name: name?.text,
        ether: ether?,
        address: address?,
        weight,
        owns,
        device,
    })
}

/// Parses members of a class, from 0 to `last`, that belong to no other class.
fn members(
    r: &mut Reader,
    words: &[Word],
    (what, last): (&str, u8),
    mut taken: Vec<u8>,
) -> Vec<u8> {
    let mut own = Vec::new();
    for word in words {
        match word.text.parse::<u8>() {
            Ok(number) if number > last => {}
            Ok(number) if taken.contains(&number) => {
                let wrong = format!("{what} {number} is named twice");
                let help = format!("a {what} belongs to one class");
                r.wrong("balancer-class", word.span, wrong, &help);
                continue;
            }
            Ok(number) => {
                taken.push(number);
                own.push(number);
                continue;
            }
            Err(_) => {}
        }
        let wrong = format!("`{}` is no {what}", word.text);
        let help = format!("write 0 to {last}");
        r.wrong("balancer-class", word.span, wrong, &help);
    }
    own
}

fn classes(r: &mut Reader, fields: &mut Fields, names: &[String]) -> Vec<Class> {
    let span = fields.span;
    let mut all: Vec<Class> = Vec::new();
    for mut fields in fields.tables(r, "class", "[[balancer.class]]") {
        let span = fields.span;
        let dscps = fields.words_or_numbers(r, "dscp");
        let priorities = fields.words_or_numbers(r, "priority");
        let words = fields.words(r, "backends");
        fields.end(r);
        if dscps.is_empty() && priorities.is_empty() || words.is_empty() {
            let wrong = "this class has no packets or no back ends".to_owned();
            let help = "write dscp = [46] or priority = [5], and backends = [\"r1\"]";
            r.wrong("balancer-class", span, wrong, help);
        }
        let others = |of: fn(&Class) -> &Vec<u8>| all.iter().flat_map(of).copied().collect();
        let class = Class {
            dscps: members(r, &dscps, ("DSCP", 63), others(|class| &class.dscps)),
            priorities: members(
                r,
                &priorities,
                ("VLAN priority", 7),
                others(|class| &class.priorities),
            ),
            backends: words
                .iter()
                .filter_map(|word| number(r, names, word))
                .collect(),
        };
        let has_packets = !class.dscps.is_empty() || !class.priorities.is_empty();
        if has_packets && !class.backends.is_empty() {
            all.push(class);
        }
    }
    if all.len() > CLASSES_MAX {
        let wrong = format!("there are more than {CLASSES_MAX} classes");
        r.wrong(
            "balancer-class",
            span,
            wrong,
            "put packets with the same back ends into one",
        );
        all.truncate(CLASSES_MAX);
    }
    all
}

/// Index of the back end named by `word`. An unknown name is recorded as an error.
fn number(r: &mut Reader, names: &[String], word: &Word) -> Option<usize> {
    let found = names.iter().position(|name| *name == word.text);
    if found.is_none() {
        let near = arguments::near::nearest(&word.text, names.iter().map(String::as_str));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", names.join(", ")),
        };
        let wrong = format!("there is no back end `{}`", word.text);
        r.wrong("balancer-unknown", word.span, wrong, &help);
    }
    found
}

/// Index of a word among `words`; 0 if none is given.
fn choice(r: &mut Reader, fields: &mut Fields, key: &'static str, words: &[&str]) -> usize {
    let Some(word) = fields.word(r, key) else {
        return 0;
    };
    let found = words.iter().position(|known| *known == word.text);
    if found.is_none() {
        let wrong = format!("`{key}` cannot be `{}`", word.text);
        let all: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        r.wrong(
            "balancer-value",
            word.span,
            wrong,
            &format!("write {}", all.join(" or ")),
        );
    }
    found.unwrap_or(0)
}

fn bounded(
    r: &mut Reader,
    fields: &mut Fields,
    key: &'static str,
    usual: u32,
    (least, most): (u32, u32),
) -> u32 {
    match fields.value::<u32>(r, key) {
        None => usual,
        Some((n, _)) if (least..=most).contains(&n) => n,
        Some((n, span)) => {
            let wrong = format!("`{key}` cannot be {n}");
            r.wrong(
                "balancer-value",
                span,
                wrong,
                &format!("write {least} to {most}"),
            );
            usual
        }
    }
}

fn time(r: &mut Reader, fields: &mut Fields, key: &'static str, usual_ms: u64) -> Duration {
    match fields.value::<Duration>(r, key) {
        None => Duration::from_millis(usual_ms),
        Some((time, _)) if time <= TIME_MAX => time,
        Some((_, span)) => {
            let wrong = format!("`{key}` is more than a day");
            r.wrong(
                "balancer-value",
                span,
                wrong,
                "write a shorter time, such as 30s",
            );
            TIME_MAX
        }
    }
}

/// Parses a device that is also a valid element name, since its address is an AddressInfo entry.
fn device(r: &mut Reader, word: Word) -> Option<String> {
    if !word.text.is_empty() && is_plain(&word.text) {
        return Some(word.text);
    }
    let wrong = format!("`{}` cannot be a port of a balancer", word.text);
    r.wrong(
        "balancer-value",
        word.span,
        wrong,
        "ports are named by letters, digits and `_-./:@`",
    );
    None
}

/// True if a word is a valid name, for use in configurations, API paths and commands.
pub(super) fn is_name(r: &mut Reader, word: &Word) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let begins = word.text.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_good =
        begins && word.text.chars().all(fits) && word.text.len() <= 64 && word.text != "WEIGHT";
    if !is_good {
        let wrong = format!("`{}` is no name", word.text);
        r.wrong(
            "balancer-name",
            word.span,
            wrong,
            "take at most 64 letters, digits, `_`, `-` and `.`, and begin with a letter",
        );
    }
    is_good
}

fn is_host6(address: Ipv6Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback())
}
