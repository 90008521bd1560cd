//! Next-hop groups: the next hops of routes, stored apart from the routes.
//!
//! A route holds the id of a group; thousands of routes share one. When a next hop is lost, the groups that contain it
//! change, not the routes. Workers read [`Groups`], which is immutable and published as a whole. [`GroupTable`] belongs
//! to the writer. Equal groups that are interned have one id, and their users are counted. A group that is added
//! belongs to one owner, who may change its members in place.
//!
//! shares.rs describes how a member is chosen.
//!
//! # Order of changes
//!
//! Publish the groups before routes use a new id. An id without users must not be given to another group while a
//! worker may still hold it from a look-up: see [`GroupTable::take_limbo`].

mod compact_hop;
mod shares;

pub use compact_hop::CompactHop;
use shares::{Shares, assign_buckets};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use wire::mpls::Labels;

/// Maximum number of members that a group may have.
pub const MEMBERS_MAX: usize = 256;

/// Identifier of a group, as routes store it.
pub type GroupId = NonZeroU16;

/// A next hop of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The next router; `None` if the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// Output to the next hop.
    pub port: u16,
    /// MPLS labels that packets get.
    pub labels: Labels,
    /// The member's share of the flows, relative to the weights of the other members; not 0.
    pub weight: u16,
}

impl Member {
    /// True if both members send packets the same way: same gateway, output and labels.
    fn is_same_way(&self, other: &Member) -> bool {
        (self.gateway, self.port, self.labels) == (other.gateway, other.port, other.labels)
    }
}

/// Reason why a group is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupError {
    /// The group has no members.
    Empty,
    /// The group has more than [`MEMBERS_MAX`] members.
    TooMany,
    /// A member's weight is 0.
    NoWeight,
    /// All 65,535 ids are used, or wait in limbo to be released.
    OutOfIds,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupError::Empty => "a next-hop group needs a member",
            GroupError::TooMany => "a next-hop group takes at most 256 members",
            GroupError::NoWeight => "a next hop's weight must not be 0",
            GroupError::OutOfIds => "all ids of next-hop groups are in use",
        })
    }
}

impl std::error::Error for GroupError {}

/// Present choice of a group.
#[derive(Debug, Clone, Default)]
enum Choice {
    /// The id is unused, or every member is down.
    #[default]
    Nothing,
    /// The group has one live member, so no buckets are needed.
    One(Member),
    Several(Arc<Shares>),
}

/// All groups as workers see them. A copy takes at most four words per group.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    choices: Vec<Choice>,
    /// Compact form of each group.
    briefs: Vec<CompactHop>,
}

/// Pointers to the groups, by value so that they stay in registers during many look-ups.
#[derive(Clone, Copy)]
pub struct View<'a> {
    choices: &'a [Choice],
    briefs: &'a [CompactHop],
}

impl Groups {
    /// A view for many look-ups.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View {
            choices: &self.choices,
            briefs: &self.briefs,
        }
    }

    fn set(&mut self, id: GroupId, choice: Choice) {
        self.briefs[index(id)] = CompactHop::of(&choice);
        self.choices[index(id)] = choice;
    }

    /// The next hop for a flow in group `id`, chosen by all 32 bits of the flow's hash. `None` if `id` is 0 or
    /// unknown, or all members are down.
    #[inline]
    pub fn next_hop(&self, id: u16, flow_hash: u32) -> Option<&Member> {
        self.view().next_hop_with(id, || flow_hash)
    }
}

impl<'a> View<'a> {
    /// Like [`next_hop`](Groups::next_hop); the hash is computed only if there is a choice.
    #[inline(always)]
    pub fn next_hop_with(self, id: u16, flow_hash: impl FnOnce() -> u32) -> Option<&'a Member> {
        match self.choices.get(usize::from(id).wrapping_sub(1))? {
            Choice::One(member) => Some(member),
            Choice::Several(group) => group.member_with(flow_hash),
            Choice::Nothing => None,
        }
    }

    /// The compact form of group `id`.
    #[inline(always)]
    pub fn compact(self, id: u16) -> CompactHop {
        let brief = self.briefs.get(usize::from(id).wrapping_sub(1));
        brief.copied().unwrap_or(CompactHop::ASK)
    }
}

/// The writer's record of a group.
#[derive(Debug)]
struct Record {
    /// Members as configured, up or down; sorted.
    members: Arc<[Member]>,
    up: Vec<bool>,
    /// Number of users of an interned group; `None` if the group was added.
    users: Option<usize>,
}

/// Ids that workers may still hold. Return them with [`GroupTable::release_limbo`] when every worker has passed a
/// quiescent point since they were taken.
#[derive(Debug, Default)]
#[must_use = "ids that are not released are lost"]
pub struct LimboIds(Vec<GroupId>);

/// The writer's side: groups by content, with their users and the state of their members.
#[derive(Debug, Default)]
pub struct GroupTable {
    records: Vec<Option<Record>>,
    by_members: HashMap<Arc<[Member]>, GroupId>,
    used: usize,
    free: Vec<GroupId>,
    limbo: LimboIds,
    groups: Groups,
}

impl GroupTable {
    /// No groups.
    pub fn new() -> Self {
        GroupTable::default()
    }

    /// The id of the group with these members, in any order; its user count grows by one. Members that differ only in
    /// weight are merged, and their weights added. New members are up.
    pub fn intern(&mut self, members: &[Member]) -> Result<GroupId, GroupError> {
        let members = normal_form(members)?;
        if let Some(&id) = self.by_members.get(&members) {
            self.retain(id);
            return Ok(id);
        }
        let id = self.place(Arc::clone(&members), Some(1))?;
        self.by_members.insert(members, id);
        Ok(id)
    }

    /// Makes a group of these members that is never shared, even if an equal one exists. All members are up.
    pub fn add(&mut self, members: &[Member]) -> Result<GroupId, GroupError> {
        self.place(normal_form(members)?, None)
    }

    /// Replaces the members of a group that was [added](Self::add); all new members are up. Flows of remaining members
    /// stay on them as far as the new weights allow. Returns false if there is no such group.
    pub fn change(&mut self, id: GroupId, members: &[Member]) -> Result<bool, GroupError> {
        let members = normal_form(members)?;
        let added = self.records.get_mut(index(id)).and_then(Option::as_mut);
        let Some(record) = added.filter(|record| record.users.is_none()) else {
            return Ok(false);
        };
        record.up = vec![true; members.len()];
        record.members = members;
        let choice = record.choice(&self.groups.choices[index(id)]);
        self.groups.set(id, choice);
        Ok(true)
    }

    fn place(
        &mut self,
        members: Arc<[Member]>,
        users: Option<usize>,
    ) -> Result<GroupId, GroupError> {
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                let next = u16::try_from(self.records.len() + 1).ok();
                let next = next.and_then(NonZeroU16::new).ok_or(GroupError::OutOfIds)?;
                self.records.push(None);
                self.groups.choices.push(Choice::Nothing);
                self.groups.briefs.push(CompactHop::ASK);
                next
            }
        };
        let up = vec![true; members.len()];
        let record = Record { members, up, users };
        self.groups.set(id, record.choice(&Choice::Nothing));
        self.records[index(id)] = Some(record);
        self.used += 1;
        Ok(id)
    }

    /// Adds a user to an interned group.
    pub fn retain(&mut self, id: GroupId) {
        if let Some(Some(record)) = self.records.get_mut(index(id)) {
            record.users = record.users.map(|users| users + 1);
        }
    }

    /// Removes a user. The last user's removal ends the group, and its id goes to limbo. A group that was added has one
    /// user.
    pub fn release(&mut self, id: GroupId) {
        let Some(slot) = self.records.get_mut(index(id)) else {
            return;
        };
        let Some(record) = slot else { return };
        record.users = record.users.map(|users| users - 1);
        if record.users.is_none_or(|users| users == 0) {
            if record.users.is_some() {
                self.by_members.remove(&record.members);
            }
            self.used -= 1;
            *slot = None;
            self.groups.set(id, Choice::Nothing);
            self.limbo.0.push(id);
        }
    }

    /// Ids that must wait until workers have passed a quiescent point from now on.
    pub fn take_limbo(&mut self) -> LimboIds {
        std::mem::take(&mut self.limbo)
    }

    /// Frees ids that no worker can hold.
    pub fn release_limbo(&mut self, limbo: LimboIds) {
        self.free.extend(limbo.0);
    }

    /// Marks the next hops that satisfy `which` as up or down; returns the number of groups that changed.
    pub fn set_up(&mut self, up: bool, which: impl Fn(&Member) -> bool) -> usize {
        let mut changed = 0;
        let groups = self.groups.choices.iter_mut().zip(&mut self.groups.briefs);
        for (record, (choice, brief)) in self.records.iter_mut().zip(groups) {
            let Some(record) = record else { continue };
            let mut any = false;
            for (state, member) in record.up.iter_mut().zip(&*record.members) {
                if *state != up && which(member) {
                    *state = up;
                    any = true;
                }
            }
            if any {
                *choice = record.choice(choice);
                *brief = CompactHop::of(choice);
                changed += 1;
            }
        }
        changed
    }

    /// The configured members of a group; each with true if it is up.
    pub fn members(&self, id: GroupId) -> impl Iterator<Item = (Member, bool)> {
        let record = self.records.get(index(id)).and_then(Option::as_ref);
        record
            .into_iter()
            .flat_map(|r| r.members.iter().copied().zip(r.up.iter().copied()))
    }

    /// Number of groups in use.
    pub fn len(&self) -> usize {
        self.used
    }

    /// True if no group is in use.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The groups, to be published after changes.
    pub fn groups(&self) -> Groups {
        self.groups.clone()
    }
}

impl Record {
    /// New choice of a group, as close as possible to `before`.
    fn choice(&self, before: &Choice) -> Choice {
        let live = || {
            let all = self.members.iter().zip(&self.up);
            all.filter(|(_, up)| **up).map(|(member, _)| *member)
        };
        // The loss of a next hop changes each of its groups, so no memory is allocated for groups with one member left.
        let mut first = live();
        match (first.next(), first.next()) {
            (None, _) => Choice::Nothing,
            (Some(only), None) => Choice::One(only),
            _ => {
                let buckets = (16 * self.members.len()).next_power_of_two().max(64);
                Choice::Several(Arc::new(assign_buckets(live().collect(), buckets, before)))
            }
        }
    }
}

fn index(id: GroupId) -> usize {
    usize::from(id.get()) - 1
}

fn normal_form(members: &[Member]) -> Result<Arc<[Member]>, GroupError> {
    if members.iter().any(|m| m.weight == 0) {
        return Err(GroupError::NoWeight);
    }
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    sorted.dedup_by(|b, a| {
        let same = a.is_same_way(b);
        if same {
            a.weight = a.weight.saturating_add(b.weight);
        }
        same
    });
    match sorted.len() {
        0 => Err(GroupError::Empty),
        1..=MEMBERS_MAX => Ok(sorted.into()),
        _ => Err(GroupError::TooMany),
    }
}

#[cfg(test)]
mod tests;
