//! The routes of one address family.

mod flush;

use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use forwarding::{BLACKHOLE, EXCEPTION, LOCAL, Prefix};
use wire::netlink::{Route, RouteKind};

use super::candidates::{Candidates, Entry, RouteAction};
use super::hash::Seeded;
use super::next_hops::{Hop, LinksAndHops, ObjectId};
use super::object_limit::Bound;
use super::path_sets::{PathSet, PathSetId, PathSets};
use super::paths::{Class, Path, Paths};
use super::{BY_ADVERTISEMENT, Source};

/// Routes with addresses of `N` bytes.
#[derive(Debug)]
pub(super) struct Family<const N: usize> {
    /// Only route of each prefix, or the mark that the prefix has several.
    table: HashMap<Prefix<N>, Entry, Seeded>,
    /// Routes of prefixes with several, in the order of preference.
    multiple: HashMap<Prefix<N>, Box<[Entry]>, Seeded>,
    paths: Paths,
    path_sets: PathSets,
    /// For each class of routes, the mark of those that the last dump contained ([`Entry::mark`]).
    marks: [bool; 3],
    /// For each class of routes, true during a dump.
    syncing: [bool; 3],
    /// Links without carrier whose routes were ignored at the last update of the forwarding table.
    asleep: HashSet<u32>,
    /// Prefixes whose active route differs from the forwarding table.
    staged: Vec<Prefix<N>>,
    exception: PathSetId,
    no_room: u64,
    /// True if the forwarding table had no room to publish all changes.
    full: bool,
    /// Number of routes, counting all routes of a prefix.
    count: usize,
    /// Maximum number of routes. The machine's own addresses count, and are never left out.
    pub(super) bound: Bound,
    hops: Vec<Hop>,
    list: Vec<Entry>,
}

/// True if packets to a prefix are always local: multicast, broadcast and link-local destinations. The forwarding table
/// contains these by itself.
fn is_always_local<const N: usize>(prefix: &Prefix<N>) -> bool {
    let (address, length) = (prefix.address(), prefix.length());
    match address[..] {
        [224..=239, _, _, _] => length >= 4,
        [255, 255, 255, 255] => length == 32,
        [_, _, _, _] => false,
        [0xff, ..] => length >= 8,
        [0xfe, 0x80..=0xbf, ..] => length >= 10,
        _ => false,
    }
}

impl<const N: usize> Family<N> {
    pub(super) fn new() -> Self {
        let mut path_sets = PathSets::default();
        let exception = path_sets.intern(&PathSet::To(EXCEPTION));
        path_sets.retain(exception);
        Family {
            table: HashMap::default(),
            multiple: HashMap::default(),
            paths: Paths::default(),
            path_sets,
            marks: [false; 3],
            syncing: [false; 3],
            asleep: HashSet::new(),
            staged: Vec::new(),
            exception,
            no_room: 0,
            full: false,
            count: 0,
            bound: Bound::default(),
            hops: Vec::new(),
            list: Vec::new(),
        }
    }

    /// Processes a message. Returns true if it is consistent with the known state.
    pub(super) fn route(
        &mut self,
        links_and_hops: &LinksAndHops,
        class: Class,
        how: RouteAction,
        prefix: Prefix<N>,
        route: &Route<'_>,
    ) -> bool {
        if is_always_local(&prefix) {
            return true;
        }
        let path = self.path(links_and_hops, class, route);
        let mark = self.marks[class as usize];
        if self.is_beyond(how, &prefix, &path) {
            // A daemon's routes cannot be dumped again.
            self.bound.leave_out(class == Class::Main);
            return true;
        }
        match self.table.entry(prefix) {
            Place::Vacant(_) if how == RouteAction::Removed => true,
            Place::Vacant(place) => {
                match self.paths.retain(&path, &mut self.path_sets) {
                    Some(id) => {
                        self.count += 1;
                        place.insert(Entry::new(id, mark));
                        self.staged.push(prefix);
                    }
                    None => self.no_room += 1,
                }
                true
            }
            Place::Occupied(mut place) => {
                let entry = place.get_mut();
                let same = entry.path().map(|id| self.paths.get(id)) == Some(&path);
                if same && how != RouteAction::Removed {
                    *entry = entry.marked(mark);
                    return true;
                }
                self.edit(&prefix, mark, |list| list.apply(how, &path))
            }
        }
    }

    /// True if a route exceeds the maximum number. Known routes, and those that replace another, do not.
    fn is_beyond(&self, how: RouteAction, prefix: &Prefix<N>, path: &Path) -> bool {
        if self.bound.has_room(self.count)
            || path.class == Class::Local
            || how == RouteAction::Removed
        {
            return false;
        }
        let here = |entry: &Entry| {
            let known = self.paths.get(entry.id());
            let gives_way = how == RouteAction::Replace || (path.joins && known.joins);
            // A daemon has one route per prefix.
            let is_daemons = known.class == Class::Fpm && path.class == Class::Fpm;
            known == path || is_daemons || (gives_way && known.rank() == path.rank())
        };
        !self.routes(prefix).iter().any(here)
    }

    /// True if there is room for routes that were left out.
    pub(super) fn can_restore(&self) -> bool {
        self.bound.can_restore(self.count)
    }

    /// Number of routes, counted anew.
    #[cfg(test)]
    pub(super) fn counted(&self) -> usize {
        let all = self.table.keys();
        all.map(|prefix| self.routes(prefix).len()).sum()
    }

    /// Number of routes, counting all routes of a prefix.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Path of a route in a message.
    fn path(&mut self, links_and_hops: &LinksAndHops, class: Class, route: &Route<'_>) -> Path {
        let mut joins = false;
        let source = match class {
            Class::Fpm => Source::Fpm,
            Class::Local | Class::Main => Source::Kernel,
        };
        let path_set = match route.kind {
            // IPv4 addresses of the machine stay when their link goes down. IPv6 has one route per link with the
            // address.
            RouteKind::Local if N == 4 => PathSet::To(LOCAL),
            RouteKind::Local | RouteKind::Broadcast | RouteKind::Anycast | RouteKind::Multicast => {
                let link = route.hops().next().map(|hop| hop.interface);
                link.map_or(PathSet::To(LOCAL), PathSet::Own)
            }
            // The kernel reports routes over an object as "blackhole" while the object is one.
            RouteKind::Unicast | RouteKind::Blackhole if route.nexthop != 0 => {
                PathSet::Object((links_and_hops.owner(source), route.nexthop))
            }
            RouteKind::Blackhole => PathSet::To(BLACKHOLE),
            RouteKind::Unicast => {
                let mut hops = std::mem::take(&mut self.hops);
                hops.clear();
                hops.extend(route.hops().map(|hop| links_and_hops.hop(N == 4, &hop)));
                if hops.len() > 1 {
                    hops.sort_unstable();
                }
                joins = N == 16
                    && route.protocol != BY_ADVERTISEMENT
                    && hops.iter().all(|hop| hop.gateway.is_some());
                PathSet::Hops(source, hops)
            }
            _ => PathSet::To(EXCEPTION),
        };
        let (origin, source) = match (N, route.source) {
            (4, Some(IpAddr::V4(source))) => (origin(route), source.to_bits()),
            (4, _) => (origin(route), 0),
            _ => (0, 0),
        };
        let id = self.path_sets.intern(&path_set);
        if let PathSet::Hops(_, hops) = path_set {
            self.hops = hops;
        }
        Path {
            class,
            metric: route.priority,
            path_set: id,
            origin,
            source,
            joins,
        }
    }

    /// Applies `change` to the routes of a prefix that has some. Returns the result.
    fn edit<R>(
        &mut self,
        prefix: &Prefix<N>,
        mark: bool,
        change: impl FnOnce(&mut Candidates<'_>) -> R,
    ) -> R {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        list.extend_from_slice(self.routes(prefix));
        let (count, before) = (list.len(), list.first().copied());
        let before = before.map(|entry| self.paths.get(entry.id()).path_set);
        let mut candidates = Candidates {
            list: &mut list,
            paths: &mut self.paths,
            path_sets: &mut self.path_sets,
            mark,
            is4: N == 4,
            no_room: &mut self.no_room,
        };
        candidates.purge(|path, _, path_sets| path_sets.is_condemned(path.path_set));
        let result = change(&mut candidates);
        let after = list
            .first()
            .map(|entry| self.paths.get(entry.id()).path_set);
        // While routes are ignored for lack of carrier, the active route need not be the first.
        if before != after || !self.asleep.is_empty() {
            self.staged.push(*prefix);
        }
        match list[..] {
            [] => drop(self.table.remove(prefix)),
            [one] => drop(self.table.insert(*prefix, one)),
            _ => {
                self.table.insert(*prefix, Entry::SEVERAL);
                self.multiple.insert(*prefix, list.as_slice().into());
            }
        }
        if count > 1 && list.len() < 2 {
            self.multiple.remove(prefix);
        }
        self.count = self.count + list.len() - count;
        self.list = list;
        result
    }

    /// Removes all routes for which `gone` returns true.
    fn purge(&mut self, gone: impl Fn(&Path, Entry, &PathSets) -> bool) {
        let Family {
            table,
            paths,
            path_sets,
            staged,
            count,
            ..
        } = self;
        table.retain(|prefix, entry| {
            let Some(id) = entry.path() else { return true };
            let is_gone = gone(paths.get(id), *entry, path_sets);
            if is_gone {
                *count -= 1;
                paths.release(id, path_sets);
                staged.push(*prefix);
            }
            !is_gone
        });
        let affected = |entry: &Entry| gone(self.paths.get(entry.id()), *entry, &self.path_sets);
        let several = self.multiple.iter();
        let affected = several.filter(|(_, list)| list.iter().any(affected));
        let affected: Vec<Prefix<N>> = affected.map(|(prefix, _)| *prefix).collect();
        for prefix in affected {
            self.edit(&prefix, false, |list| list.purge(&gone));
        }
    }

    /// True during a dump of routes.
    pub(super) fn is_syncing(&self) -> bool {
        self.syncing[Class::Local as usize]
    }

    /// Removes the routes that use only a link that went down, as the kernel does.
    pub(super) fn link_down(&mut self, links_and_hops: &LinksAndHops, index: u32) {
        let on_it = |hop: &Hop| hop.interface == index;
        self.path_sets.mark_for_removal(|path_set| {
            let affected = path_set.is_only_by(index) || path_set.hops().iter().any(on_it);
            affected && path_set.is_lost(N == 4, links_and_hops)
        });
    }

    /// True if a route uses only this link.
    pub(super) fn goes_by(&self, index: u32) -> bool {
        self.path_sets.any(|path_set| path_set.is_only_by(index))
    }

    /// True if a route has no usable hop, so that the kernel would remove it.
    pub(super) fn has_lost(&self, links_and_hops: &LinksAndHops) -> bool {
        self.path_sets
            .any(|path_set| path_set.is_lost(N == 4, links_and_hops))
    }

    /// Removes the routes over a removed next-hop object.
    pub(super) fn object_gone(&mut self, object: ObjectId) {
        self.path_sets.condemn_one(&PathSet::Object(object));
    }

    /// Next-hop objects that routes use.
    pub(super) fn objects(&self) -> impl Iterator<Item = ObjectId> {
        self.path_sets.objects()
    }

    /// Marks all groups for an update, after a change of links or objects.
    pub(super) fn mark_stale(&mut self) {
        self.path_sets.stale = true;
    }

    /// True if a hop was reported dead although its link is up. The kernel may revive
    /// it without a message.
    pub(super) fn has_dead_hops(&self) -> bool {
        self.path_sets
            .any(|path_set| path_set.hops().iter().any(|hop| hop.dead))
    }

    pub(super) fn begin_sync(&mut self, source: Source) {
        if source == Source::Kernel {
            self.bound.dump_started();
        }
        for class in classes(source) {
            let at = *class as usize;
            if self.syncing[at] {
                // Routes marked by the failed dump become unmarked.
                let (mark, paths) = (!self.marks[at], &self.paths);
                let unmark = |entry: &mut Entry| {
                    if paths.get(entry.id()).class == *class {
                        *entry = entry.marked(mark);
                    }
                };
                let single = self.table.values_mut().filter(|e| e.path().is_some());
                single.for_each(unmark);
                self.multiple.values_mut().flatten().for_each(unmark);
            } else {
                self.marks[at] = !self.marks[at];
            }
            self.syncing[at] = true;
        }
    }

    pub(super) fn end_sync(&mut self, source: Source) {
        let classes = classes(source);
        for class in classes {
            self.syncing[*class as usize] = false;
        }
        let marks = self.marks;
        self.purge(|path, entry, _| {
            classes.contains(&path.class) && entry.mark() != marks[path.class as usize]
        });
        if self.path_sets.forget_refusals() {
            self.staged.extend(self.table.keys());
        }
    }

    /// Routes of a prefix in the order of preference.
    fn routes(&self, prefix: &Prefix<N>) -> &[Entry] {
        match self.table.get(prefix) {
            Some(&Entry::SEVERAL) => self
                .multiple
                .get(prefix)
                .map_or(&[], |several| &several[..]),
            Some(one) => std::slice::from_ref(one),
            None => &[],
        }
    }

    pub(super) fn pending(&self) -> usize {
        self.staged.len()
    }

    pub(super) fn is_behind(&self) -> bool {
        self.path_sets.stale || !self.staged.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn no_group(&self) -> u64 {
        self.path_sets.refusals()
    }

    pub(super) fn no_room(&self) -> u64 {
        self.no_room
    }

    /// Memory in bytes, without lists of hops. A standard hash map has one control byte per slot.
    pub(super) fn memory_bytes(&self) -> usize {
        // Most lists are short, and occupy the allocator's minimum size.
        let lists = self.multiple.len() * 32;
        self.table.capacity() * (size_of::<(Prefix<N>, Entry)>() + 1) * 8 / 7
            + self.multiple.capacity() * (size_of::<(Prefix<N>, Box<[Entry]>)>() + 1) * 8 / 7
            + lists
            + self.staged.capacity() * size_of::<Prefix<N>>()
            + self.paths.memory_bytes()
            + self.path_sets.memory_bytes()
    }
}

/// Protocol and scope of a route.
fn origin(route: &Route<'_>) -> u16 {
    u16::from_le_bytes([route.protocol, route.scope])
}

/// Classes of routes from a source.
fn classes(source: Source) -> &'static [Class] {
    match source {
        Source::Kernel => &[Class::Local, Class::Main],
        Source::Fpm => &[Class::Fpm],
    }
}
