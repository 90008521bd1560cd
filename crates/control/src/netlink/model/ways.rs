//! Forwarding actions of routes, called ways, each with its group in the image.

use std::collections::HashMap;

use forwarding::{EXCEPTION, GroupId, LOCAL, MEMBERS_MAX, Member};

use super::hash::Seeded;
use super::world::{Hop, ObjectId, World, to};
use super::{Flushed, Image, Source};

/// Number of a way.
pub(super) type WayId = u32;

/// Set of next hops of a route, before links are considered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// Next-hop port without a link: `LOCAL`, `EXCEPTION` or `BLACKHOLE`.
    To(u16),
    /// Local delivery, as long as this link is up.
    Own(u32),
    /// Next-hop object.
    Object(ObjectId),
    /// List of hops. A daemon's routes stay until it changes them; the kernel removes routes without a message.
    Hops(Source, Vec<Hop>),
}

impl Way {
    pub(super) fn hops(&self) -> &[Hop] {
        match self {
            Way::Hops(_, hops) => hops,
            _ => &[],
        }
    }

    /// True if the kernel's routes with this way use only the link `index`.
    pub(super) fn is_only_by(&self, index: u32) -> bool {
        match self {
            Way::Own(link) => *link == index,
            Way::Hops(Source::Kernel, hops) => {
                !hops.is_empty() && hops.iter().all(|hop| hop.interface == index)
            }
            _ => false,
        }
    }

    /// True if the kernel would remove a route with this way.
    pub(super) fn is_lost(&self, is4: bool, world: &World) -> bool {
        match self {
            Way::Own(link) => world.is_down(*link),
            Way::Hops(Source::Kernel, hops) => world.all_dead(is4, hops),
            _ => false,
        }
    }
}

/// A way in use.
#[derive(Debug)]
struct Kept {
    way: Way,
    /// Number of paths with this way.
    users: u32,
    group: Option<GroupId>,
    members: Box<[Member]>,
    /// True if all routes with this way are to be removed.
    condemned: bool,
    /// True if the forwarding table refused a group for the way.
    refused: bool,
}

/// Ways in use, by number.
#[derive(Debug, Default)]
pub(super) struct Ways {
    kept: Vec<Kept>,
    by_way: HashMap<Way, WayId, Seeded>,
    free: Vec<WayId>,
    /// Ways without users.
    idle: Vec<WayId>,
    condemned: bool,
    /// True if links or objects have changed since the last update of groups.
    pub(super) stale: bool,
    refusals: u64,
    scratch: Vec<Member>,
}

impl Ways {
    /// Number of a way; a new way has no users.
    pub(super) fn intern(&mut self, way: &Way) -> WayId {
        if let Some(id) = self.by_way.get(way) {
            return *id;
        }
        let kept = Kept {
            way: way.clone(),
            users: 0,
            group: None,
            members: Box::default(),
            condemned: false,
            refused: false,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.kept[id as usize] = kept;
                id
            }
            None => {
                self.kept.push(kept);
                (self.kept.len() - 1) as WayId
            }
        };
        self.by_way.insert(way.clone(), id);
        self.idle.push(id);
        id
    }

    pub(super) fn get(&self, id: WayId) -> &Way {
        &self.kept[id as usize].way
    }

    pub(super) fn retain(&mut self, id: WayId) {
        self.kept[id as usize].users += 1;
    }

    pub(super) fn release(&mut self, id: WayId) {
        let kept = &mut self.kept[id as usize];
        kept.users -= 1;
        if kept.users == 0 {
            self.idle.push(id);
        }
    }

    /// Marks the selected ways: all their routes are to be removed.
    pub(super) fn condemn(&mut self, which: impl Fn(&Way) -> bool) {
        for kept in &mut self.kept {
            if kept.users > 0 && !kept.condemned && which(&kept.way) {
                kept.condemned = true;
                self.condemned = true;
                self.by_way.remove(&kept.way);
            }
        }
    }

    /// Marks a single way, like [`Ways::condemn`].
    pub(super) fn condemn_one(&mut self, way: &Way) {
        let Some(id) = self.by_way.get(way) else {
            return;
        };
        let kept = &mut self.kept[*id as usize];
        if kept.users > 0 {
            kept.condemned = true;
            self.condemned = true;
            self.by_way.remove(way);
        }
    }

    pub(super) fn is_condemned(&self, id: WayId) -> bool {
        self.kept[id as usize].condemned
    }

    /// True if routes of condemned ways must be removed; resets the flag.
    pub(super) fn take_condemned(&mut self) -> bool {
        std::mem::take(&mut self.condemned)
    }

    /// True if `which` holds for a way in use.
    pub(super) fn any(&self, which: impl Fn(&Way) -> bool) -> bool {
        self.kept.iter().any(|k| k.users > 0 && which(&k.way))
    }

    /// Next-hop objects that routes use.
    pub(super) fn objects(&self) -> impl Iterator<Item = ObjectId> {
        let used = self.kept.iter().filter(|kept| kept.users > 0);
        used.filter_map(|kept| match kept.way {
            Way::Object(id) => Some(id),
            _ => None,
        })
    }

    /// Lets the forwarding table's refusals be retried. Returns true if there were any.
    pub(super) fn forget_refusals(&mut self) -> bool {
        let mut any = false;
        for kept in &mut self.kept {
            any |= std::mem::take(&mut kept.refused);
        }
        any
    }

    pub(super) fn refusals(&self) -> u64 {
        self.refusals
    }

    fn resolve(is4: bool, world: &World, way: &Way, members: &mut Vec<Member>) {
        members.clear();
        match way {
            Way::Hops(_, hops) => world.members(is4, hops, members),
            Way::Object(id) => world.object_members(is4, *id, members),
            Way::To(port) => members.push(to(*port)),
            Way::Own(_) => members.push(to(LOCAL)),
        }
    }

    /// Updates groups after changes of links and objects.
    pub(super) fn refresh<const N: usize>(
        &mut self,
        world: &World,
        image: &impl Image<N>,
        flushed: &mut Flushed,
    ) {
        self.stale = false;
        let mut changed = Vec::new();
        for (at, kept) in self.kept.iter_mut().enumerate() {
            if kept.group.is_none() {
                continue;
            }
            Self::resolve(N == 4, world, &kept.way, &mut self.scratch);
            if self.scratch.len() > MEMBERS_MAX {
                self.scratch = vec![to(EXCEPTION)];
            }
            if kept.members[..] != self.scratch[..] {
                kept.members = self.scratch.as_slice().into();
                changed.push(at);
            }
        }
        let changes = changed.iter().filter_map(|at| {
            let kept = &self.kept[*at];
            Some((kept.group?, &kept.members[..]))
        });
        let changes: Vec<(GroupId, &[Member])> = changes.collect();
        flushed.groups += changes.len();
        if !changes.is_empty() && image.change_groups(&changes).is_err() {
            self.refusals += 1;
        }
    }

    /// Group of a way in the forwarding table, created on demand; `None` if the table refuses one.
    pub(super) fn group<const N: usize>(
        &mut self,
        id: WayId,
        world: &World,
        image: &impl Image<N>,
    ) -> Option<GroupId> {
        let kept = &mut self.kept[id as usize];
        if kept.group.is_some() || kept.refused {
            return kept.group;
        }
        Self::resolve(N == 4, world, &kept.way, &mut self.scratch);
        match image.add_group(&self.scratch) {
            Ok(group) => {
                kept.group = Some(group);
                kept.members = self.scratch.as_slice().into();
            }
            Err(_) => {
                kept.refused = true;
                self.refusals += 1;
            }
        }
        kept.group
    }

    /// Removes ways without users, after the forwarding table was updated.
    pub(super) fn collect<const N: usize>(&mut self, image: &impl Image<N>) {
        for id in std::mem::take(&mut self.idle) {
            let kept = &mut self.kept[id as usize];
            // The list may contain a way twice, or a way that is in use again.
            let named = self.by_way.get(&kept.way) == Some(&id);
            if kept.users > 0 || !(named || kept.condemned) {
                continue;
            }
            if let Some(group) = kept.group.take() {
                image.remove_group(group);
            }
            if named {
                self.by_way.remove(&kept.way);
            }
            kept.condemned = false;
            kept.way = Way::To(u16::MAX);
            self.free.push(id);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.kept.capacity() * size_of::<Kept>()
            + self.by_way.capacity() * (size_of::<(Way, WayId)>() + 1)
    }
}
