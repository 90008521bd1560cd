//! Sorts packets by their bytes: each pattern has an output.
//!
//! ```click
//! FromDevice(eth0)
//!     -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
//! c[0] -> Discard;   // ARP requests
//! c[1] -> Discard;   // ARP replies
//! c[2] -> Discard;   // IPv4
//! c[3] -> Discard;   // everything else
//! ```
//!
//! A packet leaves by the output of the first pattern that matches. If none matches, it is dropped (`no_match`). A
//! pattern is a list of clauses separated by spaces, which must all hold:
//!
//! - `OFFSET/VALUE`: the bytes from OFFSET (decimal) on are VALUE (hex). `?` is any hex digit.
//! - `OFFSET/VALUE%MASK`: the same, for the bits that are set in MASK.
//! - `!CLAUSE`: the clause does not hold.
//! - `-` alone: every packet matches.
//!
//! A clause about bytes beyond the end of the packet does not hold. The patterns are compiled into a decision tree,
//! which tests no bit of a packet twice, however many patterns there are. The `program` handler shows the tree.
//!
//! Arguments:
//!
//! - `PATTERN`: one per output, at most 255.

use crate::prelude::*;
use rules::{Compiled, Expr, HEADER, Headers, Outcome, Program, RangeTest, View, pattern};

/// Configuration.
pub struct Config {
    program: Compiled,
    patterns: Vec<String>,
    /// True if the patterns test only bytes that are equal in all segments of a super-frame.
    alike: bool,
}

/// True if these bytes are the same in all segments of a super-frame, if data begins with an Ethernet or an IP header.
fn is_alike(within: &RangeTest) -> bool {
    let bytes = within.mask.to_be_bytes();
    let mut looked_at = (0..).zip(bytes).filter(|(_, mask)| *mask != 0);
    looked_at.all(|(i, _)| {
        // Lengths, identifications and checksums, and all from TCP's header on, differ.
        let at = within.word.offset + i;
        at < 24 && !matches!(at, 2..=5 | 10 | 11 | 16..=19)
    })
}

/// Element of the class Classifier.
pub struct Classifier {
    config: Arc<Config>,
    last: Last,
}

/// The four bytes that alone decided the last packet's output: most packets that follow have the same bytes.
#[derive(Clone, Copy)]
struct Last {
    at: u16,
    bytes: [u8; 4],
    verdict: Verdict,
}

/// A packet, looked at from its first byte on.
#[derive(Clone, Copy)]
struct Data<'a>(&'a Packet);

impl<'a> Headers<'a> for Data<'a> {
    #[inline]
    fn start(self) -> &'a [u8] {
        self.0.data()
    }

    /// Length of an IPv4 header without options, as no pattern counts from its end.
    #[inline]
    fn header_words(_: &[[u8; 4]]) -> usize {
        HEADER
    }

    #[inline]
    fn view(self) -> View<'a> {
        View::of_data(self.0.data())
    }

    #[inline]
    fn run(self, program: &Program) -> Outcome {
        program.run_on(|_| self.0.data()) // patterns test data bytes only
    }
}

impl Element for Classifier {
    const CONTRACT: Contract = Contract::new("Classifier", manual!())
        .ports(Ports::coded(&["in"], &["out+"], "h/h"))
        .drops(&["no_match"])
        .extensions(&[&resources::of::<Self>()])
        .carries_super_frames_if(|config| config_of::<Self>(config).alike)
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let given = args.rest("PATTERN", "clauses such as 12/0800, or -", "one per output");
        let mut patterns = Vec::new();
        for arg in &given {
            match pattern::parse(&arg.words()) {
                Ok(pattern) => patterns.push(pattern),
                Err((message, help)) => args.error_with_help(arg, message, help),
            }
        }
        if given.is_empty() || given.len() > 255 {
            args.error_in_whole(
                format!("a Classifier cannot have {} patterns", given.len()),
                "give between 1 and 255",
            );
            patterns.truncate(255);
        }
        let mut alike = true;
        for pattern in &patterns {
            pattern.map(&mut |within| {
                alike &= is_alike(within);
                Expr::<RangeTest>::TRUE
            });
        }
        let rules: Vec<_> = (0..).map(Some).zip(patterns).collect();
        let program = Compiled::new(&rules);
        program.warn(args, rules.len());
        Config {
            program,
            alike,
            patterns: given.into_iter().map(|arg| arg.raw).collect(),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> Classifier {
        Classifier {
            config: Arc::clone(config),
            last: Last {
                at: u16::MAX, // where no packet has four bytes
                bytes: [0; 4],
                verdict: Verdict::ON,
            },
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    const HANDLERS: &'static [Handler<Classifier>] = &[
        Handler::shared(
            "program",
            "the decision tree, in Click's format",
            |config: &Config, _| Ok(config.program.to_string()),
        ),
        Handler::shared("patterns", "one per line", |config: &Config, _| {
            Ok(config.patterns.join("\n"))
        }),
    ];
}

impl Resources for Classifier {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (None, Some(config.patterns.len()))
    }
}

impl Fuse for Classifier {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let (last, at) = (self.last, usize::from(self.last.at));
        #[inline(always)]
        move |packet| {
            let bytes = packet.data().get(at..at + 4)?.first_chunk()?;
            (*bytes == last.bytes).then_some(last.verdict)
        }
    }

    fn slow(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        let (verdict, decisive) = self.config.program.run_and_note(Data(packet));
        if let Some((at, bytes)) = decisive {
            self.last = Last { at, bytes, verdict };
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    const TEXT: &str = "c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
        c[0] -> a :: Collect; c[1] -> b :: Collect; c[2] -> c2 :: Collect; c[3] -> d :: Collect";

    fn frame(ethertype: u16, op: u8) -> Vec<u8> {
        let mut frame = vec![0; 22];
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        frame[21] = op;
        frame
    }

    #[test]
    fn the_example_of_the_manual_is_compiled_as_click_compiles_it() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        assert_eq!(
            bench.read("c.program"),
            " 0  12/08060000%ffff0000  yes->step 1  no->step 3
 1  20/00010000%ffff0000  yes->[0]  no->step 2
 2  20/00020000%ffff0000  yes->[1]  no->[3]
 3  12/08000000%ffff0000  yes->[2]  no->[3]
safe length 22
alignment offset 0
"
        );
        assert_eq!(bench.read("c.patterns").lines().count(), 4);
    }

    #[test]
    fn packets_leave_by_the_first_pattern_that_matches() {
        for make in [Bench::new, Bench::strict] {
            let mut bench = make(crate::CLASSES, TEXT);
            let short = frame(0x806, 1)[..21].to_vec();
            bench.push(
                "c",
                &[
                    frame(0x800, 9),
                    frame(0x806, 2),
                    frame(0x806, 1),
                    frame(0x806, 3),
                    frame(0x86dd, 0),
                    short.clone(),
                    vec![],
                ],
            );
            assert_eq!(bench.take("a"), [frame(0x806, 1)]);
            assert_eq!(bench.take("b"), [frame(0x806, 2)]);
            assert_eq!(bench.take("c2"), [frame(0x800, 9)]);
            assert_eq!(
                bench.take("d"),
                [frame(0x806, 3), frame(0x86dd, 0), short, vec![]]
            );
        }
    }

    #[test]
    fn last_decision_is_reused_only_if_it_decides_alone() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        let short = frame(0x800, 0)[..14].to_vec();
        let other = [&frame(0x800, 0)[..14], &[7; 8]].concat();
        let sent = [
            frame(0x800, 1),
            frame(0x800, 2),
            frame(0x806, 1),
            frame(0x806, 2),
            frame(0x806, 3),
            frame(0x800, 3),
            short.clone(),
            frame(0x86dd, 1),
            other.clone(),
            frame(0x86dd, 2),
            frame(0x86dd, 3),
        ];
        bench.push("c", &sent);
        assert_eq!(bench.take("a"), [frame(0x806, 1)]);
        assert_eq!(bench.take("b"), [frame(0x806, 2)]);
        let ip = [1, 2, 3].map(|n| frame(0x800, n));
        assert_eq!(bench.take("c2"), [&ip[..], &[short, other]].concat());
        let ip6 = [1, 2, 3].map(|n| frame(0x86dd, n));
        assert_eq!(bench.take("d"), [&[frame(0x806, 3)][..], &ip6].concat());
    }

    #[test]
    fn unmatched_packets_are_dropped_by_name() {
        let mut bench = Bench::new(crate::CLASSES, "c :: Classifier(!0/61) -> out :: Collect");
        bench.push("c", &[&b"abc"[..], b"bcd", b""]);
        assert_eq!(bench.take("out"), [&b"bcd"[..], b""]);
        assert_eq!(bench.drops("c", "no_match"), 1);
    }

    #[test]
    fn mistakes_are_told_all_at_once_and_outputs_are_counted() {
        let errors = testkit::errors(
            crate::CLASSES,
            "Idle -> c :: Classifier(12/08, 12/8, zwölf/00, -) -> Discard",
        );
        assert!(
            errors.contains("in `12/8` the value has no even number"),
            "{errors}"
        );
        assert!(errors.contains("the offset is no number"), "{errors}");
        let errors = testkit::errors(
            crate::CLASSES,
            "Idle -> c :: Classifier(12/08, -) -> Discard",
        );
        assert!(errors.contains("output 1 unused"), "{errors}");
        let errors = testkit::errors(crate::CLASSES, "Idle -> c :: Classifier -> Discard");
        assert!(errors.contains("cannot have 0 patterns"), "{errors}");
    }

    #[test]
    fn patterns_that_match_nothing_are_told() {
        let warned = |class: &str, patterns: &str| {
            let outputs: String = (0..3).map(|n| format!("c[{n}] -> Discard; ")).collect();
            // Warnings are shown where there is an error too.
            let text = format!(
                "Idle -> MarkIPHeader -> c :: {class}({patterns}); {outputs} Idle -> Strip -> Discard"
            );
            testkit::errors(crate::CLASSES, &text)
        };
        let said = warned("Classifier", "12/08, 12/0806 12/0800, -");
        assert!(said.contains("output 1 matches no packets"), "{said}");
        assert!(!said.contains("pattern 0") && !said.contains("pattern 2"));
        let said = warned("IPClassifier", "src port www and ftp, -, tcp");
        assert!(said.contains("output 2 matches no packets"), "{said}");
    }
}
