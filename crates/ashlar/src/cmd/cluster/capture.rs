//! `ashlar cluster capture`: packets of another server.

use super::Done;
use crate::cli::cluster::members::{Capture, Spot};
use crate::cmd::capture::capture_from;
use control::agreement::Home;
use control::client::{Client, Servers};
use control::view::{Member, Stats};

pub(crate) fn capture(asked: &Capture) -> Done {
    let servers = Servers::find(&Home::open(&asked.at.home)?)?;
    let client = servers.client(&asked.spot.server)?;
    let mut points = asked.points.clone();
    if let Some(port) = port(client, &asked.spot)? {
        points.push(format!("{}[0]", port.receiver));
        points.extend(port.sender.map(|sender| format!("[0]{sender}")));
    }
    if points.is_empty() && asked.how.drops.is_none() {
        return Err(
            "say where: a port as in b:lan, a point as in `b \"enter -> link0\"`, or --drops"
                .to_owned(),
        );
    }
    capture_from(client, &points, &asked.how)
}

/// Elements of an external port.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// Name of the element that receives from the port.
    pub(super) receiver: String,
    /// Name of the element that sends to the port.
    pub(super) sender: Option<String>,
}

/// Elements of the port of a spot, if it names one.
///
/// # Errors
///
/// The server does not answer, or has no such port; a sentence.
pub(super) fn port(client: &Client, spot: &Spot) -> Result<Option<Port>, String> {
    let Some(name) = &spot.port else {
        return Ok(None);
    };
    let member: Member = client.get_json("/v1/member")?;
    let number = number(&member, name)?;
    let stats: Stats = client.get_json("/v1/stats")?;
    let port = elements(&stats, number);
    port.map(Some)
        .ok_or_else(|| format!("server {} receives nothing by port {name}", member.server))
}

fn number(member: &Member, name: &str) -> Result<usize, String> {
    let found = member.ports.iter().position(|port| port == name);
    found.ok_or_else(|| {
        format!(
            "server {} has no external port `{name}`; it has: {}",
            member.server,
            member.ports.join(", ")
        )
    })
}

/// Elements of an external port by its number, in the configuration that `ashlar cluster text` shows.
fn elements(stats: &Stats, number: usize) -> Option<Port> {
    let prefix = format!("d{number}/");
    let own = stats
        .elements
        .iter()
        .filter(|e| e.name.starts_with(&prefix));
    let mut port = (None, None);
    for element in own {
        let device = element.copies.iter().find_map(|copy| copy.device.as_ref());
        match device {
            Some(device) if device.receives => port.0 = Some(element.name.clone()),
            Some(_) => port.1 = Some(element.name.clone()),
            None => {}
        }
    }
    Some(Port {
        receiver: port.0?,
        sender: port.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::view::{CopyStats, DeviceUse, ElementStats};

    #[test]
    fn a_ports_elements_are_those_of_its_number() {
        let element = |name: &str, receives: Option<bool>| ElementStats {
            name: name.to_owned(),
            copies: vec![CopyStats {
                device: receives.map(|receives| DeviceUse {
                    receives,
                    ..DeviceUse::default()
                }),
                ..CopyStats::default()
            }],
            ..ElementStats::default()
        };
        let stats = Stats {
            elements: vec![
                element("d1/FromDevice@1", Some(true)),
                element("d1/kind", None),
                element("d1/ToDevice@4", Some(false)),
                element("d10/FromDevice@1", Some(true)),
            ],
            ..Stats::default()
        };
        let right = Port {
            receiver: "d1/FromDevice@1".to_owned(),
            sender: Some("d1/ToDevice@4".to_owned()),
        };
        assert_eq!(elements(&stats, 1), Some(right));
        assert_eq!(elements(&stats, 0), None);
    }

    #[test]
    fn a_port_that_is_not_there_is_refused_with_those_that_are() {
        let member = Member {
            server: "b".to_owned(),
            ports: vec!["lan".to_owned(), "wan".to_owned()],
            ..Member::default()
        };
        assert_eq!(number(&member, "wan"), Ok(1));
        let refused = number(&member, "dmz").unwrap_err();
        assert!(refused.ends_with("it has: lan, wan"), "{refused}");
    }
}
