//! Security associations and policies of a router.
//!
//! Workers read them without a lock: a change makes new lists where it applies, and shares the others with the
//! previous version.

use crate::policy::{Policies, Policy};
use crate::sa::Sa;
use crate::spec::Direction;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use sync::publish::{Published, Reader, domain};

/// Mean number of associations of one direction in a list; with more, the number of lists grows.
const LIST_LEN_MEAN: usize = 4;
/// Initial number of lists.
const LISTS: usize = 16;
/// Maximum number of lists: a change copies one word for each.
const LISTS_MAX: usize = 8192;

/// Number of slots for reqids without an association.
const MISSING: usize = 64;

/// A key number and its association.
type Entry = (u32, Arc<Sa>);

/// Associations by a number: SPI or reqid.
#[derive(Clone, Debug)]
struct ByNumber {
    lists: Box<[Arc<[Entry]>]>,
    len: usize,
}

impl ByNumber {
    fn new(lists: usize) -> ByNumber {
        ByNumber {
            lists: (0..lists).map(|_| Arc::from([])).collect(),
            len: 0,
        }
    }

    #[inline]
    fn slot_of(&self, number: u32) -> usize {
        let hash = number.wrapping_mul(0x9e37_79b1);
        (hash ^ hash >> 16) as usize & (self.lists.len() - 1)
    }

    #[inline]
    fn find(&self, number: u32) -> Option<&Arc<Sa>> {
        let list = self.lists.get(self.slot_of(number))?;
        list.iter().find(|(n, _)| *n == number).map(|(_, sa)| sa)
    }

    fn iter(&self) -> impl Iterator<Item = &(u32, Arc<Sa>)> {
        self.lists.iter().flat_map(|list| list.iter())
    }

    /// All associations with a number, oldest first.
    fn associations(&self, number: u32) -> impl Iterator<Item = &Arc<Sa>> {
        let list = self.lists.get(self.slot_of(number)).into_iter();
        let same = move |(n, _): &&Entry| *n == number;
        list.flat_map(|list| list.iter())
            .filter(same)
            .map(|(_, sa)| sa)
    }

    /// Replaces all associations with a number by `sa`.
    fn set(&mut self, number: u32, sa: Option<&Arc<Sa>>) {
        self.change(number, |_| false, sa);
    }

    /// Changes the associations of a number: those for which `stays` is true remain, and `new` is added.
    fn change(&mut self, number: u32, stays: impl Fn(&Arc<Sa>) -> bool, new: Option<&Arc<Sa>>) {
        let place = self.slot_of(number);
        let others = self.lists[place].iter();
        let others = others.filter(|(n, sa)| *n != number || stays(sa));
        let new = new.map(|sa| (number, Arc::clone(sa)));
        let list: Arc<[_]> = others.cloned().chain(new).collect();
        self.len = self.len + list.len() - self.lists[place].len();
        self.lists[place] = list;
        if self.len > LIST_LEN_MEAN * self.lists.len() && self.lists.len() < LISTS_MAX {
            let mut lists = vec![Vec::new(); 4 * self.lists.len()];
            let mut grown = ByNumber::new(lists.len());
            for (number, sa) in self.iter() {
                lists[grown.slot_of(*number)].push((*number, Arc::clone(sa)));
            }
            grown.lists = lists.into_iter().map(Arc::from).collect();
            grown.len = self.len;
            *self = grown;
        }
    }
}

/// The part of the database that workers read.
#[derive(Clone, Debug)]
pub struct Tables {
    inbound: ByNumber,
    /// Outbound associations by SPI.
    outbound: ByNumber,
    /// Outbound association in use by reqid: the last one added.
    in_use: ByNumber,
    policies: Arc<Policies>,
}

impl Tables {
    /// The association for packets that arrive with an SPI.
    #[inline]
    pub fn inbound(&self, spi: u32) -> Option<&Arc<Sa>> {
        self.inbound.find(spi)
    }

    /// The association in use for a reqid.
    #[inline]
    pub fn outbound(&self, reqid: u32) -> Option<&Arc<Sa>> {
        self.in_use.find(reqid)
    }

    /// Policies.
    #[inline]
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// All associations, inbound first.
    pub fn all(&self) -> Vec<&Arc<Sa>> {
        let each = self.inbound.iter().chain(self.outbound.iter());
        let mut all: Vec<_> = each.map(|(_, sa)| sa).collect();
        all.sort_by_key(|sa| {
            (
                sa.spec().direction == Direction::Out,
                sa.spec().reqid,
                sa.created_at(),
            )
        });
        all
    }

    /// The association with a direction and an SPI; of several outbound ones, the one added first.
    pub fn find(&self, direction: Direction, spi: u32) -> Option<&Arc<Sa>> {
        match direction {
            Direction::In => self.inbound.find(spi),
            Direction::Out => self.outbound.find(spi),
        }
    }

    /// Adds an association and removes the one with the same SPI. With `beside`, an outbound one replaces only one
    /// with the same SPI and reqid.
    fn add(&mut self, sa: &Arc<Sa>, beside: bool) {
        let spec = sa.spec();
        match spec.direction {
            Direction::In => self.inbound.set(spec.spi, Some(sa)),
            Direction::Out => {
                let same = self.outbound.associations(spec.spi);
                let same = same.filter(|old| !beside || old.spec().reqid == spec.reqid);
                let same: Vec<_> = same.cloned().collect();
                // The replaced association may have been in use for another reqid.
                self.remove(&same);
                self.outbound.change(spec.spi, |_| true, Some(sa));
                self.in_use.set(spec.reqid, Some(sa));
            }
        }
    }

    /// Removes those of the given associations that are present.
    fn remove(&mut self, gone: &[Arc<Sa>]) {
        // By reqid whose association in use is removed: the association that replaces it, which is the previous one if
        // that still exists.
        let mut left: HashMap<u32, Option<Arc<Sa>>> = HashMap::new();
        for sa in gone {
            let spec = sa.spec();
            let is_it = |there: Option<&Arc<Sa>>| there.is_some_and(|t| Arc::ptr_eq(t, sa));
            match spec.direction {
                Direction::In if is_it(self.inbound.find(spec.spi)) => {
                    self.inbound.set(spec.spi, None);
                }
                Direction::In => {}
                Direction::Out => {
                    let stays = |other: &Arc<Sa>| !Arc::ptr_eq(other, sa);
                    self.outbound.change(spec.spi, stays, None);
                    if is_it(self.in_use.find(spec.reqid)) {
                        left.insert(spec.reqid, None);
                    }
                }
            }
        }
        if left.is_empty() {
            return;
        }
        for (_, sa) in self.outbound.iter() {
            if let Some(last) = left.get_mut(&sa.spec().reqid)
                && last
                    .as_ref()
                    .is_none_or(|last| last.created_at() <= sa.created_at())
            {
                *last = Some(Arc::clone(sa));
            }
        }
        for (reqid, last) in left {
            self.in_use.set(reqid, last.as_ref());
        }
    }
}

/// Associations and policies of a router.
#[derive(Debug)]
pub struct Database {
    tables: Published<Tables>,
    /// Reqids without an association, in slots by number; 0 = none.
    missing: [AtomicU32; MISSING],
    is_kernels: bool,
}

impl Default for Database {
    fn default() -> Database {
        let none = || ByNumber::new(LISTS);
        Database {
            missing: [const { AtomicU32::new(0) }; MISSING],
            is_kernels: false,
            tables: Published::new(
                domain(),
                Tables {
                    inbound: none(),
                    outbound: none(),
                    in_use: none(),
                    policies: Arc::default(),
                },
            ),
        }
    }
}

impl Database {
    /// Creates an empty database that mirrors the kernel's.
    pub fn of_kernel() -> Database {
        Database {
            is_kernels: true,
            ..Database::default()
        }
    }

    /// True if the database mirrors the kernel's, which must be told when a peer's address changes.
    #[inline]
    pub fn is_kernels(&self) -> bool {
        self.is_kernels
    }

    /// The tables for a worker, until it passes a quiescent point.
    #[inline]
    pub fn read<'r>(&'r self, reader: &'r Reader) -> &'r Tables {
        self.tables.read(reader)
    }

    /// The present tables, for longer use.
    pub fn snapshot(&self) -> Arc<Tables> {
        self.tables.snapshot()
    }

    /// Records that a packet needs an association of a reqid that has none. If reqids share a slot, the last one is
    /// remembered; packets of the others will ask again.
    #[inline]
    pub fn record_miss(&self, reqid: u32) {
        let place = &self.missing[reqid as usize % MISSING];
        // Most packets report the same reqid.
        if place.load(Relaxed) != reqid {
            place.store(reqid, Relaxed);
        }
    }

    /// The reqids for which associations were missing since the last call.
    pub fn take_missing(&self) -> impl Iterator<Item = u32> {
        let taken = self.missing.iter().map(|place| place.swap(0, Relaxed));
        taken.filter(|reqid| *reqid != 0)
    }

    /// Adds associations. One with the same direction and SPI is replaced. All policies with its reqid use a new
    /// outbound association from now on; earlier ones stay until they are removed.
    pub fn add<'s>(&self, all: impl IntoIterator<Item = &'s Arc<Sa>>) {
        self.add_each(all, false);
    }

    /// Like [`add`](Self::add), but an outbound association replaces only one with the same reqid. Peers choose the
    /// SPIs of packets to them, and may choose equal ones.
    pub fn add_beside<'s>(&self, all: impl IntoIterator<Item = &'s Arc<Sa>>) {
        self.add_each(all, true);
    }

    fn add_each<'s>(&self, all: impl IntoIterator<Item = &'s Arc<Sa>>, beside: bool) {
        let mut all = all.into_iter().peekable();
        if all.peek().is_none() {
            return;
        }
        self.tables.update(|tables| {
            let mut new = Tables::clone(tables);
            all.for_each(|sa| new.add(sa, beside));
            Arc::new(new)
        });
    }

    /// Removes the associations with a direction and an SPI; false if there is none. Their keys are wiped when the
    /// last worker has released them.
    pub fn remove(&self, direction: Direction, spi: u32) -> bool {
        let mut was = false;
        self.tables.update(|tables| {
            let mut new = Tables::clone(tables);
            let of = match direction {
                Direction::In => &tables.inbound,
                Direction::Out => &tables.outbound,
            };
            let gone: Vec<_> = of.associations(spi).cloned().collect();
            was = !gone.is_empty();
            new.remove(&gone);
            Arc::new(new)
        });
        was
    }

    /// Removes these associations, unless they are gone or were replaced.
    pub fn remove_these(&self, gone: &[Arc<Sa>]) {
        if gone.is_empty() {
            return;
        }
        self.tables.update(|tables| {
            let mut new = Tables::clone(tables);
            new.remove(gone);
            Arc::new(new)
        });
    }

    /// Removes all associations.
    pub fn clear(&self) {
        self.tables.update(|tables| {
            let none = || ByNumber::new(LISTS);
            Arc::new(Tables {
                inbound: none(),
                outbound: none(),
                in_use: none(),
                policies: Arc::clone(&tables.policies),
            })
        });
    }

    /// Replaces all policies.
    pub fn set_policies(&self, list: Vec<Policy>) {
        let policies = Arc::new(Policies::new(list));
        self.tables.update(|tables| {
            Arc::new(Tables {
                policies: Arc::clone(&policies),
                ..Tables::clone(tables)
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keys, Lifetime, Spec};
    use testkit::Rng;

    fn sa(direction: Direction, spi: u32, reqid: u32, now: u64) -> Arc<Sa> {
        let spec = Spec {
            direction,
            spi,
            reqid,
            suite: "null-sha1".parse().expect("a suite"),
            tunnel: None,
            udp: None,
            esn: false,
            window: 0,
            pad: 0,
            lifetime: Lifetime::default(),
        };
        let keys = Keys {
            auth: vec![0; 20].into(),
            ..Keys::default()
        };
        Arc::new(Sa::new(spec, &keys, now).expect("it is right"))
    }

    #[test]
    fn database_agrees_with_maps_under_random_changes() {
        let mut rng = Rng::seed(60_000);
        let database = Database::default();
        let mut inbound: HashMap<u32, Arc<Sa>> = HashMap::new();
        let mut outbound: HashMap<u32, Arc<Sa>> = HashMap::new();
        for now in 0..3000 {
            let spi = 256 + rng.below(700) as u32 * 0x101;
            let direction = *rng.pick(&[Direction::In, Direction::Out]);
            let model = match direction {
                Direction::In => &mut inbound,
                Direction::Out => &mut outbound,
            };
            if rng.one_in(4) {
                assert_eq!(
                    database.remove(direction, spi),
                    model.remove(&spi).is_some()
                );
            } else {
                let new = sa(direction, spi, rng.below(40) as u32, now);
                database.add([&new]);
                model.insert(spi, new);
            }
            if now % 50 != 0 {
                continue;
            }
            let tables = database.snapshot();
            assert_eq!(tables.all().len(), inbound.len() + outbound.len());
            for (spi, sa) in &inbound {
                assert!(
                    tables
                        .inbound(*spi)
                        .is_some_and(|found| Arc::ptr_eq(found, sa))
                );
            }
            for reqid in 0..40 {
                let of = outbound.values().filter(|sa| sa.spec().reqid == reqid);
                let last = of.max_by_key(|sa| sa.created_at()).map(|sa| sa.spec().spi);
                assert_eq!(tables.outbound(reqid).map(|sa| sa.spec().spi), last);
            }
        }
    }

    #[test]
    fn peers_that_choose_one_spi_do_not_take_each_others_place() {
        let database = Database::default();
        let all: Vec<_> = (1..=3)
            .map(|reqid| sa(Direction::Out, 300, reqid, 7))
            .collect();
        database.add_beside(&all);
        let used = || (1..=3).map(|reqid| database.snapshot().outbound(reqid).cloned());
        let are = |wanted: [Option<&Arc<Sa>>; 3]| {
            let same = |(one, other): (Option<Arc<Sa>>, Option<&Arc<Sa>>)| match (one, other) {
                (Some(one), Some(other)) => Arc::ptr_eq(&one, other),
                (one, other) => one.is_none() && other.is_none(),
            };
            used().zip(wanted).all(same)
        };
        assert!(are([Some(&all[0]), Some(&all[1]), Some(&all[2])]));
        let again = sa(Direction::Out, 300, 2, 8);
        database.add_beside([&again]);
        assert!(are([Some(&all[0]), Some(&again), Some(&all[2])]));
        assert_eq!(database.snapshot().all().len(), 3);
        // A replaced association is not removed again.
        database.remove_these(&[Arc::clone(&all[1]), Arc::clone(&all[2])]);
        assert!(are([Some(&all[0]), Some(&again), None]));
        // In a table that a person writes, direction and SPI identify an association.
        database.add([&all[2]]);
        assert!(are([None, None, Some(&all[2])]));
        database.add_beside([&all[0]]);
        assert!(database.remove(Direction::Out, 300) && are([None; 3]));
        assert!(!database.remove(Direction::Out, 300));
    }

    #[test]
    fn missing_association_is_reported_once() {
        let database = Database::default();
        for reqid in [1, 2, 1, 65, 70, 70] {
            database.record_miss(reqid);
        }
        let missing: Vec<_> = database.take_missing().collect();
        assert_eq!(missing, [65, 2, 70]);
        assert_eq!(database.take_missing().count(), 0);
    }

    #[test]
    fn there_may_be_60_000_at_once() {
        let database = Database::default();
        let all: Vec<_> = (0..60_000)
            .map(|n| sa(Direction::In, 256 + n, n, 0))
            .collect();
        database.add(&all);
        let tables = database.snapshot();
        assert!((0..60_000).all(|n| tables.inbound(256 + n).is_some()));
        assert_eq!(tables.inbound(60_256).map(|sa| sa.spec().spi), None);
        let longest = tables.inbound.lists.iter().map(|list| list.len()).max();
        assert!(longest < Some(64), "{longest:?}");
    }
}
