//! Filters IPv4 packets by rules about their contents.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> f :: IPFilter(deny src 192.0.2.0/24,
//!                      allow dst 192.0.2.0/24 and tcp port ssh,
//!                      1 icmp,
//!                      deny all);
//! f[0] -> Discard;
//! f[1] -> Discard;
//! ```
//!
//! The first rule whose pattern matches a packet decides what happens to it. If no rule matches, the packet is
//! dropped, as by a rule (`denied`). Patterns are those of IPClassifier.
//!
//! Arguments:
//!
//! - `RULE`: an action, then a pattern. Actions are `allow` (output 0), `deny` or `drop`, or the number of
//!   an output.

use super::ip_pattern;
use super::rules::Rules;
use crate::prelude::*;

pub(super) struct IPFilter {
    config: Arc<Config>,
    /// Of the packets of a batch.
    verdicts: Vec<Verdict>,
}

pub(super) struct Config {
    rules: Rules,
    outputs: usize,
}

impl Element for IPFilter {
    const CLASS: &'static str = "IPFilter";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&["in"], &["out*"], "h/h");
    const NEEDS: &'static [Facts] = &[Facts::IP4];
    const DROPS: &'static [&'static str] = &["denied"];
    const READS_ANNOTATIONS: bool = true;
    const EXTENSIONS: Extensions = &[&resources::of::<Self>()];

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let mut rules = Vec::new();
        let mut outputs = 1;
        for (number, arg) in args
            .rest("RULE", "an action and a pattern", "in order")
            .iter()
            .enumerate()
        {
            let text = arg.unquoted();
            let (action, pattern) = text.split_once(char::is_whitespace).unwrap_or((&text, ""));
            let outcome = match action {
                "allow" => Some(0),
                "deny" | "drop" => None,
                _ => match action.parse::<u8>() {
                    Ok(output) if output < u8::MAX => Some(output),
                    _ => {
                        args.error_with_help(
                            arg,
                            format!("rule {number}: unknown slot ID `{action}`"),
                            "a rule starts with `allow`, `deny`, `drop` or an output from 0 to 254",
                        );
                        continue;
                    }
                },
            };
            outputs = outputs.max(outcome.map_or(0, |o| usize::from(o) + 1));
            match ip_pattern::parse(pattern, args.names()) {
                Ok(expr) => rules.push((pattern.to_owned(), (outcome, expr))),
                Err(wrong) => args.error(arg, format!("rule {number}: {wrong}")),
            }
        }
        Config {
            rules: Rules::new(rules, args.names()),
            outputs,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> IPFilter {
        IPFilter {
            config: Arc::clone(config),
            verdicts: Vec::new(),
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        self.config.rules.sort(batch, &mut self.verdicts, cx);
    }

    const HANDLERS: &'static [Handler<IPFilter>] = &[Handler::shared(
        "program",
        "the decision tree, in Click's format",
        |config: &Config, _| Ok(config.rules.program()),
    )];
}

impl Resources for IPFilter {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (None, Some(config.outputs))
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::{edited, ip};
    use testkit::Bench;

    #[test]
    fn packets_go_where_the_first_rule_says_that_matches() {
        let text = "c :: CheckIPHeader -> f :: IPFilter(deny src 10.0.0.9, 2 dst 10.0.1.0/24,
                allow tcp, 1 udp);
            f[0] -> a :: Collect; f[1] -> b :: Collect; f[2] -> c2 :: Collect";
        for make in [Bench::new, Bench::strict] {
            let mut bench = make(crate::CLASSES, text);
            let of =
                |src, dst, protocol| edited(ip(src, dst, &[0; 8]), |ip| ip.set_protocol(protocol));
            let packets = [
                of([10, 0, 0, 9], [10, 0, 1, 1], 6),
                of([10, 0, 0, 8], [10, 0, 1, 1], 6),
                of([10, 0, 0, 8], [10, 0, 2, 1], 6),
                of([10, 0, 0, 8], [10, 0, 2, 1], 17),
                of([10, 0, 0, 8], [10, 0, 2, 1], 47),
            ];
            bench.push("c", &packets);
            assert_eq!(bench.take("c2"), [packets[1].clone()]);
            assert_eq!(bench.take("a"), [packets[2].clone()]);
            assert_eq!(bench.take("b"), [packets[3].clone()]);
            assert_eq!(bench.drops("f", "denied"), 2);
        }
    }

    #[test]
    fn offsets_count_from_the_ip_header_wherever_it_lies() {
        let text = "c :: CheckIPHeader(4) -> f :: IPFilter(0 ip[19] & 128 == 0) -> a :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let framed = |dst| [&b"link"[..], &ip([1, 1, 1, 1], [2, 2, 2, dst], b"")].concat();
        bench.push("c", &[framed(1), framed(129)]);
        assert_eq!(bench.take("a"), [framed(1)]);
    }

    #[test]
    fn mistakes_are_told_with_their_rule_and_outputs_are_counted() {
        let errors = testkit::errors(
            crate::CLASSES,
            "Idle -> MarkIPHeader -> IPFilter(permit all, allow tpc, 255 tcp, deny) -> Discard",
        );
        for part in [
            "rule 0: unknown slot ID `permit`",
            "rule 1: unknown word `tpc`",
            "rule 2: unknown slot ID `255`",
            "rule 3: empty pattern",
        ] {
            assert!(errors.contains(part), "{errors}");
        }
        let errors = testkit::errors(
            crate::CLASSES,
            "Idle -> MarkIPHeader -> IPFilter(1 all) -> Discard",
        );
        assert!(errors.contains("is not connected"), "{errors}");
    }
}
