//! Objects on which routes depend: links, and next-hop objects and groups.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use forwarding::{BLACKHOLE, EXCEPTION, FORWARDED, Member};
use wire::mpls::Labels;
use wire::netlink::{NETCONF_ALL, Nexthop, RTNH_F_DEAD};

use super::Source;

/// State of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Number of the interface with the link's name ([`Member::port`]); `None` if the configuration has none.
    pub number: Option<u16>,
    /// Administrative state: true if `IFF_UP` is set.
    pub up: bool,
    /// True if the link has a carrier.
    pub carrier: bool,
}

/// A next hop of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hop {
    pub(super) interface: u32,
    pub(super) gateway: Option<IpAddr>,
    pub(super) weight: u16,
    /// True if the hop was reported dead although its link was up.
    pub(super) dead: bool,
    /// MPLS labels to push. `None`: another encapsulation, which only the kernel can add.
    pub(super) labels: Option<Labels>,
}

impl Hop {
    /// Link index and gateway of the hop.
    pub(super) fn link_and_gateway(&self) -> (u32, Option<IpAddr>) {
        (self.interface, self.gateway)
    }
}

/// Hashes as few words as possible, because each message about a route is hashed.
impl Hash for Hop {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let flags = u64::from(self.dead) << 1 | u64::from(self.labels.is_none());
        let rest = u64::from(self.interface) << 32 | u64::from(self.weight) << 2 | flags;
        state.write_u64(rest);
        match self.gateway {
            Some(IpAddr::V4(ip)) => state.write_u64(1 << 32 | u64::from(ip.to_bits())),
            Some(IpAddr::V6(ip)) => {
                state.write_u64((ip.to_bits() >> 64) as u64);
                state.write_u64(ip.to_bits() as u64);
            }
            None => {}
        }
        if self.labels.is_some_and(|labels| !labels.is_empty()) {
            self.labels.hash(state);
        }
    }
}

/// Number of a next-hop object, and its owner: 0 for the kernel, otherwise the daemon's connection, since a restarted
/// daemon reuses numbers.
pub(super) type ObjectId = (u32, u32);

const KERNEL: u32 = 0;

/// Content of a next-hop object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Object {
    One(Hop),
    Blackhole,
    /// Member objects with their weights.
    Group(Box<[(u32, u16)]>),
}

/// Usability of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Dead,
    /// The link has no carrier, and the setting `ignore_routes_with_linkdown` excludes the hop.
    Excluded,
    /// The link has no carrier: the hop is used only if no hop has one.
    LastResort,
    Usable,
}

/// Links and next-hop objects.
#[derive(Debug, Default)]
pub(super) struct LinksAndHops {
    links: HashMap<u32, Link>,
    /// Links with `ignore_routes_with_linkdown`; the flag is true for IPv4.
    ignoring: HashSet<(bool, u32)>,
    /// Next-hop objects, each with the number of the last dump that contained it.
    objects: HashMap<ObjectId, (Object, u32)>,
    sync: u32,
    pub(super) syncing: bool,
    /// Number of daemon connections so far.
    connection: u32,
    removed: Vec<ObjectId>,
    /// Objects that were removed with their link's carrier, until a dump shows that the kernel did so, too.
    lost: HashSet<ObjectId>,
}

impl LinksAndHops {
    /// Sets the state of a link. Returns the previous state.
    pub(super) fn set_link(&mut self, index: u32, link: Option<Link>) -> Option<Link> {
        match link {
            Some(link) => self.links.insert(index, link),
            None => {
                self.ignoring.retain(|ignoring| ignoring.1 != index);
                self.links.remove(&index)
            }
        }
    }

    /// Sets `ignore_routes_with_linkdown` of a link. Returns true if it has changed.
    pub(super) fn set_ignoring(&mut self, is4: bool, index: u32, ignores: bool) -> bool {
        match ignores {
            true => self.ignoring.insert((is4, index)),
            false => self.ignoring.remove(&(is4, index)),
        }
    }

    /// True if routes over a link are ignored for lack of carrier.
    fn is_asleep(&self, is4: bool, index: u32, link: Link) -> bool {
        let ignores = |index| self.ignoring.contains(&(is4, index));
        // For IPv6, the kernel changes each link when the setting for all changes.
        !link.carrier && (ignores(index) || (is4 && ignores(NETCONF_ALL)))
    }

    /// Links whose routes are ignored for lack of carrier.
    pub(super) fn links_without_carrier(&self, is4: bool) -> HashSet<u32> {
        if self.ignoring.is_empty() {
            return HashSet::new();
        }
        let asleep = self.links.iter();
        let asleep = asleep.filter(|(index, link)| self.is_asleep(is4, **index, **link));
        asleep.map(|(index, _)| *index).collect()
    }

    /// Converts a hop. The kernel does not report when a hop dies, so the flag `dead` is kept only if the link's state
    /// does not explain it.
    pub(super) fn hop(&self, is4: bool, hop: &wire::netlink::Hop) -> Hop {
        let index = hop.interface;
        let awake = |link: &Link| link.up && !self.is_asleep(is4, index, *link);
        Hop {
            interface: hop.interface,
            gateway: hop.gateway,
            weight: hop.weight,
            dead: hop.flags & RTNH_F_DEAD != 0 && self.links.get(&index).is_some_and(awake),
            labels: hop.labels,
        }
    }

    /// Owner of next-hop objects from a source.
    pub(super) fn owner(&self, source: Source) -> u32 {
        match source {
            Source::Kernel => KERNEL,
            Source::Fpm => self.connection,
        }
    }

    /// Returns true if the object was thought lost with its link's carrier: the kernel has kept it.
    pub(super) fn set_object(&mut self, source: Source, nexthop: &Nexthop<'_>) -> bool {
        let object = if nexthop.is_group() {
            let weight = |weight: u32| u16::try_from(weight).unwrap_or(u16::MAX);
            let members = nexthop.members();
            Object::Group(members.map(|m| (m.id, weight(m.weight))).collect())
        } else if nexthop.blackhole {
            Object::Blackhole
        } else {
            Object::One(Hop {
                interface: nexthop.interface,
                gateway: nexthop.gateway,
                weight: 1,
                dead: false,
                labels: nexthop.labels,
            })
        };
        let id = (self.owner(source), nexthop.id);
        self.objects.insert(id, (object, self.sync));
        self.lost.remove(&id)
    }

    /// True if a next-hop object is known.
    pub(super) fn has_object(&self, source: Source, id: u32) -> bool {
        self.objects.contains_key(&(self.owner(source), id))
    }

    /// Removes a next-hop object, and groups whose last member it was.
    pub(super) fn remove_object(&mut self, source: Source, id: u32) {
        self.remove_all(HashSet::from([(self.owner(source), id)]));
    }

    /// Removes objects, then groups left without a member; each round is one pass over all objects.
    fn remove_all(&mut self, mut ids: HashSet<ObjectId>) {
        while !ids.is_empty() {
            // Routes may use an unknown object, so unknown ones are also recorded as removed.
            ids.iter().for_each(|id| drop(self.objects.remove(id)));
            self.removed.extend(&ids);
            let mut emptied = HashSet::new();
            for (&(owner, group), (object, _)) in &mut self.objects {
                let Object::Group(members) = object else {
                    continue;
                };
                if members.iter().any(|(id, _)| ids.contains(&(owner, *id))) {
                    let left = members
                        .iter()
                        .filter(|(id, _)| !ids.contains(&(owner, *id)));
                    *members = left.copied().collect();
                    if members.is_empty() {
                        emptied.insert((owner, group));
                    }
                }
            }
            ids = emptied;
        }
    }

    fn remove_where(&mut self, which: impl Fn(&ObjectId, &Object, u32) -> bool) -> bool {
        let objects = self.objects.iter();
        let removed = objects.filter(|(id, (object, seen))| which(id, object, *seen));
        let removed: HashSet<ObjectId> = removed.map(|(id, _)| *id).collect();
        let any = !removed.is_empty();
        self.remove_all(removed);
        any
    }

    /// Removes the next-hop objects on a link, as the kernel does. Returns true if there were any.
    pub(super) fn lose_objects(&mut self, index: u32) -> bool {
        let removed_before = self.removed.len();
        let any = self.remove_where(|id, object, _| {
            id.0 == KERNEL && matches!(object, Object::One(hop) if hop.interface == index)
        });
        self.lost.extend(&self.removed[removed_before..]);
        any
    }

    /// Returns the next-hop objects removed since the last call.
    pub(super) fn take_gone(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.removed)
    }

    /// Begins a dump of next-hop objects. `used` are the objects that routes use.
    pub(super) fn begin_sync(&mut self, source: Source, used: impl Iterator<Item = ObjectId>) {
        match source {
            Source::Kernel => {
                self.sync = self.sync.wrapping_add(1);
                self.syncing = true;
            }
            Source::Fpm => {
                self.connection += 1;
                self.remove_unused(used.collect());
            }
        }
    }

    /// Removes daemons' objects without routes. This bounds their number, however often daemons connect.
    fn remove_unused(&mut self, mut used: HashSet<ObjectId>) {
        let groups: Vec<ObjectId> = used.iter().copied().collect();
        for (owner, id) in groups {
            if let Some((Object::Group(members), _)) = self.objects.get(&(owner, id)) {
                used.extend(members.iter().map(|(member, _)| (owner, *member)));
            }
        }
        self.objects
            .retain(|id, _| id.0 == KERNEL || used.contains(id));
    }

    pub(super) fn end_sync(&mut self, source: Source) {
        let (sync, connection) = (self.sync, self.connection);
        match source {
            Source::Kernel => {
                self.syncing = false;
                self.remove_where(|id, _, seen| id.0 == KERNEL && seen != sync);
                self.lost.clear();
            }
            Source::Fpm => {
                self.remove_where(|id, _, _| id.0 != KERNEL && id.0 != connection);
            }
        }
    }

    pub(super) fn objects_len(&self) -> usize {
        self.objects.len()
    }

    fn health(&self, is4: bool, hop: &Hop) -> Health {
        match self.links.get(&hop.interface) {
            _ if hop.dead => Health::Dead,
            Some(link) if !link.up => Health::Dead,
            Some(link) if self.is_asleep(is4, hop.interface, *link) => Health::Excluded,
            Some(link) if !link.carrier => Health::LastResort,
            _ => Health::Usable,
        }
    }

    /// True if a link was removed or is administratively down.
    pub(super) fn is_down(&self, index: u32) -> bool {
        !self.links.get(&index).is_some_and(|link| link.up)
    }

    /// True if the kernel would remove a route with these hops.
    pub(super) fn all_dead(&self, is4: bool, hops: &[Hop]) -> bool {
        !hops.is_empty() && hops.iter().all(|hop| self.health(is4, hop) == Health::Dead)
    }

    /// True if the kernel ignores a route with these hops, but keeps it.
    pub(super) fn all_asleep(&self, is4: bool, hops: &[Hop]) -> bool {
        let best = hops.iter().map(|hop| self.health(is4, hop)).max();
        best == Some(Health::Excluded)
    }

    /// Interface number of a link.
    pub(super) fn number(&self, index: u32) -> Option<u16> {
        self.links.get(&index).and_then(|link| link.number)
    }

    /// Usable hops of a labelled route.
    pub(super) fn usable_hops<'h>(&self, hops: &'h [Hop]) -> impl Iterator<Item = &'h Hop> {
        let health = |hop: &Hop| {
            let is4 = !matches!(hop.gateway, Some(IpAddr::V6(_)));
            self.health(is4, hop)
        };
        let best = hops.iter().map(health).max();
        let best = best.filter(|best| *best > Health::Excluded);
        hops.iter().filter(move |hop| Some(health(hop)) == best)
    }

    /// Appends the group members for these hops.
    pub(super) fn members(&self, is4: bool, hops: &[Hop], members: &mut Vec<Member>) {
        members.clear();
        let best = hops.iter().map(|hop| self.health(is4, hop)).max();
        let Some(best) = best.filter(|best| *best > Health::Excluded) else {
            return members.push(port_member(EXCEPTION));
        };
        for hop in hops.iter().filter(|hop| self.health(is4, hop) == best) {
            let number = self.number(hop.interface);
            let (Some(port), Some(labels)) = (number, hop.labels) else {
                // The kernel sends some flows over another hop, so all packets go to the kernel.
                members.clear();
                return members.push(port_member(FORWARDED));
            };
            members.push(Member {
                gateway: hop.gateway,
                port,
                labels,
                weight: hop.weight,
            });
        }
    }

    /// Appends the group members for a next-hop object. Packets to an unknown object go to the kernel.
    pub(super) fn object_members(&self, is4: bool, id: ObjectId, members: &mut Vec<Member>) {
        members.clear();
        match self.objects.get(&id).map(|(object, _)| object) {
            None => members.push(port_member(EXCEPTION)),
            Some(Object::Blackhole) => members.push(port_member(BLACKHOLE)),
            Some(Object::One(hop)) => self.members(is4, &[*hop], members),
            Some(Object::Group(group)) => {
                let mut hops = Vec::with_capacity(group.len());
                for (member, weight) in group {
                    match self.objects.get(&(id.0, *member)).map(|(object, _)| object) {
                        Some(Object::One(hop)) => hops.push(Hop {
                            weight: *weight,
                            ..*hop
                        }),
                        // A blackhole is always the only member of its group.
                        Some(Object::Blackhole) => return members.push(port_member(BLACKHOLE)),
                        // The kernel has no nested groups.
                        Some(Object::Group(_)) | None => {
                            return members.push(port_member(EXCEPTION));
                        }
                    }
                }
                self.members(is4, &hops, members);
            }
        }
    }
}

/// Group member for a port without a next hop.
pub(super) fn port_member(port: u16) -> Member {
    Member {
        gateway: None,
        port,
        labels: Labels::NONE,
        weight: 1,
    }
}
