//! Path sets: the distinct forwarding actions of routes, each with its group in the forwarding table.

use std::collections::HashMap;

use forwarding::{EXCEPTION, GroupId, LOCAL, MEMBERS_MAX, Member};

use super::hash::Seeded;
use super::next_hops::{Hop, LinksAndHops, ObjectId, port_member};
use super::{Flushed, ForwardingTable, Source};

/// Number of a path set.
pub(super) type PathSetId = u32;

/// Set of next hops of a route, before links are considered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PathSet {
    /// Next-hop port without a link: `LOCAL`, `EXCEPTION` or `BLACKHOLE`.
    To(u16),
    /// Local delivery, as long as this link is up.
    Own(u32),
    /// Next-hop object.
    Object(ObjectId),
    /// List of hops. A daemon's routes stay until it changes them; the kernel removes routes without a message.
    Hops(Source, Vec<Hop>),
}

impl PathSet {
    pub(super) fn hops(&self) -> &[Hop] {
        match self {
            PathSet::Hops(_, hops) => hops,
            _ => &[],
        }
    }

    /// True if the kernel's routes with this path set use only the link `index`.
    pub(super) fn is_only_by(&self, index: u32) -> bool {
        match self {
            PathSet::Own(link) => *link == index,
            PathSet::Hops(Source::Kernel, hops) => {
                !hops.is_empty() && hops.iter().all(|hop| hop.interface == index)
            }
            _ => false,
        }
    }

    /// True if the kernel would remove a route with this path set.
    pub(super) fn is_lost(&self, is4: bool, links_and_hops: &LinksAndHops) -> bool {
        match self {
            PathSet::Own(link) => links_and_hops.is_down(*link),
            PathSet::Hops(Source::Kernel, hops) => links_and_hops.all_dead(is4, hops),
            _ => false,
        }
    }
}

/// A path set in use.
#[derive(Debug)]
struct StoredPathSet {
    path_set: PathSet,
    /// Number of paths with this path set.
    users: u32,
    group: Option<GroupId>,
    members: Box<[Member]>,
    /// True if all routes with this path set are to be removed.
    condemned: bool,
    /// True if the forwarding table refused a group for the path set.
    refused: bool,
}

/// Path sets in use, by number.
#[derive(Debug, Default)]
pub(super) struct PathSets {
    kept: Vec<StoredPathSet>,
    by_path_set: HashMap<PathSet, PathSetId, Seeded>,
    free: Vec<PathSetId>,
    /// Path sets without users.
    idle: Vec<PathSetId>,
    condemned: bool,
    /// True if links or objects have changed since the last update of groups.
    pub(super) stale: bool,
    refusals: u64,
    scratch: Vec<Member>,
}

impl PathSets {
    /// Number of a path set; a new path set has no users.
    pub(super) fn intern(&mut self, path_set: &PathSet) -> PathSetId {
        if let Some(id) = self.by_path_set.get(path_set) {
            return *id;
        }
        let kept = StoredPathSet {
            path_set: path_set.clone(),
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
                (self.kept.len() - 1) as PathSetId
            }
        };
        self.by_path_set.insert(path_set.clone(), id);
        self.idle.push(id);
        id
    }

    pub(super) fn get(&self, id: PathSetId) -> &PathSet {
        &self.kept[id as usize].path_set
    }

    pub(super) fn retain(&mut self, id: PathSetId) {
        self.kept[id as usize].users += 1;
    }

    pub(super) fn release(&mut self, id: PathSetId) {
        let kept = &mut self.kept[id as usize];
        kept.users -= 1;
        if kept.users == 0 {
            self.idle.push(id);
        }
    }

    /// Marks the selected path sets: all their routes are to be removed.
    pub(super) fn mark_for_removal(&mut self, which: impl Fn(&PathSet) -> bool) {
        for kept in &mut self.kept {
            if kept.users > 0 && !kept.condemned && which(&kept.path_set) {
                kept.condemned = true;
                self.condemned = true;
                self.by_path_set.remove(&kept.path_set);
            }
        }
    }

    /// Marks a single path set, like [`PathSets::mark_for_removal`].
    pub(super) fn condemn_one(&mut self, path_set: &PathSet) {
        let Some(id) = self.by_path_set.get(path_set) else {
            return;
        };
        let kept = &mut self.kept[*id as usize];
        if kept.users > 0 {
            kept.condemned = true;
            self.condemned = true;
            self.by_path_set.remove(path_set);
        }
    }

    pub(super) fn is_condemned(&self, id: PathSetId) -> bool {
        self.kept[id as usize].condemned
    }

    /// True if routes of condemned path sets must be removed; resets the flag.
    pub(super) fn take_condemned(&mut self) -> bool {
        std::mem::take(&mut self.condemned)
    }

    /// True if `which` holds for a path set in use.
    pub(super) fn any(&self, which: impl Fn(&PathSet) -> bool) -> bool {
        self.kept.iter().any(|k| k.users > 0 && which(&k.path_set))
    }

    /// Next-hop objects that routes use.
    pub(super) fn objects(&self) -> impl Iterator<Item = ObjectId> {
        let used = self.kept.iter().filter(|kept| kept.users > 0);
        used.filter_map(|kept| match kept.path_set {
            PathSet::Object(id) => Some(id),
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

    fn resolve(
        is4: bool,
        links_and_hops: &LinksAndHops,
        path_set: &PathSet,
        members: &mut Vec<Member>,
    ) {
        members.clear();
        match path_set {
            PathSet::Hops(_, hops) => links_and_hops.members(is4, hops, members),
            PathSet::Object(id) => links_and_hops.object_members(is4, *id, members),
            PathSet::To(port) => members.push(port_member(*port)),
            PathSet::Own(_) => members.push(port_member(LOCAL)),
        }
    }

    /// Updates groups after changes of links and objects.
    pub(super) fn refresh<const N: usize>(
        &mut self,
        links_and_hops: &LinksAndHops,
        image: &impl ForwardingTable<N>,
        flushed: &mut Flushed,
    ) {
        self.stale = false;
        let mut changed = Vec::new();
        for (at, kept) in self.kept.iter_mut().enumerate() {
            if kept.group.is_none() {
                continue;
            }
            Self::resolve(N == 4, links_and_hops, &kept.path_set, &mut self.scratch);
            if self.scratch.len() > MEMBERS_MAX {
                self.scratch = vec![port_member(EXCEPTION)];
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

    /// Group of a path set in the forwarding table, created on demand; `None` if the table refuses one.
    pub(super) fn group<const N: usize>(
        &mut self,
        id: PathSetId,
        links_and_hops: &LinksAndHops,
        image: &impl ForwardingTable<N>,
    ) -> Option<GroupId> {
        let kept = &mut self.kept[id as usize];
        if kept.group.is_some() || kept.refused {
            return kept.group;
        }
        Self::resolve(N == 4, links_and_hops, &kept.path_set, &mut self.scratch);
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

    /// Removes path sets without users, after the forwarding table was updated.
    pub(super) fn collect<const N: usize>(&mut self, image: &impl ForwardingTable<N>) {
        for id in std::mem::take(&mut self.idle) {
            let kept = &mut self.kept[id as usize];
            // The list may contain a path set twice, or a path set that is in use again.
            let named = self.by_path_set.get(&kept.path_set) == Some(&id);
            if kept.users > 0 || !(named || kept.condemned) {
                continue;
            }
            if let Some(group) = kept.group.take() {
                image.remove_group(group);
            }
            if named {
                self.by_path_set.remove(&kept.path_set);
            }
            kept.condemned = false;
            kept.path_set = PathSet::To(u16::MAX);
            self.free.push(id);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.kept.capacity() * size_of::<StoredPathSet>()
            + self.by_path_set.capacity() * (size_of::<(PathSet, PathSetId)>() + 1)
    }
}
