//! Numbers of links, ports and gateways of a described cluster.

use super::description::Description;
use crate::description::numbers::Numbers;

impl Description {
    /// Numbers in frames, as one server assigns them.
    pub(crate) fn numbers(&self, server: usize) -> Numbers {
        let mut links: Vec<String> = Vec::new();
        for link in &self.links {
            let [a, b] = link.ends.map(|end| &*self.servers[end].name);
            let pair = format!("{a}-{b}");
            let tap_interfaces = links
                .iter()
                .filter(|link| link.split('/').next() == Some(&*pair));
            links.push(match tap_interfaces.count() {
                0 => pair,
                interface => format!("{pair}/{}", interface + 1),
            });
        }
        let ports = self
            .servers
            .get(server)
            .map_or(&[][..], |server| &server.ports);
        let gateways = ports.iter().map(|port| &port.gateways);
        Numbers {
            cluster: self.name.clone(),
            servers: self
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::cluster::testing::{TWO, description};

    fn numbers(text: &str) -> Numbers {
        description(text).numbers(0)
    }

    #[test]
    fn appending_or_removing_at_the_end_changes_no_number() {
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
    fn objects_with_changed_numbers_are_named() {
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
