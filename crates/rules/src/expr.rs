//! Patterns as boolean expressions over the bytes of a packet.
//!
//! The parsers of the pattern languages produce `Expr`, and the compiled forms ([`program`](super::program) and
//! [`tables::classify`]) are made from it. Both forms must agree with `Expr::matches`.

use std::net::Ipv4Addr;

/// Origin of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// The start of the packet (Classifier) or the network header (IP patterns).
    Start,
    /// The transport header.
    Transport,
    /// The MAC header.
    Mac,
}

impl Base {
    /// The end of the chain of headers, which takes the place of the MAC header in patterns of IPv6 (see
    /// [`ip6_headers`](super::ip6_headers)).
    pub(crate) const CHAIN: Base = Base::Mac;
}

/// The bytes of a packet from each [`Base`] on; empty where there is no such header.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(pub(crate) [&'a [u8]; 3]);

impl<'a> View<'a> {
    /// A packet without headers: its bytes from the first one on.
    pub fn of_data(data: &'a [u8]) -> View<'a> {
        View([data, &[], &[]])
    }

    #[inline]
    pub(crate) fn from(&self, base: Base) -> &'a [u8] {
        self.0[base as usize]
    }
}

/// Four bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word {
    /// Header from whose start the offset counts.
    pub base: Base,
    /// A multiple of 4.
    pub offset: u16,
}

impl Word {
    /// Value of the word in the bytes from its base on, with zeros for missing bytes; and the number of its bytes that
    /// are present.
    #[inline]
    pub(crate) fn read(self, bytes: &[u8]) -> (u32, usize) {
        let at = usize::from(self.offset);
        match bytes.get(at..at + 4) {
            Some(&[a, b, c, d]) => (u32::from_be_bytes([a, b, c, d]), 4),
            _ => {
                let mut word = [0; 4];
                let rest = bytes.get(at..).unwrap_or(&[]);
                word.iter_mut().zip(rest).for_each(|(w, b)| *w = *b);
                (u32::from_be_bytes(word), rest.len())
            }
        }
    }
}

/// Bytes of a word that a packet must have for its bits in `mask` to be there.
pub(crate) fn bytes_of(mask: u32) -> usize {
    4 - mask.trailing_zeros().min(32) as usize / 8
}

/// True if the bits of a word that are set in `mask` lie between `lo` and `hi`, or (`outside`) do not.
/// Either way it fails where the packet ends before these bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangeTest {
    /// The word.
    pub word: Word,
    /// Bits of the word that count.
    pub mask: u32,
    pub(crate) lo: u32,
    pub(crate) hi: u32,
    pub(crate) outside: bool,
}

#[cfg(test)]
impl RangeTest {
    pub(crate) fn matches(&self, view: &View) -> bool {
        let (word, len) = self.word.read(view.from(self.word.base));
        let inside = (self.lo..=self.hi).contains(&(word & self.mask));
        len >= bytes_of(self.mask) && inside != self.outside
    }
}

/// A boolean expression. An empty `And` is true, an empty `Or` false.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr<L> {
    /// A test.
    Leaf(L),
    /// True if the expression is false.
    Not(Box<Expr<L>>),
    /// True if all expressions are true.
    And(Vec<Expr<L>>),
    /// True if at least one expression is true.
    Or(Vec<Expr<L>>),
}

impl<L> Expr<L> {
    /// Always true.
    pub const TRUE: Expr<L> = Expr::And(Vec::new());
    pub(crate) const FALSE: Expr<L> = Expr::Or(Vec::new());

    /// The value, if it is known.
    pub(crate) fn known(&self) -> Option<bool> {
        match self {
            Expr::And(parts) if parts.is_empty() => Some(true),
            Expr::Or(parts) if parts.is_empty() => Some(false),
            _ => None,
        }
    }

    /// Both, or all, simplified.
    pub(crate) fn all(parts: impl IntoIterator<Item = Expr<L>>) -> Expr<L> {
        Expr::joined(parts, true)
    }

    /// Either, or any, simplified.
    pub(crate) fn any(parts: impl IntoIterator<Item = Expr<L>>) -> Expr<L> {
        Expr::joined(parts, false)
    }

    fn joined(parts: impl IntoIterator<Item = Expr<L>>, all: bool) -> Expr<L> {
        let mut kept = Vec::new();
        for part in parts {
            match part {
                Expr::And(inner) if all => kept.extend(inner),
                Expr::Or(inner) if !all => kept.extend(inner),
                part if part.known() == Some(!all) => return part,
                part => kept.push(part),
            }
        }
        match kept.len() {
            1 => kept.remove(0),
            _ if all => Expr::And(kept),
            _ => Expr::Or(kept),
        }
    }

    pub(crate) fn negate(self) -> Expr<L> {
        match self {
            Expr::Not(inner) => *inner,
            other => match other.known() {
                Some(true) => Expr::FALSE,
                Some(false) => Expr::TRUE,
                None => Expr::Not(Box::new(other)),
            },
        }
    }

    /// Number of leaves.
    pub(crate) fn leaf_count(&self) -> usize {
        match self {
            Expr::Leaf(_) => 1,
            Expr::Not(inner) => inner.leaf_count(),
            Expr::And(parts) | Expr::Or(parts) => parts.iter().map(Expr::leaf_count).sum(),
        }
    }

    /// The expression with every leaf replaced.
    pub fn map<M>(&self, leaf: &mut impl FnMut(&L) -> Expr<M>) -> Expr<M> {
        match self {
            Expr::Leaf(l) => leaf(l),
            Expr::Not(inner) => inner.map(leaf).negate(),
            Expr::And(parts) => {
                let parts: Vec<_> = parts.iter().map(|p| p.map(leaf)).collect();
                Expr::all(parts)
            }
            Expr::Or(parts) => {
                let parts: Vec<_> = parts.iter().map(|p| p.map(leaf)).collect();
                Expr::any(parts)
            }
        }
    }
}

#[cfg(test)]
impl Expr<RangeTest> {
    /// True if a packet matches: the meaning of everything compiled.
    pub(crate) fn matches(&self, view: &View) -> bool {
        match self {
            Expr::Leaf(within) => within.matches(view),
            Expr::Not(inner) => !inner.matches(view),
            Expr::And(parts) => parts.iter().all(|p| p.matches(view)),
            Expr::Or(parts) => parts.iter().any(|p| p.matches(view)),
        }
    }
}

/// Comparison of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Up to four bytes of a header, and which of their bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) base: Base,
    pub offset: u16,
    /// Length in bytes, 1 to 4.
    pub(crate) len: u16,
    /// Bits of the value, right-aligned.
    pub(crate) mask: u32,
    /// Distance of the value from the right end of its bytes, in bits.
    pub(crate) shift: u32,
}

impl Field {
    /// A field of whole bytes.
    pub(crate) const fn new(base: Base, offset: u16, len: u16) -> Field {
        Field {
            base,
            offset,
            len,
            mask: u32::MAX >> (32 - 8 * len as u32),
            shift: 0,
        }
    }

    /// Bits of one byte: `mask` right-aligned, `shift` from the right.
    pub(crate) const fn bits(base: Base, offset: u16, mask: u32, shift: u32) -> Field {
        Field {
            base,
            offset,
            len: 1,
            mask,
            shift,
        }
    }

    /// The field with only the bits that `mask` has too.
    pub(crate) fn masked(self, mask: u32) -> Field {
        Field {
            mask: self.mask & mask,
            ..self
        }
    }

    /// The field compared with the values from `lo` to `hi`, which are equal but for ranges.
    pub(crate) fn compare(self, op: Op, lo: u32, hi: u32) -> Expr<RangeTest> {
        let most = self.mask;
        let (lo, hi, outside) = match op {
            Op::Eq => (lo, hi, false),
            Op::Ne => (lo, hi, true),
            Op::Ge => (lo, most, false),
            Op::Le => (0, hi, false),
            Op::Gt if lo >= most => return Expr::FALSE,
            Op::Gt => (lo + 1, most, false),
            Op::Lt if hi == 0 => return Expr::FALSE,
            Op::Lt => (0, hi - 1, false),
        };
        if lo > most && !outside {
            return Expr::FALSE;
        }
        let (lo, hi) = (u64::from(lo) << self.shift, u64::from(hi) << self.shift);
        self.within(lo, hi, outside)
    }

    fn within(self, lo: u64, hi: u64, outside: bool) -> Expr<RangeTest> {
        // Reads eight bytes from an aligned word on: the field may reach into the second word.
        let into = u32::from(self.offset % 4);
        let up = 64 - 8 * (into + u32::from(self.len));
        let mask = (u64::from(self.mask) << self.shift) << up;
        let fits = |v: u64| v.min(u64::MAX >> up) << up;
        let (lo, hi) = (fits(lo), fits(hi));
        let word = |offset| Word {
            base: self.base,
            offset,
        };
        let (first, second) = (word(self.offset & !3), word((self.offset & !3) + 4));
        let leaf = |word, mask: u32, lo: u32, hi: u32| {
            Expr::Leaf(RangeTest {
                word,
                mask,
                lo,
                hi: hi.min(mask),
                outside: false,
            })
        };
        let (mask1, mask2) = ((mask >> 32) as u32, mask as u32);
        if mask2 == 0 {
            return Expr::Leaf(RangeTest {
                word: first,
                mask: mask1,
                lo: (lo >> 32) as u32,
                hi: (hi >> 32) as u32,
                outside,
            });
        }
        let at_least = |v: u64| {
            let (v1, v2) = ((v >> 32) as u32, v as u32);
            let more = match v1.checked_add(1) {
                Some(next) if next <= mask1 => leaf(first, mask1, next, mask1),
                _ => Expr::FALSE,
            };
            let same = [
                leaf(first, mask1, v1, v1),
                leaf(second, mask2, v2, u32::MAX),
            ];
            Expr::any([more, Expr::all(same)])
        };
        let inside = match hi.checked_add(1) {
            Some(next) if next <= mask => Expr::all([at_least(lo), at_least(next).negate()]),
            _ => at_least(lo),
        };
        let inside = if outside { inside.negate() } else { inside };
        Expr::all([leaf(second, mask2, 0, u32::MAX), inside])
    }
}

/// True if the bytes at an offset are `value`, in the bits of `mask`; `mask` is as long as `value`.
pub(crate) fn bytes_are(base: Base, offset: u16, value: &[u8], mask: &[u8]) -> Expr<RangeTest> {
    let mut tests: Vec<RangeTest> = Vec::new();
    for (at, (&value, &mask)) in (offset..).zip(value.iter().zip(mask)) {
        let word = Word {
            base,
            offset: at & !3,
        };
        let shift = 8 * (3 - u32::from(at & 3));
        let (mask, value) = (u32::from(mask) << shift, u32::from(value & mask) << shift);
        match tests.last_mut().filter(|t| t.word == word) {
            Some(test) => {
                test.mask |= mask;
                test.lo |= value;
                test.hi |= value;
            }
            None => tests.push(RangeTest {
                word,
                mask,
                lo: value,
                hi: value,
                outside: false,
            }),
        }
    }
    Expr::all(tests.into_iter().filter(|t| t.mask != 0).map(Expr::Leaf))
}

/// A field that holds an IPv4 address, compared.
pub(crate) fn address_is(offset: u16, op: Op, value: Ipv4Addr, mask: Ipv4Addr) -> Expr<RangeTest> {
    let (value, mask) = (u32::from(value), u32::from(mask));
    match (mask, op) {
        (0, Op::Eq) => Expr::TRUE,
        (0, _) => Expr::FALSE,
        _ => {
            Field::new(Base::Start, offset, 4)
                .masked(mask)
                .compare(op, value & mask, value & mask)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_compared_wherever_their_bytes_lie() {
        let data: Vec<u8> = (0..12).collect();
        let view = View::of_data(&data);
        for offset in 0..9u16 {
            for len in 1..=4u16.min(12 - offset) {
                let value = data[usize::from(offset)..][..usize::from(len)]
                    .iter()
                    .fold(0u32, |v, &b| v << 8 | u32::from(b));
                for mask in [u32::MAX, 0x0101_0101, 0x0ffe] {
                    let field = Field::new(Base::Start, offset, len).masked(mask);
                    if field.mask == 0 {
                        continue;
                    }
                    let x = value & field.mask;
                    for v in [0, x.saturating_sub(1), x, x + 1, 0x7fff_ffff] {
                        let is = |op| field.compare(op, v, v).matches(&view);
                        let at = format!("{offset}:{len} & {mask:x} = {x:x}, {v:x}");
                        assert_eq!(is(Op::Eq), x == v, "{at}");
                        assert_eq!(is(Op::Ne), x != v, "{at}");
                        assert_eq!(is(Op::Lt), x < v, "{at}");
                        assert_eq!(is(Op::Le), x <= v, "{at}");
                        assert_eq!(is(Op::Gt), x > v, "{at}");
                        assert_eq!(is(Op::Ge), x >= v, "{at}");
                    }
                }
            }
        }
    }

    #[test]
    fn tests_past_the_end_fail() {
        let view = View::of_data(&[0, 0, 0, 0, 0]);
        for op in [Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge] {
            for v in [0, 1] {
                let cut = Field::new(Base::Start, 3, 3).compare(op, v, v);
                assert!(!cut.matches(&view), "{op:?} {v}");
                let gone = Field::new(Base::Start, 5, 1).compare(op, v, v);
                assert!(!gone.matches(&view), "{op:?} {v}");
            }
        }
        assert!(
            Field::new(Base::Start, 4, 1)
                .compare(Op::Eq, 0, 0)
                .matches(&view)
        );
    }
}
