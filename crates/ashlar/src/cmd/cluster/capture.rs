//! `ashlar cluster capture`: packets of another server.

use super::Done;
use crate::cli::cluster::members::{Capture, Spot};
use crate::cmd::capture::capture_from;
use control::agreement::Home;
use control::client::cluster::PortElements;
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

/// Elements of the port of a spot, if it names one.
///
/// # Errors
///
/// The server does not answer, or has no such port; a sentence.
pub(super) fn port(client: &Client, spot: &Spot) -> Result<Option<PortElements>, String> {
    let Some(name) = &spot.port else {
        return Ok(None);
    };
    let member: Member = client.get_json("/v1/member")?;
    let number = number(&member, name)?;
    let stats: Stats = client.get_json("/v1/stats")?;
    let port = PortElements::of(&stats, number);
    port.map(Some)
        .ok_or_else(|| format!("server {} receives nothing by port {name}", member.server))
}

/// Elements of all external ports that receive.
///
/// # Errors
///
/// The server does not answer; a sentence.
pub(super) fn ports(client: &Client) -> Result<Vec<PortElements>, String> {
    let member: Member = client.get_json("/v1/member")?;
    let stats: Stats = client.get_json("/v1/stats")?;
    let ports = 0..member.ports.len();
    Ok(ports
        .filter_map(|number| PortElements::of(&stats, number))
        .collect())
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

#[cfg(test)]
mod tests {
    use super::*;

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
