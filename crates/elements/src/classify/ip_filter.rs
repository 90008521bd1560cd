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
//! Fragments that could hide a transport header from the rules are dropped before any rule is tested (`bad_headers`):
//! a first fragment without the whole TCP header, and a later one that begins within it (RFC 1858, 3128).
//!
//! The first rule whose pattern matches a packet decides its fate. If no rule matches, the packet is dropped, as by a
//! rule (`denied`). Patterns are those of IPClassifier.
//!
//! A rule may have a name, before a colon: `ssh: allow tcp port ssh`. The handler `rules` shows each rule with its
//! number and its count of packets. Rules can be changed while packets flow, without a pause: `ashlar set fw.add
//! "before ssh allow icmp"`, `ashlar set fw.remove ssh`. `ashlar save` keeps the changes for the next start. Up to
//! 1024 rules may be added to those of the configuration.
//!
//! Arguments:
//!
//! - `RULE`: an action, then a pattern. Actions are `allow` (output 0), `deny` or `drop`, or the number of
//!   an output.
//! - `RULES`: a file with a rule per line; `#` starts a comment. They follow the rules given here. A reload reads it
//!   again. Rules changed at run time stay as they are if neither the file nor the text has changed.

use crate::prelude::*;
use arguments::text_file::lines;
use rules::{Family, FilterRules, Lane, Line, V4, Version, duplicate_name, min_len};
use std::marker::PhantomData;
use wire::Ipv4;
use wire::ipv4::{MF, OFFSET_MASK};

/// Constants of a class of filters.
pub(super) trait Kind: Version {
    /// True if rules cannot see headers of a packet that its destination will process; see [`hides_header`].
    fn hides_header(packet: &Packet) -> bool;
    const CLASS: &'static str;
    const MANUAL: &'static str;
    const NEEDS: &'static [Facts];
    const DROPS: &'static [&'static str];
}

impl Kind for V4 {
    #[inline]
    fn hides_header(packet: &Packet) -> bool {
        hides_header(packet.network())
    }

    const CLASS: &'static str = "IPFilter";
    const MANUAL: &'static str = manual!();
    const NEEDS: &'static [Facts] = &[Facts::IP4];
    const DROPS: &'static [&'static str] = &["denied", "bad_headers"];
}

/// True if rules about ports or flags would see less than the destination: the first fragment lacks a part of the
/// transport header, or a later one begins within it (RFC 1858, 3 and 4; RFC 3128).
#[inline]
fn hides_header(packet: &[u8]) -> bool {
    let word = packet
        .first_chunk::<8>()
        .map_or(0, |start| u16::from_be_bytes([start[6], start[7]]));
    word & (MF | OFFSET_MASK) != 0 && header_is_cut(packet)
}

#[cold]
fn header_is_cut(fragment: &[u8]) -> bool {
    let Ok(ip) = Ipv4::new_checked(fragment) else {
        return false; // the class needs a checked header
    };
    let min_len = min_len(ip.protocol());
    match usize::from(ip.fragment_word() & OFFSET_MASK) * 8 {
        0 => ip.payload().len() < min_len,
        begin => begin < min_len,
    }
}

/// Index in DROPS.
const BAD_HEADERS: u8 = 1;

pub(super) struct Filter<K> {
    rules: Arc<FilterRules>,
    hits: Arc<Lane>,
    /// Verdicts for the packets of a batch.
    verdicts: Vec<Verdict>,
    kind: PhantomData<K>,
}

impl<K: Kind> Element for Filter<K> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(&["in"], &["out*"], "h/h"))
        .needs(K::NEEDS)
        .drops(K::DROPS)
        .extensions(&[&resources::of::<Self>()]);

    type Config = FilterRules;

    fn configure(args: &mut Args) -> FilterRules {
        let mut rules = Vec::new();
        let file: Option<String> = args.key_maybe("RULES", "file with a rule per line");
        let given = args.rest("RULE", "an action and a pattern", "in order");
        for (number, arg) in given.iter().enumerate() {
            match Line::read(&arg.unquoted(), args.names(), K::FAMILY) {
                Ok(line) => rules.push(line),
                Err((wrong, None)) => args.error(arg, format!("rule {number}: {wrong}")),
                Err((wrong, Some(help))) => {
                    args.error_with_help(arg, format!("rule {number}: {wrong}"), help);
                }
            }
        }
        if let Some(file) = file {
            read_file(&file, &mut rules, args, K::FAMILY);
        }
        if let Some(wrong) = duplicate_name(&rules) {
            args.error_in_whole(wrong, "give one of them another name");
        }
        let outputs = rules.iter().map(Line::outputs).max().unwrap_or(0).max(1);
        FilterRules::new(rules, outputs, args.names(), K::FAMILY)
    }

    fn new(rules: &Arc<FilterRules>, _: &Init) -> Filter<K> {
        Filter {
            rules: Arc::clone(rules),
            hits: rules.new_counters(),
            verdicts: Vec::new(),
            kind: PhantomData,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        if batch.iter().any(K::hides_header) {
            self.drop_hidden(batch, cx);
        }
        self.verdicts.clear();
        let packets = batch.iter().map(K::headers);
        self.rules
            .run(packets, &mut self.verdicts, &self.hits, cx.reader());
        let mut verdicts = self.verdicts.iter();
        cx.sort(batch, |_, _| {
            verdicts.next().copied().unwrap_or(Verdict::drop(0))
        });
    }

    fn inherit(rules: &mut FilterRules, old: &FilterRules) {
        rules.inherit(old);
    }

    const HANDLERS: &'static [Handler<Filter<K>>] = &[
        Handler::shared(
            "rules",
            "the rules, each with the number of packets that it decided",
            |rules: &FilterRules, _| Ok(rules.show()),
        ),
        Handler::shared(
            "changes",
            "lines of `ctrl` that make of the configured rules those that there are: `ashlar save` keeps them",
            |rules: &FilterRules, _| Ok(rules.changes()),
        ),
        Handler::action(
            "add",
            "`[before|after RULE] [NAME:] ACTION PATTERN`: adds a rule, at the end or beside one by number or name",
            |rules: &FilterRules, value| run_command(rules, "add", value),
        ),
        Handler::action(
            "remove",
            "`RULE`: removes a rule, by number or name",
            |rules: &FilterRules, value| run_command(rules, "remove", value),
        ),
        Handler::action(
            "replace",
            "`RULE [NAME:] ACTION PATTERN`: changes a rule, by number or name",
            |rules: &FilterRules, value| run_command(rules, "replace", value),
        ),
        Handler::action(
            "ctrl",
            "add, remove, replace and clear lines: all are carried out, or none",
            |rules: &FilterRules, text| {
                let done = rules.change(text);
                done.map_err(|(line, wrong)| format!("line {line}: {wrong}"))
            },
        ),
        Handler::action(
            "reset",
            "counts of rules begin at 0",
            |rules: &FilterRules, _| {
                rules.reset();
                Ok(String::new())
            },
        ),
        Handler::shared(
            "program",
            "the decision tree, in Click's format",
            |rules: &FilterRules, _| Ok(rules.program()),
        ),
    ];
}

impl<K: Kind> Filter<K> {
    #[cold]
    fn drop_hidden(&mut self, batch: &mut Batch, cx: &mut Cx) {
        let (mut hidden, mut others) = (Batch::new(), Batch::new());
        for packet in batch.drain() {
            match K::hides_header(&packet) {
                true => hidden.push(packet),
                false => others.push(packet),
            }
        }
        *batch = others;
        self.rules.count_unreadable(&self.hits, hidden.len());
        cx.drop_batch(&mut hidden, BAD_HEADERS);
    }
}

impl<K: Kind> Resources for Filter<K> {
    fn port_count(rules: &FilterRules) -> (Option<usize>, Option<usize>) {
        (None, Some(rules.outputs()))
    }
}

fn run_command(rules: &FilterRules, command: &str, value: &str) -> Result<String, String> {
    let value = value.trim();
    if value.contains('\n') {
        return Err(format!("`{command}` takes one line; `ctrl` takes several"));
    }
    let done = rules.change(&format!("{command} {value}"));
    done.map_err(|(_, wrong)| wrong)
}

fn read_file(file: &str, rules: &mut Vec<Line>, args: &mut Args, family: Family) {
    let text = match args.read_file(file) {
        Ok(text) => text,
        Err(wrong) => {
            let help = "RULES names a text file, from where the router was started";
            return args.error_in_whole(format!("cannot read `{file}`: {wrong}"), help);
        }
    };
    for (number, line) in lines(&text) {
        match Line::read(line, args.names(), family) {
            Ok(line) => rules.push(line),
            Err((wrong, help)) => args.error_in_whole(
                format!("in `{file}`, line {number}: {wrong}"),
                help.unwrap_or("each line is a rule, such as `allow tcp port ssh`"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::{edited, ip};
    use testkit::Bench;

    // Numbers of outputs are written in any base, as in Click.
    #[test]
    fn packets_go_where_the_first_rule_says_that_matches() {
        let text = "c :: CheckIPHeader -> f :: IPFilter(deny src 10.0.0.9, 2 dst 10.0.1.0/24,
                0x0 tcp, 01 udp);
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

    /// A fragment of TCP from 1.1.1.1 that begins at byte `begin` of the packet and has `bytes` bytes.
    fn fragment(begin: u16, bytes: usize, more: bool) -> Vec<u8> {
        let word = (begin / 8) | if more { 0x2000 } else { 0 };
        // 1024 to 80, SYN.
        let tcp = [
            4, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0x12, 0x34, 0, 0, 0, 0, 9, 9, 9, 9,
        ];
        let begin = usize::from(begin).min(tcp.len());
        let payload: Vec<u8> = tcp[begin..]
            .iter()
            .copied()
            .chain([7; 40])
            .take(bytes)
            .collect();
        edited(ip([1, 1, 1, 1], [2, 2, 2, 2], &payload), |ip| {
            ip.set_protocol(6);
            ip.set_fragment_word(word);
        })
    }

    #[test]
    fn fragments_that_hide_the_tcp_header_are_dropped_before_any_rule() {
        let text =
            "c :: CheckIPHeader -> f :: IPFilter(deny tcp opt syn, allow all) -> a :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        // RFC 1858, 3.1: the second fragment has the flags. RFC 1858, 3.2: the second fragment overwrites the flags.
        // RFC 3128: a tiny fragment comes after a whole one.
        let hidden = [
            fragment(0, 8, true),
            fragment(0, 16, true),
            fragment(8, 16, true),
            fragment(8, 32, false),
            fragment(16, 8, false),
        ];
        bench.push("c", &hidden);
        assert!(bench.take("a").is_empty());
        assert_eq!(
            (bench.drops("f", "bad_headers"), bench.drops("f", "denied")),
            (5, 0)
        );
        assert!(bench.read("f.rules").contains("5  (bad headers: dropped)"));
        // The first fragment with the whole header is tested by the rules. Without it, later ones are useless to the
        // receiver.
        let of_udp = |fragment| edited(fragment, |ip| ip.set_protocol(17));
        let seen = [
            fragment(24, 16, false),
            of_udp(fragment(0, 8, true)),
            of_udp(fragment(8, 8, false)),
        ];
        bench.push("c", &seen);
        bench.push("c", &[fragment(0, 24, true)]);
        assert_eq!(bench.take("a"), seen);
        assert_eq!(
            (bench.drops("f", "bad_headers"), bench.drops("f", "denied")),
            (5, 1)
        );
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

    #[test]
    fn a_file_without_an_end_is_not_read() {
        for (file, wrong) in [
            ("/dev/zero", "no regular file"),
            ("/", "no regular file"),
            ("/nowhere", "No such file"),
        ] {
            let text = format!("Idle -> MarkIPHeader -> IPFilter(RULES {file}) -> Discard");
            let errors = testkit::errors(crate::CLASSES, &text);
            assert!(errors.contains(wrong), "{errors}");
        }
    }

    const CHANGED: &str =
        "c :: CheckIPHeader -> f :: IPFilter(ssh: allow src 10.0.0.9, 1 src 10.0.0.8, deny all);
        f[0] -> a :: Collect; f[1] -> b :: Collect";

    /// The counts of the rules, and the rules.
    fn rules(bench: &mut Bench) -> Vec<(u64, String)> {
        let text = bench.read("f.rules");
        let rows = text.lines().skip(1).map(|row| {
            let (_, row) = row.trim().split_once(' ').expect("a number");
            let (hits, rule) = row.trim().split_once("  ").expect("a count");
            (hits.parse().expect("a number"), rule.to_owned())
        });
        rows.collect()
    }

    #[test]
    fn rules_change_while_packets_flow_and_keep_their_counts() {
        let mut bench = Bench::new(crate::CLASSES, CHANGED);
        let from = |last| ip([10, 0, 0, last], [2, 2, 2, 2], b"");
        let row = |hits, rule: &str| (hits, rule.to_owned());
        bench.push("c", &[from(9), from(8), from(8), from(7)]);
        assert_eq!(
            rules(&mut bench),
            [
                row(1, "ssh: allow src 10.0.0.9"),
                row(2, "1 src 10.0.0.8"),
                row(1, "deny all"),
                row(0, "(no rule: dropped)"),
                row(0, "(bad headers: dropped)"),
            ]
        );
        assert_eq!(bench.read("f.changes"), "");
        bench.write("f.add", "before 0 seven: allow src 10.0.0.7");
        bench.write("f.remove", "2");
        bench.write("f.replace", "ssh deny src 10.0.0.9");
        bench.push("c", &[from(7), from(9), from(8)]);
        assert_eq!(
            rules(&mut bench),
            [
                row(1, "seven: allow src 10.0.0.7"),
                row(1, "ssh: deny src 10.0.0.9"),
                row(2, "deny all"),
                row(0, "(no rule: dropped)"),
                row(0, "(bad headers: dropped)"),
            ]
        );
        assert_eq!((bench.take("a").len(), bench.take("b").len()), (2, 2));
        // Only changes are saved. If a line is wrong, the whole command has no effect.
        let changes = "remove 1\nremove 0\nadd before 0 seven: allow src 10.0.0.7\nadd before 1 ssh: deny src \
            10.0.0.9\n";
        assert_eq!(bench.read("f.changes"), changes);
        let wrong = bench
            .try_write("f.ctrl", "remove ssh\nremove shs")
            .unwrap_err();
        assert!(wrong.contains("line 2: there is no rule `shs`"), "{wrong}");
        let wrong = bench.try_write("f.remove", "sevn").unwrap_err();
        assert!(wrong.contains("did you mean `seven`?"), "{wrong}");
        assert_eq!(bench.read("f.changes"), changes);
        for (command, value, part) in [
            ("add", "2 src 10.0.0.1", "the filter has 2 outputs"),
            ("add", "ssh: allow all", "rule 1 has the name `ssh` already"),
            ("add", "permit all", "unknown slot ID `permit`"),
            ("add", "allow tpc", "unknown word `tpc`"),
            ("remove", "3", "there is no rule `3`, there are 3 rules"),
            (
                "ctrl",
                "insert allow all",
                "line 1: unknown command `insert`",
            ),
        ] {
            let wrong = bench.try_write(&format!("f.{command}"), value).unwrap_err();
            assert!(wrong.contains(part), "{wrong}");
        }
        bench.write("f.reset", "");
        assert!(rules(&mut bench).iter().all(|(hits, _)| *hits == 0));
    }

    #[test]
    fn a_rule_that_was_removed_gives_its_place_and_no_counts_to_another() {
        let mut bench = Bench::new(crate::CLASSES, CHANGED);
        bench.push("c", &[ip([10, 0, 0, 9], [2, 2, 2, 2], b"")]);
        // More changes than there are free slots.
        for _ in 0..1100 {
            bench.write("f.ctrl", "remove 0\nadd before 0 allow src 10.0.0.9");
        }
        bench.push("c", &[ip([10, 0, 0, 9], [2, 2, 2, 2], b"")]);
        assert_eq!(rules(&mut bench)[0].0, 1);
        let many = "add allow src 10.9.9.9\n".repeat(1025);
        let wrong = bench.try_write("f.ctrl", &many).unwrap_err();
        assert!(wrong.contains("that would be 1028 rules"), "{wrong}");
        bench.write("f.ctrl", &"add allow src 10.9.9.9\n".repeat(1024));
        assert_eq!(rules(&mut bench).len(), 1029);
    }
}
