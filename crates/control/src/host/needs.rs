//! Requirements of ports, for the diagnosis of the machine (`machine::doctor`).

use elements::device::vlan::carrier;
use machine::doctor::Wanted;
use ports::{Directory, DpdkSizes, Resource};
use std::path::Path;

/// Requirements of ports by their names in configurations. DPDK ports share `buffers` packet buffers.
pub fn port_requirements(names: &[String], buffers: usize) -> Wanted {
    let mut wanted = Wanted::default();
    let ports = Directory::new();
    let memory = || DpdkSizes::with_buffers(buffers).bytes();
    for name in names {
        match ports.resource(port_of(name)) {
            Resource::Card(address) => {
                wanted.cards.push(address);
                wanted.memory = memory();
            }
            Resource::Dpdk(_) => wanted.memory = memory(),
            Resource::Xdp(interface) => wanted.xdp.push(interface),
            Resource::Interface(interface) => wanted.interfaces.push(interface),
            Resource::Tap(_) | Resource::Tun => wanted.taps = true,
            Resource::Nothing | Resource::Other => {}
        }
    }
    wanted
}

/// True if the kernel has an interface of this name.
pub fn is_interface(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).exists()
}

/// Interface that carries a port: for a VLAN without an interface of its own, the parent interface.
fn port_of(name: &str) -> &str {
    carrier(name, is_interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_ask_the_machine_for_what_they_are() {
        let names = ["eth0", "af_xdp:eth1", "01:00.0", "tap:x", "null:64"].map(str::to_owned);
        let all = port_requirements(&names, 2048);
        assert_eq!(all.interfaces, ["eth0"]);
        assert_eq!(
            (&*all.xdp[0], &*all.cards[0], all.taps),
            ("eth1", "01:00.0", true)
        );
        assert!(all.memory > 2048 * 2048);
        assert_eq!(port_requirements(&names[..1], 2048).memory, 0);
    }
}
