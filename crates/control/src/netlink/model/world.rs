//! Objects on which routes depend: links, and next-hop objects and groups.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use elements::linux::{BLACKHOLE, EXCEPTION, FORWARDED, Member};
use wire::mpls::Labels;
use wire::netlink::{NETCONF_ALL, Nexthop, RTNH_F_DEAD};

use super::Source;

/// State of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The number of the configuration's interface of this name ([`Member::port`]); `None`: it has none.
    pub number: Option<u16>,
    /// Administrative state: true if `IFF_UP` is set.
    pub up: bool,
    /// True if the link has a carrier.
    pub carrier: bool,
}

/// A hop of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hop {
    pub(super) interface: u32,
    pub(super) gateway: Option<IpAddr>,
    pub(super) weight: u16,
    /// Though its link was up as far as we knew when we were told.
    pub(super) dead: bool,
    /// The labels that packets get; none: they get another header, which only the kernel can do.
    pub(super) labels: Option<Labels>,
}

impl Hop {
    /// Interface and gateway of the hop.
    pub(super) fn to(&self) -> (u32, Option<IpAddr>) {
        (self.interface, self.gateway)
    }
}

/// Hashes as few words as possible, as every message about a route is hashed.
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

/// Number of an object, and its owner: 0 for the kernel; otherwise a daemon's connection, since a restarted daemon
/// numbers its objects anew.
pub(super) type ObjectId = (u32, u32);

const KERNEL: u32 = 0;

/// A next-hop object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Object {
    One(Hop),
    Blackhole,
    /// Objects and their weights.
    Group(Box<[(u32, u16)]>),
}

/// Present state of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Dead,
    /// No carrier, and the operator wants the hop unused meanwhile (`ignore_routes_with_linkdown`).
    Asleep,
    /// No carrier: used only if all hops are so.
    Poor,
    Good,
}

/// Links and objects.
#[derive(Debug, Default)]
pub(super) struct World {
    links: HashMap<u32, Link>,
    /// Links whose routes are unused while they have no carrier; the flag is true for IPv4.
    ignoring: HashSet<(bool, u32)>,
    /// Objects, each with the number of the last sync that has seen it.
    objects: HashMap<ObjectId, (Object, u32)>,
    sync: u32,
    pub(super) syncing: bool,
    /// Connections of daemons so far.
    connection: u32,
    gone: Vec<ObjectId>,
}

impl World {
    /// Sets the state of a link; returns the previous one.
    pub(super) fn set_link(&mut self, index: u32, link: Option<Link>) -> Option<Link> {
        match link {
            Some(link) => self.links.insert(index, link),
            None => {
                self.ignoring.retain(|ignoring| ignoring.1 != index);
                self.links.remove(&index)
            }
        }
    }

    /// Sets if routes by way of a link are unused while it has no carrier; returns true if that is new.
    pub(super) fn set_ignoring(&mut self, is4: bool, index: u32, ignores: bool) -> bool {
        match ignores {
            true => self.ignoring.insert((is4, index)),
            false => self.ignoring.remove(&(is4, index)),
        }
    }

    /// True if routes by way of a link rest.
    fn is_asleep(&self, is4: bool, index: u32, link: Link) -> bool {
        let ignores = |index| self.ignoring.contains(&(is4, index));
        // Of IPv6 the kernel sets every link when all are set.
        !link.carrier && (ignores(index) || (is4 && ignores(NETCONF_ALL)))
    }

    /// Links whose routes rest.
    pub(super) fn asleep(&self, is4: bool) -> HashSet<u32> {
        if self.ignoring.is_empty() {
            return HashSet::new();
        }
        let asleep = self.links.iter();
        let asleep = asleep.filter(|(index, link)| self.is_asleep(is4, **index, **link));
        asleep.map(|(index, _)| *index).collect()
    }

    /// A hop as routes hold it. That it is dead is not told when it changes, so it is noted only where the
    /// link's state does not explain it.
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

    /// Owner of an object from this source.
    pub(super) fn owner(&self, source: Source) -> u32 {
        match source {
            Source::Kernel => KERNEL,
            Source::Fpm => self.connection,
        }
    }

    pub(super) fn set_object(&mut self, source: Source, nexthop: &Nexthop<'_>) {
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
    }

    /// True if an object is known.
    pub(super) fn has_object(&self, source: Source, id: u32) -> bool {
        self.objects.contains_key(&(self.owner(source), id))
    }

    /// Removes an object; those groups that had it as their last member go with it.
    pub(super) fn remove_object(&mut self, source: Source, id: u32) {
        self.remove_all(HashSet::from([(self.owner(source), id)]));
    }

    /// Walks all objects once for those, and once more for groups that are left without a member.
    fn remove_all(&mut self, mut those: HashSet<ObjectId>) {
        while !those.is_empty() {
            // Routes may go by an object that we have not heard of.
            those.iter().for_each(|id| drop(self.objects.remove(id)));
            self.gone.extend(&those);
            let mut emptied = HashSet::new();
            for (&(owner, group), (object, _)) in &mut self.objects {
                let Object::Group(members) = object else {
                    continue;
                };
                if members.iter().any(|(id, _)| those.contains(&(owner, *id))) {
                    let left = members
                        .iter()
                        .filter(|(id, _)| !those.contains(&(owner, *id)));
                    *members = left.copied().collect();
                    if members.is_empty() {
                        emptied.insert((owner, group));
                    }
                }
            }
            those = emptied;
        }
    }

    fn remove_where(&mut self, which: impl Fn(&ObjectId, &Object, u32) -> bool) -> bool {
        let objects = self.objects.iter();
        let gone = objects.filter(|(id, (object, seen))| which(id, object, *seen));
        let gone: HashSet<ObjectId> = gone.map(|(id, _)| *id).collect();
        let any = !gone.is_empty();
        self.remove_all(gone);
        any
    }

    /// Removes the objects on this link, as the kernel does; returns true if there were some.
    pub(super) fn lose_objects(&mut self, index: u32) -> bool {
        self.remove_where(|id, object, _| {
            id.0 == KERNEL && matches!(object, Object::One(hop) if hop.interface == index)
        })
    }

    /// Objects that have gone since the last call.
    pub(super) fn take_gone(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.gone)
    }

    /// `used` are the objects that routes go by.
    pub(super) fn begin_sync(&mut self, source: Source, used: impl Iterator<Item = ObjectId>) {
        match source {
            Source::Kernel => {
                self.sync = self.sync.wrapping_add(1);
                self.syncing = true;
            }
            Source::Fpm => {
                self.connection += 1;
                self.keep(used.collect());
            }
        }
    }

    /// Removes daemons' objects that no route uses. However often daemons connect, there are no more than their routes
    /// need.
    fn keep(&mut self, mut used: HashSet<ObjectId>) {
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
            Some(link) if self.is_asleep(is4, hop.interface, *link) => Health::Asleep,
            Some(link) if !link.carrier => Health::Poor,
            _ => Health::Good,
        }
    }

    /// True if a link is gone, or the operator has it down.
    pub(super) fn is_down(&self, index: u32) -> bool {
        !self.links.get(&index).is_some_and(|link| link.up)
    }

    /// True if the kernel has no use for a route of these hops alone.
    pub(super) fn all_dead(&self, is4: bool, hops: &[Hop]) -> bool {
        !hops.is_empty() && hops.iter().all(|hop| self.health(is4, hop) == Health::Dead)
    }

    /// True if the kernel passes over a route of these hops, and keeps it.
    pub(super) fn all_asleep(&self, is4: bool, hops: &[Hop]) -> bool {
        let best = hops.iter().map(|hop| self.health(is4, hop)).max();
        best == Some(Health::Asleep)
    }

    /// The number of the configuration's interface whose packets use a link.
    pub(super) fn number(&self, index: u32) -> Option<u16> {
        self.links.get(&index).and_then(|link| link.number)
    }

    /// Usable hops of a label.
    pub(super) fn live<'h>(&self, hops: &'h [Hop]) -> impl Iterator<Item = &'h Hop> {
        let health = |hop: &Hop| {
            let is4 = !matches!(hop.gateway, Some(IpAddr::V6(_)));
            self.health(is4, hop)
        };
        let best = hops.iter().map(health).max();
        let best = best.filter(|best| *best > Health::Asleep);
        hops.iter().filter(move |hop| Some(health(hop)) == best)
    }

    /// The members of the group for these hops.
    pub(super) fn members(&self, is4: bool, hops: &[Hop], members: &mut Vec<Member>) {
        members.clear();
        let best = hops.iter().map(|hop| self.health(is4, hop)).max();
        let Some(best) = best.filter(|best| *best > Health::Asleep) else {
            return members.push(to(EXCEPTION));
        };
        for hop in hops.iter().filter(|hop| self.health(is4, hop) == best) {
            let number = self.number(hop.interface);
            let (Some(port), Some(labels)) = (number, hop.labels) else {
                // The kernel takes some of the flows elsewhere, so it must see all.
                members.clear();
                return members.push(to(FORWARDED));
            };
            members.push(Member {
                gateway: hop.gateway,
                port,
                labels,
                weight: hop.weight,
            });
        }
    }

    /// The members of the group for an object; an unknown one is the kernel's business.
    pub(super) fn object_members(&self, is4: bool, id: ObjectId, members: &mut Vec<Member>) {
        members.clear();
        match self.objects.get(&id).map(|(object, _)| object) {
            None => members.push(to(EXCEPTION)),
            Some(Object::Blackhole) => members.push(to(BLACKHOLE)),
            Some(Object::One(hop)) => self.members(is4, &[*hop], members),
            Some(Object::Group(group)) => {
                let mut hops = Vec::with_capacity(group.len());
                for (member, weight) in group {
                    match self.objects.get(&(id.0, *member)).map(|(object, _)| object) {
                        Some(Object::One(hop)) => hops.push(Hop {
                            weight: *weight,
                            ..*hop
                        }),
                        // Only alone in its group.
                        Some(Object::Blackhole) => return members.push(to(BLACKHOLE)),
                        // The kernel has no groups of groups.
                        Some(Object::Group(_)) | None => return members.push(to(EXCEPTION)),
                    }
                }
                self.members(is4, &hops, members);
            }
        }
    }
}

/// A member that is not a hop.
pub(super) fn to(port: u16) -> Member {
    Member {
        gateway: None,
        port,
        labels: Labels::NONE,
        weight: 1,
    }
}
