//! Priority tags: 802.1Q tags that name no VLAN (VLAN 0).

use crate::prelude::*;
use wire::ether;

/// Bytes of a frame's two addresses, and of a tag.
const ADDRESSES: usize = 12;
const TAG: usize = 4;

/// Removes the priority tag of the frame that starts at `offset`, if it has one, and notes it in the VLAN_TCI
/// annotation.
#[cold]
pub(crate) fn take_priority_tag(packet: &mut Packet, offset: usize) {
    let at = offset + ADDRESSES;
    let Some(&[t, p, high, low, _, _]) = packet.data().get(at..).and_then(|d| d.first_chunk())
    else {
        return;
    };
    let tci = u16::from_be_bytes([high, low]);
    if [t, p] != ether::VLAN.to_be_bytes() || tci & 0xfff != 0 {
        return;
    }
    packet.data_mut().copy_within(..at, TAG);
    let pulled = packet.pull(TAG);
    debug_assert!(pulled, "the frame has a tag");
    if offset == 0 {
        packet.set_mac_here();
    }
    packet.set_vlan_tci(tci);
}
