//! Known state of the kernel, and its changes by messages.

use super::super::collector::Collector;
use super::super::counts::Counts;
use super::super::links::Links;
use super::super::model::{Model, Source};
use super::super::neighbours::Neighbours;
use super::super::rules::Rules;
use forwarding::Kernel;
use forwarding::RouteBound;
use std::collections::HashSet;
use std::sync::Arc;
use tracing::warn;
use wire::BadHeader;
use wire::netlink::{
    AF_INET, AF_INET6, AF_MPLS, Change, Event, Link, Message, NLM_F_MULTI, Netconf,
};

/// Known state of the kernel, and the mirrors that it is written to.
pub(super) struct State {
    pub(super) kernel: Arc<Kernel>,
    /// Collector that gets the routes in place of the kernel's image; it knows all links by name.
    collector: Option<Arc<Collector>>,
    /// Maximum number of routes.
    bound: Arc<RouteBound>,
    pub(super) counts: Arc<Counts>,
    pub(super) model: Model,
    pub(super) links: Links,
    pub(super) neighbours: Neighbours,
    pub(super) rules: Rules,
    /// True if the kernel has MPLS.
    pub(super) has_mpls: bool,
    /// True if the mirror's labels are complete, except for pending changes.
    knows_labels: bool,
    /// Size of the kernel's smaller neighbour table (IPv4 or IPv6), in entries; `None` if unknown.
    pub(super) neighbours_max: Option<u32>,
    /// Types of unreadable messages that were logged, so that each is logged once.
    unreadable_types: HashSet<u16>,
    /// True if a full table was logged, so that it is logged once.
    full_logged: bool,
    /// Number of routes beyond the bound, and true if this was logged.
    left_out: (u64, bool),
    /// Names of counters of ignored properties that were logged, each once.
    logged_properties: HashSet<&'static str>,
    /// Interfaces on which forwarding is disabled, with their address family.
    not_forwarding: HashSet<(u8, u32)>,
}

impl State {
    /// Empty state. With `daemon`, a routing daemon sends routes by FPM.
    pub(super) fn new(
        (kernel, bound): (Arc<Kernel>, Arc<RouteBound>),
        counts: Arc<Counts>,
        daemon: bool,
    ) -> State {
        State {
            kernel,
            collector: None,
            bound,
            counts,
            model: Model::new(daemon),
            links: Links::default(),
            neighbours: Neighbours::default(),
            rules: Rules::default(),
            has_mpls: false,
            knows_labels: false,
            neighbours_max: None,
            unreadable_types: HashSet::new(),
            full_logged: false,
            left_out: (0, false),
            logged_properties: HashSet::new(),
            not_forwarding: HashSet::new(),
        }
    }

    /// Empty state whose routes a collector gets.
    pub(super) fn collecting(collector: Arc<Collector>, counts: Arc<Counts>) -> State {
        let kernel = Arc::clone(collector.kernel());
        State {
            collector: Some(collector),
            ..State::new((kernel, Arc::default()), counts, false)
        }
    }

    /// Records that the complete state is known.
    pub(super) fn synced(&self) {
        self.counts.synced.set(1);
        if let Some(collector) = &self.collector {
            collector.set_complete();
        }
    }

    /// Applies a changed limit of routes.
    pub(super) fn follow_bound(&mut self) {
        self.model.set_object_limit(self.bound.get());
    }

    /// Processes a message. Returns true if it could be parsed.
    pub(super) fn process(&mut self, message: &Message<'_>) -> bool {
        self.counts.messages.add(1);
        let event = match message.event() {
            Ok(event) => event,
            Err(why) => return self.leave_out(message.kind, why),
        };
        match event {
            Event::Route(change, route) => {
                self.model
                    .route(Source::Kernel, message.flags, change, &route);
            }
            Event::Neighbour(change, neighbour) => {
                self.neighbours.process(&self.links, change, &neighbour);
            }
            Event::NeighbourTable(table) => {
                let places = [self.neighbours_max, table.entries_max];
                self.neighbours_max = places.into_iter().flatten().min();
            }
            Event::Nexthop(change, nexthop) => {
                self.model.nexthop(Source::Kernel, change, &nexthop);
            }
            Event::Address(change, address) => {
                self.model.address(change, address.family == AF_INET);
            }
            Event::Link(change, link) => {
                self.name(&link);
                let number = |links: &Links| links.interface(link.index).map(|i| i.number());
                let had = number(&self.links);
                match self.links.process(change, &link) {
                    Some(None) => self.link_gone(link.index),
                    Some(state) => self.model.link(link.index, state),
                    None => {}
                }
                if number(&self.links) != had {
                    self.neighbours.tell_all(&self.links, link.index);
                }
            }
            Event::Rule(_, rule) if message.flags & NLM_F_MULTI != 0 => self.rules.process(&rule),
            Event::Rule(..) => self.rules.stale = true,
            Event::Netconf(change, netconf) => self.set(change, &netconf),
            Event::Done(_) | Event::Error(_) | Event::Other => {}
        }
        true
    }

    /// Creates an interface for a link without one, if a collector needs routes over all links.
    fn name(&mut self, link: &Link<'_>) {
        let Some(name) = std::str::from_utf8(link.name)
            .ok()
            .filter(|_| self.collector.is_some())
        else {
            return;
        };
        if self.kernel.interface(name).is_some() && self.links.is_outdated(&self.kernel) {
            self.renumber();
        }
    }

    /// Applies a setting of an interface.
    fn set(&mut self, change: Change, netconf: &Netconf) {
        let ignores = match change {
            Change::New => netconf.ignores_linkdown,
            Change::Gone => Some(false),
        };
        if netconf.family == AF_MPLS {
            let input = netconf.input.filter(|_| change == Change::New);
            self.links
                .set_takes_labels(netconf.interface, input.unwrap_or(false));
            if !std::mem::replace(&mut self.has_mpls, true) {
                self.model.doubt_labels();
            }
        }
        let forwards = match change {
            Change::New => netconf.forwards,
            Change::Gone => Some(true),
        };
        let of = (netconf.family, netconf.interface);
        match (forwards, netconf.family) {
            (Some(false), AF_INET | AF_INET6) => drop(self.not_forwarding.insert(of)),
            (Some(true), _) => drop(self.not_forwarding.remove(&of)),
            _ => {}
        }
        if let (Some(ignores), AF_INET | AF_INET6) = (ignores, netconf.family) {
            let is4 = netconf.family == AF_INET;
            self.model.ignore_linkdown(is4, netconf.interface, ignores);
        }
    }

    /// Counts a message that could not be parsed, and schedules a dump. Returns false.
    pub(super) fn leave_out(&mut self, kind: u16, why: BadHeader) -> bool {
        self.counts.bad_messages.add(1);
        if self.unreadable_types.insert(kind) {
            warn!(
                kind,
                "a message of the kernel cannot be read ({why}); it and others of its type are left out"
            );
        }
        false
    }

    pub(super) fn link_gone(&mut self, index: u32) {
        self.neighbours.remove_link(index);
        self.model.link(index, None);
    }

    /// Matches links to interfaces again, after the configuration has named other interfaces.
    pub(super) fn renumber(&mut self) {
        for (index, state) in self.links.renumber(&self.kernel) {
            self.model.link(index, Some(state));
            self.neighbours.tell_all(&self.links, index);
        }
        self.flush();
    }

    /// Writes pending changes to the mirror.
    pub(super) fn flush(&mut self) {
        if let Some(labels) = self.kernel.labels() {
            let is_new = !std::mem::replace(&mut self.knows_labels, true);
            self.model.flush_labels(labels, is_new);
        }
        let flushed = match &self.collector {
            Some(collector) => self.model.flush(&**collector, &**collector),
            None => {
                let (Ok(v4), Ok(v6)) = (self.kernel.routes4(), self.kernel.routes6()) else {
                    return;
                };
                self.model.flush(v4, v6)
            }
        };
        match flushed {
            Ok(_) => self.full_logged = false,
            Err(_) => {
                self.counts.full.add(1);
                if !std::mem::replace(&mut self.full_logged, true) {
                    warn!(
                        "a table of routes is full: packets are forwarded by the routes in it only"
                    );
                }
            }
        }
        self.count();
        self.log_left_out();
        self.log_ignored();
    }

    /// Logs ignored properties of routes, once per kind.
    fn log_ignored(&mut self) {
        let counts = self.model.counts();
        let kinds = [
            (
                "route_mtu",
                counts.route_mtu,
                "a route has an MTU of its own: forwarded packets do not heed it",
                "set the MTU of the interface, or put an IPFragmenter on the way of these packets",
            ),
            (
                "other_table",
                counts.other_table,
                "there is a route in another table than `main`: no packet is forwarded by it",
                "have the daemon put it into table `main`, or give each VRF a router of its own (docs/routers.md)",
            ),
            (
                "selective",
                counts.selective,
                "there is a route for some sources or traffic classes only: no packet is forwarded by it",
                "tell such packets apart in the configuration, for example with IPClassifier",
            ),
        ];
        for (count, seen, what, to_do) in kinds {
            if seen > 0 && self.logged_properties.insert(count) {
                warn!(to_do, "{what} (`{count}` of `ashlar show netlink` counts)");
            }
        }
    }

    /// Logs that routes are left out; once until all fit again.
    fn log_left_out(&mut self) {
        let (before, said) = self.left_out;
        let now = self.model.counts().left_out;
        if now > before && !said {
            let most = self.bound.get();
            warn!(
                most,
                "the router has as many routes as it may have (`routes`): others are left out, and packets to them \
                 take the way of a shorter prefix, or go to the kernel"
            );
        }
        self.left_out = (now, now > before || said && !self.model.has_room());
    }

    fn count(&self) {
        let counts = &self.counts;
        let (routes4, routes6) = self.model.len();
        let (links, used) = self.links.count();
        let left_out = self.model.counts();
        counts.routes4.set(routes4);
        counts.routes6.set(routes6);
        counts.labels.set(self.model.labels_len());
        counts.nexthops.set(self.model.objects_len());
        counts.links.set(links);
        counts.links_used.set(used);
        counts.neighbours.set(self.neighbours.len());
        counts.model_bytes.set(self.model.memory_bytes());
        counts.other_table.set(left_out.other_table as usize);
        counts.route_mtu.set(left_out.route_mtu as usize);
        let not_forwarding = self.not_forwarding.iter();
        let ours = not_forwarding.filter(|(_, index)| self.links.interface(*index).is_some());
        counts.not_forwarding.set(ours.count());
        counts.selective.set(left_out.selective as usize);
        counts.no_group.set(left_out.no_group as usize);
        counts.no_room.set(left_out.no_room as usize);
        counts.left_out.set(left_out.left_out as usize);
    }
}
