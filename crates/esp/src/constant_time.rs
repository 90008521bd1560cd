//! Comparison of authentication codes in constant time.

/// True if two codes are equal; takes a time that does not depend on their values. Their lengths are multiples of
/// four.
#[inline]
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.as_chunks::<4>().0.iter().zip(other.as_chunks::<4>().0);
    let differ = pairs.fold(0, |differ, (a, b)| {
        differ | u32::from_ne_bytes(*a) ^ u32::from_ne_bytes(*b)
    });
    one.len() == other.len() && subtle::ConstantTimeEq::ct_eq(&differ, &0).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn codes_are_the_same_or_differ_in_a_bit() {
        let mut rng = Rng::seed(4);
        for len in [0, 12, 16, 32] {
            let code = rng.bytes(len);
            assert!(is_same(&code, &code.clone()));
            for bit in 0..8 * len {
                let mut other = code.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_same(&code, &other) && !is_same(&other, &code));
            }
        }
        assert!(!is_same(&[0; 12], &[0; 16]));
    }
}
