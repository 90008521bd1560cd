//! Passes packets with labels while the kernel takes them from an interface.
//!
//! ```click
//! FromDevice(null:64) -> c :: Classifier(12/8847, -) -> labelled :: LinuxMPLSInput(eth0) -> Strip(14)
//!     -> mpls :: LinuxMPLSLookup(eth0);
//! c[1] -> Discard;
//! mpls[0], mpls[1], mpls[2] -> Discard;
//! mpls[3] -> LinuxMPLSEtherEncap(eth0) -> Discard;
//! ```
//!
//! A router takes labels only from neighbours that it trusts: a sender that may choose a label chooses the path of
//! the packet, past all filters for addresses. By default Linux accepts no labels; `sysctl
//! net.mpls.conf.eth0.input=1` in the router's namespace allows them. Until then, packets are dropped
//! (`not_allowed`).
//!
//! Arguments:
//!
//! - `NAME`: the interface's name in the router's namespace.
//!
//! Keyword arguments:
//!
//! - `ALLOW`: true: packets pass regardless of the kernel's setting, also if the kernel has no MPLS. Default false.

use crate::prelude::*;
use forwarding::Interface;

drops! {
    NOT_ALLOWED = "not_allowed",
}

pub(crate) struct LinuxMPLSInput {
    interface: Arc<Interface>,
    allow: bool,
}

impl Element for LinuxMPLSInput {
    const CONTRACT: Contract = Contract::new("LinuxMPLSInput", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .drops(DROPS)
        .ignores_annotations();

    type Config = (Arc<Interface>, bool);

    fn configure(args: &mut Args) -> (Arc<Interface>, bool) {
        let interface = super::named(args);
        let allow = args.key(
            "ALLOW",
            false,
            "true if packets pass whatever the kernel says",
        );
        (interface, allow)
    }

    fn new(config: &Arc<(Arc<Interface>, bool)>, _: &Init) -> LinuxMPLSInput {
        LinuxMPLSInput {
            interface: Arc::clone(&config.0),
            allow: config.1,
        }
    }

    #[inline]
    fn step(&mut self, _: &mut Packet, _: &mut Cx) -> Verdict {
        on_if(self.allow || self.interface.takes_labels(), NOT_ALLOWED)
    }

    const HANDLERS: &'static [Handler<LinuxMPLSInput>] = &[Handler::shared(
        "allowed",
        "true if packets pass now",
        |(interface, allow): &(Arc<Interface>, bool), _| {
            Ok((*allow || interface.takes_labels()).to_string())
        },
    )];
}

#[cfg(test)]
mod tests {
    use forwarding::Kernel;
    use testkit::Bench;

    #[test]
    fn labels_are_taken_while_the_kernel_takes_them() {
        let text = "i :: LinuxMPLSInput(eth0) -> out :: Collect;
            j :: LinuxMPLSInput(eth0, ALLOW true) -> always :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        let kernel = bench.router_wide::<Kernel>();
        let eth0 = kernel.interface("eth0").expect("room");
        let packet = [vec![0u8; 60]];
        for takes in [false, true, false] {
            eth0.set_takes_labels(takes);
            assert_eq!(bench.read("i.allowed"), takes.to_string());
            bench.push("i", &packet);
            bench.push("j", &packet);
            assert_eq!(bench.take("out").len(), usize::from(takes));
            assert_eq!(bench.take("always").len(), 1);
        }
        assert_eq!(bench.drops("i", "not_allowed"), 2);
    }
}
