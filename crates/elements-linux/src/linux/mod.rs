//! Classes that follow a Linux kernel by the image that control keeps of it: [`forwarding::Kernel`].

pub mod attached;
mod control_plane_policer;
mod deliver;
mod linux_arp;
pub(crate) mod linux_input;
mod linux_ip6_lookup;
pub(crate) mod linux_ip_lookup;
mod linux_master;
mod linux_mpls_encap;
mod linux_mpls_ether_encap;
mod linux_mpls_input;
pub(crate) mod linux_mpls_lookup;
pub(crate) mod linux_mtu;
mod linux_nd;
pub(crate) mod linux_redirect;
pub(crate) mod lookup;
mod policer_class;
mod route_text;

use crate::prelude::*;
use engine::element::Class;
use forwarding::Interface;
use forwarding::args::interface;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<control_plane_policer::ControlPlanePolicer>(),
    Class::of::<deliver::Deliver<linux_arp::Arp>>(),
    Class::of::<linux_input::LinuxInput>(),
    Class::of::<lookup::Lookup<linux_ip6_lookup::Six, 16>>(),
    Class::of::<lookup::Lookup<linux_ip_lookup::Four, 4>>(),
    Class::of::<linux_master::LinuxMaster>(),
    Class::of::<deliver::Deliver<linux_mpls_ether_encap::Mpls>>(),
    Class::of::<linux_mpls_encap::LinuxMPLSEncap>(),
    Class::of::<linux_mpls_input::LinuxMPLSInput>(),
    Class::of::<linux_mpls_lookup::LinuxMPLSLookup>(),
    Class::of::<linux_mtu::LinuxMTU>(),
    Class::of::<deliver::Deliver<linux_nd::Nd>>(),
    Class::of::<linux_redirect::LinuxRedirect>(),
];

/// Parses the arguments of a lookup: the interfaces of its outputs, from output `first` on.
fn interfaces(args: &mut Args, first: usize) -> Vec<Arc<Interface>> {
    let mut interfaces: Vec<Arc<Interface>> = Vec::new();
    for arg in args.rest("NAME", "interfaces' names", "an interface") {
        let Some(name) = args.value::<String>("NAME", &arg.raw, &arg) else {
            continue;
        };
        if interfaces.iter().any(|known| known.name() == name) {
            args.error(&arg, format!("interface `{name}` is named twice"));
        } else {
            interfaces.push(interface(args, &name));
        }
    }
    let most = usize::from(u8::MAX) - first;
    if interfaces.len() > most {
        args.error_in_whole(
            format!("more than {most} interfaces"),
            "leave some of them to the kernel",
        );
    }
    interfaces
}

/// Parses the argument `NAME`.
fn named(args: &mut Args) -> Arc<Interface> {
    let name: String = args.required("NAME", "the interface's name in the router's namespace");
    interface(args, &name)
}
