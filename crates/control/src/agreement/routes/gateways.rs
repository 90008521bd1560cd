//! Next hops of a kernel's routes as gateways of the cluster.

use crate::description::cluster::Description;
use crate::netlink::{To, Via};
use agree::routes::{HOPS_MAX, Hop, Hops};
use std::collections::HashMap;
use std::net::IpAddr;
use wire::Prefix;

/// All gateways of a description.
pub(super) struct Gateways {
    by_address: HashMap<IpAddr, Vec<(Hop, String)>>,
}

impl Gateways {
    pub(super) fn new(of: &Description) -> Gateways {
        let mut by_address: HashMap<IpAddr, Vec<(Hop, String)>> = HashMap::new();
        for at in of.gateways() {
            let name = of.interface(at.server, at.port);
            let number = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
            let hop = Hop {
                server: number(at.server),
                port: number(at.port),
                gateway: number(at.gateway),
                weight: 1,
            };
            by_address.entry(at.address).or_default().push((hop, name));
        }
        Gateways { by_address }
    }

    /// Next hops of a route.
    ///
    /// # Errors
    ///
    /// The cluster cannot have the route; the reason in words.
    pub(super) fn hops(&self, prefix: Prefix, to: &To) -> Result<Hops, String> {
        let vias = match to {
            To::Gateways(vias) => vias,
            To::Nowhere => return Ok([].into()),
            To::Elsewhere(why) => return Err((*why).to_owned()),
        };
        if vias.len() > HOPS_MAX {
            return Err(format!("it has more than {HOPS_MAX} next hops"));
        }
        let hops = vias.iter().map(|via| self.hop(prefix, via));
        let mut hops = hops.collect::<Result<Vec<Hop>, String>>()?;
        hops.sort_unstable();
        Ok(hops.into())
    }

    fn hop(&self, prefix: Prefix, via: &Via) -> Result<Hop, String> {
        let gateway = via.gateway;
        if gateway.is_ipv4() != prefix.is_ipv4() {
            return Err(format!("its gateway {gateway} is of the other family"));
        }
        let known = self.by_address.get(&gateway).map_or(&[][..], Vec::as_slice);
        let found = match known {
            [] => return Err(format!("no port has the gateway {gateway}")),
            [(hop, _)] => Some(hop),
            several => {
                let mut named = several.iter().filter(|(_, name)| **name == *via.interface);
                named.next().map(|(hop, _)| hop)
            }
        };
        let hop = found.ok_or_else(|| {
            format!(
                "several ports have the gateway {gateway}, and no such port is named {}: {}",
                via.interface, "let the interface be called SERVER-PORT"
            )
        })?;
        Ok(Hop {
            weight: via.weight.max(1),
            ..*hop
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::cluster::testing::{TWO, description};

    fn via(gateway: &str, interface: &str) -> Via {
        Via {
            gateway: gateway.parse().unwrap(),
            interface: interface.into(),
            weight: 3,
        }
    }

    fn prefix(text: &str) -> Prefix {
        Prefix::new(text.parse().unwrap(), 8).unwrap()
    }

    #[test]
    fn a_route_is_known_by_its_gateways_and_by_interfaces_where_several_ports_have_one() {
        let wan = "addresses = [\"10.0.2.1/24\"]\n";
        let both = TWO.replace(
            wan,
            "addresses = [\"10.0.2.1/24\", \"fd00:2::1/64\"]\ngateways = [\"fe80::9\"]\n",
        );
        let gateways = Gateways::new(&description(&both));
        let hops = |to: &str, vias: &[Via]| gateways.hops(prefix(to), &To::Gateways(vias.into()));
        let hop = |server, gateway| Hop {
            server,
            port: 0,
            gateway,
            weight: 3,
        };
        assert_eq!(
            *hops("7.0.0.0", &[via("10.0.1.254", "x")]).unwrap(),
            [hop(0, 1)]
        );
        let six = [via("fe80::9", "b-wan"), via("fe80::9", "a-p0")];
        assert_eq!(*hops("2000::", &six).unwrap(), [hop(0, 2), hop(1, 1)]);
        assert_eq!(*gateways.hops(prefix("7.0.0.0"), &To::Nowhere).unwrap(), []);
        for (to, vias, why) in [
            (
                "7.0.0.0",
                &[via("10.0.1.9", "x")][..],
                "no port has the gateway 10.0.1.9",
            ),
            (
                "7.0.0.0",
                &[via("fe80::9", "a-p0")],
                "is of the other family",
            ),
            ("2000::", &[via("fe80::9", "eth0")], "called SERVER-PORT"),
            ("2000::", &vec![via("fe80::9", "a-p0"); 65], "more than 64"),
        ] {
            let said = hops(to, vias).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
