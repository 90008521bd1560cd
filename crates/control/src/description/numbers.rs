//! Numbers in frames between the servers of a cluster, and the check that a changed file does not reassign them.

use serde::{Deserialize, Serialize};

/// Assignment of numbers to links, ports and gateways.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// Name of the cluster, whose hash distinguishes its frames.
    pub(super) cluster: String,
    pub(super) servers: Vec<String>,
    /// Names of the links: `A-B`, and `A-B/2` for the second link between two servers.
    pub(super) links: Vec<String>,
    /// Name and device of each external port of the server.
    pub(super) ports: Vec<(String, String)>,
    /// Gateways of each port.
    pub(super) gateways: Vec<Vec<String>>,
}

impl Numbers {
    /// Name of an object in `old` whose number has changed or was reassigned: frames in flight would be misinterpreted.
    /// `None` if all numbers stay valid.
    pub fn moved(&self, old: &Numbers) -> Option<String> {
        if self.cluster != old.cluster {
            return None; // frames carry the cluster's name, so frames of the old cluster are recognised
        }
        let server = changed(&old.servers, &self.servers, true);
        let server = server.map(|name| format!("server `{name}`"));
        let link = || changed(&old.links, &self.links, true).map(|name| format!("link `{name}`"));
        let ports = || {
            let split = |ports: &[(String, String)]| -> (Vec<String>, Vec<String>) {
                ports.iter().cloned().unzip()
            };
            let ((was, on), (names, devices)) = (split(&old.ports), split(&self.ports));
            // A port may have another device, and names may derive from numbers.
            let port = changed(&was, &names, true).or_else(|| changed(&on, &devices, false));
            port.map(|name| format!("port `{name}`"))
        };
        let gateway = || {
            let mut all = old.gateways.iter().zip(&self.gateways);
            let gateway = all.find_map(|(old, new)| changed(old, new, true));
            gateway.map(|address| format!("gateway `{address}`"))
        };
        server.or_else(link).or_else(ports).or_else(gateway)
    }
}

/// First name of `old` with another position now; with `replaced`, also a position with another name.
fn changed(old: &[String], new: &[String], replaced: bool) -> Option<String> {
    let mut all = old.iter().enumerate();
    let found = all.find(
        |(at, name)| match new.iter().position(|other| other == *name) {
            Some(place) => place != *at,
            None => replaced && *at < new.len(),
        },
    );
    found.map(|(_, name)| name.clone())
}
