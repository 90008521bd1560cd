//! Prepends an Ethernet header to packets, always the same one.
//!
//! ```click
//! InfiniteSource(LIMIT 3)
//!     -> EtherEncap(0x0800, 02:00:00:00:00:01, 02:00:00:00:00:02)
//!     -> Discard;
//! ```
//!
//! For IP packets you usually need ARPQuerier instead. A packet without room before its data is dropped
//! (`no_headroom`).
//!
//! Arguments:
//!
//! - `ETHERTYPE`: such as 0x0800.
//! - `SRC`: the source address.
//! - `DST`: the destination address.

use crate::prelude::*;
use arguments::units::FromArg;
use wire::{EtherAddr, ether};

drops! {
    NO_HEADROOM = "no_headroom",
}

#[derive(Clone, Copy)]
pub(crate) struct Fields {
    ethertype: u16,
    src: EtherAddr,
    dst: EtherAddr,
}

pub(crate) struct EtherEncap {
    fields: Fields,
    /// The same header, as its bytes before packets.
    header: [u8; ether::LEN],
}

impl EtherEncap {
    fn of(fields: Fields) -> EtherEncap {
        let header = ether::header(fields.dst, fields.src, fields.ethertype);
        EtherEncap { fields, header }
    }

    /// Changes a field of the header.
    fn change<T: FromArg>(
        &mut self,
        field: impl FnOnce(&mut Fields) -> &mut T,
        value: &str,
    ) -> Result<(), String> {
        let mut fields = self.fields;
        assign(field(&mut fields), value)?;
        *self = EtherEncap::of(fields);
        Ok(())
    }
}

impl Element for EtherEncap {
    const CONTRACT: Contract = Contract::new("EtherEncap", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::ETHER])
        .spoils(Facts::AT_NETWORK)
        .drops(DROPS)
        .carries_super_frames()
        .ignores_annotations();

    type Config = Fields;

    fn configure(args: &mut Args) -> Fields {
        Fields {
            ethertype: args.required("ETHERTYPE", "protocol behind the header"),
            src: args.required("SRC", "the source address"),
            dst: args.required("DST", "the destination address"),
        }
    }

    fn new(fields: &Arc<Fields>, _: &Init) -> EtherEncap {
        EtherEncap::of(**fields)
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    const HANDLERS: &'static [Handler<EtherEncap>] = &[
        Handler::text("src", "see SRC", |e, _| {
            Ok(e.fields.src.dashed().to_string())
        }),
        Handler::argument(Handler::set("src", "changes SRC", |e, value, _| {
            e.change(|f| &mut f.src, value)
        })),
        Handler::text("dst", "see DST", |e, _| {
            Ok(e.fields.dst.dashed().to_string())
        }),
        Handler::argument(Handler::set("dst", "changes DST", |e, value, _| {
            e.change(|f| &mut f.dst, value)
        })),
        Handler::show("ethertype", "see ETHERTYPE", |e| &e.fields.ethertype),
        Handler::argument(Handler::set(
            "ethertype",
            "changes ETHERTYPE",
            |e, value, _| e.change(|f| &mut f.ethertype, value),
        )),
    ];
}

impl Fuse for EtherEncap {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let header = self.header;
        #[inline(always)]
        move |packet| Some(on_if(packet.push_mac(&header), NO_HEADROOM))
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_header_comes_first_and_can_be_changed() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "e :: EtherEncap(0x0806, 2:0:0:0:0:1, ff:ff:ff:ff:ff:ff) -> out :: Collect",
        );
        bench.push("e", &[b"x"]);
        bench.write("e.dst", "2:0:0:0:0:9");
        bench.write("e.src", "2:0:0:0:0:8");
        bench.write("e.ethertype", "0x0800");
        bench.push("e", &[b"y"]);
        assert_eq!(
            bench.take("out"),
            [
                *b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x01\x08\x06x",
                *b"\x02\0\0\0\0\x09\x02\0\0\0\0\x08\x08\0y",
            ]
        );
        assert_eq!(bench.read("e.ethertype"), "2048");
        assert!(bench.try_write("e.dst", "nowhere").is_err());
        assert_eq!(bench.read("e.dst"), "02-00-00-00-00-09");
    }

    #[test]
    fn arguments_are_told_apart_by_their_mistakes() {
        let errors = testkit::errors(
            crate::CLASSES,
            "Idle -> EtherEncap(70000, 2:0:0) -> Discard",
        );
        for wrong in [
            "ETHERTYPE must lie between 0 and 65535, not be 70000",
            "SRC must be an Ethernet address",
            "required argument DST is missing",
        ] {
            assert!(errors.contains(wrong), "{errors}");
        }
    }
}
