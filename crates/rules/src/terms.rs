//! Expressions as alternatives of plain comparisons, which rule trees can take.

use super::expr::{Base, Expr, RangeTest, Word, bytes_of};

/// A comparison in a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// Bits of a word, the bytes that the packet lacks read as zero.
    Bits {
        word: Word,
        mask: u32,
        lo: u32,
        hi: u32,
    },
    /// Bounds of the number of bytes that the packet has from a base on.
    Bytes { base: Base, lo: u32, hi: u32 },
}

/// Comparisons that must all hold.
pub(crate) type Terms = Vec<Term>;

/// Alternatives of one pattern, at most.
const ALTERNATIVES_MAX: usize = 64;
/// Comparisons of one alternative, at most.
const LENGTH: usize = 48;

/// The alternatives of an expression; `None` if they would be too many.
pub(crate) fn of(expr: &Expr<RangeTest>, holds: bool) -> Option<Vec<Terms>> {
    match (expr, holds) {
        (Expr::Leaf(within), true) => Some(leaf(within)),
        (Expr::Leaf(within), false) => Some(leaf_fails(within)),
        (Expr::Not(inner), _) => of(inner, !holds),
        (Expr::And(parts), true) | (Expr::Or(parts), false) => {
            let mut all = vec![Terms::new()];
            for part in parts {
                let part = of(part, holds)?;
                if all.len() * part.len() > ALTERNATIVES_MAX * 4 {
                    return None;
                }
                all = all
                    .iter()
                    .flat_map(|a| part.iter().filter_map(|b| conjunction(a, b)))
                    .collect();
                if all.len() > ALTERNATIVES_MAX || all.iter().any(|t| t.len() > LENGTH) {
                    return None;
                }
            }
            Some(all)
        }
        (Expr::Or(parts), true) | (Expr::And(parts), false) => {
            let mut any = Vec::new();
            for part in parts {
                any.extend(of(part, holds)?);
                if any.len() > ALTERNATIVES_MAX {
                    return None;
                }
            }
            Some(any)
        }
    }
}

fn need(within: &RangeTest) -> u32 {
    u32::from(within.word.offset) + bytes_of(within.mask) as u32
}

/// The ranges of a comparison's bits in which it holds, or does not.
fn ranges(within: &RangeTest, inside: bool) -> Vec<Term> {
    let RangeTest {
        word, mask, lo, hi, ..
    } = *within;
    let bits = |lo, hi| Term::Bits { word, mask, lo, hi };
    if inside {
        return vec![bits(lo, hi)];
    }
    let below = lo.checked_sub(1).map(|hi| bits(0, hi));
    let above = (hi < mask).then(|| bits(hi + 1, mask));
    below.into_iter().chain(above).collect()
}

fn leaf(within: &RangeTest) -> Vec<Terms> {
    let there = Term::Bytes {
        base: within.word.base,
        lo: need(within),
        hi: u32::MAX,
    };
    let ranges = ranges(within, !within.outside);
    ranges.into_iter().map(|r| vec![there, r]).collect()
}

fn leaf_fails(within: &RangeTest) -> Vec<Terms> {
    let ranges = ranges(within, within.outside).into_iter().map(|r| vec![r]);
    let short = need(within).checked_sub(1).filter(|_| within.mask != 0);
    let short = short.map(|hi| {
        let base = within.word.base;
        vec![Term::Bytes { base, lo: 0, hi }]
    });
    ranges.chain(short).collect()
}

/// Both lists of comparisons together; `None` if they contradict each other.
fn conjunction(a: &Terms, b: &Terms) -> Option<Terms> {
    let mut all = a.clone();
    for &term in b {
        add(&mut all, term)?;
    }
    Some(all)
}

fn add(all: &mut Terms, term: Term) -> Option<()> {
    for old in all.iter_mut() {
        match (&mut *old, term) {
            (
                Term::Bytes { base, lo, hi },
                Term::Bytes {
                    base: b,
                    lo: l,
                    hi: h,
                },
            ) if *base == b => {
                (*lo, *hi) = ((*lo).max(l), (*hi).min(h));
                return (*lo <= *hi).then_some(());
            }
            (
                Term::Bits { word, mask, lo, hi },
                Term::Bits {
                    word: w,
                    mask: m,
                    lo: l,
                    hi: h,
                },
            ) if *word == w => {
                if *mask == m {
                    (*lo, *hi) = ((*lo).max(l), (*hi).min(h));
                    return (*lo <= *hi).then_some(());
                }
                if *lo == *hi && l == h {
                    if (*lo ^ l) & *mask & m != 0 {
                        return None;
                    }
                    (*mask, *lo) = (*mask | m, *lo | l);
                    *hi = *lo;
                    return Some(());
                }
            }
            _ => {}
        }
    }
    all.push(term);
    Some(())
}
