//! State by bucket, which moves to another worker with its bucket.
//!
//! An element with state per flow, downstream of an element that steers packets by their buckets, keeps the state in
//! [`Shards`] and forwards [`give_bucket`](crate::KeepsFlows::give_bucket) and
//! [`take_bucket`](crate::KeepsFlows::take_bucket) to it.

use std::any::Any;

/// One `T` per bucket, made on first use.
pub struct Shards<T>(Vec<Option<Box<T>>>);

impl<T> Default for Shards<T> {
    fn default() -> Shards<T> {
        Shards(Vec::new())
    }
}

impl<T: Default + Send + 'static> Shards<T> {
    /// The state of a bucket.
    #[inline]
    pub fn get(&mut self, bucket: u16) -> &mut T {
        let at = usize::from(bucket);
        if at >= self.0.len() {
            self.0.resize_with(at + 1, || None);
        }
        self.0[at].get_or_insert_default()
    }

    /// All existing states, each with its bucket.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &T)> {
        let each = self.0.iter().enumerate();
        each.filter_map(|(at, state)| Some((at as u16, &**state.as_ref()?)))
    }

    /// Removes a bucket's state and returns it.
    pub fn remove_bucket(&mut self, bucket: u16) -> Option<Box<dyn Any + Send>> {
        let state = self.0.get_mut(usize::from(bucket))?.take()?;
        Some(state)
    }

    /// Replaces a bucket's state; returns false for a state of another type.
    pub fn take(&mut self, bucket: u16, state: Box<dyn Any + Send>) -> bool {
        match state.downcast::<T>() {
            Ok(state) => {
                *self.get(bucket) = *state;
                true
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_goes_with_its_bucket_and_others_stay() {
        let (mut here, mut there) = (Shards::<Vec<u8>>::default(), Shards::<Vec<u8>>::default());
        here.get(3).push(7);
        here.get(300).push(8);
        let given = here.remove_bucket(3).expect("it is there");
        assert!(here.remove_bucket(3).is_none() && here.remove_bucket(9).is_none());
        assert!(there.take(3, given));
        assert!(!there.take(4, Box::new(1u8)));
        assert!(there.iter().eq([(3, &vec![7])]));
        assert!(here.iter().eq([(300, &vec![8])]));
        assert!(here.get(3).is_empty());
    }
}
