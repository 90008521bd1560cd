//! The routes of one prefix, and how a message changes them.

use std::ops::Range;

use super::Source;
use super::paths::{Class, Path, PathId, Paths};
use super::ways::{Way, Ways};
use super::world::Hop;

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
pub(super) enum How {
    /// The route exists. A dump lists routes in the kernel's order.
    Told,
    /// The route replaces the first route with its metric.
    Replace,
    /// The route follows others with its metric.
    Append,
    /// The route precedes others with its metric.
    Prepend,
    /// The route was removed.
    Gone,
}

/// Routes of a prefix in the order of preference, the active one first.
pub(super) struct Candidates<'a> {
    pub(super) list: &'a mut Vec<Entry>,
    pub(super) paths: &'a mut Paths,
    pub(super) ways: &'a mut Ways,
    /// Mark of existing routes of this class in the current dump.
    pub(super) mark: bool,
    pub(super) is4: bool,
    pub(super) no_room: &'a mut u64,
}

impl Candidates<'_> {
    /// Applies a message. Returns true if it is consistent with the known state.
    pub(super) fn tell(&mut self, how: How, path: &Path) -> bool {
        if path.class == Class::Fpm {
            self.only(how, path);
            return true;
        }
        let span = self.span(path);
        match how {
            How::Gone => self.gone(span, path),
            _ => self.there(how, span, path),
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
    fn only(&mut self, how: How, path: &Path) {
        while let Some(last) = self.list.len().checked_sub(1) {
            if self.path(last).class != Class::Fpm {
                break;
            }
            self.remove(last);
        }
        if how != How::Gone {
            self.insert(self.list.len(), path);
        }
    }

    fn there(&mut self, how: How, span: Range<usize>, path: &Path) -> bool {
        let is_it = |known: &Path| known == path || (path.joins && known.joins);
        let known = span.clone().find(|at| is_it(self.path(*at)));
        if let Some(at) = known {
            self.set(at, path);
        }
        match (how, known) {
            (How::Told, known) => {
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
            (How::Replace, Some(at)) => Some(at) == self.replaced(&span, path),
            (How::Replace, None) => {
                match self.replaced(&span, path) {
                    Some(at) => self.set(at, path),
                    None => self.insert(span.end, path),
                }
                true
            }
            (_, Some(_)) => true,
            (How::Prepend, None) if self.is4 => {
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

    fn gone(&mut self, span: Range<usize>, path: &Path) -> bool {
        if path.joins
            && let Some(at) = span.clone().find(|at| self.path(*at).joins)
        {
            return self.leave(at, path);
        }
        let alike = |known: &Path| alike(self.ways.get(known.way), self.ways.get(path.way));
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
    fn leave(&mut self, at: usize, path: &Path) -> bool {
        let known = *self.path(at);
        let gone = self.ways.get(path.way).hops();
        let has = |hop: &Hop| gone.iter().any(|gone| gone.to() == hop.to());
        let hops = self.ways.get(known.way).hops();
        let left: Vec<Hop> = hops.iter().filter(|hop| !has(hop)).copied().collect();
        let fits = hops.len() - left.len() == gone.len();
        if left.is_empty() {
            self.remove(at);
        } else {
            let way = self.ways.intern(&Way::Hops(Source::Kernel, left));
            self.set(at, &Path { way, ..known });
        }
        fits
    }

    fn insert(&mut self, at: usize, path: &Path) {
        match self.paths.retain(path, self.ways) {
            Some(id) => self.list.insert(at, Entry::new(id, self.mark)),
            None => *self.no_room += 1,
        }
    }

    fn set(&mut self, at: usize, path: &Path) {
        let Some(id) = self.paths.retain(path, self.ways) else {
            *self.no_room += 1;
            return;
        };
        self.paths.release(self.list[at].id(), self.ways);
        self.list[at] = Entry::new(id, self.mark);
    }

    fn remove(&mut self, at: usize) {
        let entry = self.list.remove(at);
        self.paths.release(entry.id(), self.ways);
    }

    /// Removes all routes for which `gone` returns true.
    pub(super) fn purge(&mut self, gone: impl Fn(&Path, Entry, &Ways) -> bool) {
        for at in (0..self.list.len()).rev() {
            if gone(self.path(at), self.list[at], self.ways) {
                self.remove(at);
            }
        }
    }
}

/// True if two paths are equal, apart from the state of their hops.
fn alike(one: &Way, other: &Way) -> bool {
    match (one, other) {
        (Way::Hops(_, one), Way::Hops(_, other)) => {
            one.len() == other.len() && one.iter().all(|o| other.iter().any(|t| o.to() == t.to()))
        }
        _ => one == other,
    }
}
