//! All associations and policies of a router.
//!
//! Workers read them without a lock: a change makes new lists of what it changes and shares the rest with those before.

use crate::policy::{Policies, Policy};
use crate::sa::{Direction, Sa};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use sync::publish::{Published, Reader, domain};

/// Most associations of one direction in a list, on the average; more make more lists.
const IN_A_LIST: usize = 4;
/// Lists at first.
const LISTS: usize = 16;
/// Lists at most: a change copies a word for each.
const LISTS_MAX: usize = 8192;

/// Places for numbers whose association is missing.
const MISSING: usize = 64;

/// A number and its association.
type Entry = (u32, Arc<Sa>);

/// Associations by a number.
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
    fn place(&self, number: u32) -> usize {
        let hash = number.wrapping_mul(0x9e37_79b1);
        (hash ^ hash >> 16) as usize & (self.lists.len() - 1)
    }

    #[inline]
    fn find(&self, number: u32) -> Option<&Arc<Sa>> {
        let list = self.lists.get(self.place(number))?;
        list.iter().find(|(n, _)| *n == number).map(|(_, sa)| sa)
    }

    fn iter(&self) -> impl Iterator<Item = &(u32, Arc<Sa>)> {
        self.lists.iter().flat_map(|list| list.iter())
    }

    /// With an association in place of that of the same number, if there is one.
    fn set(&mut self, number: u32, sa: Option<&Arc<Sa>>) {
        let place = self.place(number);
        let others = self.lists[place].iter().filter(|(n, _)| *n != number);
        let new = sa.map(|sa| (number, Arc::clone(sa)));
        let list: Arc<[_]> = others.cloned().chain(new).collect();
        self.len = self.len + list.len() - self.lists[place].len();
        self.lists[place] = list;
        if self.len > IN_A_LIST * self.lists.len() && self.lists.len() < LISTS_MAX {
            let mut lists = vec![Vec::new(); 4 * self.lists.len()];
            let mut grown = ByNumber::new(lists.len());
            for (number, sa) in self.iter() {
                lists[grown.place(*number)].push((*number, Arc::clone(sa)));
            }
            grown.lists = lists.into_iter().map(Arc::from).collect();
            grown.len = self.len;
            *self = grown;
        }
    }
}

/// What workers look at.
#[derive(Clone, Debug)]
pub struct Tables {
    inbound: ByNumber,
    /// All outbound ones by SPI.
    outbound: ByNumber,
    /// Of the outbound ones of a `reqid` the one in use: the last to come.
    in_use: ByNumber,
    policies: Arc<Policies>,
}

impl Tables {
    /// The association of packets that come with an SPI.
    #[inline]
    pub fn inbound(&self, spi: u32) -> Option<&Arc<Sa>> {
        self.inbound.find(spi)
    }

    /// The association in use of those that share a number.
    #[inline]
    pub fn outbound(&self, reqid: u32) -> Option<&Arc<Sa>> {
        self.in_use.find(reqid)
    }

    /// Policies.
    #[inline]
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// All associations, those that come first.
    pub fn all(&self) -> Vec<&Arc<Sa>> {
        let each = self.inbound.iter().chain(self.outbound.iter());
        let mut all: Vec<_> = each.map(|(_, sa)| sa).collect();
        all.sort_by_key(|sa| {
            (
                sa.spec().direction == Direction::Out,
                sa.spec().reqid,
                sa.made(),
            )
        });
        all
    }

    /// The association of a direction and an SPI.
    pub fn find(&self, direction: Direction, spi: u32) -> Option<&Arc<Sa>> {
        match direction {
            Direction::In => self.inbound.find(spi),
            Direction::Out => self.outbound.find(spi),
        }
    }

    fn add(&mut self, sa: &Arc<Sa>) {
        let spec = sa.spec();
        match spec.direction {
            Direction::In => self.inbound.set(spec.spi, Some(sa)),
            Direction::Out => {
                // That in its place may have been in use for another number.
                self.remove(Direction::Out, spec.spi);
                self.outbound.set(spec.spi, Some(sa));
                self.in_use.set(spec.reqid, Some(sa));
            }
        }
    }

    fn remove(&mut self, direction: Direction, spi: u32) -> bool {
        let Some(gone) = self.find(direction, spi).cloned() else {
            return false;
        };
        if direction == Direction::In {
            self.inbound.set(spi, None);
            return true;
        }
        self.outbound.set(spi, None);
        let reqid = gone.spec().reqid;
        if self
            .in_use
            .find(reqid)
            .is_some_and(|sa| Arc::ptr_eq(sa, &gone))
        {
            // The one before, if it is still there.
            let others = self.outbound.iter().map(|(_, sa)| sa);
            let others = others.filter(|sa| sa.spec().reqid == reqid);
            let last = others.max_by_key(|sa| sa.made()).cloned();
            self.in_use.set(reqid, last.as_ref());
        }
        true
    }
}

/// All associations and policies of a router.
#[derive(Debug)]
pub struct Database {
    tables: Published<Tables>,
    /// Numbers for which an association is missing, at places by number; 0 = none.
    missing: [AtomicU32; MISSING],
}

impl Default for Database {
    fn default() -> Database {
        let none = || ByNumber::new(LISTS);
        Database {
            missing: [const { AtomicU32::new(0) }; MISSING],
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
    /// What a worker looks at, until it passes a quiescent point.
    #[inline]
    pub fn read<'r>(&'r self, reader: &'r Reader) -> &'r Tables {
        self.tables.read(reader)
    }

    /// What is there now, to keep.
    pub fn snapshot(&self) -> Arc<Tables> {
        self.tables.snapshot()
    }

    /// A packet needs an association of a number that has none. Of some that share a place the last one is remembered; packets
    /// of the others ask again.
    #[inline]
    pub fn miss(&self, reqid: u32) {
        let place = &self.missing[reqid as usize % MISSING];
        // Most packets ask for the same.
        if place.load(Relaxed) != reqid {
            place.store(reqid, Relaxed);
        }
    }

    /// The numbers for which associations were missing since the last call.
    pub fn take_missing(&self) -> impl Iterator<Item = u32> {
        let taken = self.missing.iter().map(|place| place.swap(0, Relaxed));
        taken.filter(|reqid| *reqid != 0)
    }

    /// Adds associations. One with the same direction and SPI is replaced. An outbound one is used from now on by all policies
    /// that name its number; those before it stay until they are removed.
    pub fn add<'s>(&self, all: impl IntoIterator<Item = &'s Arc<Sa>>) {
        self.tables.update(|tables| {
            let mut new = Tables::clone(tables);
            all.into_iter().for_each(|sa| new.add(sa));
            Arc::new(new)
        });
    }

    /// Removes an association; false if there is none. Its keys are wiped when no worker uses them any more.
    pub fn remove(&self, direction: Direction, spi: u32) -> bool {
        let mut was = false;
        self.tables.update(|tables| {
            let mut new = Tables::clone(tables);
            was = new.remove(direction, spi);
            Arc::new(new)
        });
        was
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
    use std::collections::HashMap;
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
    fn it_is_as_maps_say_while_associations_come_and_go() {
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
                let last = of.max_by_key(|sa| sa.made()).map(|sa| sa.spec().spi);
                assert_eq!(tables.outbound(reqid).map(|sa| sa.spec().spi), last);
            }
        }
    }

    #[test]
    fn what_is_missing_is_said_once() {
        let database = Database::default();
        for reqid in [1, 2, 1, 65, 70, 70] {
            database.miss(reqid);
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
