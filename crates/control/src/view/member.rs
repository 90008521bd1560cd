//! A cluster's server as it tells of itself to other members.

use serde::{Deserialize, Serialize};

/// Response of `GET /v1/member`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the server.
    pub server: String,
    /// Version of the server's program.
    pub program: String,
    /// Time on the server's clock, in milliseconds since 1970.
    pub now_ms: u64,
    /// Highest epoch that the server has seen.
    pub epoch: u64,
    /// True if the server leads, as far as it knows.
    pub leads: bool,
    /// Version of the description that the server runs.
    pub version: u64,
    /// Version that all servers are to run, as etcd had it last; `None` if the server has not learned it yet.
    pub wanted: Option<u64>,
    /// Reason why etcd does not answer the server.
    pub trouble: Option<String>,
    /// Reason why the server does not run the wanted version.
    pub error: Option<String>,
    /// Names of the external ports, in the order of their numbers.
    pub ports: Vec<String>,
    /// Links to other servers, in the order of their numbers.
    pub links: Vec<MemberLink>,
    /// Network namespace of the cluster's routes, if the description names one.
    pub namespace: Option<Namespace>,
    /// Ends of the certificates.
    pub certificates: Certificates,
}

/// An event of a cluster, in `GET /v1/events`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Time on the clock of the server that noticed the event, in milliseconds since 1970.
    pub time_ms: u64,
    /// Highest epoch that the server had seen.
    pub epoch: u64,
    /// Name of the server that noticed the event.
    pub server: String,
    /// The event, in words.
    pub what: String,
}

/// A link of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberLink {
    /// Name of the server at the other end.
    pub peer: String,
    /// True if the link is in use.
    pub up: bool,
}

/// Network namespace that the cluster's routes need on a server that leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Name below `/run/netns`.
    pub name: String,
    /// True if the server's machine has it.
    pub there: bool,
}

/// Ends of a server's certificates, in seconds since 1970; `None` if a certificate cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificates {
    /// End of the server's own certificate.
    pub server_ends: Option<i64>,
    /// End of the authority's certificate.
    pub authority_ends: Option<i64>,
}

impl MemberLink {
    /// Links of the text that VLBHeartbeat's handler `links` gives: a line for each with its number, its peer and its
    /// state.
    pub fn all(states: &str) -> Vec<MemberLink> {
        let mut links = Vec::new();
        for line in states.lines() {
            let mut words = line.split_whitespace().skip(1);
            if let (Some(peer), Some(state)) = (words.next(), words.next()) {
                links.push(MemberLink {
                    peer: peer.to_owned(),
                    up: state == "up",
                });
            }
        }
        links
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_up_only_when_they_are_in_use() {
        let links = MemberLink::all("0 a up 0 12us for 3.5s\n1 b down silent for 61s\n2 c up\n");
        let links: Vec<(&str, bool)> = links.iter().map(|l| (&*l.peer, l.up)).collect();
        assert_eq!(links, [("a", true), ("b", false), ("c", true)]);
        assert!(MemberLink::all("").is_empty());
    }
}
