//! Properties that routes share: a route stores their number, and so takes three bytes besides its prefix.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use super::hash::Seeded;
use super::path_sets::{PathSetId, PathSets};

/// Class of a route, by its source; lower classes are preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(super) enum Class {
    /// Table `local` of the kernel.
    Local,
    /// Table `main` of the kernel.
    Main,
    /// Routes of a daemon, by FPM.
    Fpm,
}

/// Properties of a route apart from its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) class: Class,
    pub(super) metric: u32,
    pub(super) path_set: PathSetId,
    /// Protocol and scope, which distinguish IPv4 routes, and the preferred source address.
    pub(super) origin: u16,
    pub(super) source: u32,
    /// For IPv6: true if the route forms a multipath route with others of its metric.
    pub(super) joins: bool,
}

impl Hash for Path {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.metric) << 32 | u64::from(self.path_set));
        let kind = (self.class as u64) << 1 | u64::from(self.joins);
        let origin = u64::from(self.source) << 32 | u64::from(self.origin) << 3;
        state.write_u64(origin | kind);
    }
}

impl Path {
    /// Rank of the route; the lowest rank is preferred.
    pub(super) fn rank(&self) -> (Class, u32) {
        (self.class, self.metric)
    }
}

/// Number of a path, less than [`PATHS_MAX`].
pub(super) type PathId = u32;

/// Maximum number of paths; a path number has three bytes without the two flags.
pub(super) const PATHS_MAX: usize = 1 << 22;

#[derive(Debug)]
struct StoredPath {
    path: Path,
    routes: u32,
}

/// Distinct paths, with the number of routes that use each.
#[derive(Debug, Default)]
pub(super) struct Paths {
    kept: Vec<StoredPath>,
    by_path: HashMap<Path, PathId, Seeded>,
    free: Vec<PathId>,
}

impl Paths {
    pub(super) fn get(&self, id: PathId) -> &Path {
        &self.kept[id as usize].path
    }

    /// Number of the path, which gains one route; `None` if there are too many paths.
    pub(super) fn retain(&mut self, path: &Path, path_sets: &mut PathSets) -> Option<PathId> {
        if let Some(id) = self.by_path.get(path) {
            self.kept[*id as usize].routes += 1;
            return Some(*id);
        }
        let kept = StoredPath {
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
        path_sets.retain(path.path_set);
        Some(id)
    }

    /// Decrements a path's number of routes.
    pub(super) fn release(&mut self, id: PathId, path_sets: &mut PathSets) {
        let kept = &mut self.kept[id as usize];
        kept.routes -= 1;
        if kept.routes == 0 {
            self.by_path.remove(&kept.path);
            path_sets.release(kept.path.path_set);
            self.free.push(id);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.kept.capacity() * size_of::<StoredPath>()
            + self.by_path.capacity() * (size_of::<(Path, PathId)>() + 1)
            + self.free.capacity() * size_of::<PathId>()
    }
}
