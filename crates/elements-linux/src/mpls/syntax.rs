//! Entries of a label table as text: `LABEL ACTION [GATEWAY] PORT [WEIGHT n] [| ...]`.

use arguments::Names;
use arguments::units::FromArg;
use forwarding::label_table::{Entry, Hop};
use std::net::IpAddr;
use wire::mpls::{self, Labels};

/// Ports that a packet can be sent to; the engine keeps 255 for "none".
const PORTS_MAX: u8 = 255;
const FORM: &str =
    "an entry is written LABEL pop [GATEWAY] PORT or LABEL swap LABELS [GATEWAY] PORT";

/// A label that may stand in packets.
pub(crate) fn label(text: &str) -> Result<u32, String> {
    let label = text.parse().ok().filter(|&n| n <= mpls::LABEL_MAX);
    match label {
        Some(mpls::IMPLICIT_NULL) => Err(
            "label 3, implicit null, stands in no packet: the router before pops the label"
                .to_owned(),
        ),
        Some(label) => Ok(label),
        None => Err(format!(
            "a label is a number up to {}, not `{text}`",
            mpls::LABEL_MAX
        )),
    }
}

/// A stack of labels, in the syntax of configurations.
#[derive(Clone, Copy)]
pub(crate) struct Stack(pub(super) Labels);

impl FromArg for Stack {
    const KIND: &'static str = "labels, the outermost first, such as 100/200";
    const LIST: bool = true;

    fn from_arg(raw: &str, _: &Names) -> Result<Stack, String> {
        let all = raw.split('/').map(label).collect::<Result<Vec<u32>, _>>()?;
        let labels = Labels::new(all).map(Stack);
        labels.ok_or_else(|| format!("there may be up to {} labels", Labels::MAX))
    }

    fn stand_in() -> Stack {
        Stack(Labels::NONE)
    }

    fn unparse(&self) -> String {
        labels(&self.0)
    }
}

/// Labels as they are written, the outermost first.
pub(crate) fn labels(labels: &Labels) -> String {
    let each: Vec<String> = labels.outermost_first().map(|l| l.to_string()).collect();
    each.join("/")
}

/// Parses a label and its entry.
pub(crate) fn entry(text: &str, names: &Names) -> Result<(u32, Entry), String> {
    let text = text.trim();
    let (first, rest) = text.split_once(char::is_whitespace).ok_or(FORM)?;
    let hops = rest.split('|').map(|hop| hop_of(hop, names));
    Ok((
        label(first)?,
        Entry::new(hops.collect::<Result<Vec<Hop>, _>>()?),
    ))
}

fn hop_of(text: &str, names: &Names) -> Result<Hop, String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (words, weight) = match words.as_slice() {
        [hop @ .., "WEIGHT", weight] => (hop, *weight),
        hop => (hop, "1"),
    };
    let (labels, way) = match words {
        ["pop", way @ ..] => (Labels::NONE, way),
        ["swap", labels, way @ ..] => (Stack::from_arg(labels, names)?.0, way),
        _ => return Err(FORM.to_owned()),
    };
    let (gateway, port) = match way {
        [port] | ["-", port] => (None, *port),
        [gateway, port] => {
            let gateway: IpAddr = gateway
                .parse()
                .map_err(|_| format!("the gateway must be an IP address, not `{gateway}`"))?;
            (Some(gateway), *port)
        }
        _ => return Err(FORM.to_owned()),
    };
    let port = port.parse::<u8>().ok().filter(|&port| port < PORTS_MAX);
    let port = port.map(u16::from);
    let weight = weight.parse().ok().filter(|&weight| weight > 0);
    Ok(Hop {
        labels,
        gateway,
        port: port.ok_or("the port must be a number up to 254")?,
        weight: weight.ok_or("the weight must be a number from 1 to 65535")?,
    })
}

/// The next hops of an entry as they are written, with ports by a name.
pub(crate) fn show(hops: &[Hop], port: impl Fn(u16) -> String) -> String {
    let each = hops.iter().map(|hop| {
        let action = match hop.labels.is_empty() {
            true => "pop".to_owned(),
            false => format!("swap {}", labels(&hop.labels)),
        };
        let gateway = hop.gateway.map_or("-".to_owned(), |g| g.to_string());
        let weight = match hop.weight {
            1 => String::new(),
            n => format!(" WEIGHT {n}"),
        };
        format!("{action} {gateway} {}{weight}", port(hop.port))
    });
    each.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_entries_equal_written_ones() {
        for text in [
            "swap 200 10.0.0.2 1",
            "swap 16/200/300 fe80::1 0",
            "pop 10.0.0.2 1 WEIGHT 3 | swap 17 - 2",
        ] {
            let (label, entry) = entry(&format!("100 {text}"), &Names::default()).unwrap();
            let shown = show(entry.hops(), |port| port.to_string());
            assert_eq!((label, shown.as_str()), (100, text));
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, wrong) in [
            ("", "an entry is written"),
            ("100", "an entry is written"),
            ("100 drop 1", "an entry is written"),
            ("100 swap 200", "an entry is written"),
            ("1048576 pop 1", "a label is a number up to 1048575"),
            ("3 pop 1", "implicit null"),
            ("100 swap 3 1", "implicit null"),
            ("100 swap 21/22/23/24/25/26/27/28/29 1", "up to 8 labels"),
            ("100 pop me 1", "the gateway must be"),
            ("100 pop 255", "the port must be"),
            ("100 pop 1 WEIGHT 0", "the weight must be"),
            ("100 pop 1 |", "an entry is written"),
        ] {
            let message = entry(text, &Names::default()).unwrap_err();
            assert!(message.contains(wrong), "{text}: {message}");
        }
    }
}
