//! All routes in order: the writer's knowledge, from which look-up structures are built.

use std::num::NonZeroU16;

use super::Prefix;

/// A route: a prefix and the id of its next-hop group.
pub type Route<const N: usize> = (Prefix<N>, NonZeroU16);

/// Maximum number of routes of a run.
const RUN: usize = 256;

/// A stored route.
#[derive(Debug, Clone, Copy)]
struct StoredRoute<const N: usize> {
    prefix: Prefix<N>,
    /// The length of the longest other route that covers this one, or `NONE`.
    cover: u8,
    id: NonZeroU16,
}

const NONE: u8 = u8::MAX;

impl<const N: usize> StoredRoute<N> {
    fn route(&self) -> Route<N> {
        (self.prefix, self.id)
    }
}

/// Routes sorted by address, then by length: a B-tree of two levels, whose leaves are runs of up to 256 routes (8
/// bytes each for IPv4, 20 for IPv6). So a search causes two or three cache misses, and the routes below a prefix are
/// contiguous. Each route knows which one covers it.
#[derive(Debug, Clone)]
pub struct Routes<const N: usize> {
    /// Sorted runs of routes; none is empty.
    runs: Vec<Vec<StoredRoute<N>>>,
    /// The first prefix of each run.
    firsts: Vec<Prefix<N>>,
    len: usize,
}

/// A position in the order: a run, and an index in it.
#[derive(Debug, Clone, Copy)]
struct Position(usize, usize);

impl<const N: usize> Default for Routes<N> {
    fn default() -> Self {
        Routes {
            runs: Vec::new(),
            firsts: Vec::new(),
            len: 0,
        }
    }
}

impl<const N: usize> Routes<N> {
    /// Adds or changes the route of this prefix; returns its previous id.
    pub fn insert(&mut self, prefix: Prefix<N>, id: NonZeroU16) -> Option<NonZeroU16> {
        let place = match self.find(&prefix) {
            Ok(Position(run, at)) => {
                return Some(std::mem::replace(&mut self.runs[run][at].id, id));
            }
            Err(place) => place,
        };
        let length = prefix.length();
        let cover = self
            .covering_at(place, &prefix)
            .map_or(NONE, |(p, _)| p.length());
        let at = self.add(place, StoredRoute { prefix, cover, id });
        self.change_cover(Position(at.0, at.1 + 1), &prefix, cover, length);
        self.len += 1;
        None
    }

    /// Inserts a route at its position; returns the resulting position.
    fn add(&mut self, Position(run, at): Position, route: StoredRoute<N>) -> Position {
        match self.runs.get_mut(run) {
            None => self.add_run(run, vec![route]),
            // Routes added in ascending order fill their runs completely.
            Some(full) if full.len() == RUN && at == RUN => {
                self.add_run(run + 1, vec![route]);
                return Position(run + 1, 0);
            }
            Some(full) if full.len() == RUN => {
                let half = full.split_off(RUN / 2);
                self.add_run(run + 1, half);
                return match at.checked_sub(RUN / 2) {
                    Some(at) => self.add(Position(run + 1, at), route),
                    None => self.add(Position(run, at), route),
                };
            }
            Some(routes) => {
                routes.insert(at, route);
                self.firsts[run] = routes[0].prefix;
            }
        }
        Position(run, at)
    }

    /// From a position on, changes the cover length `from` to `to` for routes below `prefix`.
    fn change_cover(&mut self, Position(run, at): Position, prefix: &Prefix<N>, from: u8, to: u8) {
        let mut at = at;
        for routes in self.runs.iter_mut().skip(run) {
            for route in routes.iter_mut().skip(std::mem::take(&mut at)) {
                if !prefix.covers(&route.prefix) {
                    return;
                }
                if route.cover == from {
                    route.cover = to;
                }
            }
        }
    }

    fn add_run(&mut self, at: usize, routes: Vec<StoredRoute<N>>) {
        self.firsts.insert(at, routes[0].prefix);
        self.runs.insert(at, routes);
    }

    /// Removes the route of exactly this prefix; returns its id.
    pub fn remove(&mut self, prefix: &Prefix<N>) -> Option<NonZeroU16> {
        let Position(run, at) = self.find(prefix).ok()?;
        self.len -= 1;
        let StoredRoute { cover, id, .. } = self.runs[run].remove(at);
        self.change_cover(Position(run, at), prefix, prefix.length(), cover);
        // A run that has become small is appended to the run before it.
        let before = run
            .checked_sub(1)
            .map_or(RUN, |before| self.runs[before].len());
        if self.runs[run].is_empty() || self.runs[run].len() + before <= RUN / 2 {
            let rest = self.runs.remove(run);
            self.firsts.remove(run);
            if let Some(before) = run.checked_sub(1) {
                self.runs[before].extend(rest);
            }
        } else {
            self.firsts[run] = self.runs[run][0].prefix;
        }
        Some(id)
    }

    /// Position of a prefix; the error holds the position at which it would be inserted.
    fn find(&self, prefix: &Prefix<N>) -> Result<Position, Position> {
        let after = self.firsts.partition_point(|first| first <= prefix);
        let run = after.saturating_sub(1);
        let routes = self.runs.get(run).map_or(&[][..], |routes| &routes[..]);
        match routes.binary_search_by(|route| route.prefix.cmp(prefix)) {
            Ok(at) => Ok(Position(run, at)),
            Err(at) => Err(Position(run, at)),
        }
    }

    /// The route before a position.
    fn previous(&self, Position(run, at): Position) -> Option<&StoredRoute<N>> {
        let here = at.checked_sub(1).map(|at| &self.runs[run][at]);
        here.or_else(|| self.runs.get(run.checked_sub(1)?)?.last())
    }

    /// All routes from a position to the end.
    fn from(&self, Position(run, at): Position) -> impl Iterator<Item = Route<N>> {
        let here = self.runs.get(run).and_then(|routes| routes.get(at..));
        let after = self.runs.get(run + 1..).unwrap_or_default();
        let here = here.unwrap_or_default().iter();
        here.chain(after.iter().flatten()).map(StoredRoute::route)
    }

    /// The id of the route of exactly this prefix.
    pub fn get(&self, prefix: &Prefix<N>) -> Option<NonZeroU16> {
        let Position(run, at) = self.find(prefix).ok()?;
        Some(self.runs[run][at].id)
    }

    /// The longest route that covers `prefix` and is shorter than it.
    pub fn covering(&self, prefix: &Prefix<N>) -> Option<Route<N>> {
        let (Ok(place) | Err(place)) = self.find(prefix);
        self.covering_at(place, prefix)
    }

    /// The longest route that covers `prefix`, searched from its position: the previous route either covers `prefix`,
    /// or has the same covering routes.
    fn covering_at(&self, place: Position, prefix: &Prefix<N>) -> Option<Route<N>> {
        let mut route = self.previous(place)?;
        while !route.prefix.covers(prefix) {
            let cover = Some(route.cover).filter(|cover| *cover != NONE)?;
            let Position(run, at) = self
                .find(&Prefix::new(route.prefix.address(), cover))
                .ok()?;
            route = &self.runs[run][at];
        }
        Some(route.route())
    }

    /// All routes.
    pub fn iter(&self) -> impl Iterator<Item = Route<N>> {
        self.runs.iter().flatten().map(StoredRoute::route)
    }

    /// The routes that `prefix` covers, except its own.
    pub fn more_specifics(&self, prefix: &Prefix<N>) -> impl Iterator<Item = Route<N>> {
        self.around(prefix).1
    }

    /// The route of `prefix` itself, or else the longest one that covers it, but not the default route; and the
    /// routes below it.
    pub(super) fn around(
        &self,
        prefix: &Prefix<N>,
    ) -> (Option<Route<N>>, impl Iterator<Item = Route<N>>) {
        let (route, place) = match self.find(prefix) {
            Ok(Position(run, at)) => (Some(self.runs[run][at].route()), Position(run, at + 1)),
            Err(place) => (self.covering_at(place, prefix), place),
        };
        let own = *prefix;
        let below = self.from(place).take_while(move |(p, _)| own.covers(p));
        (route.filter(|(p, _)| p.length() > 0), below)
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no routes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory of the routes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let runs: usize = self.runs.iter().map(Vec::capacity).sum();
        runs * size_of::<StoredRoute<N>>()
            + self.runs.capacity() * size_of::<Vec<StoredRoute<N>>>()
            + self.firsts.capacity() * size_of::<Prefix<N>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Random, routes4};
    use std::collections::BTreeMap;

    /// Compares the routes with a `BTreeMap` after every step.
    #[test]
    fn routes_are_as_in_a_sorted_map() {
        let mut random = Random::new(8);
        let all = routes4(9, 6000, 255);
        let (mut routes, mut map) = (Routes::<4>::default(), BTreeMap::new());
        // The table grows, shrinks to nothing, and grows again in ascending order.
        for step in 0..40_000u64 {
            let (prefix, id) = all[random.below(all.len() as u64) as usize];
            let grows = if step < 20_000 { 70 } else { 30 };
            if random.below(100) < grows {
                assert_eq!(routes.insert(prefix, id), map.insert(prefix, id));
            } else {
                assert_eq!(routes.remove(&prefix), map.remove(&prefix));
            }
            assert_eq!(routes.len(), map.len());
            assert_eq!(routes.get(&prefix), map.get(&prefix).copied());
            if step % 16 == 0 {
                let above = map.range(..prefix).rev().find(|(p, _)| p.covers(&prefix));
                let above = above.map(|(p, id)| (*p, *id));
                assert_eq!(routes.covering(&prefix), above);
            }
            if step % 64 == 0 {
                let wide = Prefix::new(prefix.address(), prefix.length() / 2);
                let below = map.iter().filter(|(p, _)| wide.covers(p) && **p != wide);
                assert!(
                    routes
                        .more_specifics(&wide)
                        .eq(below.map(|(p, id)| (*p, *id)))
                );
            }
        }
        assert!(routes.iter().eq(map.iter().map(|(p, id)| (*p, *id))));
        for prefix in map.keys() {
            assert!(routes.remove(prefix).is_some());
        }
        assert!(routes.is_empty() && routes.runs.is_empty() && routes.firsts.is_empty());
        let mut sorted = all;
        sorted.sort();
        for (prefix, id) in &sorted {
            routes.insert(*prefix, *id);
        }
        assert!(routes.iter().eq(sorted.iter().copied()));
        assert!(routes.runs.len() <= 1 + 6000 / RUN, "runs are full");
    }
}
