//! Routes of the former leader that stay for a while although the new leader's kernel does not have them: its routing
//! daemon may not have learnt them yet.

use super::{Change, Hops, Prefix};
use crate::Millis;
use std::collections::{BTreeMap, BTreeSet};

/// Routes that stay until their time is over, or until the kernel has a route to the same prefix.
#[derive(Clone, Debug, Default)]
pub struct Hold {
    routes: BTreeSet<Prefix>,
    until: Millis,
}

impl Hold {
    /// Adds the former leader's routes to the new leader's, where it has none, until a time.
    pub fn new(
        former: &BTreeMap<Prefix, Hops>,
        own: &mut BTreeMap<Prefix, Hops>,
        until: Millis,
    ) -> Hold {
        let mut routes = BTreeSet::new();
        for (prefix, hops) in former {
            own.entry(*prefix).or_insert_with(|| {
                routes.insert(*prefix);
                hops.clone()
            });
        }
        Hold { routes, until }
    }

    /// Number of routes that stay.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// True if no route stays.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Changes of the kernel's routes without those that would end a route which stays.
    pub fn pass(&mut self, changes: Vec<Change>) -> Vec<Change> {
        let passes = |(prefix, hops): &Change| match hops {
            Some(_) => {
                self.routes.remove(prefix);
                true
            }
            None => !self.routes.contains(prefix),
        };
        let mut changes = changes;
        changes.retain(passes);
        changes
    }

    /// Ends of all routes that stay, once their time is over.
    pub fn expire(&mut self, now: Millis) -> Vec<Change> {
        if now < self.until {
            return Vec::new();
        }
        let ended = std::mem::take(&mut self.routes);
        ended.into_iter().map(|prefix| (prefix, None)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_of_the_former_leader_stay_until_the_kernel_has_them_or_the_time_is_over() {
        let prefix = |n: u8| Prefix::new([10, n, 0, 0].into(), 16).unwrap();
        let hops: Hops = [].into();
        let former = BTreeMap::from([1, 2, 3].map(|n| (prefix(n), hops.clone())));
        let mut own = BTreeMap::from([(prefix(1), hops.clone())]);
        let mut hold = Hold::new(&former, &mut own, 1_000);
        assert_eq!((own.len(), hold.len()), (3, 2));
        // The second route is the kernel's now, and the third one is unknown to it.
        let came = (prefix(2), Some(hops));
        let changes = vec![came.clone(), (prefix(3), None), (prefix(1), None)];
        assert_eq!(hold.pass(changes), [came, (prefix(1), None)]);
        assert_eq!(hold.pass(vec![(prefix(2), None)]), [(prefix(2), None)]);
        assert_eq!(hold.expire(999), []);
        assert_eq!(hold.expire(1_000), [(prefix(3), None)]);
        assert!(hold.is_empty() && hold.expire(2_000).is_empty());
    }
}
