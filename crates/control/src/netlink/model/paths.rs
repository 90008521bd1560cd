//! Kinds of route: what many routes have in common, so that a route takes three bytes beside its prefix.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use super::hash::Seeded;
use super::ways::{WayId, Ways};

/// Class of a route's source; lower classes come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(super) enum Class {
    /// The table `local`.
    Local,
    /// The table `main`.
    Main,
    /// A daemon, by FPM.
    Fpm,
}

/// Properties of a route except its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) class: Class,
    pub(super) metric: u32,
    pub(super) way: WayId,
    /// Further identity of a route: for IPv4 protocol and scope, and the source address that the router uses.
    pub(super) origin: u16,
    pub(super) source: u32,
    /// IPv6: it makes one multipath route with others of its metric.
    pub(super) joins: bool,
}

impl Hash for Path {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.metric) << 32 | u64::from(self.way));
        let kind = (self.class as u64) << 1 | u64::from(self.joins);
        let origin = u64::from(self.source) << 32 | u64::from(self.origin) << 3;
        state.write_u64(origin | kind);
    }
}

impl Path {
    /// Routes of the lowest rank count.
    pub(super) fn rank(&self) -> (Class, u32) {
        (self.class, self.metric)
    }
}

/// Names a path: less than [`PATHS_MAX`].
pub(super) type PathId = u32;

/// Maximum number of paths: they have three bytes, less the marks.
pub(super) const PATHS_MAX: usize = 1 << 22;

#[derive(Debug)]
struct Kept {
    path: Path,
    routes: u32,
}

/// Paths, with the number of routes of each.
#[derive(Debug, Default)]
pub(super) struct Paths {
    kept: Vec<Kept>,
    by_path: HashMap<Path, PathId, Seeded>,
    free: Vec<PathId>,
}

impl Paths {
    pub(super) fn get(&self, id: PathId) -> &Path {
        &self.kept[id as usize].path
    }

    /// The path's number, with one route more; none if there are too many.
    pub(super) fn retain(&mut self, path: &Path, ways: &mut Ways) -> Option<PathId> {
        if let Some(id) = self.by_path.get(path) {
            self.kept[*id as usize].routes += 1;
            return Some(*id);
        }
        let kept = Kept {
            path: *path,
            routes: 1,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.kept[id as usize] = kept;
                id
            }
            None if self.kept.len() == PATHS_MAX => return None,
            None => {
                self.kept.push(kept);
                (self.kept.len() - 1) as PathId
            }
        };
        self.by_path.insert(*path, id);
        ways.retain(path.way);
        Some(id)
    }

    /// Removes a route from a path.
    pub(super) fn release(&mut self, id: PathId, ways: &mut Ways) {
        let kept = &mut self.kept[id as usize];
        kept.routes -= 1;
        if kept.routes == 0 {
            self.by_path.remove(&kept.path);
            ways.release(kept.path.way);
            self.free.push(id);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.kept.capacity() * size_of::<Kept>()
            + self.by_path.capacity() * (size_of::<(Path, PathId)>() + 1)
            + self.free.capacity() * size_of::<PathId>()
    }
}
