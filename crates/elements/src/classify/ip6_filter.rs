//! Filters IPv6 packets by rules about their contents.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header
//!     -> fw :: IP6Filter(allow icmp6,
//!                        ssh: allow src net 2001:db8::/32 and tcp dst port ssh,
//!                        1 udp dst port domain,
//!                        deny all);
//! fw[0] -> Discard;
//! fw[1] -> Discard;
//! ```
//!
//! Rules are written, named, counted, changed while packets flow, and read from a file as those of IPFilter: `ashlar
//! show fw.rules`, `ashlar set fw.add "before ssh allow tcp dst port https"`, `ashlar set fw.remove ssh`. Patterns
//! are those of IP6Classifier. Its page describes rules about ports for packets with extension headers and for
//! fragments.
//!
//! A packet whose transport header cannot be determined is dropped before any rule is tested (`bad_headers`), so no
//! rule lets it pass.
//!
//! Arguments:
//!
//! - `RULE`: an action, then a pattern. Actions are `allow` (output 0), `deny` or `drop`, or the number of an output.
//! - `RULES`: a file with a rule per line; `#` starts a comment. They follow the rules given here. A reload reads it
//!   again.

use super::ip_filter::Kind;
use crate::prelude::*;
use rules::V6;

impl Kind for V6 {
    /// The compiled rules begin with this question.
    fn hides_header(_: &Packet) -> bool {
        false
    }

    const CLASS: &'static str = "IP6Filter";
    const MANUAL: &'static str = manual!();
    const NEEDS: &'static [Facts] = &[Facts::IP6];
    const DROPS: &'static [&'static str] = &["denied", "bad_headers"];
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip6};

    const TEXT: &str = "c :: CheckIP6Header -> f :: IP6Filter(allow src 2001:db8::1, web: 1 tcp dst port 80, deny udp);
        f[0] -> a :: Collect; f[1] -> b :: Collect";

    #[test]
    fn rules_count_and_change_while_packets_flow() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        let tcp = ip6().src("2001:db8::2").tcp(9, 80).bytes();
        let from = ip6().src("2001:db8::1").bytes();
        let udp = ip6().src("2001:db8::2").udp(9, 9).bytes();
        // Too many destination options headers in a row.
        let mut long = ip6().src("2001:db8::1").bytes();
        long[6] = 60;
        long.truncate(40);
        long.extend([60, 0, 1, 4, 0, 0, 0, 0].repeat(9));
        long[5] = 72;
        bench.push("c", &[tcp.clone(), from.clone(), udp.clone(), long]);
        assert_eq!(bench.take("a"), [from]);
        assert_eq!(bench.take("b"), std::slice::from_ref(&tcp));
        assert_eq!(bench.drops("f", "denied"), 1);
        assert_eq!(bench.drops("f", "bad_headers"), 1);
        let rules = bench.read("f.rules");
        let rows: Vec<String> = rules
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            rows,
            [
                "packets rule",
                "0 1 allow src 2001:db8::1",
                "1 1 web: 1 tcp dst port 80",
                "2 1 deny udp",
                "- 0 (no rule: dropped)",
                "- 1 (bad headers: dropped)",
            ]
        );
        bench.write("f.remove", "web");
        bench.write("f.add", "before 0 all6: allow src net 2001:db8::/32");
        bench.push("c", &[tcp.clone(), udp.clone()]);
        assert_eq!(bench.take("a"), [tcp, udp]);
        let wrong = bench.try_write("f.add", "allow src 10.0.0.1").unwrap_err();
        assert!(wrong.contains("unknown word `10.0.0.1`"), "{wrong}");
    }
}
