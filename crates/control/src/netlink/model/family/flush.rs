//! Writing of changed routes to the forwarding table.

use forwarding::{Full, GroupId, Prefix};

use super::super::candidates::Entry;
use super::super::next_hops::{Hop, LinksAndHops};
use super::super::path_sets::PathSetId;
use super::super::{Flushed, ForwardingTable};
use super::Family;

/// Maximum number of prefixes per update of the forwarding table.
const BATCH_PREFIXES: usize = 8192;

impl<const N: usize> Family<N> {
    /// Path that a prefix's packets should take.
    fn target_path(&self, links_and_hops: &LinksAndHops, prefix: &Prefix<N>) -> Option<PathSetId> {
        let path_sets = self.routes(prefix).iter();
        let mut path_sets = path_sets.map(|entry| self.paths.get(entry.id()).path_set);
        if self.asleep.is_empty() {
            return path_sets.next();
        }
        path_sets.find(|path_set| {
            !links_and_hops.all_asleep(N == 4, self.path_sets.get(*path_set).hops())
        })
    }

    /// Stages the prefixes of routes over links that lost or regained their carrier.
    fn wake(&mut self, links_and_hops: &LinksAndHops) {
        let asleep = links_and_hops.links_without_carrier(N == 4);
        if asleep == self.asleep {
            return;
        }
        let turned =
            |hop: &Hop| asleep.contains(&hop.interface) != self.asleep.contains(&hop.interface);
        let concerned = |entry: &Entry| {
            let path = self.paths.get(entry.id());
            self.path_sets.get(path.path_set).hops().iter().any(turned)
        };
        let prefixes = self.table.keys();
        let concerned = prefixes.filter(|prefix| self.routes(prefix).iter().any(concerned));
        let concerned: Vec<Prefix<N>> = concerned.copied().collect();
        self.staged.extend(concerned);
        self.asleep = asleep;
    }

    /// Writes changed routes to the forwarding table.
    pub(in super::super) fn flush(
        &mut self,
        links_and_hops: &LinksAndHops,
        image: &impl ForwardingTable<N>,
        flushed: &mut Flushed,
    ) -> Result<(), Full> {
        if self.path_sets.stale {
            self.wake(links_and_hops);
            self.path_sets.refresh(links_and_hops, image, flushed);
        }
        if self.path_sets.take_condemned() {
            self.purge(|path, _, path_sets| path_sets.is_condemned(path.path_set));
        }
        let exception = self.path_sets.group(self.exception, links_and_hops, image);
        if self.full && self.staged.is_empty() {
            self.full = image.apply(&[]).is_err();
        }
        let mut changes: Vec<(Prefix<N>, Option<GroupId>)> = Vec::new();
        while !self.staged.is_empty() {
            let rest = self.staged.len().saturating_sub(BATCH_PREFIXES);
            changes.clear();
            for prefix in &self.staged[rest..] {
                let path_set = self.target_path(links_and_hops, prefix);
                let group = path_set
                    .and_then(|w| self.path_sets.group(w, links_and_hops, image).or(exception));
                changes.push((*prefix, group));
            }
            self.full = image.apply(&changes).is_err();
            flushed.prefixes += changes.len();
            self.staged.truncate(rest);
        }
        if self.staged.capacity() > 16 * BATCH_PREFIXES {
            self.staged = Vec::new();
        }
        self.path_sets.collect(image);
        if self.full { Err(Full) } else { Ok(()) }
    }
}
