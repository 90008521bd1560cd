//! Priority tags: 802.1Q tags that name no VLAN (VLAN 0).

use crate::prelude::*;
use wire::ether;

/// Bytes of a frame's two addresses, and of a tag.
const ADDRESSES: usize = 12;
const TAG: usize = 4;

/// Removes the priority tag of the frame that starts at `offset`, if it has one, and notes it in the VLAN_TCI
/// annotation.
#[cold]
pub fn take_priority_tag(packet: &mut Packet, offset: usize) {
    if let Some(tci) = remove_priority_tag(packet, offset) {
        if offset == 0 {
            packet.set_mac_here();
        }
        packet.set_vlan_tci(tci);
    }
}

/// Removes the priority tag of the frame that starts at `offset`, and returns it; `None` if there is none. No
/// annotation changes.
#[cold]
pub fn remove_priority_tag(packet: &mut Packet, offset: usize) -> Option<u16> {
    let at = offset + ADDRESSES;
    let &[t, p, high, low, _, _] = packet.data().get(at..)?.first_chunk()?;
    let tci = u16::from_be_bytes([high, low]);
    if [t, p] != ether::VLAN.to_be_bytes() || tci & 0xfff != 0 {
        return None;
    }
    packet.data_mut().copy_within(..at, TAG);
    let pulled = packet.pull(TAG);
    debug_assert!(pulled, "the frame has a tag");
    Some(tci)
}
