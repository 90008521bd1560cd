//! Numbers in frames between servers, and the check that a changed file does not reassign them.

use super::description::Description;
use serde::{Deserialize, Serialize};

/// Assignment of numbers to links, ports and gateways.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// Name of the cluster, whose hash distinguishes its frames.
    cluster: String,
    servers: Vec<String>,
    /// Names of the links: `A-B`, and `A-B/2` for the second link between two servers.
    links: Vec<String>,
    /// Name and device of each external port of the server.
    ports: Vec<(String, String)>,
    /// Gateways of each port.
    gateways: Vec<Vec<String>>,
}

impl Numbers {
    /// Numbers from the view of one server.
    pub fn new(of: &Description, server: usize) -> Numbers {
        let mut links: Vec<String> = Vec::new();
        for link in &of.links {
            let [a, b] = link.ends.map(|end| &*of.servers[end].name);
            let pair = format!("{a}-{b}");
            let tap_interfaces = links
                .iter()
                .filter(|link| link.split('/').next() == Some(&*pair));
            links.push(match tap_interfaces.count() {
                0 => pair,
                interface => format!("{pair}/{}", interface + 1),
            });
        }
        let ports = of
            .servers
            .get(server)
            .map_or(&[][..], |server| &server.ports);
        let gateways = ports.iter().map(|port| &port.gateways);
        Numbers {
            cluster: of.name.clone(),
            servers: of
                .servers
                .iter()
                .map(|server| server.name.clone())
                .collect(),
            links,
            ports: ports
                .iter()
                .map(|port| (port.name.clone(), port.device.clone()))
                .collect(),
            gateways: gateways
                .map(|all| all.iter().map(ToString::to_string).collect())
                .collect(),
        }
    }

    /// Name of an object in `old` whose number has changed or was reassigned, so that frames in flight would be
    /// misinterpreted. `None` if all numbers stay valid.
    pub fn moved(&self, old: &Numbers) -> Option<String> {
        if self.cluster != old.cluster {
            return None; // frames of the old one are known by its name
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing::{TWO, description};

    fn numbers(text: &str) -> Numbers {
        Numbers::new(&description(text), 0)
    }

    #[test]
    fn what_is_appended_or_goes_from_the_end_moves_nothing() {
        let old = numbers(TWO);
        let more = TWO.to_owned()
            + "[[server]]\nname = \"c\"\n[[link]]\nbetween = [\"c\", \"a\"]\nrate = \"1Gbps\"\ndevices = [\"x\", \
                \"y\"]\n";
        assert_eq!(numbers(&more).moved(&old), None);
        assert_eq!(old.moved(&numbers(&more)), None);
        let gateway = TWO.replace("\"fe80::9\"]", "\"fe80::9\", \"10.0.1.9\"]");
        assert_eq!(numbers(&gateway).moved(&old), None);
        let device = TWO.replacen("eth0", "eth7", 1);
        assert_eq!(numbers(&device).moved(&old), None);
    }

    #[test]
    fn what_changes_its_number_is_named() {
        let old = numbers(TWO);
        let moved = |from: &str, to: &str| {
            assert!(TWO.contains(from), "{from}");
            numbers(&TWO.replacen(from, to, 1)).moved(&old)
        };
        let new = |name: &str| format!("[[server]]\nname = \"{name}\"\n");
        let first = format!(
            "{}[[link]]\nbetween = [\"c\", \"a\"]\nrate = \"1Gbps\"\ndevices = [\"x\", \"y\"]\n",
            new("c")
        );
        let server = moved(&new("b"), &format!("{first}{}", new("b")));
        assert_eq!(server.as_deref(), Some("server `b`"));
        let gateway = moved("\"10.0.1.254\", \"fe80::9\"", "\"fe80::9\", \"10.0.1.254\"");
        assert_eq!(gateway.as_deref(), Some("gateway `10.0.1.254`"));
        let port = "[[server.port]]\ndevice = \"eth9\"\naddresses = [\"10.0.9.1/24\"]\n";
        let port = moved("[[server.port]]\n", &format!("{port}[[server.port]]\n"));
        assert_eq!(port.as_deref(), Some("port `eth0`"));
        assert_eq!(moved("name = \"two\"", "name = \"other\""), None);
        let twice =
            TWO.to_owned() + "[[link]]\nbetween = [\"a\", \"b\"]\ndevices = [\"x\", \"y\"]\n";
        assert_eq!(numbers(&twice).moved(&old), None);
    }

    #[test]
    fn a_link_before_others_is_named() {
        let three = TWO.to_owned()
            + "[[server]]\nname = \"c\"\n[[link]]\nbetween = [\"c\", \"a\"]\nrate = \"1Gbps\"\ndevices = [\"x\", \
                \"y\"]\n";
        let between = "[[link]]\nbetween = [\"b\", \"a\"]";
        let first =
            "[[link]]\nbetween = [\"c\", \"b\"]\nrate = \"1Gbps\"\ndevices = [\"z\", \"z\"]\n";
        let changed = three.replace(between, &format!("{first}{between}"));
        let moved = numbers(&changed).moved(&numbers(&three));
        assert_eq!(moved.as_deref(), Some("link `a-b`"));
    }
}
