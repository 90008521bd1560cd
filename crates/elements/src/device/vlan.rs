//! VLAN sub-interfaces: `eth0.100` where a device is named.
//!
//! A name `PORT.ID` that is no device of its own stands for the frames of `PORT` that carry VLAN `ID` in an 802.1Q tag;
//! `PORT.sID` for those of an 802.1ad tag. A sub-interface may have sub-interfaces: `eth0.s100.7`. Before a
//! configuration is planned, it is rewritten into what could have been written by hand: one FromDevice for the port
//! with a VLANSplit behind it, and a VLANEncap before each input of a ToDevice. Names of elements, their handlers and
//! the plan stay as the user wrote them.

use engine::port::PortDirectory;
use lang::{Config, Connection, Element, Port, Router, Span};
use planner::Options;
use std::collections::BTreeSet;
use wire::vlan::Tag;

/// Receiving and sending classes, with the class that takes a receiver's place.
pub(super) const RECEIVERS: [&str; 2] = ["FromDevice", "FromDPDKDevice"];
const SENDERS: [&str; 2] = ["ToDevice", "ToDPDKDevice"];

/// Port and VLAN that the name of a sub-interface would say, if it is no device of its own: `eth0` and 100 of
/// `eth0.100`. The port may be a sub-interface again.
pub fn port_and_vlan(device: &str) -> Option<(&str, Tag)> {
    let (port, tag) = device.rsplit_once('.')?;
    let tag = tag.parse().ok()?;
    let bare = !port.is_empty() && !port.contains(':') && !port.contains('/');
    bare.then_some((port, tag))
}

/// Port that carries a name's frames: the name itself or, for a sub-interface that is no device, the port below.
pub fn carrier(device: &str, is_device: impl Fn(&str) -> bool) -> &str {
    let mut port = device;
    while let Some((below, _)) = port_and_vlan(port) {
        if is_device(port) {
            break;
        }
        port = below;
    }
    port
}

/// Tags that frames of sub-interfaces have at most.
const TAGS_MAX: usize = 2;

/// Suffixes of the names of elements that [`rewrite`] adds: a port's VLANSplit, and the element before an input of a
/// sender.
const SPLIT: &str = "/vlans";
const ENCAP: &str = "/vlan";
/// Suffix of an element that adds the outer of two tags.
const OUTER_ENCAP: &str = "/outer_vlan";

/// A way of packets of VLANs, by the element that `rewrite` has added for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way<'a> {
    /// From this port: each VLAN has an output, from 1 on, in the order of the configuration.
    In(&'a str),
    /// Sent by the port of this element.
    Out(&'a str),
}

/// The element, if there is one, that puts an outer tag on a sender's packets.
pub fn outer_of(sender: &str) -> String {
    format!("{sender}{OUTER_ENCAP}")
}

/// Way that an element of this class and name implements; `None` for an element in the user's text.
pub fn way<'a>(class: &str, name: &'a str) -> Option<Way<'a>> {
    match class {
        "VLANSplit" => name.strip_suffix(SPLIT).map(Way::In),
        "VLANEncap" => {
            let (sender, input) = name.rsplit_once(ENCAP)?;
            let is_added = input.is_empty() || input.parse::<usize>().is_ok();
            is_added.then_some(Way::Out(sender))
        }
        _ => None,
    }
}

/// The VLAN that a VLANEncap of this configuration puts frames into, if `rewrite` has added it.
pub fn encap_tag(config: &str) -> Option<Tag> {
    let (id, service) = match config.split_once(',') {
        Some((id, more)) => (id, more.trim() == SERVICE),
        None => (config, false),
    };
    let tag = id.trim().parse::<Tag>().ok()?;
    let prefix = if service { "s" } else { "" };
    format!("{prefix}{tag}").parse().ok()
}

/// Argument that makes a VLANEncap write tags of 802.1ad.
const SERVICE: &str = "ETHERTYPE 0x88a8";

/// Port and VLAN of a sub-interface's name.
fn parse(device: &str, ports: &dyn PortDirectory) -> Option<(String, Tag)> {
    let (port, tag) = port_and_vlan(device)?;
    ports.probe(device).is_err().then(|| (port.to_owned(), tag))
}

/// Number of tags of a name's frames.
fn tags(device: &str, ports: &dyn PortDirectory) -> usize {
    match parse(device, ports) {
        Some((port, _)) => 1 + tags(&port, ports),
        None => 0,
    }
}

/// The device argument of a receiver or sender, with its place in the configuration.
pub(super) fn device_of(element: &Element) -> Option<(std::ops::Range<usize>, String)> {
    let range = lang::args::split(&element.config.text).into_iter().next()?;
    let text = &element.config.text[range.clone()];
    let value = lang::args::keyword(text)
        .filter(|(k, _)| *k == "DEVICE")
        .map_or(text, |(_, v)| v);
    Some((range, lang::args::unquote(value).into_owned()))
}

/// Replaces sub-interfaces by ports and VLAN elements.
pub(super) fn rewrite(router: &mut Router, options: &Options) {
    let ports = options.ports;
    // Inner tags first: what is left then is a sub-interface with an outer tag.
    for depth in (1..=TAGS_MAX).rev() {
        let mut index = 0;
        while index < router.elements.len() {
            let element = &router.elements[index];
            let sender = SENDERS.contains(&element.class.as_str());
            if (sender || RECEIVERS.contains(&element.class.as_str()))
                && let Some((range, device)) = device_of(element)
                && let Some((port, tag)) = parse(&device, ports)
                && tags(&device, ports) == depth
            {
                if sender {
                    let name = [ENCAP, OUTER_ENCAP][usize::from(has_encap(router, index))];
                    encapsulate(router, (index, range), &port, (name, tag));
                } else {
                    split(router, index, range, &port, tag);
                }
            }
            index += 1;
        }
    }
}

/// True if frames to a sender get a tag already.
fn has_encap(router: &Router, sender: usize) -> bool {
    let name = format!("{}{ENCAP}", router.elements[sender].name);
    router.find(&name).is_some()
}

/// The element's configuration with another device.
fn with_device(element: &Element, range: std::ops::Range<usize>, port: &str) -> Config {
    let text = &element.config.text;
    let changed = format!(
        "{}{}{}",
        &text[..range.start],
        lang::args::quote(port),
        &text[range.end..]
    );
    Config::verbatim(changed, element.config.span())
}

/// Adds an element that stands where `like` does.
pub(super) fn add(
    router: &mut Router,
    name: String,
    class: &str,
    config: String,
    like: usize,
) -> usize {
    let span: Span = router.elements[like].span;
    router.elements.push(Element {
        name,
        class: class.to_owned(),
        config: Config::verbatim(config, router.elements[like].config.span()),
        span,
        class_span: router.elements[like].class_span,
    });
    router.elements.len() - 1
}

/// Inserts an element that tags packets for an input of `sender`.
fn encapsulate(
    router: &mut Router,
    (sender, range): (usize, std::ops::Range<usize>),
    port: &str,
    (name, tag): (&str, Tag),
) {
    let name = format!("{}{name}", router.elements[sender].name);
    let config = match tag.is_service() {
        true => format!("{}, {SERVICE}", tag.id),
        false => tag.id.to_string(),
    };
    router.elements[sender].config = with_device(&router.elements[sender], range, port);
    let to_sender = |c: &&Connection| c.to.element == sender;
    let used = router.connections.iter().filter(to_sender);
    let mut inputs: BTreeSet<usize> = used.map(|c| c.to.port).collect();
    // An unconnected element gets its error for its first input.
    inputs.insert(0);
    for input in inputs {
        // The second input has a tag of its own, as it goes its own way.
        let name = match input {
            0 => name.clone(),
            more => format!("{name}{more}"),
        };
        let encap = add(router, name, "VLANEncap", config.clone(), sender);
        let to = Port {
            element: sender,
            port: input,
        };
        for connection in router.connections.iter_mut().filter(|c| c.to == to) {
            connection.to = Port {
                element: encap,
                port: 0,
            };
        }
        connect(router, (encap, 0), (sender, input));
    }
}

/// `receiver` becomes a counter behind the port's VLANSplit.
fn split(
    router: &mut Router,
    receiver: usize,
    range: std::ops::Range<usize>,
    port: &str,
    tag: Tag,
) {
    let split_name = format!("{port}{SPLIT}");
    let splitter = match router.find(&split_name) {
        Some(splitter) => splitter,
        None => {
            let from = receiver_of(router, receiver, range, port);
            let splitter = add(router, split_name, "VLANSplit", String::new(), receiver);
            for connection in router
                .connections
                .iter_mut()
                .filter(|c| c.from.element == from)
            {
                connection.from.element = splitter;
            }
            connect(router, (from, 0), (splitter, 0));
            splitter
        }
    };
    let ids = &router.elements[splitter].config;
    let more = if ids.text.is_empty() {
        tag.to_string()
    } else {
        format!("{}, {tag}", ids.text)
    };
    let output = lang::args::split(&more).len();
    router.elements[splitter].config = Config::verbatim(more, ids.span());
    router.elements[receiver].class = "Counter".to_owned();
    router.elements[receiver].config =
        Config::verbatim("", router.elements[receiver].config.span());
    connect(router, (splitter, output), (receiver, 0));
}

/// The element that receives from `port`: the user's own, or a new one with the settings of `like`.
fn receiver_of(
    router: &mut Router,
    like: usize,
    range: std::ops::Range<usize>,
    port: &str,
) -> usize {
    let own = (0..router.elements.len()).find(|&i| {
        RECEIVERS.contains(&router.elements[i].class.as_str())
            && device_of(&router.elements[i]).is_some_and(|(_, device)| device == port)
    });
    own.unwrap_or_else(|| {
        let config = with_device(&router.elements[like], range, port).text;
        let class = router.elements[like].class.clone();
        add(router, format!("{port}/from"), &class, config, like)
    })
}

pub(super) fn connect(router: &mut Router, from: (usize, usize), to: (usize, usize)) {
    let span = router.elements[to.0].span;
    router.connections.push(Connection {
        from: Port {
            element: from.0,
            port: from.1,
        },
        to: Port {
            element: to.0,
            port: to.1,
        },
        span,
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::port::NoPorts;

    fn rewritten(text: &str) -> String {
        let mut map = lang::SourceMap::new();
        let file = map.add("test.click", text);
        let (mut router, errors) = lang::parse(&mut map, file, &[]);
        assert!(errors.is_empty(), "{errors:?}");
        rewrite(&mut router, &Options::new(1, &NoPorts));
        lang::print(&router)
    }

    #[test]
    fn sub_interfaces_share_one_receiver_and_tag_what_they_send() {
        let text = rewritten(
            "a :: FromDevice(eth0.10, BURST 8) -> x :: ToDevice(eth1.7); b :: FromDevice(eth0.20) -> y :: \
                ToDevice(eth1)",
        );
        for part in [
            "FromDevice(eth0, BURST 8)",
            "VLANSplit(10, 20)",
            "a :: Counter",
            "b :: Counter",
            "VLANEncap(7)",
            "x :: ToDevice(eth1)",
            "y :: ToDevice(eth1)",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
    }

    #[test]
    fn each_input_of_a_sender_is_tagged_and_stays_what_it_is() {
        let text = rewritten(
            "Idle -> out :: ToDevice(eth0.100); FromDevice(eth1) -> [1] out; Idle -> [1] out",
        );
        assert_eq!(text.matches("VLANEncap(100)").count(), 2, "{text}");
        for part in ["-> out/vlan -> out;", "-> out/vlan1 -> [1] out;"] {
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(line.contains(part), "{part} is missing:\n{text}");
        }
        assert_eq!(text.matches("-> out/vlan1").count(), 2, "{text}");
    }

    #[test]
    fn stacked_vlans_have_a_split_and_a_tag_for_each() {
        let line = |text: &str| {
            rewritten(text)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        let text = line(
            "o :: FromDevice(eth0.s100) -> Discard; i :: FromDevice(eth0.s100.7) -> x :: ToDevice(eth0.s100.7);
            Idle -> y :: ToDevice(eth0.s100)",
        );
        for part in [
            "eth0/from :: FromDevice(eth0)",
            "eth0/vlans :: VLANSplit(s100)",
            "eth0.s100/vlans :: VLANSplit(7)",
            "eth0/vlans [1] -> o -> eth0.s100/vlans",
            "eth0.s100/vlans [1] -> i",
            "x/vlan :: VLANEncap(7)",
            "x/outer_vlan :: VLANEncap(100, ETHERTYPE 0x88a8)",
            "x/vlan -> x/outer_vlan -> x",
            "y/vlan :: VLANEncap(100, ETHERTYPE 0x88a8)",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
        assert_eq!(text.matches("FromDevice").count(), 1, "{text}");
        assert_eq!(carrier("eth0.s100.7", |name| name == "eth0"), "eth0");
        assert_eq!(carrier("eth0.100.7", |name| name == "eth0.100"), "eth0.100");
        let tags = ["7", "100, ETHERTYPE 0x88a8", "ANNO"].map(encap_tag);
        assert_eq!(
            tags,
            [Some("7"), Some("s100"), None].map(|t| t.map(|t| t.parse().unwrap()))
        );
    }

    #[test]
    fn untagged_frames_stay_with_the_port_itself() {
        let text =
            rewritten("p :: FromDevice(eth0) -> Discard; a :: FromDevice(eth0.10) -> Discard");
        assert_eq!(text.matches("FromDevice").count(), 1, "{text}");
        assert!(text.contains("VLANSplit(10)"), "{text}");
    }

    #[test]
    fn files_and_other_names_with_a_dot_are_left_alone() {
        let text = rewritten("FromDevice(pcap:in.10) -> Discard; FromDevice(eth0.4095) -> Discard");
        assert!(!text.contains("VLANSplit"), "{text}");
    }
}
