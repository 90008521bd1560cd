//! Passes packets that are not longer than the MTU of an interface of the kernel.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> size :: LinuxMTU(eth0) -> Discard;
//! size[1] -> IPFragmenter(INTERFACE eth0) -> Discard;
//! ```
//!
//! Longer packets leave by output 1. The length is that from the network header on. The MTU is the interface's
//! current one in the kernel: `ip link set mtu` takes effect at once. The length of a super-frame (see FromDevice) is
//! that of its longest segment.
//!
//! Arguments:
//!
//! - `NAME`: the interface's name in the router's namespace.

use crate::prelude::*;
use forwarding::Interface;

drops! {
    TOO_LONG = "too_long",
}
const TOO_LONG_OUTPUT: u8 = 1;

pub(crate) struct LinuxMTU {
    interface: Arc<Interface>,
    /// True if GSO super-frames may arrive.
    whole: bool,
}

impl Element for LinuxMTU {
    const CONTRACT: Contract = Contract::new("LinuxMTU", manual!())
        .ports(Ports::new(&["in"], &["out", "longer?"]))
        .drops(DROPS)
        .carries_super_frames()
        .ignores_annotations();

    type Config = Arc<Interface>;

    fn configure(args: &mut Args) -> Arc<Interface> {
        super::named(args)
    }

    fn new(interface: &Arc<Arc<Interface>>, init: &Init) -> LinuxMTU {
        LinuxMTU {
            interface: Arc::clone(interface),
            whole: init.super_frames,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    const HANDLERS: &'static [Handler<LinuxMTU>] = &[Handler::shared(
        "mtu",
        "the longest packet that the interface takes",
        |i: &Arc<Interface>, _| Ok(i.mtu().to_string()),
    )];
}

impl Fuse for LinuxMTU {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let (mtu, whole) = (self.interface.mtu(), self.whole);
        #[inline(always)]
        move |packet| {
            // Most packets fit even with their link-layer header; then the network header need not be found.
            if packet.len() <= mtu {
                return Some(Verdict::ON);
            }
            let len = packet.network().len();
            let fits = len <= mtu || (whole && packet.segment_len() + len <= mtu + packet.len());
            Some(match fits {
                true => Verdict::ON,
                false => Verdict::reject(TOO_LONG, TOO_LONG_OUTPUT),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use forwarding::Kernel;
    use testkit::{Bench, ip4};

    #[test]
    fn the_mtu_is_the_kernels_present_mtu() {
        let text =
            "c :: CheckIPHeader -> m :: LinuxMTU(eth0) -> out :: Collect; m[1] -> long :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        let eth0 = bench
            .router_wide::<Kernel>()
            .interface("eth0")
            .expect("room");
        let packet = |len: usize| ip4().udp(1, 2).payload_len(len - 28).bytes();
        for mtu in [1500, 1280] {
            eth0.set_state(true, [2, 0, 0, 0, 0, 1], mtu);
            bench.push("c", &[packet(mtu), packet(mtu + 1)]);
            assert_eq!(bench.take("out"), [packet(mtu)]);
            assert_eq!(bench.take("long"), [packet(mtu + 1)]);
        }
    }
}
