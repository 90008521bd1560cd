//! Weighted rendezvous hashing in integers.
//!
//! Each candidate has a cost for each bucket, `-log2(u) / weight`, where `u` is a hash of both in (0, 1); the least
//! cost wins. A candidate that leaves gives up its own buckets only, and a new one takes its share evenly from all.
//! Logarithms are fixed-point numbers from a table that integers make, so that every program computes the same.

/// Number of buckets of a table.
pub const BUCKETS: usize = 1 << 16;
/// Owner of a bucket without candidates.
pub const NOBODY: u16 = u16::MAX;
/// Maximum weight: costs times weights stay below 2^64.
pub const WEIGHT_MAX: u16 = 10_000;

/// A possible owner of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Key of the candidate's name; see [`key`].
    pub key: u64,
    /// Weight relative to those of other candidates, 1 to [`WEIGHT_MAX`].
    pub weight: u16,
}

/// Fractional bits of a logarithm.
const POINT: u32 = 32;
/// Number of bits of a mantissa that choose an entry of the table.
const STEP_BITS: u32 = 12;
const STEPS: usize = 1 << STEP_BITS;

/// Logarithms to base 2 of 1 to 2 in [`STEPS`] steps, with [`POINT`] fractional bits.
static LOGARITHMS: [u64; STEPS + 1] = logarithms();

const fn logarithms() -> [u64; STEPS + 1] {
    let mut all = [0; STEPS + 1];
    let mut step = 0;
    while step < STEPS {
        all[step] = logarithm(((STEPS + step) as u64) << (63 - STEP_BITS));
        step += 1;
    }
    all[STEPS] = 1 << POINT;
    all
}

/// Logarithm of a number from 1 to 2 with 63 fractional bits: the square of a number has twice its logarithm, so each
/// squaring gives one bit.
const fn logarithm(mut x: u64) -> u64 {
    let (mut result, mut bit) = (0, 0);
    while bit < POINT {
        let square = (x as u128 * x as u128) >> 63;
        result <<= 1;
        x = square as u64;
        if square >> 64 != 0 {
            result |= 1;
            x = (square >> 1) as u64;
        }
        bit += 1;
    }
    result
}

/// Digest of a set of candidates, independent of their order: equal digests mean equal owners.
pub(super) fn digest(candidates: &[Option<Candidate>]) -> u64 {
    let each = candidates.iter().flatten();
    each.fold(0, |sum: u64, one| {
        sum.wrapping_add(mix(one.key ^ mix(u64::from(one.weight))))
    })
}

/// Key of a name: FNV-1a over its bytes, mixed.
pub fn key(name: &str) -> u64 {
    let bytes = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(bytes)
}

/// A bijection of 64 bits without visible structure (the finaliser of SplitMix64).
#[inline]
const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// `-log2` of a hash of the candidate and the bucket; the hash is read as a number in (0, 1).
#[inline]
fn cost(key: u64, bucket: usize) -> u64 {
    let hash = mix(key ^ mix(bucket as u64 + 1)) | 1;
    let zeros = hash.leading_zeros();
    let mantissa = hash << zeros;
    let step = (mantissa >> (63 - STEP_BITS)) as usize - STEPS;
    let rest = (mantissa >> (31 - STEP_BITS)) & 0xffff_ffff;
    let (low, high) = (LOGARITHMS[step], LOGARITHMS[step + 1]);
    let fraction = low + (((high - low) * rest) >> 32);
    (u64::from(zeros + 1) << POINT) - fraction
}

/// True if candidate `a` wins against `b` for the bucket.
#[inline]
fn beats(a: Candidate, b: Candidate, bucket: usize) -> bool {
    let left = cost(a.key, bucket) * u64::from(b.weight);
    let right = cost(b.key, bucket) * u64::from(a.weight);
    left < right || left == right && a.key < b.key
}

/// The best of the candidates for a bucket, or [`NOBODY`].
fn best_candidate(candidates: &[Option<Candidate>], bucket: usize) -> u16 {
    let mut best: Option<(usize, Candidate)> = None;
    for (at, candidate) in candidates.iter().enumerate() {
        if let Some(new) = *candidate
            && best.is_none_or(|(_, old)| beats(new, old, bucket))
        {
            best = Some((at, new));
        }
    }
    best.map_or(NOBODY, |(at, _)| at as u16)
}

/// The owner of each bucket, as an index into the candidates; an entry of these may be empty.
pub fn owners(candidates: &[Option<Candidate>]) -> Vec<u16> {
    (0..BUCKETS)
        .map(|at| best_candidate(candidates, at))
        .collect()
}

/// Updates `owners` after a change of candidates at the indexes `changed`. The result equals that of [`owners`],
/// without comparing all candidates for each bucket.
pub fn retarget(owners: &mut [u16], candidates: &[Option<Candidate>], changed: &[u16]) {
    let at = |place: u16| candidates.get(usize::from(place)).copied().flatten();
    for (bucket, owner) in owners.iter_mut().enumerate() {
        let Some(mut winner) = at(*owner).filter(|_| !changed.contains(owner)) else {
            *owner = best_candidate(candidates, bucket);
            continue;
        };
        for &place in changed {
            if let Some(new) = at(place).filter(|new| beats(*new, winner, bucket)) {
                (*owner, winner) = (place, new);
            }
        }
    }
}
