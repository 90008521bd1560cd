//! Description of shared ports and links, as in a file of routers.

use super::select::Selector;
use wire::vlan::Tag;

/// A port that routers share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOf {
    /// Name of the port in the routers' graphs, and name of its own router.
    pub name: String,
    /// Name of the device.
    pub device: String,
    /// Shares of the port.
    pub shares: Vec<ShareOf>,
}

/// A router's part of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareOf {
    /// Name of the router.
    pub router: String,
    /// The VLANs of its tags: none, one, or an outer and an inner one.
    pub vlan: Vec<Tag>,
    /// Selection among the frames with these tags.
    pub by: Vec<Selector>,
    /// True if the router gets broadcast and multicast frames.
    pub broadcast: bool,
    /// Maximum rate, in packets per second.
    pub rate: Option<u32>,
    /// Number of packets that may wait for the router, on each worker.
    pub queue: usize,
    /// The router's share of the port's sending time while the port is busy, relative to the tickets of the other
    /// routers.
    pub tickets: u32,
}

impl ShareOf {
    /// The Ethernet address that selects the router's frames.
    pub(super) fn mac(&self) -> Option<[u8; 6]> {
        self.by.iter().find_map(|by| match by {
            Selector::Mac(mac) => Some(*mac),
            _ => None,
        })
    }
}

/// A link between two routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOf {
    /// Name of the link in both graphs.
    pub name: String,
    /// Names of the two routers.
    pub routers: [String; 2],
    /// Number of packets that may wait in the link, for each direction and worker.
    pub queue: usize,
}

/// All shared ports and links of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharingSpec {
    /// Shared ports.
    pub ports: Vec<PortOf>,
    /// Links.
    pub links: Vec<LinkOf>,
}

impl SharingSpec {
    /// This description with a router's part taken from `other`: the router's shares and links, or the port whose own
    /// router it is.
    pub fn with(mut self, router: &str, other: &SharingSpec) -> SharingSpec {
        for of in &other.ports {
            let is_its = |share: &&ShareOf| share.router == router;
            let its = of.shares.iter().filter(is_its).cloned();
            match self.ports.iter_mut().find(|port| port.name == of.name) {
                Some(port) => {
                    port.shares.retain(|share| share.router != router);
                    port.shares.extend(its);
                }
                None if of.name == router => self.ports.push(of.clone()),
                None => (),
            }
        }
        for link in &other.links {
            if link.routers.iter().any(|end| end == router) {
                self.links.retain(|known| known.name != link.name);
                self.links.push(link.clone());
            }
        }
        self
    }

    /// This description without a router's part.
    pub(super) fn without(mut self, router: &str) -> SharingSpec {
        self.ports.retain(|port| port.name != router);
        for port in &mut self.ports {
            port.shares.retain(|share| share.router != router);
        }
        self
    }
}
