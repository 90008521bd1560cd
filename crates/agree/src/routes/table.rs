//! The leader's routes by version.

use super::{At, Change, Hops, Prefix};
use std::collections::{BTreeMap, VecDeque};

/// Minimum number of changes that the log holds. It holds twice as many as there are routes, if that is more.
const LOG_MIN: usize = 1 << 16;

/// Routes of one epoch's leader.
#[derive(Clone, Debug)]
pub struct Table {
    at: At,
    /// State of a former epoch whose routes version 0 has; `None` if that version has none.
    began_at: Option<At>,
    complete: bool,
    routes: BTreeMap<Prefix, Hops>,
    /// Changed prefixes, each with the version that changed it, oldest first.
    log: VecDeque<(u64, Prefix)>,
    /// Number of changes that the log has forgotten.
    forgotten: u64,
    /// Version up to which changes are forgotten.
    oldest: u64,
    log_min: usize,
}

impl Table {
    /// Empty table of a leader that has just begun.
    pub fn new(epoch: u64) -> Table {
        Table::with_log(epoch, LOG_MIN)
    }

    pub(super) fn with_log(epoch: u64, log_min: usize) -> Table {
        Table {
            at: At { epoch, version: 0 },
            began_at: None,
            complete: false,
            routes: BTreeMap::new(),
            log: VecDeque::new(),
            forgotten: 0,
            oldest: 0,
            log_min,
        }
    }

    /// Epoch and version.
    pub fn at(&self) -> At {
        self.at
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// True if there is no route.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// True if the table has all of the leader's routes. Until then nobody gets any.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Declares that all of the leader's routes are there: a version from 1 on.
    pub fn complete(&mut self) {
        self.complete = true;
        self.at.version = self.at.version.max(1);
    }

    /// Begins with all routes of a former epoch's state. A table that has changed already stays as it is.
    pub fn begin(&mut self, at: At, routes: BTreeMap<Prefix, Hops>) {
        if self.at.version == 0 && at.epoch < self.at.epoch {
            self.began_at = Some(at);
            self.routes = routes;
        }
    }

    /// State of a former epoch whose routes version 0 has.
    pub fn began_at(&self) -> Option<At> {
        self.began_at
    }

    /// Applies changes as one version. Returns false if nothing differs.
    pub fn change(&mut self, changes: impl IntoIterator<Item = Change>) -> bool {
        let version = self.at.version + 1;
        for (prefix, hops) in changes {
            let differs = match hops {
                Some(hops) => {
                    let same = self.routes.get(&prefix) == Some(&hops);
                    if !same {
                        self.routes.insert(prefix, hops);
                    }
                    !same
                }
                None => self.routes.remove(&prefix).is_some(),
            };
            if differs {
                self.at.version = version;
                self.log.push_back((version, prefix));
            }
        }
        let most = self.log_min.max(2 * self.routes.len());
        while self.log.len() > most {
            if let Some((version, _)) = self.log.pop_front() {
                self.forgotten += 1;
                self.oldest = version;
            }
        }
        self.at.version == version
    }

    /// Makes these the only routes, as one version. Returns false if nothing differs.
    pub fn replace(&mut self, mut routes: BTreeMap<Prefix, Hops>) -> bool {
        let gone = self
            .routes
            .keys()
            .filter(|prefix| !routes.contains_key(prefix));
        let gone: Vec<Change> = gone.map(|prefix| (*prefix, None)).collect();
        routes.retain(|prefix, hops| self.routes.get(prefix) != Some(hops));
        let new = routes
            .into_iter()
            .map(|(prefix, hops)| (prefix, Some(hops)));
        self.change(gone.into_iter().chain(new))
    }

    /// Routes after a prefix, in order; all for `None`.
    pub(super) fn after(&self, cursor: Option<Prefix>) -> impl Iterator<Item = (&Prefix, &Hops)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = cursor.map_or(Unbounded, Excluded);
        self.routes.range((from, Unbounded))
    }

    /// Number of the first change after a version; `None` if some of these changes are forgotten.
    pub(super) fn place(&self, version: u64) -> Option<u64> {
        if version < self.oldest || version > self.at.version {
            return None;
        }
        let index = self.log.partition_point(|(changed, _)| *changed <= version);
        Some(self.forgotten + index as u64)
    }

    /// Changes from a number on, `most` at most, as the prefixes are now; the number of the next change; and the
    /// version that is reached with them. `None` if some of them are forgotten.
    pub(super) fn changes(&self, from: u64, most: usize) -> Option<(Vec<Change>, u64, u64)> {
        let first = usize::try_from(from.checked_sub(self.forgotten)?).ok()?;
        let end = self.log.len().min(first.saturating_add(most));
        let mut prefixes: Vec<Prefix> =
            self.log.range(first.min(end)..end).map(|of| of.1).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        let changes = prefixes.into_iter();
        let changes = changes.map(|prefix| (prefix, self.routes.get(&prefix).cloned()));
        let reached = match self.log.get(end) {
            Some((version, _)) => version - 1,
            None => self.at.version,
        };
        Some((changes.collect(), self.forgotten + end as u64, reached))
    }
}
