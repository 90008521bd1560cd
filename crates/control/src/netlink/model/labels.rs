//! Labels, from the routes of MPLS. A label has one route, and a message about it is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use forwarding::{EXCEPTION, LOCAL, LabelHop};
use wire::mpls::Labels;
use wire::netlink::{self, Change};

use super::Source;
use super::next_hops::{Hop, LinksAndHops};
use super::object_limit::Bound;

/// Index of the loopback interface, the same in each namespace.
const LOOPBACK: u32 = 1;

/// MPLS forwarding table that mirrors the model.
pub trait LabelImage {
    /// Sets a label's next hops, or removes the label.
    fn set(&self, label: u32, hops: Option<Vec<LabelHop>>);
}

impl LabelImage for forwarding::LabelRoutes {
    fn set(&self, label: u32, hops: Option<Vec<LabelHop>>) {
        self.set(label, hops);
    }
}

/// Route of a label, and the number of the last dump of its source that contained it.
#[derive(Debug)]
struct LabelRoute {
    hops: Vec<Hop>,
    source: Source,
    sync: u32,
}

/// MPLS routes, by label.
#[derive(Debug, Default)]
pub(super) struct LabelRoutes {
    routes: BTreeMap<u32, LabelRoute>,
    /// Maximum number of labels with a route.
    pub(super) bound: Bound,
    /// Labels whose forwarding table entries may be outdated.
    stale: BTreeSet<u32>,
    /// Number of the current dump by the kernel, and by FPM.
    syncs: [u32; 2],
}

impl Source {
    fn index(self) -> usize {
        match self {
            Source::Kernel => 0,
            Source::Fpm => 1,
        }
    }
}

impl LabelRoutes {
    /// True if there is room for labels that were left out.
    pub(super) fn can_restore(&self) -> bool {
        self.bound.can_restore(self.routes.len())
    }

    /// Processes a message about a label's route.
    pub(super) fn route(
        &mut self,
        links_and_hops: &LinksAndHops,
        source: Source,
        change: Change,
        label: u32,
        route: &netlink::Route<'_>,
    ) {
        let hops = route.hops().map(|hop| {
            let is4 = !matches!(hop.gateway, Some(IpAddr::V6(_)));
            links_and_hops.hop(is4, &hop)
        });
        match change {
            Change::New
                if !self.bound.has_room(self.routes.len()) && !self.routes.contains_key(&label) =>
            {
                self.bound.leave_out(source == Source::Kernel);
                return;
            }
            Change::New => {
                let entry = LabelRoute {
                    hops: hops.collect(),
                    source,
                    sync: self.syncs[source.index()],
                };
                self.routes.insert(label, entry);
            }
            Change::Gone => drop(self.routes.remove(&label)),
        }
        self.stale.insert(label);
    }

    /// Marks all labels for an update, because links have changed or the forwarding table is new.
    pub(super) fn mark_stale(&mut self) {
        self.stale.extend(self.routes.keys());
    }

    pub(super) fn begin_sync(&mut self, source: Source) {
        if source == Source::Kernel {
            self.bound.dump_started();
        }
        let sync = &mut self.syncs[source.index()];
        *sync = sync.wrapping_add(1);
    }

    /// Ends a dump of a source: removes routes that it did not contain.
    pub(super) fn end_sync(&mut self, source: Source) {
        let (sync, stale) = (self.syncs[source.index()], &mut self.stale);
        self.routes.retain(|label, entry| {
            let stays = entry.source != source || entry.sync == sync;
            if !stays {
                stale.insert(*label);
            }
            stays
        });
    }

    pub(super) fn len(&self) -> usize {
        self.routes.len()
    }

    /// Writes changed labels to the forwarding table.
    pub(super) fn flush(&mut self, links_and_hops: &LinksAndHops, image: &impl LabelImage) {
        for label in std::mem::take(&mut self.stale) {
            let entry = self.routes.get(&label);
            image.set(label, entry.map(|entry| hops(links_and_hops, &entry.hops)));
        }
    }
}

/// Usable hops of packets with a label.
fn hops(links_and_hops: &LinksAndHops, hops: &[Hop]) -> Vec<LabelHop> {
    let to = |port| {
        vec![LabelHop {
            labels: Labels::NONE,
            gateway: None,
            port,
            weight: 1,
        }]
    };
    let mut all = Vec::with_capacity(hops.len());
    for hop in links_and_hops.usable_hops(hops) {
        match (links_and_hops.number(hop.interface), hop.labels) {
            (_, Some(labels)) if hop.interface == LOOPBACK && labels.is_empty() => {
                // The label ends at this router, whatever other hops the route has.
                return to(LOCAL);
            }
            (Some(port), Some(labels)) if hop.gateway.is_some() => all.push(LabelHop {
                labels,
                gateway: hop.gateway,
                port,
                weight: hop.weight,
            }),
            // The kernel sends some flows over another hop, so all packets go to the kernel.
            _ => return to(EXCEPTION),
        }
    }
    match all.is_empty() {
        true => to(EXCEPTION),
        false => all,
    }
}
