//! The routes of one prefix, and their changes by messages.

use std::ops::Range;

use super::Source;
use super::next_hops::Hop;
use super::path_sets::{PathSet, PathSets};
use super::paths::{Class, Path, PathId, Paths};

/// Route of a prefix in three bytes: a 22-bit path number and two flags. Alternatively the mark that a prefix has
/// several routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry([u8; 3]);

const SEVERAL: u32 = 1 << 22;
const MARK: u32 = 1 << 23;

impl Entry {
    /// Mark of a prefix with several routes.
    pub(super) const SEVERAL: Entry = Entry::of(SEVERAL);

    const fn of(bits: u32) -> Entry {
        let [a, b, c, _] = bits.to_le_bytes();
        Entry([a, b, c])
    }

    const fn bits(self) -> u32 {
        let [a, b, c] = self.0;
        u32::from_le_bytes([a, b, c, 0])
    }

    /// Entry of a route, with the mark of the last dump that contained it.
    pub(super) fn new(id: PathId, mark: bool) -> Entry {
        Entry::of(id & (SEVERAL - 1)).marked(mark)
    }

    /// Path of the route; `None` for [`Entry::SEVERAL`].
    #[inline]
    pub(super) fn path(self) -> Option<PathId> {
        (self.bits() & SEVERAL == 0).then_some(self.bits() & (SEVERAL - 1))
    }

    /// Path of an entry that is not [`Entry::SEVERAL`].
    #[inline]
    pub(super) fn id(self) -> PathId {
        self.bits() & (SEVERAL - 1)
    }

    #[inline]
    pub(super) fn mark(self) -> bool {
        self.bits() & MARK != 0
    }

    #[inline]
    pub(super) fn marked(self, mark: bool) -> Entry {
        Entry::of(self.bits() & !MARK | if mark { MARK } else { 0 })
    }
}

/// Action of a message about a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RouteAction {
    /// The route exists. A dump lists routes in the kernel's order.
    Exists,
    /// The route replaces the first route with its metric.
    Replace,
    /// The route follows others with its metric.
    Append,
    /// The route precedes others with its metric.
    Prepend,
    /// The route was removed.
    Removed,
}

/// Routes of a prefix in the order of preference, the active one first.
pub(super) struct Candidates<'a> {
    pub(super) list: &'a mut Vec<Entry>,
    pub(super) paths: &'a mut Paths,
    pub(super) path_sets: &'a mut PathSets,
    /// Mark of existing routes of this class in the current dump.
    pub(super) mark: bool,
    pub(super) is4: bool,
    pub(super) no_room: &'a mut u64,
}

impl Candidates<'_> {
    /// Applies a message. Returns true if it is consistent with the known state.
    pub(super) fn apply(&mut self, how: RouteAction, path: &Path) -> bool {
        if path.class == Class::Fpm {
            self.replace_all(how, path);
            return true;
        }
        let span = self.span(path);
        match how {
            RouteAction::Removed => self.remove_matching(span, path),
            _ => self.add_or_replace(how, span, path),
        }
    }

    fn path(&self, at: usize) -> &Path {
        self.paths.get(self.list[at].id())
    }

    /// Range of routes with the same rank as `path`.
    fn span(&self, path: &Path) -> Range<usize> {
        let rank = |entry: &Entry| self.paths.get(entry.id()).rank();
        let start = self.list.partition_point(|e| rank(e) < path.rank());
        let end = self.list.partition_point(|e| rank(e) <= path.rank());
        start..end
    }

    /// Replaces all routes of a daemon, which has one route per prefix.
    fn replace_all(&mut self, how: RouteAction, path: &Path) {
        while let Some(last) = self.list.len().checked_sub(1) {
            if self.path(last).class != Class::Fpm {
                break;
            }
            self.remove(last);
        }
        if how != RouteAction::Removed {
            self.insert(self.list.len(), path);
        }
    }

    fn add_or_replace(&mut self, how: RouteAction, span: Range<usize>, path: &Path) -> bool {
        let is_it = |known: &Path| known == path || (path.joins && known.joins);
        let known = span.clone().find(|at| is_it(self.path(*at)));
        if let Some(at) = known {
            self.set(at, path);
        }
        match (how, known) {
            (RouteAction::Exists, known) => {
                // New routes follow those that the current dump contained, and precede all others of their rank.
                let unseen = span.clone().find(|at| self.list[*at].mark() != self.mark);
                match (known, unseen) {
                    (Some(at), Some(to)) if to < at => self.list[to..=at].rotate_right(1),
                    (Some(_), _) => {}
                    (None, to) => self.insert(to.unwrap_or(span.end), path),
                }
                true
            }
            // The message may be repeated; otherwise the kernel has replaced a route by another known one.
            (RouteAction::Replace, Some(at)) => Some(at) == self.replaced(&span, path),
            (RouteAction::Replace, None) => {
                match self.replaced(&span, path) {
                    Some(at) => self.set(at, path),
                    None => self.insert(span.end, path),
                }
                true
            }
            (_, Some(_)) => true,
            (RouteAction::Prepend, None) if self.is4 => {
                self.insert(span.start, path);
                true
            }
            (_, None) => {
                self.insert(span.end, path);
                true
            }
        }
    }

    /// Index of the route that `ip route replace` replaces; for IPv6, one of the same kind if possible.
    fn replaced(&self, span: &Range<usize>, path: &Path) -> Option<usize> {
        let alike = span.clone().find(|at| self.path(*at).joins == path.joins);
        alike.or_else(|| (!span.is_empty()).then_some(span.start))
    }

    fn remove_matching(&mut self, span: Range<usize>, path: &Path) -> bool {
        if path.joins
            && let Some(at) = span.clone().find(|at| self.path(*at).joins)
        {
            return self.remove_hops(at, path);
        }
        let alike = |known: &Path| {
            is_same_path(
                self.path_sets.get(known.path_set),
                self.path_sets.get(path.path_set),
            )
        };
        let exact = span.clone().find(|at| self.path(*at) == path);
        let same_protocol = |at: &usize| {
            let known = self.path(*at);
            known.origin as u8 == path.origin as u8 && alike(known)
        };
        let found = exact.or_else(|| span.clone().find(same_protocol));
        let found = found.or_else(|| span.clone().find(|at| alike(self.path(*at))));
        match found {
            Some(at) => self.remove(at),
            None => return span.is_empty(),
        }
        true
    }

    /// Removes hops from an IPv6 multipath route.
    fn remove_hops(&mut self, at: usize, path: &Path) -> bool {
        let known = *self.path(at);
        let gone = self.path_sets.get(path.path_set).hops();
        let has = |hop: &Hop| {
            gone.iter()
                .any(|gone| gone.link_and_gateway() == hop.link_and_gateway())
        };
        let hops = self.path_sets.get(known.path_set).hops();
        let left: Vec<Hop> = hops.iter().filter(|hop| !has(hop)).copied().collect();
        let fits = hops.len() - left.len() == gone.len();
        if left.is_empty() {
            self.remove(at);
        } else {
            let path_set = self.path_sets.intern(&PathSet::Hops(Source::Kernel, left));
            self.set(at, &Path { path_set, ..known });
        }
        fits
    }

    fn insert(&mut self, at: usize, path: &Path) {
        match self.paths.retain(path, self.path_sets) {
            Some(id) => self.list.insert(at, Entry::new(id, self.mark)),
            None => *self.no_room += 1,
        }
    }

    fn set(&mut self, at: usize, path: &Path) {
        let Some(id) = self.paths.retain(path, self.path_sets) else {
            *self.no_room += 1;
            return;
        };
        self.paths.release(self.list[at].id(), self.path_sets);
        self.list[at] = Entry::new(id, self.mark);
    }

    fn remove(&mut self, at: usize) {
        let entry = self.list.remove(at);
        self.paths.release(entry.id(), self.path_sets);
    }

    /// Removes all routes for which `gone` returns true.
    pub(super) fn purge(&mut self, gone: impl Fn(&Path, Entry, &PathSets) -> bool) {
        for at in (0..self.list.len()).rev() {
            if gone(self.path(at), self.list[at], self.path_sets) {
                self.remove(at);
            }
        }
    }
}

/// True if two paths are equal, apart from the state of their hops.
fn is_same_path(one: &PathSet, other: &PathSet) -> bool {
    match (one, other) {
        (PathSet::Hops(_, one), PathSet::Hops(_, other)) => {
            one.len() == other.len()
                && one.iter().all(|o| {
                    other
                        .iter()
                        .any(|t| o.link_and_gateway() == t.link_and_gateway())
                })
        }
        _ => one == other,
    }
}
