//! First match among many rules, each a conjunction of ranges of masked words.
//!
//! A look-up in a [`Tree`] takes a [`Key`]: some words of a packet's headers. A node uses a few bits of a word as the
//! number of a child, or compares a word with a threshold. A leaf lists the few rules that are left, in order, each
//! with only the tests that the path from the root has not decided.
//!
//! Why the tree tests arbitrary bits: rules over IP headers are mostly prefixes. Many prefixes share their first
//! bits, so the last bits of a prefix distinguish rules better. A cut may therefore use any bits of a word, as a hash
//! would, and the leaf's tests check the other bits (an idea of ByteCuts, Daly and Torng 2018). Ranges of ports are
//! split at their ends (HyperSplit, Qi et al. 2009). For each possible cut, the builder estimates the instructions of
//! the remaining search if every rule is hit equally often, and the number of copies of rules that the cut makes. A
//! rule that leaves the bits of a cut open is copied to all children, which costs memory. If a tree would exceed its
//! budget, its rules are divided among several trees by the addresses that they name (EffiCuts, Vamanan et al. 2010).
//! The trees are searched in the order of their first rules, until no further tree can hold an earlier match.
//! `eval/classify` has the figures.

mod build;
mod choose;
mod region;
#[cfg(test)]
mod tests;

/// Maximum number of words of a key.
pub const FIELDS: usize = 16;

/// The header words that rules test.
pub type Key = [u32; FIELDS];

/// True if some bits of a word lie in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Test {
    /// Index into the key, below [`FIELDS`].
    pub field: u8,
    /// The tested bits.
    pub mask: u32,
    /// Least value of the tested bits, at their position in the word.
    pub lo: u32,
    /// Greatest value, not below `lo`.
    pub hi: u32,
}

impl Test {
    /// True if the tested bits of a key lie in the range.
    #[inline]
    pub fn matches(&self, key: &Key) -> bool {
        (key[usize::from(self.field) % FIELDS] & self.mask).wrapping_sub(self.lo)
            <= self.hi - self.lo
    }
}

/// Tests that must all hold.
pub type Rule = Vec<Test>;

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Index of the first child; in a leaf, of its first check.
    next: u32,
    /// For a cut, the number of its last child; for a split, the mask of the compared bits.
    mask: u32,
    /// For a cut, the shift of its bits; for a split, the least value that leads to the second child.
    at: u32,
    /// For a cut, its field; for a split, [`SPLIT`] and its field; [`LEAF`] for a leaf.
    code: u8,
}

const SPLIT: u8 = FIELDS as u8;
const LEAF: u8 = 2 * SPLIT;

/// A check of a leaf: single values in neighbouring words, or a range of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Check {
    /// The tested bits of up to four words, two per half; the second word is in the upper 32 bits.
    mask: [u64; 2],
    /// Values of these bits. For a range: the least value, and the number of further values.
    value: [u64; 2],
    /// The number of the rule if this is its last check, otherwise [`MORE_CHECKS`].
    rule: u32,
    /// The first field of the words; for a range, [`RANGE`] and its field.
    code: u8,
    /// Number of checks to skip if this one fails.
    skip: u8,
}

/// Maximum number of words whose single values one check compares.
const WORDS_PER_CHECK: usize = 4;
const RANGE: u8 = SPLIT;

/// Marker in place of a rule's number: further checks of the rule follow.
const MORE_CHECKS: u32 = u32::MAX - 1;

impl Check {
    #[inline]
    fn matches(&self, key: &Key) -> bool {
        let code = usize::from(self.code);
        if code <= FIELDS - WORDS_PER_CHECK {
            let pair = |at: usize| u64::from(key[at]) | u64::from(key[at + 1]) << 32;
            let differ = |n: usize| pair(code + 2 * n) & self.mask[n] ^ self.value[n];
            differ(0) | differ(1) == 0
        } else {
            let [lo, span] = self.value.map(|v| v as u32);
            (key[code % FIELDS] & self.mask[0] as u32).wrapping_sub(lo) <= span
        }
    }
}

/// Marker in place of a rule's number: no rule.
const NONE: u32 = u32::MAX;

/// A tree, and the number of its first rule.
#[derive(Clone, Debug)]
struct RankedTree {
    root: Node,
    first: u32,
}

/// Rules, compiled.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Trees, in the order of their first rules.
    trees: Vec<RankedTree>,
    nodes: Vec<Node>,
    checks: Vec<Check>,
}

impl Tree {
    /// Compiles rules; the first matching rule counts. A rule has at most 200 tests.
    pub fn new(rules: &[Rule]) -> Tree {
        build::build(rules, &[])
    }

    /// Like [`new`](Self::new), for keys whose tested words are known to have these single values.
    pub fn assuming(rules: &[Rule], known: &[Test]) -> Tree {
        build::build(rules, known)
    }

    /// The number of the first rule that matches.
    #[inline(always)] // a call would cost as much as a rule
    pub fn first(&self, key: &Key) -> Option<u32> {
        let mut found = NONE;
        for part in &self.trees {
            if part.first > found {
                break;
            }
            found = found.min(self.descend(&part.root, key));
        }
        Some(found).filter(|&n| n != NONE)
    }

    #[inline(always)]
    fn descend<'t>(&'t self, root: &'t Node, key: &Key) -> u32 {
        let mut node = root;
        let mut code = usize::from(node.code);
        loop {
            while code < FIELDS {
                let child = key[code].wrapping_shr(node.at) & node.mask;
                node = &self.nodes[(node.next + child) as usize];
                code = usize::from(node.code);
            }
            if node.code >= LEAF {
                break;
            }
            let child = u32::from(key[code % FIELDS] & node.mask >= node.at);
            node = &self.nodes[(node.next + child) as usize];
            code = usize::from(node.code);
        }
        let mut at = node.next as usize;
        loop {
            let check = &self.checks[at];
            if !check.matches(key) {
                at += usize::from(check.skip);
            } else if check.rule == MORE_CHECKS {
                at += 1;
            } else {
                return check.rule;
            }
        }
    }

    /// Memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(self.nodes.as_slice())
            + size_of_val(self.checks.as_slice())
            + size_of_val(self.trees.as_slice())
    }

    /// Number of trees that a look-up may have to search.
    pub fn tree_count(&self) -> usize {
        self.trees.len()
    }
}
