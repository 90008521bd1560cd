//! Model of the kernel's routes: netlink messages in, changes of a forwarding table out.
//!
//! Pure: no IO, no clock. [`Model::route`], [`Model::nexthop`] and [`Model::link`] take decoded messages.
//! [`Model::flush`] brings changes since the last call to a [`ForwardingTable`], groups before the prefixes that use
//! them. Each distinct path set (a set of hops, a next-hop object, "local") has one group; when a link or an object
//! changes, groups change and no prefix is touched.
//!
//! # The kernel's choice, and its silence
//!
//! Among the routes to a prefix, table `local` comes before `main`, then the lowest metric, then the kernel's own
//! order. IPv4 keeps routes of one metric in a list (`ip route append` and `prepend`). IPv6 combines those with
//! gateways into one multipath route, and keeps the others in sequence. When a link goes down, the kernel removes some
//! routes without a message: IPv4 routes that have no other hop, and next-hop objects with all their routes (next-hop
//! objects also when the carrier is lost). IPv4 hops of multipath routes are dead until the link returns. The model
//! derives this, so that a lost link costs no dump of routes. A carrier that soon returns may be lost to those who hear
//! of it, and not to the kernel's routes: so next-hop objects are dumped, and if some of them have stayed, all routes.
//! Losses that cannot be derived (routes lost with an address or an
//! interface) are a [`StaleParts`]: the kernel must be asked again. This behaviour was observed with
//! `ip monitor` on Linux 6.18.
//!
//! # Synchronisation
//!
//! Call [`Model::begin_sync`], then pass all messages of a dump, then call [`Model::end_sync`]: routes that were not
//! named are removed, and only differences reach the image. Pass messages that other sockets received during a dump
//! after it: they are then newer than the dump, or contained in it.

mod candidates;
mod family;
mod hash;
mod labels;
mod next_hops;
mod object_limit;
mod path_sets;
mod paths;

#[cfg(test)]
mod tests;

use forwarding::{Full, GroupError, GroupId, Member, Prefix};
use wire::netlink::{Change, NLM_F_APPEND, NLM_F_MULTI, NLM_F_REPLACE, Nexthop, Route};
use wire::netlink::{TABLE_LOCAL, TABLE_MAIN};

use candidates::RouteAction;
use family::Family;
use labels::LabelRoutes;
use next_hops::LinksAndHops;
use object_limit::Bound;
use paths::Class;

pub use labels::LabelImage;
pub use next_hops::Link;

/// Route protocol `RTPROT_KERNEL`: the kernel has added the route with an address.
const BY_KERNEL: u8 = 2;
/// Route protocol `RTPROT_RA`: the kernel has added the route after a router advertisement.
const BY_ADVERTISEMENT: u8 = 9;

/// Forwarding table that mirrors the model.
pub trait ForwardingTable<const N: usize> {
    /// Adds a group of next hops; the model counts its routes.
    fn add_group(&self, members: &[Member]) -> Result<GroupId, GroupError>;
    /// Replaces the members of groups for all their prefixes at once. The error reports an impossible change; the
    /// others take effect.
    fn change_groups(&self, changes: &[(GroupId, &[Member])]) -> Result<(), GroupError>;
    /// Removes a group that no prefix uses.
    fn remove_group(&self, id: GroupId);
    /// Sets or removes (`None`) the groups of prefixes, and publishes all together.
    ///
    /// # Errors
    ///
    /// The table is full. The changes remain staged, and the next call publishes them.
    fn apply(&self, changes: &[(Prefix<N>, Option<GroupId>)]) -> Result<(), Full>;
}

impl<const N: usize> ForwardingTable<N> for forwarding::Routes<N> {
    fn add_group(&self, members: &[Member]) -> Result<GroupId, GroupError> {
        self.add_group(members)
    }

    fn change_groups(&self, changes: &[(GroupId, &[Member])]) -> Result<(), GroupError> {
        self.change_groups(changes.iter().copied())
    }

    fn remove_group(&self, id: GroupId) {
        self.remove_group(id);
    }

    fn apply(&self, changes: &[(Prefix<N>, Option<GroupId>)]) -> Result<(), Full> {
        self.apply(changes)
    }
}

/// Origin of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The kernel, by netlink.
    Kernel,
    /// A routing daemon, by FPM.
    Fpm,
}

/// Part of the state that can be dumped separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Next-hop objects and groups, which precede the routes that use them.
    Nexthops,
    /// IPv4 routes.
    Routes4,
    /// IPv6 routes.
    Routes6,
    /// MPLS routes.
    Labels,
}

impl Part {
    /// All parts in the order of dumps: next hops before the routes that use them.
    pub const ALL: [Part; 4] = [Part::Nexthops, Part::Routes4, Part::Routes6, Part::Labels];
}

/// Parts of the state that need a new dump.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StaleParts {
    /// Next-hop objects and groups.
    pub nexthops: bool,
    /// IPv4 routes.
    pub routes4: bool,
    /// IPv6 routes.
    pub routes6: bool,
    /// MPLS routes.
    pub labels: bool,
}

impl StaleParts {
    /// All parts.
    pub const ALL: StaleParts = StaleParts {
        nexthops: true,
        routes4: true,
        routes6: true,
        labels: true,
    };

    /// True if any part is in doubt.
    pub fn any(&self) -> bool {
        *self != StaleParts::default()
    }
}

/// Counters of routes that were ignored or did not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages about routes in other tables.
    pub other_table: u64,
    /// Messages about routes that depend on a traffic class or source address.
    pub selective: u64,
    /// Messages about routes with their own MTU.
    pub route_mtu: u64,
    /// Paths refused a group by the forwarding table, so that their packets go to the kernel.
    pub no_group: u64,
    /// Routes that did not fit into the model.
    pub no_room: u64,
    /// Routes and next-hop objects beyond the maximum number.
    pub left_out: u64,
}

/// Result of [`Model::flush`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Number of prefixes written to the forwarding table.
    pub prefixes: usize,
    /// Number of changed groups.
    pub groups: usize,
}

/// Model of the kernel's routing state; see the [module](self).
#[derive(Debug)]
pub struct Model {
    links_and_hops: LinksAndHops,
    v4: Family<4>,
    v6: Family<16>,
    labels: LabelRoutes,
    /// True if a routing daemon's routes replace the table `main`.
    fpm: bool,
    stale_parts: StaleParts,
    /// True after a link with IPv6 routes went down. The kernel reports each removed route, unless
    /// `net.ipv6.route.skip_notify_on_dev_down` is set.
    flushing_ipv6: bool,
    /// Maximum number of next-hop objects.
    objects: Bound,
    counts: Counts,
}

impl Model {
    /// Empty model. With `fpm`, the table `main` comes from [`Source::Fpm`], except for routes that the kernel itself
    /// has added.
    pub fn new(fpm: bool) -> Self {
        Model {
            links_and_hops: LinksAndHops::default(),
            v4: Family::new(),
            v6: Family::new(),
            labels: LabelRoutes::default(),
            fpm,
            stale_parts: StaleParts::default(),
            flushing_ipv6: false,
            objects: Bound::default(),
            counts: Counts::default(),
        }
    }

    /// Sets the maximum number of routes per family, of labels and of next-hop objects. Existing ones stay. Excess ones
    /// are left out, and dumped again when there is room.
    pub fn set_object_limit(&mut self, limit: usize) {
        let [v4, v6] = [&mut self.v4.bound, &mut self.v6.bound];
        for bound in [v4, v6, &mut self.labels.bound, &mut self.objects] {
            bound.set(limit);
        }
    }

    /// Processes a message about a route, with the flags of its header.
    pub fn route(&mut self, source: Source, flags: u16, change: Change, route: &Route<'_>) {
        if let Some(label) = route.label {
            // A daemon's routes replace the kernel's.
            if (source == Source::Fpm) == self.fpm {
                let links_and_hops = &self.links_and_hops;
                self.labels
                    .route(links_and_hops, source, change, label, route);
            }
            return;
        }
        let Some(class) = self.class(source, route) else {
            return;
        };
        let how = match flags {
            _ if change == Change::Gone => RouteAction::Removed,
            _ if flags & NLM_F_MULTI != 0 => RouteAction::Exists,
            _ if flags & NLM_F_REPLACE != 0 => RouteAction::Replace,
            _ if flags & NLM_F_APPEND != 0 => RouteAction::Append,
            _ => RouteAction::Prepend,
        };
        let links_and_hops = &self.links_and_hops;
        if let Some(prefix) = route.prefix4() {
            let sure = self
                .v4
                .route(links_and_hops, class, how, prefix.into(), route);
            self.stale_parts.routes4 |= !sure;
        } else if let Some(prefix) = route.prefix6() {
            let sure = self
                .v6
                .route(links_and_hops, class, how, prefix.into(), route);
            self.stale_parts.routes6 |= !sure;
        }
    }

    /// Class of a route; `None` if the route is ignored.
    fn class(&mut self, source: Source, route: &Route<'_>) -> Option<Class> {
        if route.flags & wire::netlink::RTM_F_CLONED != 0 {
            return None;
        }
        if route.tos != 0 || route.src_len != 0 {
            self.counts.selective += 1;
            return None;
        }
        self.counts.route_mtu += u64::from(route.mtu > 0 && route.table == TABLE_MAIN);
        let own = matches!(route.protocol, BY_KERNEL | BY_ADVERTISEMENT);
        match (source, route.table) {
            (Source::Fpm, TABLE_MAIN | 0) => Some(Class::Fpm),
            (Source::Kernel, TABLE_LOCAL) => Some(Class::Local),
            (Source::Kernel, TABLE_MAIN) if own || !self.fpm => Some(Class::Main),
            (Source::Kernel, TABLE_MAIN) => None,
            _ => {
                self.counts.other_table += 1;
                None
            }
        }
    }

    /// Processes a message about a next-hop object or group.
    pub fn nexthop(&mut self, source: Source, change: Change, nexthop: &Nexthop<'_>) {
        if nexthop.bridge {
            return;
        }
        match change {
            Change::New if self.is_beyond(source, nexthop) => {
                self.objects.leave_out(true);
                return;
            }
            Change::New => {
                if self.links_and_hops.set_object(source, nexthop) {
                    self.stale_parts.routes4 = true;
                    self.stale_parts.routes6 = true;
                }
            }
            Change::Gone => self.links_and_hops.remove_object(source, nexthop.id),
        }
        self.follow_world();
    }

    /// True if there is room for another object of each kind.
    pub fn has_room(&self) -> bool {
        self.v4.bound.has_room(self.v4.count())
            && self.v6.bound.has_room(self.v6.count())
            && self.labels.bound.has_room(self.labels.len())
            && self.objects.has_room(self.links_and_hops.objects_len())
    }

    /// True if a next-hop object exceeds the maximum number. A daemon's objects do not count: after a reconnection, its
    /// old ones remain until its state is complete.
    fn is_beyond(&self, source: Source, nexthop: &Nexthop<'_>) -> bool {
        source == Source::Kernel
            && !self.objects.has_room(self.links_and_hops.objects_len())
            && !self.links_and_hops.has_object(source, nexthop.id)
    }

    /// Sets the state of a link; `None` if the link was removed. Call it for each message about the link, and when its
    /// interface number changes.
    pub fn link(&mut self, index: u32, link: Option<Link>) {
        let was = self.links_and_hops.set_link(index, link);
        let (was_up, is_up) = (was.is_some_and(|l| l.up), link.is_some_and(|l| l.up));
        let lost = was.is_some_and(|l| l.carrier) && !link.is_some_and(|l| l.carrier);
        let found = was.is_some_and(|l| !l.carrier) && link.is_some_and(|l| l.carrier);
        if was_up && !is_up {
            self.v4.link_down(&self.links_and_hops, index);
            self.flushing_ipv6 |= self.v6.goes_by(index);
        }
        // The kernel acts on the loss of a carrier up to a second later, without a message: an earlier message may have
        // come before, so that a dump found the objects again.
        let unusable = link.is_none_or(|l| !l.up || !l.carrier);
        let removed = unusable && self.links_and_hops.lose_objects(index);
        self.stale_parts.nexthops |= removed;
        if (was_up && !is_up) || lost || removed {
            // A dump in progress may contain routes from before this change.
            let syncing =
                self.links_and_hops.syncing || self.v4.is_syncing() || self.v6.is_syncing();
            if link.is_none() || syncing {
                self.stale_parts = StaleParts::ALL;
            }
        }
        if is_up && (found || (!was_up && was.is_some())) {
            self.stale_parts.routes4 |= self.v4.has_dead_hops();
            self.stale_parts.routes6 |=
                self.v6.has_dead_hops() || (self.flushing_ipv6 && self.v6.goes_by(index));
        }
        self.follow_world();
    }

    /// Sets whether routes over a link (or all links: `NETCONF_ALL`) are ignored while it has no carrier.
    pub fn ignore_linkdown(&mut self, is4: bool, index: u32, ignores: bool) {
        if self.links_and_hops.set_ignoring(is4, index, ignores) {
            self.follow_world();
        }
    }

    /// Marks labels for a dump: the kernel has just loaded MPLS, so earlier messages are incomplete.
    pub fn doubt_labels(&mut self) {
        self.stale_parts.labels = true;
    }

    /// Processes a change of a link's address. A removed address may remove routes; a new one may revive next hops.
    pub fn address(&mut self, change: Change, is4: bool) {
        if is4 {
            self.stale_parts.routes4 |= change == Change::Gone || self.v4.has_dead_hops();
        } else {
            self.stale_parts.routes6 |= self.v6.has_dead_hops();
        }
    }

    /// Removes paths over removed objects, and updates groups.
    fn follow_world(&mut self) {
        for object in self.links_and_hops.take_gone() {
            self.v4.object_gone(object);
            self.v6.object_gone(object);
        }
        self.v4.mark_stale();
        self.v6.mark_stale();
        self.labels.mark_stale();
    }

    /// Begins a dump of a part, or begins it again after a failure. A next-hop object that a
    /// daemon sends afterwards is another one than an earlier object with the same number. End the dump of a daemon's
    /// routes before that of its next hops.
    pub fn begin_sync(&mut self, source: Source, part: Part) {
        match part {
            Part::Nexthops => {
                let used = self.v4.objects().chain(self.v6.objects());
                self.links_and_hops.begin_sync(source, used);
            }
            Part::Routes4 => self.v4.begin_sync(source),
            Part::Routes6 => self.v6.begin_sync(source),
            Part::Labels => self.labels.begin_sync(source),
        }
        if source == Source::Kernel {
            match part {
                Part::Nexthops => {
                    self.stale_parts.nexthops = false;
                    self.objects.dump_started();
                }
                Part::Routes4 => self.stale_parts.routes4 = false,
                Part::Routes6 => (self.stale_parts.routes6, self.flushing_ipv6) = (false, false),
                Part::Labels => self.stale_parts.labels = false,
            }
        }
    }

    /// Ends a dump of a part: removes all objects that it did not contain.
    pub fn end_sync(&mut self, source: Source, part: Part) {
        match part {
            Part::Nexthops => {
                self.links_and_hops.end_sync(source);
                self.follow_world();
            }
            Part::Routes4 => self.v4.end_sync(source),
            Part::Routes6 => self.v6.end_sync(source),
            Part::Labels => self.labels.end_sync(source),
        }
    }

    /// Parts that need a new dump. A part is removed when its dump begins ([`Model::begin_sync`]).
    pub fn stale_parts(&self) -> StaleParts {
        let lacks_objects = self.objects.can_restore(self.links_and_hops.objects_len());
        StaleParts {
            nexthops: self.stale_parts.nexthops || lacks_objects,
            routes4: self.stale_parts.routes4 || self.v4.can_restore(),
            routes6: self.stale_parts.routes6 || self.flushing_ipv6 || self.v6.can_restore(),
            labels: self.stale_parts.labels || self.labels.can_restore(),
        }
    }

    /// Clears doubts that later messages have resolved. Call it after the kernel's pending messages, and before a dump.
    pub fn reconsider(&mut self) {
        self.flushing_ipv6 &= self.v6.has_lost(&self.links_and_hops);
    }

    /// Number of prefixes that wait for [`Model::flush`].
    pub fn pending(&self) -> usize {
        self.v4.pending() + self.v6.pending()
    }

    /// True if [`Model::flush`] has work: prefixes wait, or links or next-hop objects have changed.
    pub fn is_behind(&self) -> bool {
        self.v4.is_behind() || self.v6.is_behind()
    }

    /// Updates the forwarding tables.
    ///
    /// # Errors
    ///
    /// A table is full. Call again later, when it may have room.
    pub fn flush(
        &mut self,
        v4: &impl ForwardingTable<4>,
        v6: &impl ForwardingTable<16>,
    ) -> Result<Flushed, Full> {
        let mut flushed = Flushed::default();
        let first = self.v4.flush(&self.links_and_hops, v4, &mut flushed);
        let second = self.v6.flush(&self.links_and_hops, v6, &mut flushed);
        first.and(second).map(|()| flushed)
    }

    /// Writes changed labels to a table; all labels if the table `is_new`.
    pub fn flush_labels(&mut self, image: &impl LabelImage, is_new: bool) {
        if is_new {
            self.labels.mark_stale();
        }
        self.labels.flush(&self.links_and_hops, image);
    }

    /// Number of labels with a route.
    pub fn labels_len(&self) -> usize {
        self.labels.len()
    }

    /// Number of IPv4 and of IPv6 prefixes with a route.
    pub fn len(&self) -> (usize, usize) {
        (self.v4.len(), self.v6.len())
    }

    /// True if no prefix has a route.
    pub fn is_empty(&self) -> bool {
        self.len() == (0, 0)
    }

    /// Number of next-hop objects and groups, including those of a daemon's former connections.
    pub fn objects_len(&self) -> usize {
        self.links_and_hops.objects_len()
    }

    /// Counters of routes that were ignored or did not fit.
    pub fn counts(&self) -> Counts {
        Counts {
            no_group: self.v4.no_group() + self.v6.no_group(),
            no_room: self.v4.no_room() + self.v6.no_room(),
            left_out: [&self.v4.bound, &self.v6.bound]
                .into_iter()
                .chain([&self.labels.bound, &self.objects])
                .map(Bound::left_out)
                .sum(),
            ..self.counts
        }
    }

    /// Memory of the model in bytes, without next-hop objects and lists of hops.
    pub fn memory_bytes(&self) -> usize {
        self.v4.memory_bytes() + self.v6.memory_bytes()
    }
}
