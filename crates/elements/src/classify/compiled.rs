//! Rules as packets meet them: a few as a program, many as trees.
//!
//! A program asks the tests of patterns in their order, so its cost grows with the rules; a
//! [`Tree`]'s hardly does. Patterns with too many alternatives for a tree stay a program.
//!
//! There are two trees. The first takes packets that have all the bytes that rules ask for and are no
//! later fragments, and knows that; the second takes all the others, and asks.

use super::expr::{Base, View, Within, Word};
use super::program::{Outcome, Program, Rule};
use super::terms::{self, Term, Terms};
use std::fmt;
use tables::classify::{self, FIELDS, Key, Tree};

/// Alternatives from which on a tree is built.
const FEW: usize = 16;
/// Fields of the key for words; the last three hold lengths.
const WORDS: usize = FIELDS - 3;
/// Flags and fragment offset, and the bits of the offset.
const FRAGMENT: (Word, u32) = (
    Word {
        base: Base::Start,
        offset: 4,
    },
    0x1fff,
);

/// Rules, compiled.
pub(super) struct Compiled {
    program: Program,
    trees: Option<Box<Trees>>,
}

struct Trees {
    words: Vec<Word>,
    /// Where among them the fragment offset is, if a rule asks for it.
    fragment: Option<usize>,
    whole: Tree,
    other: Tree,
    /// By alternative.
    outcomes: Vec<Outcome>,
}

impl Compiled {
    /// Compiles rules, the first that matches to be chosen.
    pub(super) fn new(rules: &[Rule<Within>]) -> Compiled {
        let trees = match rules.len() {
            0..4 => None,
            _ => Trees::new(rules).map(Box::new),
        };
        let program = match &trees {
            // It is only read.
            Some(_) => Program::chained(rules),
            None => Program::compile(rules),
        };
        Compiled { program, trees }
    }

    /// What becomes of a packet.
    #[inline]
    pub(super) fn run(&self, view: &View) -> Outcome {
        match &self.trees {
            Some(trees) => trees.run(view),
            None => self.program.run(view),
        }
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
    fn new(rules: &[Rule<Within>]) -> Option<Trees> {
        let mut alternatives: Vec<(Outcome, Terms)> = Vec::new();
        for (outcome, expr) in rules {
            let terms = terms::of(expr, true)?;
            alternatives.extend(terms.into_iter().map(|t| (*outcome, t)));
        }
        if alternatives.len() < FEW {
            return None;
        }
        let mut words: Vec<Word> = Vec::new();
        for term in alternatives.iter().flat_map(|(_, t)| t) {
            if let Term::Bits { word, mask, .. } = term
                && *mask != 0
                && !words.contains(word)
            {
                words.push(*word);
            }
        }
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
        let whole = |terms: &Terms| whole(terms, &words).map(|t| t.iter().map(test).collect());
        // A rule that no whole packet matches keeps its number by a test that fails.
        let never = |terms: Option<classify::Rule>| terms.unwrap_or_else(|| vec![NEVER]);
        let of_whole: Vec<_> = alternatives.iter().map(|(_, t)| never(whole(t))).collect();
        let of_other: Vec<_> = alternatives
            .iter()
            .map(|(_, t)| t.iter().map(test).collect())
            .collect();
        let fragment = words.iter().position(|w| *w == FRAGMENT.0);
        let known = fragment.map(|field| classify::Test {
            field: field as u8,
            mask: FRAGMENT.1,
            lo: 0,
            hi: 0,
        });
        Some(Trees {
            fragment,
            whole: Tree::assuming(&of_whole, known.as_slice()),
            other: Tree::new(&of_other),
            outcomes: alternatives.iter().map(|(outcome, _)| *outcome).collect(),
            words,
        })
    }

    #[inline]
    fn run(&self, view: &View) -> Outcome {
        let mut key: Key = [0; FIELDS];
        let mut whole = true;
        for (field, word) in key.iter_mut().zip(&self.words) {
            let at = usize::from(word.offset);
            match view.from(word.base).get(at..at + 4) {
                Some(&[a, b, c, d]) => *field = u32::from_be_bytes([a, b, c, d]),
                _ => {
                    *field = word.read(view).0;
                    whole = false;
                }
            }
        }
        let later = self
            .fragment
            .is_some_and(|f| key[f % FIELDS] & FRAGMENT.1 != 0);
        let first = if whole && !later {
            self.whole.first(&key)
        } else {
            self.first_of_other(&mut key, view)
        };
        first.and_then(|n| *self.outcomes.get(n as usize)?)
    }

    #[cold]
    fn first_of_other(&self, key: &mut Key, view: &View) -> Option<u32> {
        for (field, bytes) in key[WORDS..].iter_mut().zip(view.0) {
            *field = bytes.len() as u32;
        }
        self.other.first(key)
    }
}

/// A test that never holds.
const NEVER: classify::Test = classify::Test {
    field: 0,
    mask: 0,
    lo: 1,
    hi: 1,
};

/// What is left to ask of a packet that has all bytes of these words; `None` if nothing like it matches.
fn whole(terms: &Terms, words: &[Word]) -> Option<Terms> {
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

    use super::super::ip_pattern::parse;
    use engine::args::Names;

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
        let mut p = vec![0; 40];
        p[0] = 0x45;
        p[7] = if rng.one_in(4) { rng.u8() & 3 } else { 0 };
        p[6] = if rng.one_in(6) { 0x20 } else { 0 };
        p[9] = *rng.pick(&[6, 6, 17, 1]);
        p[12..16].copy_from_slice(&[10, 0, rng.below(4) as u8, rng.below(4) as u8]);
        p[16..20].copy_from_slice(&[10, 0, 0, rng.below(5) as u8]);
        (p[21], p[23], p[33]) = (rng.below(5) as u8, rng.below(5) as u8, rng.u8());
        let len = if rng.one_in(3) { rng.below(41) } else { 40 };
        p.truncate(len);
        p
    }

    #[test]
    fn trees_decide_as_the_patterns_one_by_one_also_of_cut_packets_and_fragments() {
        let mut rng = Rng::seed(9);
        let mut trees = 0;
        for _ in 0..60 {
            let count = rng.range(4..40);
            let rules: Vec<Rule<Within>> = (0..count)
                .map(|_| {
                    let text = pattern(&mut rng, 2);
                    let expr = parse(&text, &Names::default());
                    let outcome = Some(rng.below(9) as u8).filter(|&o| o < 8);
                    (outcome, expr.unwrap_or_else(|e| panic!("{text}: {e}")))
                })
                .collect();
            let compiled = Compiled::new(&rules);
            trees += usize::from(compiled.trees.is_some());
            for _ in 0..200 {
                let bytes = packet(&mut rng);
                let view = View([&bytes, bytes.get(20..).unwrap_or(&[]), &[]]);
                let first = rules.iter().find(|(_, e)| e.holds(&view));
                let first = first.and_then(|(o, _)| *o);
                assert_eq!(compiled.run(&view), first, "{rules:?} {bytes:x?}");
                assert_eq!(compiled.program.run(&view), first, "{rules:?} {bytes:x?}");
            }
        }
        assert!(trees > 20, "{trees}");
    }

    #[test]
    fn rule_sets_of_classbench_written_as_patterns_are_decided_as_expected() {
        for name in ["acl1_1k", "fw1_1k"] {
            let read = |kind| testkit::shared::text(&format!("rules/{name}.{kind}"));
            let (Some(rules), Some(trace), Some(expected)) =
                (read("rules"), read("trace"), read("expected"))
            else {
                return;
            };
            let rules: Vec<_> = classify::sample::parse_rules(&rules)
                .unwrap()
                .iter()
                .zip(0usize..)
                .map(|(rule, n)| {
                    let expr = parse(&written(rule), &Names::default());
                    (Some((n % 255) as u8), expr.unwrap())
                })
                .collect();
            let compiled = Compiled::new(&rules);
            assert!(compiled.trees.is_some());
            let keys = classify::sample::parse_trace(&trace).unwrap();
            for (key, expected) in keys.iter().zip(expected.lines()) {
                let mut bytes = vec![0x45, 0, 0, 24, 0, 0, 0, 0, 64, key[3] as u8, 0, 0];
                key[..3].iter().for_each(|w| bytes.extend(w.to_be_bytes()));
                let view = View([&bytes, &bytes[20..], &[]]);
                let expected = expected.parse::<usize>().ok().map(|n| (n % 255) as u8);
                assert_eq!(compiled.run(&view), expected, "{name} {key:x?}");
            }
        }
    }

    /// A rule as a pattern; ports by their bytes, since such rules ask for them of all protocols.
    fn written(rule: &classify::sample::FiveTuple) -> String {
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
