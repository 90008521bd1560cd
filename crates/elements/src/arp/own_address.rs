//! The argument for an element's own address on a link.

use arguments::units::FromArg;
use arguments::{Kind, Names};
use std::net::Ipv4Addr;
use wire::{EtherAddr, Prefix4};

/// IP address, its network if given, and the Ethernet address if the name has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Station {
    pub(super) ip: Ipv4Addr,
    pub(super) net: Option<Prefix4>,
    pub(super) ether: Option<EtherAddr>,
}

impl FromArg for Station {
    const KIND: &'static str =
        "an IPv4 address such as 192.0.2.1 or 192.0.2.1/24, or a name for one";

    fn from_arg(raw: &str, names: &Names) -> Result<Station, String> {
        let net = names.get(raw, Kind::IpNet).or(names.get(raw, Kind::Ip));
        let wrong = || format!("must be {}, not `{raw}`", Self::KIND);
        let (ip, length) = Prefix4::parse_host(net.unwrap_or(raw)).map_err(|_| wrong())?;
        Ok(Station {
            ip,
            net: (length < 32).then(|| Prefix4::new(ip, length)),
            ether: names.get(raw, Kind::Ether).and_then(|e| e.parse().ok()),
        })
    }

    fn stand_in() -> Station {
        Station {
            ip: Ipv4Addr::UNSPECIFIED,
            net: None,
            ether: None,
        }
    }

    fn unparse(&self) -> String {
        match self.net {
            Some(net) => format!("{}/{}", self.ip, net.len()),
            None => self.ip.to_string(),
        }
    }
}
