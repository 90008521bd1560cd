mod drop_broadcasts;
mod ether_encap;
mod ether_mirror;
mod host_ether_filter;
mod set_vlan_anno;
mod strip;
mod strip_to_network_header;
mod tci;
mod unstrip;
mod vlan_decap;
mod vlan_encap;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<drop_broadcasts::DropBroadcasts>(),
    Class::of::<ether_encap::EtherEncap>(),
    Class::of::<ether_mirror::EtherMirror>(),
    Class::of::<host_ether_filter::HostEtherFilter>(),
    Class::of::<set_vlan_anno::SetVlanAnno>(),
    Class::of::<strip::Strip>(),
    Class::of::<strip_to_network_header::StripToNetworkHeader>(),
    Class::of::<unstrip::Unstrip>(),
    Class::of::<vlan_decap::VlanDecap>(),
    Class::of::<vlan_encap::VlanEncap>(),
];
