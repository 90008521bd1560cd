//! Classes that follow a Linux kernel by the image that control keeps of it: [`forwarding::Kernel`].

pub(crate) mod attached;
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
mod origin;
mod show;

use crate::prelude::*;
use engine::element::Class;
use forwarding::{Interface, Kernel, NoMemory, Routes};

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

/// Maximum length of an interface name, in bytes without the terminating zero (Linux: IFNAMSIZ).
const NAME_MAX: usize = 15;

/// Interface of a name. An invalid name is recorded as an error in `args`.
pub(crate) fn interface(args: &mut Args, name: &str) -> Arc<Interface> {
    let wrong = |c: char| c == '/' || c == ':' || c.is_whitespace();
    if name.is_empty()
        || name.len() > NAME_MAX
        || name.contains(wrong)
        || [".", ".."].contains(&name)
    {
        args.error_in_whole(
            format!("`{name}` cannot be an interface of Linux"),
            format!("its name has 1 to {NAME_MAX} characters, and no space, slash or colon"),
        );
    }
    let kernel = args.router_wide::<Kernel>();
    kernel.interface(name).unwrap_or_else(|| {
        args.error_in_whole("there are too many interfaces", "name fewer of them");
        Kernel::default()
            .interface(name)
            .expect("the first has a number")
    })
}

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

/// Routes of a family; that there is no memory for them is recorded as a mistake.
fn with_memory<const N: usize>(
    args: &mut Args,
    routes: Result<&Arc<Routes<N>>, NoMemory>,
) -> Option<Arc<Routes<N>>> {
    let routes = routes.cloned().map_err(|refused| {
        let help = "let the process have more (`ulimit -v`), or do with fewer routing tables";
        args.error_in_whole(refused.to_string(), help);
    });
    routes.ok()
}

/// The kernel's routes of IPv4, for classes elsewhere that want its [own addresses](Routes::own).
pub(crate) fn routes4(args: &mut Args) -> Option<Arc<Routes<4>>> {
    let kernel = args.router_wide::<Kernel>();
    with_memory(args, kernel.shared4())
}

/// Parses the argument `NAME`.
fn named(args: &mut Args) -> Arc<Interface> {
    let name: String = args.required("NAME", "the interface's name in the router's namespace");
    interface(args, &name)
}
