//! Prepends ICMP echo request and IPv4 headers to packets.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> ICMPPingEncap(192.0.2.1, 198.51.100.1) -> Discard;
//! ```
//!
//! The network header and destination annotations are set. The sequence number counts up from 1. A packet
//! without room before its data is dropped (`no_room`).
//!
//! Arguments:
//!
//! - `SRC`: the source address.
//! - `DST`: the destination address.
//!
//! Keyword arguments:
//!
//! - `IDENTIFIER`: the identifier of the requests. Default 0.

use super::encap::Family;
use crate::prelude::*;
use wire::icmp;

pub(super) struct ICMPPingEncap;

impl Family for ICMPPingEncap {
    const CLASS: &'static str = "ICMPPingEncap";
    const MANUAL: &'static str = manual!();

    fn kind_and_code(_: &mut Args) -> (u8, u8) {
        (icmp::ECHO, 0)
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn requests_are_valid_and_answered() {
        let text = "e :: ICMPPingEncap(1.0.0.1, 2.0.0.2, IDENTIFIER 7) -> CheckIPHeader
            -> CheckICMPHeader -> t :: Tee -> ICMPPingResponder -> a :: Collect; t[1] -> out :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("e", &[b"x"]);
        bench.write("e.dst", "3.0.0.3");
        bench.push("e", &[b"y"]);
        let out = bench.take("out");
        assert_eq!(out[0][20..22], [8, 0]);
        assert_eq!(out[0][24..], *b"\0\x07\0\x01x");
        assert_eq!(out[1][24..], *b"\0\x07\0\x02y");
        assert_eq!(out[1][16..20], [3, 0, 0, 3]);
        assert_eq!(bench.take("a").len(), 2);
    }
}
