//! Sets an annotation of packets to an Ethernet address.
//!
//! ```click
//! FromDevice(eth0) -> SetEtherAddress(02:00:00:00:00:01, 0) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `ADDR`: the address.
//! - `ANNO`: the annotation: the number of the first of its six bytes, 0 to 42.

use crate::anno::Anno;
use crate::prelude::*;
use wire::EtherAddr;

#[derive(Clone, Copy)]
pub(super) struct SetEtherAddress {
    address: EtherAddr,
    anno: Anno<6>,
}

impl Element for SetEtherAddress {
    const CONTRACT: Contract =
        Contract::new("SetEtherAddress", manual!()).ports(Ports::new(&["in"], &["out"]));

    type Config = SetEtherAddress;

    fn configure(args: &mut Args) -> SetEtherAddress {
        SetEtherAddress {
            address: args.required("ADDR", "the address"),
            anno: args.required("ANNO", "the annotation"),
        }
    }

    fn new(config: &Arc<SetEtherAddress>, _: &Init) -> SetEtherAddress {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        self.anno.set(packet, self.address.0);
        Verdict::ON
    }
}
