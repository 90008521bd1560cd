//! Sorts IPv6 packets by their contents: each pattern has an output.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header
//!     -> c :: IP6Classifier(src net 2001:db8::/32 and syn, tcp dst port www or https, icmp6 type echo, -);
//! c[0] -> Discard;   // connections that begin, from the net
//! c[1] -> Discard;   // to web servers
//! c[2] -> Discard;   // pings
//! c[3] -> Discard;   // everything else
//! ```
//!
//! A packet leaves by the output of the first pattern that matches. If none matches, it is dropped (`no_match`).
//! Patterns are those of IPClassifier, with these primitives:
//!
//! - `[DIR] host ADDRESS`, `[DIR] net PREFIX`: DIR is `src`, `dst`, `src or dst` (the default) or `src and dst`.
//! - `[DIR] [tcp | udp] port PORT`, `tcp opt FLAG`, `tcp win WINDOW`: as there. `icmp6 type TYPE`: a number, or `echo`,
//!   `echo-reply`, `unreachable`, `packettoobig`, `timeexceeded`, `parameterproblem`, `neighboursolicit`,
//!   `neighbouradvert`, `routersolicit`, `routeradvert`, `redirect`, `mldquery`, `mldreport`, `mlddone`, `mldreport2`.
//! - `ip6 proto PROTO`: the protocol after all extension headers. `ip6 vers`, `ip6 tc`, `ip6 dscp`, `ip6 flow`, `ip6
//!   len` (length after the header), `ip6 hlim` with a number: fields of the header. `ip6 ect`, `ip6 ce`: ECN. `ip6
//!   frag`, `ip6 unfrag`: the packet is a fragment, or it is whole.
//! - `ip6[POS:LEN] VALUE`, `transp[POS:LEN] VALUE`, `tcp[POS] VALUE`: 1 to 4 bytes of a header.
//!
//! Words may be left out where the meaning stays clear: `tcp`, `www`, `2001:db8::/32`.
//!
//! Ports, flags and types are read after the extension headers, in whatever order these are. Of a fragmented packet
//! only the first fragment has them. So a primitive about the transport header is false for all other fragments; only
//! `tcp` alone matches them as well. A rule that denies a port thus stops the first fragment, without which no host
//! can reassemble the packet. A rule that allows a port does not match later fragments, so they pass only if another
//! rule allows `ip6 frag`.
//!
//! Packets whose transport header cannot be determined are dropped before any pattern is tested (`bad_headers`).
//! These have more than 8 extension headers, end within them, lack a part of the transport header in the first
//! fragment (RFC 7112), or are fragments of fragments. Fragments of one packet may overlap; hosts drop these (RFC
//! 5722).
//!
//! Arguments:
//!
//! - `PATTERN`: one per output, at most 255.

use super::ip_classifier::Kind;
use crate::prelude::*;
use rules::V6;

impl Kind for V6 {
    const CLASS: &'static str = "IP6Classifier";
    const MANUAL: &'static str = manual!();
    const NEEDS: &'static [Facts] = &[Facts::IP6];
    const DROPS: &'static [&'static str] = &["no_match", "bad_headers"];
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip6};

    #[test]
    fn packets_leave_by_the_first_pattern_that_matches() {
        let text = "c :: CheckIP6Header -> i :: IP6Classifier(src 2001:db8::1, src 2001:db8::/32) -> a :: Collect;
            i[1] -> b :: Collect";
        let [one, two, other] =
            ["2001:db8::1", "2001:db8::2", "2001:db9::1"].map(|src| ip6().src(src).bytes());
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.push("c", &[two.clone(), one.clone(), other.clone()]);
        assert_eq!(
            (bench.take("a"), bench.take("b")),
            (vec![one.clone()], vec![two])
        );
        assert_eq!(bench.drops("i", "no_match"), 1);
        bench.write("i.pattern0", "src 2001:db9::1");
        bench.push("c", &[other.clone(), one.clone()]);
        assert_eq!((bench.take("a"), bench.take("b")), (vec![other], vec![one]));
    }
}
