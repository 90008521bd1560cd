//! Tests of a packet's bytes, into which patterns are compiled.
//!
//! A test compares some bits of four bytes. A range of values is tested by the prefixes that cover it, or by those
//! that cover the rest.

use super::expr::{Expr, RangeTest, Word, bytes_of};

/// Compares the bits of `mask` in a word with `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Test {
    pub(crate) word: Word,
    pub(crate) mask: u32,
    /// Wanted value; 0 outside the mask.
    pub(crate) value: u32,
    /// Bytes of the word that the packet must have.
    pub(crate) need: u8,
    /// Result of the test for a packet with fewer bytes.
    pub(crate) short: bool,
}

impl Test {
    /// Bytes from the base on that a packet must have.
    pub(crate) fn needs(self) -> usize {
        usize::from(self.word.offset) + usize::from(self.need)
    }

    /// True if the test succeeds for the bytes from its base on.
    #[inline]
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        let at = usize::from(self.word.offset);
        match bytes.get(at..at + 4) {
            Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]) & self.mask == self.value,
            _ => self.holds_at_end(bytes),
        }
    }

    #[cold]
    fn holds_at_end(&self, bytes: &[u8]) -> bool {
        let (word, len) = self.word.read(bytes);
        match len < usize::from(self.need) {
            true => self.short,
            false => word & self.mask == self.value,
        }
    }

    /// Remaining test after `answer` to `asked`.
    pub(crate) fn after(self, asked: Test, answer: bool) -> Expr<Test> {
        if self == asked {
            return if answer { Expr::TRUE } else { Expr::FALSE };
        }
        if self.word != asked.word || self.short || asked.short {
            return Expr::Leaf(self);
        }
        let common = self.mask & asked.mask;
        let agree = (self.value ^ asked.value) & common == 0;
        if answer && !agree {
            Expr::FALSE
        } else if answer && common == self.mask && self.need <= asked.need {
            Expr::TRUE
        } else if answer {
            Expr::Leaf(Test {
                mask: self.mask & !common,
                value: self.value & !common,
                ..self
            })
        } else if agree && common == asked.mask && self.need >= asked.need {
            Expr::FALSE // `self` implies `asked`
        } else {
            Expr::Leaf(self)
        }
    }
}

/// The prefixes that cover the values from `lo` to `hi`: value and mask of each.
fn cover(lo: u32, hi: u32) -> Vec<(u32, u32)> {
    let (mut at, end) = (u64::from(lo), u64::from(hi) + 1);
    let mut blocks = Vec::new();
    while at < end {
        let aligned = at.trailing_zeros().min(32);
        let room = 63 - (end - at).leading_zeros();
        let size = 1u64 << aligned.min(room);
        blocks.push((at as u32, !((size - 1) as u32)));
        at += size;
    }
    blocks
}

/// Tests that a word's bits lie in a range.
pub(crate) fn lower(within: &RangeTest) -> Expr<Test> {
    let RangeTest {
        word,
        mask,
        lo,
        hi,
        outside,
    } = *within;
    let need = bytes_of(mask) as u8;
    // Bits below the mask are zero in the compared value, so a range may end after them.
    let below = match mask {
        0 => u32::MAX,
        _ => (1u32 << mask.trailing_zeros()) - 1,
    };
    let blocks = |lo: u32, hi: u32, short| -> Vec<Expr<Test>> {
        let possible = cover(lo, hi).into_iter().filter(|(v, m)| {
            // The masked word can never have a value with bits outside the mask.
            v & m & !mask & !below == 0
        });
        let test = |(value, prefix): (u32, u32)| Test {
            word,
            mask: mask & prefix,
            value: value & mask & prefix,
            need,
            short,
        };
        possible.map(test).map(Expr::Leaf).collect()
    };
    let all = u32::MAX;
    let (lo, hi) = (lo, hi | below);
    let rest = |short| {
        let mut rest = match lo {
            0 => Vec::new(),
            _ => blocks(0, lo - 1, short),
        };
        if hi < all {
            rest.extend(blocks(hi + 1, all, short));
        }
        rest
    };
    let (inside, others) = match outside {
        false => (blocks(lo, hi, false), rest(true)),
        true => (rest(false), blocks(lo, hi, true)),
    };
    let is_direct = inside.len() <= others.len();
    match (is_direct, inside.is_empty(), others.is_empty()) {
        (_, true, _) => Expr::FALSE,
        (_, _, true) => Expr::Leaf(Test {
            // The test can fail only because bytes are missing.
            word,
            mask: 0,
            value: 0,
            need,
            short: false,
        }),
        (true, ..) => Expr::any(inside),
        (false, ..) => Expr::any(others).negate(),
    }
}

impl Expr<Test> {
    /// Tests of one word that must all hold become one.
    pub(crate) fn merged(self) -> Expr<Test> {
        match self {
            Expr::And(parts) => {
                let mut kept: Vec<Expr<Test>> = Vec::new();
                for part in parts.into_iter().map(Expr::merged) {
                    let Expr::Leaf(test) = part else {
                        kept.push(part);
                        continue;
                    };
                    let twin = kept.iter_mut().find_map(|e| match e {
                        Expr::Leaf(t) if t.word == test.word && !t.short && !test.short => Some(t),
                        _ => None,
                    });
                    match twin {
                        Some(t) if (t.value ^ test.value) & t.mask & test.mask != 0 => {
                            return Expr::FALSE;
                        }
                        Some(t) => {
                            t.mask |= test.mask;
                            t.value |= test.value;
                            t.need = t.need.max(test.need);
                        }
                        None => kept.push(Expr::Leaf(test)),
                    }
                }
                Expr::all(kept)
            }
            Expr::Or(parts) => Expr::any(parts.into_iter().map(Expr::merged).collect::<Vec<_>>()),
            Expr::Not(inner) => inner.merged().negate(),
            leaf => leaf,
        }
    }

    pub(crate) fn next_test(&self) -> Option<Test> {
        match self {
            Expr::Leaf(test) => Some(*test),
            Expr::Not(inner) => inner.next_test(),
            Expr::And(parts) | Expr::Or(parts) => parts.first()?.next_test(),
        }
    }

    pub(crate) fn size(&self) -> usize {
        match self {
            Expr::Leaf(_) => 1,
            Expr::Not(inner) => inner.size(),
            Expr::And(parts) | Expr::Or(parts) => 1 + parts.iter().map(Expr::size).sum::<usize>(),
        }
    }
}
