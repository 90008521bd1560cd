//! Patterns compiled to decisions: from the root, one test after the other to an output.
//!
//! A test compares some bits of four bytes. After each answer, what it says about the tests that
//! are left is used: those that must now hold or fail are never made, and patterns that can no
//! longer match are gone. Equal remainders share their decisions. A test of bytes behind the end of
//! the packet fails.

use std::collections::HashMap;
use std::fmt;

/// Compares the bits of `mask` in the four bytes at `offset` with `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Test {
    /// A multiple of 4.
    pub(super) offset: usize,
    pub(super) mask: u32,
    /// Nothing outside the mask.
    pub(super) value: u32,
}

impl Test {
    /// Bytes that a packet must have for the test to hold.
    fn needs(self) -> usize {
        self.offset + 4 - self.mask.trailing_zeros().min(31) as usize / 8
    }

    #[inline]
    fn holds(self, data: &[u8]) -> bool {
        match data.get(self.offset..self.offset + 4) {
            Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]) & self.mask == self.value,
            _ => self.holds_at_end(data),
        }
    }

    #[cold]
    fn holds_at_end(self, data: &[u8]) -> bool {
        let mut word = [0; 4];
        let rest = data.get(self.offset..).unwrap_or(&[]);
        word.iter_mut().zip(rest).for_each(|(w, b)| *w = *b);
        data.len() >= self.needs() && u32::from_be_bytes(word) & self.mask == self.value
    }

    /// What `answer` to `asked` leaves of this test.
    fn after(self, asked: Test, answer: bool) -> After {
        let common = self.mask & asked.mask;
        let agree = (self.value ^ asked.value) & common == 0;
        if self.offset != asked.offset {
            After::Open(self)
        } else if answer && !agree {
            After::False
        } else if answer && common == self.mask {
            After::True
        } else if answer {
            After::Open(Test {
                mask: self.mask & !common,
                value: self.value & !common,
                ..self
            })
        } else if agree && common == asked.mask {
            After::False // it asks for the same, and perhaps for more
        } else {
            After::Open(self)
        }
    }
}

enum After {
    True,
    False,
    Open(Test),
}

/// A pattern: tests that must all hold, and sets of tests of which one at least must fail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Pattern {
    pub(super) all: Vec<Test>,
    pub(super) never: Vec<Vec<Test>>,
}

impl Pattern {
    /// Adds a test that must hold; one of the same word becomes part of it.
    pub(super) fn require(&mut self, test: Test) {
        let same = |t: &&mut Test| {
            t.offset == test.offset && (t.value ^ test.value) & t.mask & test.mask == 0
        };
        match self.all.iter_mut().find(same) {
            Some(t) => {
                t.mask |= test.mask;
                t.value |= test.value;
            }
            None => self.all.push(test),
        }
    }

    fn next_test(&self) -> Option<Test> {
        let first = self.all.first();
        first
            .or(self.never.first().and_then(|set| set.first()))
            .copied()
    }

    /// What an answer leaves of the pattern; `None` if it cannot match any more.
    fn after(&self, asked: Test, answer: bool) -> Option<Pattern> {
        let mut left = Pattern::default();
        for test in &self.all {
            match test.after(asked, answer) {
                After::True => {}
                After::False => return None,
                After::Open(test) => left.all.push(test),
            }
        }
        for set in &self.never {
            let mut open = Vec::new();
            let mut fails = false;
            for test in set {
                match test.after(asked, answer) {
                    After::True => {}
                    After::False => fails = true,
                    After::Open(test) => open.push(test),
                }
            }
            if fails {
                continue;
            }
            if open.is_empty() {
                return None;
            }
            left.never.push(open);
        }
        Some(left)
    }
}

/// Where a decision leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Step(u16),
    /// The pattern of this number matches.
    Match(u8),
    /// No pattern does.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    test: Test,
    yes: Next,
    no: Next,
}

/// Patterns, compiled.
#[derive(Clone, Debug)]
pub(super) struct Program {
    steps: Vec<Step>,
    first: Next,
}

type Remainder = Vec<(u8, Pattern)>;

impl Program {
    /// Compiles patterns, the first that matches to be chosen; `None` if that would take more than
    /// 65,000 decisions. There are at most 256 patterns.
    pub(super) fn compile(patterns: &[Pattern]) -> Option<Program> {
        let mut program = Program {
            steps: Vec::new(),
            first: Next::Nothing,
        };
        let all = (0..=255).zip(patterns.iter().cloned()).filter(|(_, p)| {
            // A set without tests always holds, so its pattern never does.
            p.never.iter().all(|set| !set.is_empty())
        });
        program.first = program.decide(all.collect(), &mut HashMap::new())?;
        Some(program)
    }

    fn decide(
        &mut self,
        mut left: Remainder,
        known: &mut HashMap<Remainder, Next>,
    ) -> Option<Next> {
        // What stands behind a pattern that matches is never reached.
        if let Some(sure) = left.iter().position(|(_, p)| p.next_test().is_none()) {
            left.truncate(sure + 1);
        }
        let Some((number, first)) = left.first() else {
            return Some(Next::Nothing);
        };
        let Some(test) = first.next_test() else {
            return Some(Next::Match(*number));
        };
        if let Some(next) = known.get(&left) {
            return Some(*next);
        }
        let at = u16::try_from(self.steps.len())
            .ok()
            .filter(|&n| n < 65_000)?;
        self.steps.push(Step {
            test,
            yes: Next::Nothing,
            no: Next::Nothing,
        });
        for answer in [true, false] {
            let after = left
                .iter()
                .filter_map(|(n, p)| Some((*n, p.after(test, answer)?)));
            let next = self.decide(after.collect(), known)?;
            let step = &mut self.steps[usize::from(at)];
            *(if answer { &mut step.yes } else { &mut step.no }) = next;
        }
        known.insert(left, Next::Step(at));
        Some(Next::Step(at))
    }

    /// The number of the first pattern that matches.
    #[inline]
    pub(super) fn run(&self, data: &[u8]) -> Option<u8> {
        let mut next = self.first;
        loop {
            match next {
                Next::Step(at) => {
                    let step = &self.steps[usize::from(at)];
                    next = if step.test.holds(data) {
                        step.yes
                    } else {
                        step.no
                    };
                }
                Next::Match(number) => return Some(number),
                Next::Nothing => return None,
            }
        }
    }
}

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Next::Step(at) => write!(f, "step {at}"),
            Next::Match(number) => write!(f, "[{number}]"),
            Next::Nothing => f.write_str("[X]"),
        }
    }
}

/// As Click prints it.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            writeln!(f, "all->{}", self.first)?;
        }
        for (at, Step { test, yes, no }) in self.steps.iter().enumerate() {
            let Test {
                offset,
                mask,
                value,
            } = test;
            writeln!(
                f,
                "{at:2} {offset:3}/{value:08x}%{mask:08x}  yes->{yes}  no->{no}"
            )?;
        }
        let safe = self.steps.iter().map(|s| s.test.needs()).max().unwrap_or(0);
        write!(f, "safe length {safe}\nalignment offset 0\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    fn matches(pattern: &Pattern, data: &[u8]) -> bool {
        pattern.all.iter().all(|t| t.holds(data))
            && pattern
                .never
                .iter()
                .all(|set| set.iter().any(|t| !t.holds(data)))
    }

    fn random_test(rng: &mut Rng) -> Test {
        let mask = *rng.pick(&[
            0xff00_0000,
            0x00ff_0000,
            0xffff_0000,
            0x0000_00f0,
            0xffff_ffff,
        ]);
        let byte = rng.below(2) as u32;
        Test {
            offset: 4 * rng.below(3),
            mask,
            value: (byte * 0x0101_0101) & mask,
        }
    }

    #[test]
    fn the_program_decides_as_the_patterns_one_by_one() {
        let mut rng = Rng::seed(3);
        for _ in 0..500 {
            let patterns: Vec<Pattern> = (0..rng.range(1..8))
                .map(|_| {
                    let mut pattern = Pattern::default();
                    for _ in 0..rng.below(4) {
                        pattern.require(random_test(&mut rng));
                    }
                    for _ in 0..rng.below(2) {
                        let set = (0..rng.range(1..3)).map(|_| random_test(&mut rng));
                        pattern.never.push(set.collect());
                    }
                    pattern
                })
                .collect();
            let program = Program::compile(&patterns).expect("it is small");
            for _ in 0..200 {
                let len = rng.below(14);
                let data: Vec<u8> = (0..len).map(|_| rng.below(2) as u8).collect();
                let first = patterns.iter().position(|p| matches(p, &data));
                assert_eq!(
                    program.run(&data).map(usize::from),
                    first,
                    "{patterns:?}\n{program}\n{data:?}"
                );
            }
        }
    }

    #[test]
    fn no_way_through_asks_the_same_twice() {
        let mut rng = Rng::seed(4);
        let patterns: Vec<Pattern> = (0..40)
            .map(|_| {
                let mut pattern = Pattern::default();
                (0..3).for_each(|_| pattern.require(random_test(&mut rng)));
                pattern
            })
            .collect();
        let program = Program::compile(&patterns).expect("it is small");
        fn walk(program: &Program, next: Next, asked: &mut Vec<Test>) {
            if let Next::Step(at) = next {
                let step = program.steps[usize::from(at)];
                assert!(!asked.contains(&step.test), "{program}");
                asked.push(step.test);
                walk(program, step.yes, asked);
                walk(program, step.no, asked);
                asked.pop();
            }
        }
        walk(&program, program.first, &mut Vec::new());
    }
}
