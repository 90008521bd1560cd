pub(crate) mod drop_broadcasts;
mod ensure_ether;
pub(crate) mod ether_encap;
mod ether_mirror;
mod ether_rewrite;
mod ether_switch;
mod ether_vlan_encap;
mod get_ether_address;
pub(crate) mod host_ether_filter;
mod offset;
pub mod priority;
mod set_ether_address;
mod set_vlan_anno;
mod store_ether_address;
pub mod strip;
mod strip_ether_vlan_header;
mod strip_to_network_header;
mod tci;
mod unstrip;
mod vlan_decap;
mod vlan_encap;
mod vxlan;
mod vxlan_decap;
mod vxlan_encap;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<drop_broadcasts::DropBroadcasts>(),
    Class::of::<ensure_ether::EnsureEther>(),
    Class::of::<ether_encap::EtherEncap>(),
    Class::of::<ether_mirror::EtherMirror>(),
    Class::of::<ether_rewrite::EtherRewrite>(),
    Class::of::<ether_switch::EtherSwitch>(),
    Class::of::<ether_vlan_encap::EtherVlanEncap>(),
    Class::of::<get_ether_address::GetEtherAddress>(),
    Class::of::<host_ether_filter::HostEtherFilter>(),
    Class::of::<set_ether_address::SetEtherAddress>(),
    Class::of::<set_vlan_anno::SetVlanAnno>(),
    Class::of::<store_ether_address::StoreEtherAddress>(),
    Class::of::<strip::Strip>(),
    Class::of::<strip_ether_vlan_header::StripEtherVlanHeader>(),
    Class::of::<strip_to_network_header::StripToNetworkHeader>(),
    Class::of::<unstrip::Unstrip>(),
    Class::of::<vlan_decap::VlanDecap>(),
    Class::of::<vlan_encap::VlanEncap>(),
    Class::of::<vxlan_decap::VxlanDecap>(),
    Class::of::<vxlan_encap::VxlanEncap>(),
];

#[cfg(test)]
mod tests {
    /// A frame of VLAN 7 with priority 1.
    pub(super) const TAGGED: &[u8] = b"ddddddssssss\x81\0\x20\x07\x08\0rest";
    /// The same frame without its tag.
    pub(super) const PLAIN: &[u8] = b"ddddddssssss\x08\0rest";
}
