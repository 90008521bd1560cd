//! VLAN sub-interfaces: `eth0.100` where a device is named.
//!
//! A name `PORT.ID` that is no device stands for the frames of `PORT` that carry VLAN `ID` in an 802.1Q tag;
//! `PORT.sID` for those of an 802.1ad tag. A sub-interface may have sub-interfaces: `eth0.s100.7`. Before a
//! configuration is planned, it is rewritten as a user could have written it: one FromDevice for the port followed by
//! a VLANSplit, and a VLANEncap before each input of a ToDevice. Names of elements, their handlers and the plan stay
//! as the user wrote them.

use engine::port::PortDirectory;
use lang::{Config, Connection, Element, Port, Router, Span};
use planner::Options;
use std::collections::BTreeSet;
use wire::vlan::Tag;

/// Receiving and sending classes, and the class that replaces a receiver.
pub(super) const RECEIVERS: [&str; 2] = ["FromDevice", "FromDPDKDevice"];
const SENDERS: [&str; 2] = ["ToDevice", "ToDPDKDevice"];

/// Port and VLAN in the name of a sub-interface: `eth0` and 100 for `eth0.100`. The port may itself be a sub-interface.
pub fn port_and_vlan(device: &str) -> Option<(&str, Tag)> {
    let (port, tag) = device.rsplit_once('.')?;
    let tag = tag.parse().ok()?;
    let bare = !port.is_empty() && !port.contains(':') && !port.contains('/');
    bare.then_some((port, tag))
}

/// Port that carries a device's frames: the device itself, or the port below a sub-interface that does not exist as a
/// device.
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

/// Maximum number of tags of a sub-interface's frames.
const TAGS_MAX: usize = 2;

/// Name suffixes of elements that [`rewrite`] adds: the VLANSplit of a port, and the encapsulator before a sender's
/// input.
const SPLIT: &str = "/vlans";
const ENCAP: &str = "/vlan";
/// Name suffix of an element that adds the outer tag.
const OUTER_ENCAP: &str = "/outer_vlan";

/// Role of an element that `rewrite` has added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertedRole<'a> {
    /// Splits the frames of this port by VLAN. Outputs from 1 on belong to VLANs in the order of the configuration.
    In(&'a str),
    /// Tags the frames of this sender.
    Out(&'a str),
}

/// Name of the element that adds the outer tag for a sender, if there is one.
pub fn outer_of(sender: &str) -> String {
    format!("{sender}{OUTER_ENCAP}")
}

/// Role of an element that was inserted here; `None` for an element of the user's configuration.
pub fn inserted_role<'a>(class: &str, name: &'a str) -> Option<InsertedRole<'a>> {
    match class {
        "VLANSplit" => name.strip_suffix(SPLIT).map(InsertedRole::In),
        "VLANEncap" => {
            let (sender, input) = name.rsplit_once(ENCAP)?;
            let is_added = input.is_empty() || input.parse::<usize>().is_ok();
            is_added.then_some(InsertedRole::Out(sender))
        }
        _ => None,
    }
}

/// VLAN of a VLANEncap with this configuration, if `rewrite` has added it.
pub fn encap_tag(config: &str) -> Option<Tag> {
    let (id, service) = match config.split_once(',') {
        Some((id, more)) => (id, more.trim() == SERVICE),
        None => (config, false),
    };
    let tag = id.trim().parse::<Tag>().ok()?;
    let prefix = if service { "s" } else { "" };
    format!("{prefix}{tag}").parse().ok()
}

/// Argument of VLANEncap for 802.1ad tags.
const SERVICE: &str = "ETHERTYPE 0x88a8";

/// Parses the name of a sub-interface. Returns its port and VLAN.
fn parse(device: &str, ports: &dyn PortDirectory) -> Option<(String, Tag)> {
    let (port, tag) = port_and_vlan(device)?;
    ports.probe(device).is_err().then(|| (port.to_owned(), tag))
}

/// Number of tags on the frames of a device.
fn tags(device: &str, ports: &dyn PortDirectory) -> usize {
    match parse(device, ports) {
        Some((port, _)) => 1 + tags(&port, ports),
        None => 0,
    }
}

/// Device argument of a receiver or sender, with its position in the configuration.
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
    // Inner tags are handled first; sub-interfaces with an outer tag are left for the next round.
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

/// True if frames to a sender are already tagged.
fn has_encap(router: &Router, sender: usize) -> bool {
    let name = format!("{}{ENCAP}", router.elements[sender].name);
    router.find(&name).is_some()
}

/// Configuration of an element with another device.
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

/// Adds an element at the source position of `like`.
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

/// Inserts an element that tags packets before an input of `sender`.
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
    // An unconnected sender is reported with its first input.
    inputs.insert(0);
    for input in inputs {
        // Each input has its own encapsulator, since packets of the second input overtake others.
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

/// Turns `receiver` into a Counter after the port's VLANSplit.
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

/// Element that receives from `port`: an existing one, or a new one with the settings of `like`.
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
    fn sub_interfaces_share_one_receiver_and_tag_their_frames() {
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
