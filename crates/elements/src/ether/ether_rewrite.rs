//! Replaces the Ethernet addresses of frames.
//!
//! ```click
//! FromDevice(eth0) -> EtherRewrite(02:00:00:00:00:01, 02:00:00:00:00:02) -> Discard;
//! ```
//!
//! A frame too short to have addresses is dropped (`too_short`).
//!
//! Arguments:
//!
//! - `SRC`: the source address.
//! - `DST`: the destination address.

use crate::prelude::*;
use wire::EtherAddr;

drops! {
    TOO_SHORT = "too_short",
}

#[derive(Clone, Copy)]
pub(super) struct EtherRewrite {
    src: EtherAddr,
    dst: EtherAddr,
}

impl Element for EtherRewrite {
    const CONTRACT: Contract = Contract::new("EtherRewrite", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::ETHER])
        .drops(DROPS)
        .carries_super_frames()
        .ignores_annotations();

    type Config = EtherRewrite;

    fn configure(args: &mut Args) -> EtherRewrite {
        EtherRewrite {
            src: args.required("SRC", "the source address"),
            dst: args.required("DST", "the destination address"),
        }
    }

    fn new(config: &Arc<EtherRewrite>, _: &Init) -> EtherRewrite {
        **config
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        match packet.data_mut().first_chunk_mut::<12>() {
            Some(addresses) => {
                addresses[..6].copy_from_slice(&self.dst.0);
                addresses[6..].copy_from_slice(&self.src.0);
                Verdict::ON
            }
            None => Verdict::drop(TOO_SHORT),
        }
    }

    const HANDLERS: &'static [Handler<EtherRewrite>] = &[
        Handler::text("src", "see SRC", |e, _| Ok(e.src.dashed().to_string())),
        Handler::argument(Handler::assign("src", "changes SRC", |e| &mut e.src)),
        Handler::text("dst", "see DST", |e, _| Ok(e.dst.dashed().to_string())),
        Handler::argument(Handler::assign("dst", "changes DST", |e| &mut e.dst)),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn addresses_change_and_the_type_stays() {
        let text = "e :: EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2) -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("e", &[&b"ddddddssssss\x08\0rest"[..], b"short"]);
        bench.write("e.src", "2:0:0:0:0:3");
        assert_eq!(bench.read("e.src"), "02-00-00-00-00-03");
        assert_eq!(
            bench.take("out"),
            [b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0rest"]
        );
        assert_eq!(bench.drops("e", "too_short"), 1);
    }
}
