//! Sorts IPv4 packets by their contents: each pattern has an output.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> c :: IPClassifier(10.0.0.0/24 and syn, dst tcp port www or https, icmp type echo, -);
//! c[0] -> Discard;   // connections that begin, from or to the net
//! c[1] -> Discard;   // to web servers
//! c[2] -> Discard;   // pings
//! c[3] -> Discard;   // everything else
//! ```
//!
//! A packet leaves by the output of the first pattern that matches. If none matches, it is dropped (`no_match`).
//! Patterns are made of primitives:
//!
//! - `[DIR] host ADDRESS`, `[DIR] net PREFIX` (also `net ADDRESS mask MASK`): DIR is `src`, `dst`, `src or dst`
//!   (the default) or `src and dst`.
//! - `[DIR] [tcp | udp] port PORT`: a number or a name, see PortInfo. Without a protocol, TCP or UDP.
//! - `ip proto PROTO`, `ip vers`, `ip hl`, `ip tos`, `ip dscp`, `ip len`, `ip id`, `ip ttl` with a number: fields of
//!   the IP header. `ip ect`, `ip ce`: ECN (RFC 3168). `ip frag`, `ip unfrag`: the packet is a fragment, or it is
//!   whole.
//! - `tcp opt FLAG`: a flag of the TCP header is set: `syn`, `fin`, `ack`, `rst`, `psh`, `urg`, `ece`
//!   or `cwr`. `tcp win WINDOW`. `icmp type TYPE`: a number or a name.
//! - `ip[POS:LEN] VALUE`, `transp[POS:LEN] VALUE`, `tcp[POS] VALUE`: 1 to 4 bytes of a header.
//! - `[DIR] ether host ADDRESS`: the MAC header must be marked.
//! - `true`, `false`. A pattern `-`, `any` or `all` matches everything, `none` nothing.
//!
//! A primitive about the transport header is false for all fragments but the first, and a primitive about bytes
//! beyond the packet's end is false. A value may follow `==` (the default), `!=`, `<`, `>`, `<=` or `>=`, and before
//! these `& MASK`. A mask without a value is true if any of its bits is set. Numbers may be ranges: `port 6000-6063`.
//! `src port != 5` is still true only for a first fragment of TCP or UDP; `not src port 5` is true for other packets,
//! too.
//!
//! Patterns are combined with `and` (`&&`, or nothing), `or` (`||`), `not` (`!`), `A ? B : C` (with spaces
//! around the colon) and parentheses. Words may be left out where the meaning stays clear: `tcp`, `www`, `syn`,
//! `10.0.0.0/8`, `unfrag`, `src port 80 or 81`.
//!
//! Patterns are compiled into a decision tree, which the `program` handler shows. The handlers `pattern0`, `pattern1`
//! ... each change one pattern, without a pause for packets.
//!
//! Arguments:
//!
//! - `PATTERN`: one per output, at most 255.

use crate::prelude::*;
use engine::dynamic::{self, DynamicHandlers};
use rules::{Rules, V4, Version, ip_pattern};
use std::marker::PhantomData;

/// Constants of a class of classifiers.
pub(super) trait Kind: Version {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    const NEEDS: &'static [Facts];
    const DROPS: &'static [&'static str];
}

impl Kind for V4 {
    const CLASS: &'static str = "IPClassifier";
    const MANUAL: &'static str = manual!();
    const NEEDS: &'static [Facts] = &[Facts::IP4];
    const DROPS: &'static [&'static str] = &["no_match"];
}

pub(super) struct Classifier<K> {
    rules: Arc<Rules>,
    /// Verdicts for the packets of a batch.
    verdicts: Vec<Verdict>,
    kind: PhantomData<K>,
}

impl<K: Kind> Element for Classifier<K> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(&["in"], &["out+"], "h/h"))
        .needs(K::NEEDS)
        .drops(K::DROPS)
        .extensions(&[&resources::of::<Self>(), &dynamic::of::<Self>()]);

    type Config = Rules;

    fn configure(args: &mut Args) -> Rules {
        let given = args.rest(
            "PATTERN",
            "a pattern such as src net 10/8",
            "one per output",
        );
        if !(1..=255).contains(&given.len()) {
            args.error_in_whole(
                format!("{} cannot have {} patterns", K::CLASS, given.len()),
                "give a pattern for each output, 255 at most",
            );
        }
        let mut rules = Vec::new();
        for (output, arg) in (0..=u32::from(u8::MAX)).zip(&given) {
            match ip_pattern(&arg.unquoted(), args.names(), K::FAMILY) {
                Ok(expr) => rules.push((arg.unquoted(), (Some(output), expr))),
                Err(wrong) => args.error(arg, format!("pattern {output}: {wrong}")),
            }
        }
        let rules = Rules::new(rules, args.names(), K::FAMILY);
        rules.warn(args);
        rules
    }

    fn new(rules: &Arc<Rules>, _: &Init) -> Classifier<K> {
        Classifier {
            rules: Arc::clone(rules),
            verdicts: Vec::new(),
            kind: PhantomData,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        self.verdicts.clear();
        self.rules
            .run::<K>(batch.iter(), &mut self.verdicts, cx.reader());
        let mut verdicts = self.verdicts.iter();
        cx.sort(batch, |_, _| {
            verdicts.next().copied().unwrap_or(Verdict::drop(0))
        });
    }

    const HANDLERS: &'static [Handler<Classifier<K>>] = &patterns();
}

impl<K: Kind> Resources for Classifier<K> {
    fn port_count(rules: &Rules) -> (Option<usize>, Option<usize>) {
        (None, Some(rules.count()))
    }
}

/// The pattern that a handler's name means: `pattern3`.
fn number_of(name: &str) -> Option<usize> {
    let digits = name.strip_prefix("pattern")?;
    let plain = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| plain)
}

impl<K: Kind> DynamicHandlers for Classifier<K> {
    fn has_handler(rules: &Rules, name: &str, _: Use) -> bool {
        number_of(name).is_some_and(|number| number < rules.count())
    }

    fn handler_job(&self, name: &str, value: &str, wanted: Use) -> Job {
        let (rules, number) = (
            Arc::clone(&self.rules),
            number_of(name).unwrap_or(usize::MAX),
        );
        let value = value.to_owned();
        Box::new(move |_| match wanted {
            Use::Read => rules.pattern(number),
            Use::Write => rules.set_pattern(number, &value).map(|()| String::new()),
        })
    }
}

/// Handlers of the first patterns, which the class has; those of others are offered.
const PATTERNS: [&str; 16] = [
    "pattern0",
    "pattern1",
    "pattern2",
    "pattern3",
    "pattern4",
    "pattern5",
    "pattern6",
    "pattern7",
    "pattern8",
    "pattern9",
    "pattern10",
    "pattern11",
    "pattern12",
    "pattern13",
    "pattern14",
    "pattern15",
];

/// The handlers: one to read and one to write each of the first patterns.
const fn patterns<K: Kind>() -> [Handler<Classifier<K>>; 33] {
    macro_rules! list {
        ($($n:literal)*) => {[
            Handler::shared("program", "the decision tree, in Click's format", |rules: &Rules, _| {
                Ok(rules.program())
            }),
            $(
                Handler::shared(PATTERNS[$n], "a pattern", |rules: &Rules, _| rules.pattern($n)),
                Handler::action(PATTERNS[$n], "changes a pattern", |rules: &Rules, text| {
                    rules.set_pattern($n, text).map(|()| String::new())
                }),
            )*
        ]};
    }
    list!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::ip;
    use testkit::Bench;

    const TEXT: &str = "c :: CheckIPHeader -> i :: IPClassifier(src 10.0.0.1, src 10.0.0.0/24)
        -> a :: Collect; i[1] -> b :: Collect";

    #[test]
    fn packets_leave_by_the_first_pattern_that_matches() {
        let from = |last| ip([10, 0, 0, last], [2, 2, 2, 2], b"");
        let other = ip([10, 0, 1, 1], [2, 2, 2, 2], b"");
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        bench.push("c", &[from(2), from(1), other]);
        assert_eq!(bench.take("a"), [from(1)]);
        assert_eq!(bench.take("b"), [from(2)]);
        assert_eq!(bench.drops("i", "no_match"), 1);
    }

    #[test]
    fn a_pattern_is_needed() {
        let text = "Idle -> CheckIPHeader -> IPClassifier() -> Discard";
        let errors = testkit::errors(crate::CLASSES, text);
        assert!(errors.contains("cannot have 0 patterns"), "{errors}");
        let text = "Idle -> CheckIPHeader -> i :: IPClassifier(tcp) -> Discard; i[1] -> Discard";
        let errors = testkit::errors(crate::CLASSES, text);
        assert!(errors.contains("has no output 1"), "{errors}");
    }

    #[test]
    fn every_pattern_has_a_handler() {
        let outputs: String = (0..20).map(|n| format!("i[{n}] -> Discard;")).collect();
        let patterns = ["udp"; 20].join(",");
        let text = format!("Idle -> CheckIPHeader -> i :: IPClassifier({patterns}); {outputs}");
        let mut bench = Bench::new(crate::CLASSES, &text);
        for number in [0, 15, 16, 19] {
            let name = format!("i.pattern{number}");
            assert_eq!(bench.read(&name), "udp");
            bench.write(&name, "tcp");
            assert_eq!(bench.read(&name), "tcp");
            assert!(bench.try_write(&name, "nothing").is_err());
        }
        assert!(bench.try_read("i.pattern20", "").is_err());
    }

    #[test]
    fn patterns_are_read_and_changed_one_by_one() {
        let from = |last| ip([10, 0, 0, last], [2, 2, 2, 2], b"");
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        assert_eq!(bench.read("i.pattern1"), "src 10.0.0.0/24");
        bench.write("i.pattern0", "src 10.0.0.2");
        bench.push("c", &[from(2), from(1)]);
        assert_eq!(bench.take("a"), [from(2)]);
        assert_eq!(bench.take("b"), [from(1)]);
        assert_eq!(
            bench.read("i.program"),
            " 0 268/0a000002%ffffffff  yes->[0]  no->step 1
 1 268/0a000000%ffffff00  yes->[1]  no->[X]
safe length 272
alignment offset 0
"
        );
    }
}
