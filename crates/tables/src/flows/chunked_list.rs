//! A list that grows without moving its values, so that growth takes no longer than one allocation.

/// Values of a part. Its memory is taken page by page as values are added.
const PART: usize = 1 << 13;

/// Values by number.
pub(super) struct Parts<T> {
    parts: Vec<Vec<T>>,
    len: usize,
}

/// The part of value `at`, and its place in that part.
#[inline(always)]
fn locate(at: usize) -> (usize, usize) {
    (at / PART, at % PART)
}

impl<T> Parts<T> {
    pub(super) const fn new() -> Parts<T> {
        Parts {
            parts: Vec::new(),
            len: 0,
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        let (part, at) = locate(at);
        self.parts.get(part)?.get(at)
    }

    /// Adds a value; `None` if there is no memory.
    pub(super) fn push(&mut self, value: T) -> Option<usize> {
        let (part, at) = locate(self.len);
        if at == 0 {
            let mut values = Vec::new();
            values.try_reserve_exact(PART).ok()?;
            self.parts.push(values);
        }
        self.parts[part].push(value);
        self.len += 1;
        Some(self.len - 1)
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().flatten()
    }

    /// Number of bytes that the values take. More is reserved, but pages not yet used take no memory.
    pub(super) fn memory(&self) -> usize {
        self.len * size_of::<T>()
    }
}

impl<T> std::ops::Index<usize> for Parts<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, at: usize) -> &T {
        let (part, at) = locate(at);
        &self.parts[part][at]
    }
}

impl<T> std::ops::IndexMut<usize> for Parts<T> {
    #[inline(always)]
    fn index_mut(&mut self, at: usize) -> &mut T {
        let (part, at) = locate(at);
        &mut self.parts[part][at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_numbers_and_their_places_in_memory() {
        let mut parts = Parts::new();
        let mut places = Vec::new();
        for n in 0..10_000 {
            assert_eq!(parts.push(n), Some(n));
            places.push(&raw const parts[n]);
        }
        assert!(parts.iter().copied().eq(0..10_000));
        assert!((0..10_000).all(|n| parts[n] == n && places[n] == &raw const parts[n]));
        assert_eq!(
            (parts.get(10_000), parts.get(usize::MAX >> 1)),
            (None, None)
        );
        assert!(parts.memory() >= 10_000 * size_of::<usize>() && parts.memory() <= 1 << 17);
    }
}
