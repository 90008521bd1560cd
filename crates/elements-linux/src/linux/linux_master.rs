//! Passes packets while the kernel has an Ethernet address on a port, as the master of a virtual router has.
//!
//! ```click
//! FromDevice(null:64) -> LinuxMaster(lan, null:64, 00:00:5e:00:01:01) -> Discard;
//! ```
//!
//! VRRP's daemons have an interface with the virtual router's Ethernet address upon the port's control-plane interface,
//! and set it down while another router is the master. Packets are dropped then (`standby`), and also while the
//! control-plane interface is down, or if the router follows no kernel.
//!
//! Arguments:
//!
//! - `NAME`: name of the port's control-plane interface in the router's namespace.
//! - `DEVICE`: the port, as in FromDevice; its link state is copied to the interface, so that a daemon is notified of
//!   a cut cable.
//! - `ETHER`: the Ethernet address.

use crate::prelude::*;
use forwarding::Interface;
use wire::EtherAddr;

drops! {
    STANDBY = "standby",
}

pub(super) struct Config {
    interface: Arc<Interface>,
    ether: EtherAddr,
}

impl Config {
    /// True if the kernel has assigned the address to an interface of this port.
    fn is_master(&self) -> bool {
        self.interface
            .other_addresses()
            .binary_search(&self.ether)
            .is_ok()
    }
}

pub(super) struct LinuxMaster {
    config: Arc<Config>,
    /// True if this machine had the address at change number `changes`.
    is_master: bool,
    changes: u64,
}

impl Element for LinuxMaster {
    const CONTRACT: Contract = Contract::new("LinuxMaster", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .drops(DROPS)
        .carries_super_frames()
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let interface = super::named(args);
        let device: String = args.required("DEVICE", "the interface's port");
        interface.set_device(&device);
        let ether = args.required("ETHER", "the virtual router's Ethernet address");
        Config { interface, ether }
    }

    fn new(config: &Arc<Config>, _: &Init) -> LinuxMaster {
        LinuxMaster {
            // The counter is read before the addresses, so that the next packet notices a concurrent change.
            changes: config.interface.others_changes(),
            is_master: config.is_master(),
            config: Arc::clone(config),
        }
    }

    #[inline]
    fn step(&mut self, _: &mut Packet, _: &mut Cx) -> Verdict {
        let changes = self.config.interface.others_changes();
        if changes != self.changes {
            (self.changes, self.is_master) = (changes, self.config.is_master());
        }
        match self.is_master && self.config.interface.is_up() {
            true => Verdict::ON,
            false => Verdict::drop(STANDBY),
        }
    }

    const HANDLERS: &'static [Handler<LinuxMaster>] = &[Handler::shared(
        "master",
        "true while packets pass",
        |config: &Config, _| Ok((config.is_master() && config.interface.is_up()).to_string()),
    )];
}

#[cfg(test)]
mod tests {
    use forwarding::Kernel;
    use testkit::Bench;
    use wire::EtherAddr;

    #[test]
    fn packets_pass_while_the_address_is_the_kernels() {
        let text = "m :: LinuxMaster(lan, p0, 00:00:5e:00:01:07) -> out :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        let kernel = bench.router_wide::<Kernel>();
        let lan = kernel.interface("lan").expect("room");
        assert_eq!(lan.device().as_deref(), Some("p0"));
        let virtual_router = |id: u8| EtherAddr([0, 0, 0x5e, 0, 1, id]);
        let mut drops = 0;
        for (is_up, others, passes) in [
            (true, vec![], false),
            (true, vec![virtual_router(7)], true),
            (true, vec![virtual_router(6)], false),
            (true, vec![virtual_router(6), virtual_router(7)], true),
            (false, vec![virtual_router(6), virtual_router(7)], false),
        ] {
            lan.set_state(is_up, [2, 0, 0, 0, 0, 1], 1500);
            lan.set_others(others);
            bench.push("m", &[testkit::ip4().bytes()]);
            assert_eq!(bench.take("out").len(), usize::from(passes));
            assert_eq!(bench.read("m.master"), passes.to_string());
            drops += u64::from(!passes);
            assert_eq!(bench.drops("m", "standby"), drops);
        }
    }
}
