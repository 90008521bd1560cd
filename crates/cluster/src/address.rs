//! MAC addresses of an internal frame.
//!
//! The input node reads a packet's headers once. It writes all that later nodes must know into two MAC addresses, in
//! place of the external ones (RB9). No byte is added: a packet of 1500 bytes stays one.
//!
//! ```text
//! destination  kkhhhh10  node node  port  gateway gateway
//! source       llllll10  input input  via via  cookie
//! ```
//!
//! `kk` is the kind, `hhhh` the number of internal links that the frame may still pass, `llllll` its lane. `10` marks a
//! locally administered unicast address (IEEE 802, 8.2), so no other device owns it.

/// Number of a node, from 0 in the order of the cluster's description.
pub type NodeId = u16;

/// Maximum number of nodes of a cluster.
pub const NODES_MAX: usize = 4096;
/// Marks that no intermediate node is left to visit.
pub const NO_NODE: NodeId = 0xffff;
/// Port number of the output node itself, for packets to its own addresses.
pub const PORT_SELF: u8 = 255;
/// Internal links that a frame may pass.
pub const HOPS_MAX: u8 = 15;
/// Length of the two addresses in bytes.
pub const LEN: usize = 12;

/// Maximum number of links by which a detour is longer than the shortest path, in a full mesh: one.
const DETOUR: u8 = 1;

const LOCAL: u8 = 0b10;
const LOW: u8 = 0b11;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The frame carries a packet through the cluster.
    Data,
    /// A node's heartbeat.
    Heartbeat,
}

/// Content of the addresses of an internal frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Kind of the frame.
    pub kind: Kind,
    /// Internal links that the packet may still pass.
    pub hops: u8,
    /// The output node.
    pub node: NodeId,
    /// The output node's external port, or [`PORT_SELF`].
    pub port: u8,
    /// The next hop: 0 for the packet's own destination, else a gateway of that port, counted from 1.
    pub gateway: u16,
    /// The input node.
    pub input: NodeId,
    /// The intermediate node to visit first, or [`NO_NODE`].
    pub via: NodeId,
    /// Cookie of the cluster's name; it differs in frames that a wrong cable brings from another cluster.
    pub cookie: u8,
}

/// Reason why two addresses are not those of an internal frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The bytes do not have the form of an internal frame's addresses.
    Malformed,
    /// The addresses carry another cluster's cookie.
    Foreign,
}

impl Address {
    /// Bytes of the two Ethernet addresses: destination, then source.
    pub fn bytes(&self) -> [u8; LEN] {
        let kind = match self.kind {
            Kind::Data => 0,
            Kind::Heartbeat => 1u8,
        };
        let [n0, n1] = self.node.to_be_bytes();
        let [g0, g1] = self.gateway.to_be_bytes();
        let [i0, i1] = self.input.to_be_bytes();
        let [v0, v1] = self.via.to_be_bytes();
        let first = kind << 6 | (self.hops & HOPS_MAX) << 2 | LOCAL;
        let cookie = self.cookie;
        [
            first, n0, n1, self.port, g0, g1, LOCAL, i0, i1, v0, v1, cookie,
        ]
    }

    /// Decodes addresses of the cluster with this cookie.
    pub fn parse(bytes: &[u8; LEN], cookie: u8) -> Result<Address, Bad> {
        let [first, n0, n1, port, g0, g1, source, i0, i1, v0, v1, c] = *bytes;
        if first & LOW != LOCAL || source & LOW != LOCAL {
            return Err(Bad::Malformed);
        }
        let kind = match first >> 6 {
            0 => Kind::Data,
            1 => Kind::Heartbeat,
            _ => return Err(Bad::Malformed),
        };
        if c != cookie {
            return Err(Bad::Foreign);
        }
        Ok(Address {
            kind,
            hops: first >> 2 & HOPS_MAX,
            node: u16::from_be_bytes([n0, n1]),
            port,
            gateway: u16::from_be_bytes([g0, g1]),
            input: u16::from_be_bytes([i0, i1]),
            via: u16::from_be_bytes([v0, v1]),
            cookie,
        })
    }
}

/// Index of the byte that holds the lane.
const LANE: usize = 6;

/// A frame's lane, 0 to 63. Where several links lead to the next node, the lane chooses the link.
#[inline]
pub fn lane(bytes: &[u8; LEN]) -> u8 {
    bytes[LANE] >> 2
}

/// Writes the lane of the frames of a flow. If all nodes are neighbours of each other, there is no choice on the path.
/// All frames then have lane 0, so that nodes remember fewer paths.
#[inline]
pub fn set_lane(bytes: &mut [u8; LEN], flow_hash: u32) {
    // Hash bits that choose neither a table entry nor the first link.
    bytes[LANE] = (flow_hash >> 8) as u8 & !LOW | LOCAL;
}

/// Number of links that a frame may pass after its first link; its input node expects `links` in all. The number
/// allows a detour by a node that knows of more failures. It is bounded, so frames never circle between nodes whose
/// knowledge differs.
#[inline]
pub fn allowance(links: u8) -> u8 {
    (links.saturating_add(DETOUR) - 1).min(HOPS_MAX)
}

/// Writes the path: the number of remaining links, and the node to visit next.
#[inline]
pub fn set_way(bytes: &mut [u8; LEN], hops: u8, via: NodeId) {
    bytes[0] = bytes[0] & !(HOPS_MAX << 2) | (hops & HOPS_MAX) << 2;
    [bytes[9], bytes[10]] = via.to_be_bytes();
}

/// The cookie of a cluster's name.
pub fn cookie(name: &str) -> u8 {
    // FNV-1a, folded: names that differ in one letter rarely agree.
    let fnv = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = name.bytes().fold(0x811c_9dc5, fnv);
    hash.to_be_bytes().into_iter().fold(0, |a, b| a ^ b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: Address = Address {
        kind: Kind::Data,
        hops: 3,
        node: 0x0102,
        port: 7,
        gateway: 9,
        input: 0x0304,
        via: NO_NODE,
        cookie: 0x55,
    };

    #[test]
    fn written_bytes_parse_to_the_same_values() {
        let beat = Address {
            kind: Kind::Heartbeat,
            hops: 0,
            via: 12,
            ..ADDRESS
        };
        for address in [ADDRESS, beat] {
            assert_eq!(Address::parse(&address.bytes(), 0x55), Ok(address));
        }
    }

    #[test]
    fn the_lane_and_the_way_change_nothing_else() {
        let mut bytes = ADDRESS.bytes();
        assert_eq!(lane(&bytes), 0);
        set_lane(&mut bytes, 0x1234_a5ff);
        assert_eq!(Address::parse(&bytes, 0x55), Ok(ADDRESS));
        set_way(&mut bytes, 14, 0x0506);
        let on = Address {
            hops: 14,
            via: 0x0506,
            ..ADDRESS
        };
        assert_eq!(Address::parse(&bytes, 0x55), Ok(on));
        assert_eq!(lane(&bytes), 0xa5 >> 2);
    }

    #[test]
    fn addresses_that_others_may_own_are_none_of_ours() {
        let good = ADDRESS.bytes();
        for (at, bits) in [(0, 1), (0, 2), (0, 0x80), (6, 1), (6, 2)] {
            let mut bytes = good;
            bytes[at] ^= bits;
            assert_eq!(Address::parse(&bytes, 0x55), Err(Bad::Malformed), "{at}");
        }
        assert_eq!(Address::parse(&good, 0x54), Err(Bad::Foreign));
    }

    #[test]
    fn clusters_have_cookies_of_their_own() {
        assert_ne!(cookie("rb4"), cookie("rb5"));
        assert_eq!(cookie("rb4"), cookie("rb4"));
    }
}
