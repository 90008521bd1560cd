//! VLAN sub-interfaces: `eth0.100` where a device is named.
//!
//! A name `PORT.ID` that is no device of its own stands for the frames of `PORT` that carry VLAN
//! `ID`. Before a configuration is planned, it is rewritten into what could have been written by
//! hand: one FromDevice for the port with a VLANSplit behind it, and a VLANEncap before each
//! input of a ToDevice. Names of elements, their handlers and the plan stay as the user wrote them.

use engine::port::PortDirectory;
use lang::{Config, Connection, Element, Port, Router, Span};
use planner::Options;
use std::collections::BTreeSet;

/// Receiving and sending classes, with the class that takes a receiver's place.
pub(super) const RECEIVERS: [&str; 2] = ["FromDevice", "FromDPDKDevice"];
const SENDERS: [&str; 2] = ["ToDevice", "ToDPDKDevice"];

/// Port and VLAN that the name of a sub-interface would say, if it is no device of its own: `eth0` and 100 of `eth0.100`.
pub fn port_and_vlan(device: &str) -> Option<(&str, u16)> {
    let (port, id) = device.rsplit_once('.')?;
    let id: u16 = id.parse().ok().filter(|id| (1..4095).contains(id))?;
    let bare = !port.is_empty() && !port.contains(':') && !port.contains('/');
    bare.then_some((port, id))
}

/// What the names of elements end with that [`rewrite`] adds: of a port's VLANSplit, and before an input of a sender.
const SPLIT: &str = "/vlans";
const ENCAP: &str = "/vlan";

/// A way of packets of VLANs, by the element that `rewrite` has added for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way<'a> {
    /// From this port: each VLAN has an output, from 1 on, in the order of the configuration.
    In(&'a str),
    /// By the port of this element.
    Out(&'a str),
}

/// The way that an element of this class and name is; none of an element that somebody has written.
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

/// Port and VLAN of a sub-interface's name.
fn parse(device: &str, ports: &dyn PortDirectory) -> Option<(String, u16)> {
    let (port, id) = port_and_vlan(device)?;
    ports.probe(device).is_err().then(|| (port.to_owned(), id))
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
    for index in 0..router.elements.len() {
        let element = &router.elements[index];
        let sender = SENDERS.contains(&element.class.as_str());
        if !sender && !RECEIVERS.contains(&element.class.as_str()) {
            continue;
        }
        let Some((range, device)) = device_of(element) else {
            continue;
        };
        let Some((port, id)) = parse(&device, ports) else {
            continue;
        };
        if sender {
            encapsulate(router, index, range, &port, id);
        } else {
            split(router, index, range, &port, id);
        }
    }
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

/// What was sent to an input of `sender` is tagged before.
fn encapsulate(
    router: &mut Router,
    sender: usize,
    range: std::ops::Range<usize>,
    port: &str,
    id: u16,
) {
    let name = format!("{}{ENCAP}", router.elements[sender].name);
    router.elements[sender].config = with_device(&router.elements[sender], range, port);
    let to_sender = |c: &&Connection| c.to.element == sender;
    let used = router.connections.iter().filter(to_sender);
    let mut inputs: BTreeSet<usize> = used.map(|c| c.to.port).collect();
    // Who is not connected is told so by its first input.
    inputs.insert(0);
    for input in inputs {
        // The second input has a tag of its own, as it goes its own way.
        let name = match input {
            0 => name.clone(),
            more => format!("{name}{more}"),
        };
        let encap = add(router, name, "VLANEncap", id.to_string(), sender);
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
fn split(router: &mut Router, receiver: usize, range: std::ops::Range<usize>, port: &str, id: u16) {
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
        id.to_string()
    } else {
        format!("{}, {id}", ids.text)
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
            "a :: FromDevice(eth0.10, BURST 8) -> x :: ToDevice(eth1.7); b :: FromDevice(eth0.20) -> y :: ToDevice(eth1)",
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
