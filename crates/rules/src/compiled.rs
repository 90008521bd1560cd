//! Compiled rules: a few as a program, many as trees.
//!
//! A program runs the tests of patterns in order, so its cost grows with the number of rules. The cost of a [`Tree`]
//! hardly grows. Patterns with too many alternatives for a tree stay a program.
//!
//! There are two trees. The first is for packets that have all bytes that rules test and are not later fragments, so
//! it does not check for these. The second is for all other packets, and checks.

use super::expr::{Base, RangeTest, View, Word};
use super::program::{Outcome, Program, Rule};
use super::terms::{self, Term, Terms};
use arguments::Args;
use lang::Severity;
use packet::Verdict;
use std::fmt;
use tables::classify::{self, FIELDS, Key, Tree};

/// Number of alternatives from which on a tree is built.
const FEW: usize = 16;
/// Fields of the key for words; the last three hold lengths.
const WORDS: usize = FIELDS - 3;
/// Words of an IPv4 header without options.
pub const HEADER: usize = 5;
/// Number of words of a usual header and the ports after it.
const USUAL: usize = HEADER + 1;
/// Flags and fragment offset, and the bits of the offset.
const FRAGMENT: (Word, u32) = (
    Word {
        base: Base::Start,
        offset: 4,
    },
    0x1fff,
);

/// Rules, compiled.
pub struct Compiled {
    program: Program,
    trees: Option<Box<Trees>>,
}

struct Trees {
    /// The words of the key.
    words: Vec<Word>,
    /// True if the words begin with those of [`USUAL`], which are read at once in packets without options.
    usual: bool,
    /// Places of the words in packets.
    positions: Vec<WordPosition>,
    /// Places of the words that need reads of their own.
    others: Vec<WordPosition>,
    /// The field of the fragment offset and its bits; none if no rule uses it.
    fragment: (usize, u32),
    whole: Tree,
    other: Tree,
    /// Outcome of each alternative.
    outcomes: Vec<Outcome>,
}

/// Place of a word, in words from the network header.
#[derive(Clone, Copy)]
struct WordPosition {
    field: usize,
    at: usize,
    /// Mask for adding the network header's length: all bits or none.
    header_mask: usize,
}

impl WordPosition {
    fn of((field, word): (usize, &Word)) -> WordPosition {
        let at = usize::from(word.offset / 4);
        let (at, behind) = match word.base {
            Base::Start => (at, 0),
            Base::Transport => (at, usize::MAX),
            // Beyond every packet's end: such packets are examined one header after the other.
            Base::Mac => (usize::MAX >> 1, 0),
        };
        WordPosition {
            field,
            at,
            header_mask: behind,
        }
    }
}

/// Verdict for an outcome that is an output. For a missing one, it is the element's first drop reason.
pub(crate) fn verdict(outcome: Outcome) -> Verdict {
    let output = outcome.and_then(|output| u8::try_from(output).ok());
    output.map_or(Verdict::drop(0), Verdict::out)
}

impl Compiled {
    /// Compiles rules, the first that matches to be chosen.
    pub fn new(rules: &[Rule<RangeTest>]) -> Compiled {
        Compiled::of(rules, Some(FRAGMENT))
    }

    /// Compiles rules. `fragment` is the word and the bits that mark later fragments; `None` if there are no such bits.
    pub(crate) fn of(rules: &[Rule<RangeTest>], fragment: Option<(Word, u32)>) -> Compiled {
        let trees = match rules.len() {
            0..4 => None,
            _ => Trees::new(rules, fragment).map(Box::new),
        };
        let program = match &trees {
            // Packets use the trees. The program is only printed, and need not be optimised.
            Some(_) => Program::chained(rules),
            None => Program::compile(rules),
        };
        Compiled { program, trees }
    }

    /// Warns of patterns, each with an output of its number, that are known to match nothing.
    pub fn warn(&self, args: &mut Args, patterns: usize) {
        for output in (0..=u8::MAX).take(patterns) {
            if !self.program.leads_to(Some(u32::from(output))) {
                let message = format!("output {output} matches no packets");
                args.report(Severity::Warning, message);
            }
        }
    }

    /// Outcomes of packets, in order, converted by `say`.
    #[inline]
    pub fn run<'a, H: Headers<'a>, T>(
        &self,
        packets: impl ExactSizeIterator<Item = H>,
        said: &mut Vec<T>,
        mut say: impl FnMut(Outcome) -> T,
    ) {
        match &self.trees {
            Some(trees) => trees.run(packets, said, say),
            None => said.extend(packets.map(|packet| say(packet.run(&self.program)))),
        }
    }

    /// Verdict for a packet if outcomes are outputs, and [the bytes that decided it](Program::run_and_note).
    #[inline]
    pub fn run_and_note<'a>(&self, packet: impl Headers<'a>) -> (Verdict, Option<(u16, [u8; 4])>) {
        match &self.trees {
            Some(trees) => (verdict(trees.run_alone(packet)), None),
            None => {
                let (outcome, decisive) = self.program.run_and_note(packet.start());
                (verdict(outcome), decisive)
            }
        }
    }

    /// The decisions as text; `output` maps an outcome to the element's output.
    pub(crate) fn show_ip(&self, output: &dyn Fn(u32) -> Option<u8>) -> String {
        self.program.show_ip(output)
    }
}

/// Headers of a packet.
pub trait Headers<'a>: Copy {
    /// True if the network header's length gives the position of the transport header. Otherwise headers are followed
    /// one by one.
    const FIXED_TRANSPORT: bool = true;
    /// The packet's bytes from the start, or from the network header on.
    fn start(self) -> &'a [u8];
    /// Number of words of the network header, whose first bytes are these.
    fn header_words(words: &[[u8; 4]]) -> usize;
    /// The packet's bytes from each of its headers on.
    fn view(self) -> View<'a>;
    /// Outcome of a program for the packet.
    #[inline]
    fn run(self, program: &Program) -> Outcome {
        program.run(&self.view())
    }
}

/// The program; how many rules a packet meets one by one only a program can show.
impl fmt::Display for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.fmt(f)
    }
}

impl Trees {
    /// `None` if there are few alternatives, too many of a pattern, or too many words.
    fn new(rules: &[Rule<RangeTest>], fragment: Option<(Word, u32)>) -> Option<Trees> {
        let mut alternatives: Vec<(Outcome, Terms)> = Vec::new();
        for (outcome, expr) in rules {
            let terms = terms::of(expr, true)?;
            alternatives.extend(terms.into_iter().map(|t| (*outcome, t)));
        }
        if alternatives.len() < FEW {
            return None;
        }
        let (words, usual) = words_of(&alternatives);
        if words.len() > WORDS {
            return None;
        }
        let test = |term: &Term| match *term {
            Term::Bits { word, mask, lo, hi } => classify::Test {
                field: words.iter().position(|w| *w == word).unwrap_or(0) as u8,
                mask,
                lo,
                hi,
            },
            Term::Bytes { base, lo, hi } => classify::Test {
                field: (WORDS + base as usize) as u8,
                mask: u32::MAX,
                lo,
                hi,
            },
        };
        let whole =
            |terms: &Terms| with_all_bytes(terms, &words).map(|t| t.iter().map(test).collect());
        // A rule that no whole packet matches keeps its number by a test that fails.
        let never = |terms: Option<classify::Rule>| terms.unwrap_or_else(|| vec![NEVER]);
        let of_whole: Vec<_> = alternatives.iter().map(|(_, t)| never(whole(t))).collect();
        let of_other: Vec<_> = alternatives
            .iter()
            .map(|(_, t)| t.iter().map(test).collect())
            .collect();
        let field = |(word, bits)| Some((words.iter().position(|w| *w == word)?, bits));
        let fragment = fragment.and_then(field).unwrap_or((0, 0));
        let known = classify::Test {
            field: fragment.0 as u8,
            mask: fragment.1,
            lo: 0,
            hi: 0,
        };
        let places: Vec<WordPosition> = (0..).zip(&words).map(WordPosition::of).collect();
        Some(Trees {
            fragment,
            whole: Tree::assuming(&of_whole, &[known]),
            other: Tree::new(&of_other),
            outcomes: alternatives.iter().map(|(o, _)| *o).collect(),
            others: places[if usual { USUAL } else { 0 }..].to_vec(),
            positions: places,
            usual,
            words,
        })
    }

    fn run<'a, H: Headers<'a>, T>(
        &self,
        packets: impl ExactSizeIterator<Item = H>,
        said: &mut Vec<T>,
        mut say: impl FnMut(Outcome) -> T,
    ) {
        let mut key = [0; FIELDS];
        said.extend(packets.map(|packet| say(self.run_one(packet, &mut key))));
    }

    #[inline(never)] // inlined, it would slow down short programs
    fn run_alone<'a>(&self, packet: impl Headers<'a>) -> Outcome {
        self.run_one(packet, &mut [0; FIELDS])
    }

    /// Outcome for a packet. All packets write the same fields of the key, which may be reused.
    #[inline(always)] // a call would cost as much as a rule
    fn run_one<'a, H: Headers<'a>>(&self, packet: H, key: &mut Key) -> Outcome {
        if H::FIXED_TRANSPORT && self.read(packet, key) && !self.is_later_fragment(key) {
            self.outcome(self.whole.first(key))
        } else {
            self.run_slowly(&packet.view())
        }
    }

    /// Reads the key's words from a packet that has them all.
    #[inline(always)]
    fn read<'a, H: Headers<'a>>(&self, packet: H, key: &mut Key) -> bool {
        let (words, _) = packet.start().as_chunks::<4>();
        if self.usual
            && let Some(usual) = words.first_chunk::<USUAL>()
            && H::header_words(usual) == HEADER
        {
            for (field, word) in key.iter_mut().zip(usual) {
                *field = u32::from_be_bytes(*word);
            }
            self.others.is_empty() || read(&self.others, words, HEADER, key)
        } else {
            read(&self.positions, words, H::header_words(words), key)
        }
    }

    #[inline]
    fn is_later_fragment(&self, key: &Key) -> bool {
        let (field, bits) = self.fragment;
        key[field % FIELDS] & bits != 0
    }

    #[inline]
    fn outcome(&self, first: Option<u32>) -> Outcome {
        let outcome = first.and_then(|n| self.outcomes.get(n as usize));
        outcome.copied().flatten()
    }

    #[cold]
    #[inline(never)]
    fn run_slowly(&self, view: &View) -> Outcome {
        let mut key: Key = [0; FIELDS];
        let mut whole = true;
        for (field, word) in key.iter_mut().zip(&self.words) {
            let (value, bytes) = word.read(view.from(word.base));
            *field = value;
            whole &= bytes >= 4;
        }
        let tree = if whole && !self.is_later_fragment(&key) {
            &self.whole
        } else {
            &self.other
        };
        for (field, bytes) in key[WORDS..].iter_mut().zip(view.0) {
            *field = bytes.len() as u32;
        }
        self.outcome(tree.first(&key))
    }
}

/// Reads the words at some places, if they are all there.
#[inline(never)] // the usual words alone are read without it
fn read(places: &[WordPosition], words: &[[u8; 4]], header_words: usize, key: &mut Key) -> bool {
    for place in places {
        let Some(word) = words.get(place.at + (place.header_mask & header_words)) else {
            return false;
        };
        key[place.field % FIELDS] = u32::from_be_bytes(*word);
    }
    true
}

/// The words that rules use, and true if they begin with the usual ones, because rules use most of these.
fn words_of(alternatives: &[(Outcome, Terms)]) -> (Vec<Word>, bool) {
    let mut named: Vec<Word> = Vec::new();
    for term in alternatives.iter().flat_map(|(_, t)| t) {
        if let Term::Bits { word, mask, .. } = term
            && *mask != 0
            && !named.contains(word)
        {
            named.push(*word);
        }
    }
    let word = |base, offset| Word { base, offset };
    let header = (0..HEADER as u16).map(|n| word(Base::Start, 4 * n));
    let usual: Vec<Word> = header.chain([word(Base::Transport, 0)]).collect();
    let others: Vec<Word> = named
        .iter()
        .filter(|w| !usual.contains(w))
        .copied()
        .collect();
    match named.len() - others.len() >= USUAL / 2 && USUAL + others.len() <= WORDS {
        true => ([usual, others].concat(), true),
        false => (named, false),
    }
}

/// A test that never holds.
const NEVER: classify::Test = classify::Test {
    field: 0,
    mask: 0,
    lo: 1,
    hi: 1,
};

/// Terms that remain for a packet with all bytes of these words; `None` if none of them can match.
fn with_all_bytes(terms: &Terms, words: &[Word]) -> Option<Terms> {
    let mut left = Vec::new();
    for &term in terms {
        let Term::Bytes { base, lo, hi } = term else {
            left.push(term);
            continue;
        };
        let there = words.iter().filter(|w| w.base == base);
        let there = there.map(|w| u32::from(w.offset) + 4).max().unwrap_or(0);
        if hi < there {
            return None;
        }
        if lo > there || hi < u32::MAX {
            left.push(term);
        }
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    /// An IPv4 packet.
    impl<'a> Headers<'a> for &'a [u8] {
        fn start(self) -> &'a [u8] {
            self
        }

        fn header_words(words: &[[u8; 4]]) -> usize {
            words.first().map_or(0, |word| usize::from(word[0] & 0xf))
        }

        fn view(self) -> View<'a> {
            let header = self.first().map_or(0, |b| usize::from(b & 0xf) * 4);
            View([self, self.get(header..).unwrap_or(&[]), &[]])
        }
    }

    fn run(compiled: &Compiled, packet: &[u8]) -> Outcome {
        let mut outcomes = Vec::new();
        compiled.run([packet].into_iter(), &mut outcomes, |outcome| outcome);
        outcomes[0]
    }

    use crate::expr::Expr;
    use crate::{
        classbench::{self, FiveTuple},
        sample::Random,
    };
    use crate::{family::Family, ip_pattern};
    use arguments::Names;

    fn parse(pattern: &str, names: &Names) -> Result<Expr<RangeTest>, String> {
        ip_pattern::parse(pattern, names, Family::V4)
    }

    fn pattern(rng: &mut Rng, depth: usize) -> String {
        let inner = |rng: &mut Rng| pattern(rng, depth.saturating_sub(1));
        match rng.below(if depth == 0 { 9 } else { 12 }) {
            0 => format!("src net 10.0.{}.0/24", rng.below(3)),
            1 => format!("dst host 10.0.0.{}", rng.below(4)),
            2 => format!(
                "{} port {}",
                rng.pick(&["src", "dst tcp", "udp", ""]),
                rng.below(4)
            ),
            3 => format!("dst port > {}", rng.below(4)),
            4 => format!("ip proto {}", rng.pick(&[6, 17, 1])),
            5 => "syn".to_owned(),
            6 => rng.pick(&["ip frag", "unfrag"]).to_string(),
            7 => format!("src port != {}", rng.below(4)),
            8 => format!("ip[{}] & 3 < {}", rng.below(24), rng.below(4)),
            9 => format!("not ({})", inner(rng)),
            10 => format!("({}) and ({})", inner(rng), inner(rng)),
            _ => format!("({}) or ({})", inner(rng), inner(rng)),
        }
    }

    fn packet(rng: &mut Rng) -> Vec<u8> {
        let mut p = vec![0; 44];
        p[0] = if rng.one_in(4) { 0x46 } else { 0x45 };
        let transport = usize::from(p[0] & 0xf) * 4;
        p[7] = if rng.one_in(4) { rng.u8() & 3 } else { 0 };
        p[6] = if rng.one_in(6) { 0x20 } else { 0 };
        p[9] = *rng.pick(&[6, 6, 17, 1]);
        p[12..16].copy_from_slice(&[10, 0, rng.below(4) as u8, rng.below(4) as u8]);
        p[16..20].copy_from_slice(&[10, 0, 0, rng.below(5) as u8]);
        for (at, value) in [(1, rng.u8() & 7), (3, rng.u8() & 7), (13, rng.u8())] {
            p[transport + at] = value;
        }
        let len = if rng.one_in(3) { rng.below(45) } else { 44 };
        p.truncate(len);
        p
    }

    #[test]
    fn trees_decide_as_the_patterns_one_by_one_also_of_cut_packets_and_fragments() {
        let mut rng = Rng::seed(9);
        let mut trees = 0;
        for _ in 0..60 {
            let count = rng.range(4..40);
            let rules: Vec<Rule<RangeTest>> = (0..count)
                .map(|_| {
                    let text = pattern(&mut rng, 2);
                    let expr = parse(&text, &Names::default());
                    let outcome = Some(rng.below(9) as u32).filter(|&o| o < 8);
                    (outcome, expr.unwrap_or_else(|e| panic!("{text}: {e}")))
                })
                .collect();
            let compiled = Compiled::new(&rules);
            trees += usize::from(compiled.trees.is_some());
            for _ in 0..200 {
                let bytes = packet(&mut rng);
                let view = (&bytes[..]).view();
                let first = rules.iter().find(|(_, e)| e.matches(&view));
                let first = first.and_then(|(o, _)| *o);
                assert_eq!(run(&compiled, &bytes), first, "{rules:?} {bytes:x?}");
                assert_eq!(compiled.program.run(&view), first, "{rules:?} {bytes:x?}");
            }
        }
        assert!(trees > 20, "{trees}");
    }

    /// A rule as in access lists: networks, hosts and services; some rules have few tests.
    fn tuple(rng: &mut Rng) -> FiveTuple {
        let net = 10 << 24 | (rng.below(40) as u32) << 16;
        let mut prefix = || match rng.below(4) {
            0 => (0, 0),
            1 => (net, 16),
            _ => (net + rng.below(50) as u32, 32),
        };
        let (src, dst, port) = (prefix(), prefix(), rng.below(1024) as u16);
        FiveTuple {
            src,
            dst,
            src_port: *rng.pick(&[(0, u16::MAX), (1024, u16::MAX)]),
            dst_port: *rng.pick(&[(0, u16::MAX), (port, port), (port, port + 99)]),
            protocol: *rng.pick(&[(6, 255), (17, 255), (0, 0)]),
        }
    }

    #[test]
    fn a_thousand_rules_written_as_patterns_are_decided_as_one_by_one() {
        let (mut rng, mut random) = (Rng::seed(10), Random::new(10));
        let mut tuples: Vec<FiveTuple> = (0..1000).map(|_| tuple(&mut rng)).collect();
        tuples.sort_by_key(|rule| std::cmp::Reverse(rule.src.1 + rule.dst.1));
        let rules = tuples.iter().zip(0usize..).map(|(rule, n)| {
            let expr = parse(&written(rule), &Names::default());
            (Some((n % 255) as u32), expr.unwrap())
        });
        let compiled = Compiled::new(&rules.collect::<Vec<_>>());
        assert!(compiled.trees.is_some());
        let tests: Vec<_> = tuples.iter().map(FiveTuple::rule).collect();
        for tuple in &tuples {
            let key = classbench::hit(tuple, &mut random);
            let mut bytes = vec![0x45, 0, 0, 24, 0, 0, 0, 0, 64, key[3] as u8, 0, 0];
            key[..3].iter().for_each(|w| bytes.extend(w.to_be_bytes()));
            let first = classbench::naive(&tests, &key).map(|n| n % 255);
            assert!(first.is_some());
            assert_eq!(run(&compiled, &bytes), first, "{key:x?}");
        }
    }

    /// A rule as a pattern. Ports are tested by their bytes, because such rules test ports of all protocols.
    fn written(rule: &FiveTuple) -> String {
        let address =
            |(address, len): (u32, u8)| format!("{}/{len}", std::net::Ipv4Addr::from(address));
        let mut text = format!(
            "src net {} and dst net {}",
            address(rule.src),
            address(rule.dst)
        );
        for (offset, (lo, hi)) in [(20, rule.src_port), (22, rule.dst_port)] {
            if (lo, hi) != (0, u16::MAX) {
                text += &format!(" and ip[{offset}:2] {lo}-{hi}");
            }
        }
        if rule.protocol.1 != 0 {
            text += &format!(" and ip proto {}", rule.protocol.0);
        }
        text
    }
}
