//! Next-hop groups: where packets of a route go, apart from the routes.
//!
//! A route holds the id of a group; thousands of routes share one. When a next hop is lost, the groups
//! that contain it change, not the routes. [`Groups`] is what workers read: immutable, published as a
//! whole. [`GroupTable`] belongs to the writer. Equal groups that are interned have one id, and their users
//! are counted; a group that is added is its owner's alone, who may change its members in place.
//!
//! How a member is chosen is told in shares.rs.
//!
//! # Order of changes
//!
//! Publish the groups before routes use a new id. An id that lost its last user must not be given to
//! another group while a worker may still carry it from a lookup: [`GroupTable::take_limbo`].

mod shares;

use shares::{Shares, spread};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU16;
use std::sync::Arc;

/// Members that a group may have.
pub const MEMBERS_MAX: usize = 256;

/// Names a group; also what routes hold.
pub type GroupId = NonZeroU16;

/// One next hop of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The router to send to; none if the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// The output that leads there.
    pub port: u16,
    /// Its share of the flows, relative to the others' weights; not 0.
    pub weight: u16,
}

/// Why a group cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupError {
    /// It has no members.
    Empty,
    /// It has more than [`MEMBERS_MAX`] members.
    TooMany,
    /// A member's weight is 0.
    NoWeight,
    /// All 65,535 ids are used, or wait in limbo to be released.
    NoIds,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupError::Empty => "a next-hop group needs a member",
            GroupError::TooMany => "a next-hop group takes at most 256 members",
            GroupError::NoWeight => "a next hop's weight must not be 0",
            GroupError::NoIds => "all ids of next-hop groups are in use",
        })
    }
}

impl std::error::Error for GroupError {}

/// What a group comes to at the moment.
#[derive(Debug, Clone, Default)]
enum Choice {
    /// Unused id, or every member is down.
    #[default]
    Nothing,
    /// One live member: no buckets to look into.
    One(Member),
    Several(Arc<Shares>),
}

/// Where packets of a group go, in one word, if that is easily said: by a port, and to an IPv4 address or to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(8))]
pub struct Brief {
    /// The output, or [`ASK`](Self::ASK)'s: then [`View::next_hop_with`] knows.
    pub port: u16,
    /// The gateway's address; 0 for none.
    gateway: u32,
}

impl Brief {
    /// For groups of which more is to be said; as a port it is higher than any output.
    pub const ASK: Brief = Brief {
        port: u16::MAX,
        gateway: 0,
    };

    /// The gateway.
    #[inline(always)]
    pub fn gateway(self) -> Option<Ipv4Addr> {
        (self.gateway != 0).then(|| Ipv4Addr::from_bits(self.gateway))
    }

    fn of(choice: &Choice) -> Brief {
        let Choice::One(Member { gateway, port, .. }) = *choice else {
            return Brief::ASK;
        };
        let gateway = match gateway {
            None => 0,
            Some(IpAddr::V4(gateway)) if !gateway.is_unspecified() => gateway.to_bits(),
            Some(_) => return Brief::ASK,
        };
        Brief { port, gateway }
    }
}

/// All groups as workers see them. A copy costs four words per group at most.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    choices: Vec<Choice>,
    /// The same of each, in brief.
    briefs: Vec<Brief>,
}

/// The same for somebody who looks at many: by value, so that it stays in registers.
#[derive(Clone, Copy)]
pub struct View<'a> {
    choices: &'a [Choice],
    briefs: &'a [Brief],
}

impl Groups {
    /// For looking at many.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View {
            choices: &self.choices,
            briefs: &self.briefs,
        }
    }

    fn set(&mut self, id: GroupId, choice: Choice) {
        self.briefs[index(id)] = Brief::of(&choice);
        self.choices[index(id)] = choice;
    }

    /// The next hop for a flow in the group `id` (as [`crate::fib::Fib`] gives it), by all 32 bits of
    /// the flow's hash; none if `id` is 0, unknown, or all members are down.
    #[inline]
    pub fn next_hop(&self, id: u16, flow_hash: u32) -> Option<&Member> {
        self.view().next_hop_with(id, || flow_hash)
    }
}

impl<'a> View<'a> {
    /// As [`next_hop`](Groups::next_hop); the hash is asked for only if there is a choice.
    #[inline(always)]
    pub fn next_hop_with(self, id: u16, flow_hash: impl FnOnce() -> u32) -> Option<&'a Member> {
        match self.choices.get(usize::from(id).wrapping_sub(1))? {
            Choice::One(member) => Some(member),
            Choice::Several(group) => group.member_with(flow_hash),
            Choice::Nothing => None,
        }
    }

    /// What is to be done with packets of the group `id`, in brief.
    #[inline(always)]
    pub fn brief(self, id: u16) -> Brief {
        let brief = self.briefs.get(usize::from(id).wrapping_sub(1));
        brief.copied().unwrap_or(Brief::ASK)
    }
}

/// What the writer knows of a group.
#[derive(Debug)]
struct Record {
    /// As configured, up or down; sorted.
    members: Arc<[Member]>,
    up: Vec<bool>,
    /// How many have interned it; none if it was added.
    users: Option<usize>,
}

/// Ids that workers may still carry. Give them back with [`GroupTable::release_limbo`] when every
/// worker has passed a quiescent point since they were taken.
#[derive(Debug, Default)]
#[must_use = "ids that are not released are lost"]
pub struct LimboIds(Vec<GroupId>);

/// The writer's side: groups by content, their users and their members' state.
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

    /// The id of the group of these members, in any order, with one user more. Members that differ in
    /// weight alone become one with the weights' sum. New members are up.
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

    /// A group of these members that is nobody else's, also if there is an equal one. All are up.
    pub fn add(&mut self, members: &[Member]) -> Result<GroupId, GroupError> {
        self.place(normal_form(members)?, None)
    }

    /// Gives a group that was [added](Self::add) other members, which are up. Flows of members that stay
    /// stay on them, as far as the new weights allow. Whether there is such a group.
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
                let next = next.and_then(NonZeroU16::new).ok_or(GroupError::NoIds)?;
                self.records.push(None);
                self.groups.choices.push(Choice::Nothing);
                self.groups.briefs.push(Brief::ASK);
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

    /// One user more of a group that was interned.
    pub fn retain(&mut self, id: GroupId) {
        if let Some(Some(record)) = self.records.get_mut(index(id)) {
            record.users = record.users.map(|users| users + 1);
        }
    }

    /// One user less; the last one's leaving ends the group, and its id goes to limbo. A group that was
    /// added has one user.
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

    /// Takes the ids that must wait until workers have passed a quiescent point from now on.
    pub fn take_limbo(&mut self) -> LimboIds {
        std::mem::take(&mut self.limbo)
    }

    /// Gives back ids that no worker can carry any more.
    pub fn release_limbo(&mut self, limbo: LimboIds) {
        self.free.extend(limbo.0);
    }

    /// Says that the next hops for which `which` holds are up or down; returns how many groups changed.
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
                *brief = Brief::of(choice);
                changed += 1;
            }
        }
        changed
    }

    /// The members of a group, as configured, and whether they are up.
    pub fn members(&self, id: GroupId) -> impl Iterator<Item = (Member, bool)> {
        let record = self.records.get(index(id)).and_then(Option::as_ref);
        record
            .into_iter()
            .flat_map(|r| r.members.iter().copied().zip(r.up.iter().copied()))
    }

    /// Groups in use.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether no group is in use.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// What to publish after changes.
    pub fn groups(&self) -> Groups {
        self.groups.clone()
    }
}

impl Record {
    /// What the group comes to, near what it was.
    fn choice(&self, before: &Choice) -> Choice {
        let live = || {
            let all = self.members.iter().zip(&self.up);
            all.filter(|(_, up)| **up).map(|(member, _)| *member)
        };
        // The loss of a next hop comes here for each of its groups: nothing is allocated for those that
        // are left with one.
        let mut first = live();
        match (first.next(), first.next()) {
            (None, _) => Choice::Nothing,
            (Some(only), None) => Choice::One(only),
            _ => {
                let buckets = (16 * self.members.len()).next_power_of_two().max(64);
                Choice::Several(Arc::new(spread(live().collect(), buckets, before)))
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
        let same = (a.gateway, a.port) == (b.gateway, b.port);
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
mod tests {
    use super::*;
    use crate::sample::Random;

    fn hop(n: u8, weight: u16) -> Member {
        Member {
            gateway: Some(IpAddr::from([10, 0, 0, n])),
            port: u16::from(n),
            weight,
        }
    }

    /// The port for each of many hashes.
    fn map(table: &GroupTable, id: GroupId) -> Vec<Option<u16>> {
        let groups = table.groups();
        let hashes = (0..4096u32).map(|i| i << 20 | 0x777);
        hashes
            .map(|h| groups.next_hop(id.get(), h).map(|m| m.port))
            .collect()
    }

    fn share(map: &[Option<u16>], port: u16) -> f64 {
        map.iter().filter(|p| **p == Some(port)).count() as f64 / map.len() as f64
    }

    #[test]
    fn flows_are_shared_by_weight() {
        let mut table = GroupTable::new();
        let id = table.intern(&[hop(1, 1), hop(2, 2), hop(3, 5)]).unwrap();
        let map = map(&table, id);
        for (port, expected) in [(1, 0.125), (2, 0.25), (3, 0.625)] {
            assert!((share(&map, port) - expected).abs() < 1.0 / 64.0, "{port}");
        }
    }

    #[test]
    fn only_the_flows_of_a_lost_member_move_and_it_takes_back_no_more_than_its_share() {
        let mut random = Random::new(5);
        for members in [2, 3, 5, 8, 40] {
            let mut table = GroupTable::new();
            let hops: Vec<_> = (1..=members)
                .map(|n| hop(n, 1 + random.below(4) as u16))
                .collect();
            let id = table.intern(&hops).unwrap();
            for _ in 0..20 {
                let lost = hops[random.below(u64::from(members)) as usize].port;
                let before = map(&table, id);
                assert_eq!(table.set_up(false, |m| m.port == lost), 1);
                let without = map(&table, id);
                for (b, w) in before.iter().zip(&without) {
                    assert!(b == w || *b == Some(lost), "moved without need");
                    assert_ne!(*w, Some(lost));
                }
                assert_eq!(table.set_up(true, |m| m.port == lost), 1);
                assert_eq!(table.set_up(true, |m| m.port == lost), 0, "it was up");
                let after = map(&table, id);
                for (w, a) in without.iter().zip(&after) {
                    assert!(w == a || *a == Some(lost), "moved without need");
                }
                assert_eq!(share(&after, lost), share(&before, lost));
            }
        }
    }

    #[test]
    fn what_is_said_in_brief_is_what_is_said_at_length() {
        let mut random = Random::new(8);
        let mut table = GroupTable::new();
        let of = |gateway, port| Member {
            gateway,
            ..hop(port, 1)
        };
        let gateways = [None, Some([0; 4].into()), Some([0u8; 16].into())];
        let mut ids: Vec<GroupId> = (1..=20).map(|n| table.add(&[hop(n, 1)]).unwrap()).collect();
        ids.extend(gateways.map(|gateway| table.add(&[of(gateway, 9)]).unwrap()));
        let mut brief = 0;
        for _ in 0..500 {
            let (n, id) = (random.below(21) as u8, ids[random.below(23) as usize]);
            match random.below(4) {
                0 => assert_eq!(table.change(id, &[hop(n, 1), hop(n + 1, 2)]), Ok(true)),
                1 => assert_eq!(table.change(id, &[hop(n, 1)]), Ok(true)),
                2 => drop(table.set_up(false, |m| m.port == n.into())),
                _ => drop(table.set_up(true, |m| m.port == n.into())),
            }
            let groups = table.groups();
            for id in 0..30 {
                let said = groups.view().brief(id);
                let hop = groups.next_hop(id, random.bits() as u32).copied();
                if said.port != Brief::ASK.port {
                    brief += 1;
                    let gateway = said.gateway().map(IpAddr::V4);
                    let hop = hop.map(|hop| (hop.gateway, hop.port));
                    assert_eq!(hop, Some((gateway, said.port)), "{id}");
                } else if let Some(Member {
                    gateway: Some(IpAddr::V4(gateway)),
                    ..
                }) = hop
                {
                    let several = matches!(groups.choices[usize::from(id) - 1], Choice::Several(_));
                    assert!(several || gateway.is_unspecified(), "{id}");
                }
            }
        }
        assert!(brief > 1000, "{brief}");
    }

    #[test]
    fn equal_groups_share_an_id_until_the_last_user_leaves() {
        let mut table = GroupTable::new();
        let a = table.intern(&[hop(1, 1), hop(2, 1)]).unwrap();
        assert_eq!(table.intern(&[hop(2, 1), hop(1, 1)]), Ok(a));
        let b = table.intern(&[hop(1, 1), hop(1, 1), hop(2, 1)]).unwrap();
        assert_ne!(a, b);
        assert!(table.members(b).eq([(hop(1, 2), true), (hop(2, 1), true)]));
        table.release(a);
        assert!(table.groups().next_hop(a.get(), 0).is_some());
        table.release(a);
        assert_eq!(
            (table.groups().next_hop(a.get(), 0), table.len()),
            (None, 1)
        );
        let c = table.intern(&[hop(3, 1)]).unwrap();
        assert_ne!(c, a, "its id may still be on the way");
        let limbo = table.take_limbo();
        table.release_limbo(limbo);
        assert_eq!(table.intern(&[hop(4, 1)]), Ok(a));
    }

    #[test]
    fn a_group_without_live_members_leads_nowhere() {
        let mut table = GroupTable::new();
        let (a, b) = (
            table.intern(&[hop(1, 1)]).unwrap(),
            table.intern(&[hop(1, 1), hop(2, 7)]).unwrap(),
        );
        assert_eq!(table.set_up(false, |m| m.port == 1), 2);
        let groups = table.groups();
        assert_eq!(groups.next_hop(a.get(), 9), None);
        assert_eq!(groups.next_hop(b.get(), 9).map(|m| m.port), Some(2));
        assert_eq!(
            (groups.next_hop(0, 9), groups.next_hop(77, 9)),
            (None, None)
        );
    }

    #[test]
    fn a_group_that_was_added_is_its_owners_alone_and_changes_in_place() {
        let mut table = GroupTable::new();
        let shared = table.intern(&[hop(1, 1)]).unwrap();
        let own = table.add(&[hop(1, 1)]).unwrap();
        assert_ne!(own, shared);
        assert_eq!(table.change(own, &[hop(2, 1)]), Ok(true));
        assert!(map(&table, own).iter().all(|p| *p == Some(2)));
        assert!(map(&table, shared).iter().all(|p| *p == Some(1)));
        assert_eq!(table.change(shared, &[hop(2, 1)]), Ok(false));
        assert_eq!(table.change(own, &[]), Err(GroupError::Empty));
        assert_eq!(table.intern(&[hop(2, 1)]).map(|id| id == own), Ok(false));
        table.release(own);
        assert_eq!((table.len(), table.take_limbo().0), (2, vec![own]));
    }

    #[test]
    fn flows_stay_on_members_that_a_change_leaves_in_the_group() {
        let mut table = GroupTable::new();
        let two = [hop(1, 1), hop(2, 1)];
        let id = table.add(&two).unwrap();
        let before = map(&table, id);
        // With five members there are twice as many buckets.
        let five: Vec<_> = (1..=5).map(|n| hop(n, 1)).collect();
        table.change(id, &five).unwrap();
        let wide = map(&table, id);
        let moved = |a: &[Option<u16>], b: &[Option<u16>]| {
            a.iter().zip(b).filter(|(a, b)| a != b).count() as f64 / a.len() as f64
        };
        assert!(moved(&before, &wide) < 0.62, "three fifths must move");
        table.change(id, &[hop(1, 3), hop(2, 1)]).unwrap();
        let narrow = map(&table, id);
        assert!((share(&narrow, 1) - 0.75).abs() < 1.0 / 64.0);
        let kept = |port| {
            let both = wide.iter().zip(&narrow).filter(|(a, _)| **a == Some(port));
            both.clone().filter(|(a, b)| a == b).count() == both.count()
        };
        assert!(kept(1) && kept(2), "the shares of both have grown");
    }

    #[test]
    fn mistakes_are_refused_and_ids_run_out_politely() {
        let mut table = GroupTable::new();
        assert_eq!(table.intern(&[]), Err(GroupError::Empty));
        assert_eq!(table.intern(&[hop(1, 0)]), Err(GroupError::NoWeight));
        let many: Vec<_> = (0..300)
            .map(|port| Member {
                gateway: None,
                port,
                weight: 1,
            })
            .collect();
        assert_eq!(table.intern(&many), Err(GroupError::TooMany));
        assert!(table.intern(&many[..256]).is_ok());
        for port in 0..65534 {
            assert!(
                table
                    .intern(&[Member {
                        gateway: None,
                        port,
                        weight: 3
                    }])
                    .is_ok()
            );
        }
        assert_eq!(table.intern(&[hop(1, 1)]), Err(GroupError::NoIds));
        assert_eq!(table.intern(&[hop(1, 1)]), Err(GroupError::NoIds));
        let known = table
            .intern(&[Member {
                gateway: None,
                port: 7,
                weight: 3,
            }])
            .unwrap();
        table.release(known);
        table.release(known);
        assert_eq!(
            table.intern(&[hop(1, 1)]),
            Err(GroupError::NoIds),
            "still in limbo"
        );
        let limbo = table.take_limbo();
        table.release_limbo(limbo);
        assert_eq!(table.intern(&[hop(1, 1)]), Ok(known));
    }
}
