//! Restores an IPv4 header that was stripped.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> StripIPHeader -> UnstripIPHeader -> Discard;
//! ```
//!
//! The header is at the network header annotation. A packet whose header was not stripped stays as it is. A
//! packet without this annotation is dropped (`no_header`).

use crate::prelude::*;

drops! {
    NO_HEADER = "no_header",
}

pub(super) struct UnstripIPHeader;

impl Element for UnstripIPHeader {
    const CONTRACT: Contract = Contract::new("UnstripIPHeader", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .gives(&[Facts::IP4])
        .drops(DROPS);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> UnstripIPHeader {
        UnstripIPHeader
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let place = usize::from(packet.anno().network);
        if place == 0
            || packet
                .push(packet.headroom().saturating_sub(place))
                .is_none()
        {
            return Verdict::drop(NO_HEADER);
        }
        Verdict::ON
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn without_a_mark_there_is_nothing_to_bring_back() {
        let mut bench = Bench::new(crate::CLASSES, "u :: UnstripIPHeader -> Discard");
        bench.push("u", &[b"x"]);
        assert_eq!(bench.drops("u", "no_header"), 1);
    }
}
