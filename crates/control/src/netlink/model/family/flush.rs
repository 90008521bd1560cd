//! Bringing changes to the image.

use forwarding::{Full, GroupId, Prefix};

use super::super::candidates::Entry;
use super::super::ways::WayId;
use super::super::world::{Hop, World};
use super::super::{Flushed, Image};
use super::Family;

/// Maximum number of prefixes per update of the forwarding table.
const BATCH: usize = 8192;

impl<const N: usize> Family<N> {
    /// Path that a prefix's packets should take.
    fn wanted(&self, world: &World, prefix: &Prefix<N>) -> Option<WayId> {
        let ways = self.routes(prefix).iter();
        let mut ways = ways.map(|entry| self.paths.get(entry.id()).way);
        if self.asleep.is_empty() {
            return ways.next();
        }
        ways.find(|way| !world.all_asleep(N == 4, self.ways.get(*way).hops()))
    }

    /// Stages the prefixes of routes over links that lost or regained their carrier.
    fn wake(&mut self, world: &World) {
        let asleep = world.asleep(N == 4);
        if asleep == self.asleep {
            return;
        }
        let turned =
            |hop: &Hop| asleep.contains(&hop.interface) != self.asleep.contains(&hop.interface);
        let concerned = |entry: &Entry| {
            let path = self.paths.get(entry.id());
            self.ways.get(path.way).hops().iter().any(turned)
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
        world: &World,
        image: &impl Image<N>,
        flushed: &mut Flushed,
    ) -> Result<(), Full> {
        if self.ways.stale {
            self.wake(world);
            self.ways.refresh(world, image, flushed);
        }
        if self.ways.take_condemned() {
            self.purge(|path, _, ways| ways.is_condemned(path.way));
        }
        let exception = self.ways.group(self.exception, world, image);
        if self.full && self.staged.is_empty() {
            self.full = image.apply(&[]).is_err();
        }
        let mut changes: Vec<(Prefix<N>, Option<GroupId>)> = Vec::new();
        while !self.staged.is_empty() {
            let rest = self.staged.len().saturating_sub(BATCH);
            changes.clear();
            for prefix in &self.staged[rest..] {
                let way = self.wanted(world, prefix);
                let group = way.and_then(|w| self.ways.group(w, world, image).or(exception));
                changes.push((*prefix, group));
            }
            self.full = image.apply(&changes).is_err();
            flushed.prefixes += changes.len();
            self.staged.truncate(rest);
        }
        if self.staged.capacity() > 16 * BATCH {
            self.staged = Vec::new();
        }
        self.ways.collect(image);
        if self.full { Err(Full) } else { Ok(()) }
    }
}
