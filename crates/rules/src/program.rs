//! Patterns compiled into a decision program: tests from the root on, each leading to another test or to a result.
//!
//! Each result of a test simplifies the remaining ones. A test whose result is now known is left out, and so are
//! patterns that can no longer match. Equal remainders share their decisions. If that needs too many decisions, the
//! patterns are tested one after the other as written.
//!
//! A test of bytes beyond the end of the packet fails. For a negated test (a range tested by the values outside of
//! it), the original condition fails.

use super::expr::{Base, Expr, RangeTest, View};
use super::test::{Test, lower};
use std::collections::HashMap;
use std::fmt;

/// Outcome for a packet: that of the first matching rule, an output or a rule's number; or `None`.
pub type Outcome = Option<u32>;

/// A pattern, and the outcome of packets that match it and no earlier pattern.
pub type Rule<L> = (Outcome, Expr<L>);

fn lowered(rules: &[Rule<RangeTest>]) -> Vec<Rule<Test>> {
    let lower = |expr: &Expr<RangeTest>| expr.map(&mut lower).merged();
    rules.iter().map(|(o, e)| (*o, lower(e))).collect()
}

/// Target of a decision: the step of this number or, beyond all steps, an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Next(u32);

impl Next {
    /// Numbers from this one on stand for outcomes, not for steps; no program has this many steps.
    const END: u32 = 1 << 31;
    /// Mark of an end without outcome.
    const NONE: u32 = 1 << 30;

    fn step(at: usize) -> Next {
        Next(at as u32)
    }

    fn end(outcome: Outcome) -> Next {
        Next(Next::END | outcome.unwrap_or(Next::NONE))
    }

    #[inline]
    fn is_end(self) -> bool {
        self.0 >= Next::END
    }

    /// Outcome of the program's end.
    #[inline]
    fn outcome(self) -> Outcome {
        (self.0 & Next::NONE == 0).then_some(self.0 & !Next::END)
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    test: Test,
    yes: Next,
    no: Next,
}

/// Patterns, compiled.
#[derive(Clone, Debug)]
pub struct Program {
    steps: Vec<Step>,
    first: Next,
}

/// Maximum number of tests examined before patterns are decided one after the other.
const EFFORT: usize = 300_000;

impl Program {
    /// Compiles patterns, the first that matches to be chosen.
    pub(crate) fn compile(rules: &[Rule<RangeTest>]) -> Program {
        let mut program = Program::empty();
        let left = lowered(rules);
        match program.decide(left, &mut HashMap::new(), &mut EFFORT.clone()) {
            Some(first) => {
                program.first = first;
                program
            }
            None => Program::chained(rules),
        }
    }

    /// Program that tests the patterns one after the other; its size is linear in the text.
    pub(crate) fn chained(rules: &[Rule<RangeTest>]) -> Program {
        let mut program = Program::empty();
        program.chain(&lowered(rules));
        program
    }

    fn empty() -> Program {
        Program {
            steps: Vec::new(),
            first: Next::end(None),
        }
    }

    fn decide(
        &mut self,
        mut left: Vec<Rule<Test>>,
        known: &mut HashMap<Vec<Rule<Test>>, Next>,
        effort: &mut usize,
    ) -> Option<Next> {
        left.retain(|(_, e)| e.known() != Some(false));
        // Rules after one that matches every packet are never reached.
        if let Some(sure) = left.iter().position(|(_, e)| e.known() == Some(true)) {
            left.truncate(sure + 1);
        }
        let Some((outcome, first)) = left.first() else {
            return Some(Next::end(None));
        };
        let Some(test) = first.next_test() else {
            return Some(Next::end(*outcome));
        };
        if let Some(next) = known.get(&left) {
            return Some(*next);
        }
        *effort = effort.checked_sub(left.iter().map(|(_, e)| e.size()).sum())?;
        let at = self.steps.len();
        self.steps.push(Step {
            test,
            yes: Next::end(None),
            no: Next::end(None),
        });
        for answer in [true, false] {
            let after = left
                .iter()
                .map(|(outcome, e)| (*outcome, e.map(&mut |t| t.after(test, answer))));
            let next = self.decide(after.collect(), known, effort)?;
            let step = &mut self.steps[at];
            *(if answer { &mut step.yes } else { &mut step.no }) = next;
        }
        let next = match self.steps[at] {
            // A branch that changes nothing; only the last step can be undone.
            Step { yes, no, .. } if yes == no && at + 1 == self.steps.len() => {
                self.steps.pop();
                yes
            }
            _ => Next::step(at),
        };
        known.insert(left, next);
        Some(next)
    }

    fn chain(&mut self, rules: &[Rule<Test>]) {
        let mut next = Next::end(None);
        for (outcome, expr) in rules.iter().rev() {
            next = self.chain_one(expr, Next::end(*outcome), next);
        }
        // Steps were made from the last to the first.
        self.steps.reverse();
        let last = self.steps.len().saturating_sub(1);
        let turn = |next: Next| match next.is_end() {
            true => next,
            false => Next::step(last - next.0 as usize),
        };
        for step in &mut self.steps {
            (step.yes, step.no) = (turn(step.yes), turn(step.no));
        }
        self.first = turn(next);
    }

    fn chain_one(&mut self, expr: &Expr<Test>, yes: Next, no: Next) -> Next {
        match expr {
            Expr::Leaf(test) => {
                self.steps.push(Step {
                    test: *test,
                    yes,
                    no,
                });
                Next::step(self.steps.len() - 1)
            }
            Expr::Not(inner) => self.chain_one(inner, no, yes),
            Expr::And(parts) => {
                let mut parts = parts.iter().rev();
                parts
                    .by_ref()
                    .fold(yes, |yes, p| self.chain_one(p, yes, no))
            }
            Expr::Or(parts) => {
                let mut parts = parts.iter().rev();
                parts.by_ref().fold(no, |no, p| self.chain_one(p, yes, no))
            }
        }
    }

    /// True if some decision leads to `outcome`.
    pub(crate) fn leads_to(&self, outcome: Outcome) -> bool {
        let ends = self.steps.iter().flat_map(|step| [step.yes, step.no]);
        let mut ends = ends.chain([self.first]);
        ends.any(|end| end == Next::end(outcome))
    }

    /// Outcome for a packet.
    #[inline]
    pub(crate) fn run(&self, view: &View) -> Outcome {
        self.run_on(|base| view.from(base))
    }

    /// Like [`run`](Self::run), if no pattern uses other bytes than these. If only four of them have decided, returns
    /// these and their offset.
    #[inline]
    pub(crate) fn run_and_note(&self, bytes: &[u8]) -> (Outcome, Option<(u16, [u8; 4])>) {
        let (mut next, first) = (self.first, self.steps.get(self.first.0 as usize));
        let mut alone = true;
        while let Some(step) = self.steps.get(next.0 as usize) {
            alone &= first.is_some_and(|first| first.test.word == step.test.word);
            next = if step.test.holds(bytes) {
                step.yes
            } else {
                step.no
            };
        }
        let at = first.map(|first| first.test.word.offset).filter(|_| alone);
        let word = at.and_then(|at| Some((at, *bytes.get(usize::from(at)..)?.first_chunk()?)));
        (next.outcome(), word)
    }

    /// Like [`run`](Self::run), for a packet whose bytes `from` returns.
    #[inline]
    pub fn run_on<'a>(&self, from: impl Fn(Base) -> &'a [u8]) -> Outcome {
        let mut next = self.first;
        while let Some(step) = self.steps.get(next.0 as usize) {
            next = if step.test.holds(from(step.test.word.base)) {
                step.yes
            } else {
                step.no
            };
        }
        next.outcome()
    }
}

impl Next {
    /// Click's notation; `output` maps outcomes to outputs.
    fn show(self, output: &dyn Fn(u32) -> Option<u8>) -> String {
        match (self.is_end(), self.outcome()) {
            (false, _) => format!("step {}", self.0),
            (true, outcome) => match outcome.and_then(output) {
                Some(output) => format!("[{output}]"),
                None => "[X]".to_owned(),
            },
        }
    }
}

impl Program {
    /// Click's notation, with offsets from the packet's start.
    pub(crate) fn show(&self, output: &dyn Fn(u32) -> Option<u8>) -> String {
        self.show_from([0; 3], output)
    }

    /// Click's notation, with offsets from the network header (at 256), the transport header (at 512) and the MAC
    /// header (at 0).
    pub(crate) fn show_ip(&self, output: &dyn Fn(u32) -> Option<u8>) -> String {
        self.show_from([256, 512, 0], output)
    }

    fn show_from(&self, bases: [usize; 3], output: &dyn Fn(u32) -> Option<u8>) -> String {
        let mut text = String::new();
        if self.steps.is_empty() {
            text += &format!("all->{}\n", self.first.show(output));
        }
        for (at, Step { test, yes, no }) in self.steps.iter().enumerate() {
            let place = bases[test.word.base as usize] + usize::from(test.word.offset);
            let (value, mask) = (test.value, test.mask);
            let (yes, no) = (yes.show(output), no.show(output));
            text += &format!("{at:2} {place:>3}/{value:08x}%{mask:08x}  yes->{yes}  no->{no}\n");
        }
        let needs = |step: &Step| bases[step.test.word.base as usize] + step.test.needs();
        let safe = self.steps.iter().map(needs).max().unwrap_or(0);
        text + &format!("safe length {safe}\nalignment offset 0\n")
    }
}

/// Writes a program whose outcomes are outputs.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show(&|outcome| u8::try_from(outcome).ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Base, Word};
    use testkit::Rng;

    fn random_leaf(rng: &mut Rng) -> Expr<RangeTest> {
        let mask = *rng.pick(&[
            0xff00_0000,
            0x00ff_0000,
            0xffff_0000,
            0x0000_00f0,
            0x0001_0100,
            0xffff_ffff,
        ]);
        let value = |rng: &mut Rng| (rng.below(3) as u32 * 0x0101_0101) & mask;
        let (a, b) = (value(rng), value(rng));
        Expr::Leaf(RangeTest {
            word: Word {
                base: *rng.pick(&[Base::Start, Base::Transport]),
                offset: 4 * rng.below(3) as u16,
            },
            mask,
            lo: a.min(b),
            hi: if rng.one_in(2) { a.min(b) } else { a.max(b) },
            outside: rng.one_in(3),
        })
    }

    fn random_expr(rng: &mut Rng, depth: usize) -> Expr<RangeTest> {
        let parts = |rng: &mut Rng| -> Vec<_> {
            let n = rng.below(4);
            (0..n).map(|_| random_expr(rng, depth - 1)).collect()
        };
        match rng.below(if depth == 0 { 1 } else { 4 }) {
            0 => random_leaf(rng),
            1 => random_expr(rng, depth - 1).negate(),
            2 => Expr::all(parts(rng)),
            _ => Expr::any(parts(rng)),
        }
    }

    fn random_rules(rng: &mut Rng) -> Vec<Rule<RangeTest>> {
        let rule = |rng: &mut Rng| {
            let outcome = Some(rng.below(4) as u32).filter(|&o| o < 3);
            (outcome, random_expr(rng, 2))
        };
        (0..rng.range(1..7)).map(|_| rule(rng)).collect()
    }

    fn random_bytes(rng: &mut Rng) -> Vec<u8> {
        let len = rng.below(14);
        (0..len).map(|_| rng.below(3) as u8).collect()
    }

    #[test]
    fn a_program_decides_as_the_patterns_one_by_one_whether_deciding_or_chained() {
        let mut rng = Rng::seed(3);
        for _ in 0..600 {
            let rules = random_rules(&mut rng);
            let program = Program::compile(&rules);
            let chain = Program::chained(&rules);
            for _ in 0..150 {
                let (start, transport) = (random_bytes(&mut rng), random_bytes(&mut rng));
                let view = View([&start, &transport, &[]]);
                let first = rules.iter().find(|(_, e)| e.matches(&view));
                let first = first.and_then(|(o, _)| *o);
                assert_eq!(program.run(&view), first, "{rules:?}\n{program}\n{view:?}");
                assert_eq!(chain.run(&view), first, "{rules:?}\n{chain}\n{view:?}");
            }
        }
    }

    #[test]
    fn a_word_is_noted_if_it_decides_whatever_else_the_packet_has() {
        let (mut rng, mut noted) = (Rng::seed(5), 0);
        for _ in 0..600 {
            let rules = random_rules(&mut rng);
            for program in [Program::compile(&rules), Program::chained(&rules)] {
                for _ in 0..50 {
                    let mut bytes = random_bytes(&mut rng);
                    let run = |bytes: &[u8]| program.run_on(|_| bytes);
                    let (outcome, decisive) = program.run_and_note(&bytes);
                    assert_eq!(outcome, run(&bytes), "{program}\n{bytes:?}");
                    let Some((at, word)) = decisive else {
                        continue;
                    };
                    let place = usize::from(at)..usize::from(at) + 4;
                    assert_eq!(bytes[place.clone()], word, "{program}");
                    noted += 1;
                    for _ in 0..10 {
                        bytes = random_bytes(&mut rng);
                        bytes.resize(bytes.len().max(place.end), 0);
                        bytes[place.clone()].copy_from_slice(&word);
                        assert_eq!(run(&bytes), outcome, "{program}\n{bytes:?}");
                    }
                }
            }
        }
        assert!(noted > 1000, "only {noted} words decide");
    }

    #[test]
    fn no_way_through_asks_the_same_twice() {
        fn walk(program: &Program, next: Next, asked: &mut Vec<Test>) {
            if let Some(step) = program.steps.get(next.0 as usize) {
                assert!(!asked.contains(&step.test), "{program}");
                asked.push(step.test);
                walk(program, step.yes, asked);
                walk(program, step.no, asked);
                asked.pop();
            }
        }
        let mut rng = Rng::seed(4);
        for _ in 0..20 {
            let program = Program::compile(&random_rules(&mut rng));
            walk(&program, program.first, &mut Vec::new());
        }
    }

    #[test]
    fn patterns_that_would_take_too_many_decisions_are_chained() {
        let byte = |offset: u16, value: u32| {
            Expr::Leaf(RangeTest {
                word: Word {
                    base: Base::Start,
                    offset: 4 * offset,
                },
                mask: u32::MAX,
                lo: value,
                hi: value,
                outside: false,
            })
        };
        let rules: Vec<_> = (0..400)
            .map(|i| {
                let mut rng = Rng::seed(i);
                let parts = (0..3).map(|_| byte(rng.below(12) as u16, rng.below(60) as u32));
                (Some((i % 200) as u32), Expr::all(parts.collect::<Vec<_>>()))
            })
            .collect();
        let program = Program::compile(&rules);
        assert!(program.steps.len() <= 1200, "{}", program.steps.len());
        let mut rng = Rng::seed(7);
        for _ in 0..2000 {
            let words = (0..12).flat_map(|_| (rng.below(60) as u32).to_be_bytes());
            let bytes: Vec<u8> = words.collect();
            let view = View::of_data(&bytes);
            let first = rules.iter().find(|(_, e)| e.matches(&view));
            assert_eq!(program.run(&view), first.and_then(|(o, _)| *o));
        }
    }
}
