//! The kernel's routes, as control changes them and workers read them.

use super::address_sets::Listed;
use super::store::{Store, Writer};
use super::{Full, GroupError, GroupId, LOCAL, Member, NoMemory, Prefix};
use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;
use sync::publish::{Published, domain};
use tables::fib::Fib;
use tables::groups::Groups;

/// Polling interval, and number of polls, for which the writer waits until workers leave retired memory.
const POLL_INTERVAL: Duration = Duration::from_micros(100);
const POLLS_MAX: usize = 10_000;

/// Routes with addresses of `N` bytes. Each route refers to a group of next hops. The caller owns the groups and counts
/// their routes.
///
/// Link-local destinations are always local: multicast and broadcast (224.0.0.0/4, 255.255.255.255, ff00::/8), and
/// link-local addresses (fe80::/10). Routes within these prefixes are ignored.
pub struct Routes<const N: usize> {
    store: Store<N, WriterState>,
    /// IPv4 addresses whose routes lead to the router itself: its own, and broadcasts of its networks.
    local_sources: Published<Listed>,
}

/// Writer's state besides routes and groups.
#[derive(Default)]
pub struct WriterState {
    /// True if the latest groups are not yet published to workers.
    unseen: bool,
    /// True if staged routes could not be published because the table was full.
    full: bool,
    /// Addresses in [`Routes::local_sources`].
    local_addresses: BTreeSet<Ipv4Addr>,
}

impl<const N: usize> Routes<N> {
    /// A table with only the link-local prefixes.
    ///
    /// # Errors
    ///
    /// Memory for the table ran out.
    pub fn new() -> Result<Routes<N>, NoMemory> {
        let routes = Routes {
            store: Store::new(WriterState::default())?,
            local_sources: Published::new(domain(), Listed::default()),
        };
        let here = Member {
            gateway: None,
            port: LOCAL,
            labels: wire::mpls::Labels::NONE,
            weight: 1,
        };
        let mut writer = routes.store.lock();
        if let Ok(id) = writer.groups.add(&[here]) {
            writer.table_state.unseen = true;
            routes.show_groups(&mut writer);
            for prefix in on_link() {
                writer.rib.stage_insert(prefix, id);
            }
        }
        let told = writer.rib.publish();
        debug_assert!(told.is_ok(), "there is room for the first routes");
        drop(writer);
        Ok(routes)
    }

    /// Adds a group whose members are all up. Equal groups are not merged.
    pub fn add_group(&self, members: &[Member]) -> Result<GroupId, GroupError> {
        let mut writer = self.store.lock();
        writer.free_retired();
        let mut added = writer.groups.add(members);
        if added == Err(GroupError::OutOfIds) {
            // The ids of removed groups become free once workers have passed their epoch.
            wait_for_workers(&mut writer);
            added = writer.groups.add(members);
        }
        writer.table_state.unseen |= added.is_ok();
        added
    }

    /// Replaces the members of groups and publishes all changes together. The groups' routes stay unchanged, and flows
    /// stay on members that remain.
    ///
    /// # Errors
    ///
    /// The last error of an impossible change; all other changes take effect.
    pub fn change_groups<'a>(
        &self,
        changes: impl IntoIterator<Item = (GroupId, &'a [Member])>,
    ) -> Result<(), GroupError> {
        let mut writer = self.store.lock();
        let mut result = Ok(());
        for (id, members) in changes {
            match writer.groups.change(id, members) {
                Ok(changed) => writer.table_state.unseen |= changed,
                Err(wrong) => result = Err(wrong),
            }
        }
        self.show_groups(&mut writer);
        result
    }

    /// Removes a group without routes. Its id is reused once no worker can hold it.
    pub fn remove_group(&self, id: GroupId) {
        let mut writer = self.store.lock();
        let told = if writer.table_state.full {
            Err(Full)
        } else {
            Ok(())
        };
        writer.part_with(vec![id], told);
    }

    /// Sets or removes the group of each prefix, and publishes all changes together with previously added groups.
    ///
    /// # Errors
    ///
    /// The table is full. The changes remain staged, and workers may see a part of them; the next call publishes the
    /// others if there is room.
    pub fn apply(&self, changes: &[(Prefix<N>, Option<GroupId>)]) -> Result<(), Full> {
        let mut writer = self.store.lock();
        writer.free_retired();
        // Groups are published before routes, so that workers know the id of every route.
        self.show_groups(&mut writer);
        let own = on_link();
        let others = |prefix: &Prefix<N>| !own.iter().any(|own| own.covers(prefix));
        let mut own_changes = false;
        for (prefix, group) in changes.iter().filter(|(prefix, _)| others(prefix)) {
            own_changes |= writer.note_own(prefix, *group);
            match group {
                Some(id) => writer.rib.stage_insert(*prefix, *id),
                None => writer.rib.stage_remove(*prefix),
            };
        }
        if own_changes {
            let mut list = Listed::default();
            list.extend(writer.table_state.local_addresses.iter().copied());
            self.local_sources.replace(list);
        }
        let mut published = writer.rib.publish();
        if published == Err(Full) {
            wait_for_workers(&mut writer);
            published = writer.rib.publish();
        }
        writer.table_state.full = published.is_err();
        writer.part_with(Vec::new(), published);
        published
    }

    /// Group of the route to exactly this prefix.
    pub fn get(&self, prefix: &Prefix<N>) -> Option<GroupId> {
        self.store.lock().rib.get(prefix)
    }

    /// Longest-prefix match of an address, for the control thread. Workers look up whole batches.
    pub fn lookup(&self, address: [u8; N]) -> Option<GroupId> {
        let (writer, host) = (self.store.lock(), Prefix::new(address, 8 * N as u8));
        let own = writer.rib.get(&host);
        own.or_else(|| writer.rib.covering(&host).map(|(_, id)| id))
    }

    /// Next hops of the group whose id `look` finds in the workers' table.
    pub fn next_hops(
        &self,
        look: impl FnOnce(&Fib<N>) -> Result<u16, String>,
    ) -> Result<Vec<Member>, String> {
        // The lock keeps ids from being reused.
        let writer = self.store.lock();
        let id = look(self.store.fib())?;
        Ok(GroupId::new(id).map_or(Vec::new(), |id| writer.hops(id)))
    }

    /// The members of a group.
    pub fn members(&self, id: GroupId) -> Vec<Member> {
        self.store.lock().hops(id)
    }

    /// Calls `each` for every route that was set, by address and then by length. Changes wait until the end.
    pub fn for_each(&self, each: &mut dyn FnMut(Prefix<N>, GroupId)) {
        let own = on_link();
        for (prefix, id) in self.store.lock().rib.iter() {
            if !own.contains(&prefix) {
                each(prefix, id);
            }
        }
    }

    /// Number of routes that were set.
    pub fn len(&self) -> usize {
        self.store.lock().rib.len() - on_link::<N>().len()
    }

    /// True if there are no routes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of added groups.
    pub fn groups_len(&self) -> usize {
        self.store.lock().groups.len() - 1
    }

    /// Memory of the table in bytes.
    pub fn memory(&self) -> usize {
        self.store.memory()
    }

    /// The structure in which workers look addresses up.
    #[inline]
    pub fn fib(&self) -> &Fib<N> {
        self.store.fib()
    }

    /// Sources that no packet from outside has: addresses of the router itself, and broadcasts of its networks.
    #[inline]
    pub fn local_sources(&self) -> &Published<Listed> {
        &self.local_sources
    }

    /// Groups of next hops, as workers read them.
    #[inline]
    pub fn groups(&self) -> &Published<Groups> {
        self.store.groups()
    }

    fn show_groups(&self, writer: &mut Writer<N, WriterState>) {
        if std::mem::take(&mut writer.table_state.unseen) {
            self.store.groups().replace(writer.groups.groups());
        }
    }
}

impl<const N: usize> Writer<N, WriterState> {
    /// Notes a change of a route of IPv4 to one address; true if the router's own addresses change.
    fn note_own(&mut self, prefix: &Prefix<N>, group: Option<GroupId>) -> bool {
        let address = prefix.address();
        let ([a, b, c, d], 32) = (&address[..], prefix.length()) else {
            return false;
        };
        let leads_here = |id| self.groups.members(id).any(|(hop, _)| hop.port == LOCAL);
        let address = Ipv4Addr::new(*a, *b, *c, *d);
        match group.is_some_and(leads_here) {
            true => self.table_state.local_addresses.insert(address),
            false => self.table_state.local_addresses.remove(&address),
        }
    }
}

/// Link-local prefixes, which are always local.
fn on_link<const N: usize>() -> [Prefix<N>; 2] {
    let prefix = |first: [u8; 2], length| {
        let mut address = [if first == [0xff; 2] { 0xff } else { 0 }; N];
        address[..2].copy_from_slice(&first);
        Prefix::new(address, length)
    };
    match N {
        4 => [prefix([224, 0], 4), prefix([0xff; 2], 32)],
        _ => [prefix([0xff, 0], 8), prefix([0xfe, 0x80], 10)],
    }
}

/// Waits until workers have left retired memory and ids, at most `POLLS_MAX` times `POLL_INTERVAL`.
fn wait_for_workers<const N: usize>(writer: &mut Writer<N, WriterState>) {
    writer.retire(Vec::new());
    for _ in 0..POLLS_MAX {
        writer.free_retired();
        if !writer.unsettled() {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

impl<const N: usize> fmt::Debug for Routes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} routes, {} groups", self.len(), self.groups_len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn hop(n: u8) -> Member {
        Member {
            gateway: Some(IpAddr::from([192, 0, 2, n])),
            port: 3,
            labels: wire::mpls::Labels::NONE,
            weight: 1,
        }
    }

    fn prefix(n: u8) -> Prefix<4> {
        Prefix::new([10, n, 0, 0], 16)
    }

    /// The gateway that a worker finds for an address of prefix `n`.
    fn gateway(routes: &Routes<4>, n: u8) -> Option<IpAddr> {
        use tables::fib::Structure;
        let id = routes.fib().lookup(u32::from_be_bytes([10, n, 1, 1]));
        let groups = routes.groups().snapshot();
        groups.next_hop(id, 0).and_then(|member| member.gateway)
    }

    #[test]
    fn routes_follow_their_group_and_equal_groups_stay_apart() {
        let routes = Routes::<4>::new().expect("memory");
        let a = routes.add_group(&[hop(1)]).expect("an id");
        let b = routes.add_group(&[hop(1)]).expect("an id");
        assert_ne!(a, b);
        let all = [
            (prefix(1), Some(a)),
            (prefix(2), Some(a)),
            (prefix(3), Some(b)),
        ];
        routes.apply(&all).expect("room");
        assert_eq!(gateway(&routes, 2), hop(1).gateway);
        routes.change_groups([(a, &[hop(2)][..])]).expect("members");
        let seen = [1, 2, 3].map(|n| gateway(&routes, n));
        assert_eq!(seen, [hop(2), hop(2), hop(1)].map(|hop| hop.gateway));
        assert_eq!(routes.get(&prefix(2)), Some(a));
        assert_eq!(routes.lookup([10, 3, 9, 9]), Some(b));
        assert_eq!(routes.change_groups([(a, &[][..])]), Err(GroupError::Empty));
        routes
            .apply(&[(prefix(1), None), (prefix(2), Some(b))])
            .expect("room");
        assert_eq!((routes.len(), gateway(&routes, 1)), (2, None));
        routes.remove_group(a);
        let mut left = Vec::new();
        routes.for_each(&mut |prefix, id| left.push((prefix, id)));
        assert_eq!(left, [(prefix(2), b), (prefix(3), b)]);
        assert_eq!(routes.members(b), [hop(1)]);
    }

    #[test]
    fn multicast_destinations_are_always_the_routers_own() {
        let four = Routes::<4>::new().expect("memory");
        let six = Routes::<16>::new().expect("memory");
        assert!(four.is_empty() && six.is_empty() && four.groups_len() == 0);
        let away = four.add_group(&[hop(1)]).expect("an id");
        let said = [
            ([224, 0, 0, 5], 32),
            ([224, 0, 0, 0], 4),
            ([128, 0, 0, 0], 1),
        ];
        let said = said.map(|(address, length)| (Prefix::new(address, length), Some(away)));
        four.apply(&said).expect("room");
        four.apply(&[(said[1].0, None)]).expect("room");
        assert_eq!(four.len(), 1, "the wide one");
        let port = |id: Option<GroupId>| four.members(id.expect("a route"))[0].port;
        let ports = [
            [224, 0, 0, 5],
            [239, 1, 2, 3],
            [255; 4],
            [255, 255, 255, 254],
        ];
        assert_eq!(
            ports.map(|a| port(four.lookup(a))),
            [LOCAL, LOCAL, LOCAL, 3]
        );
        let local = |text: &str| {
            let address: std::net::Ipv6Addr = text.parse().expect("an address");
            six.lookup(address.octets()).is_some()
        };
        let all = ["ff02::1", "fe80::1", "febf::1", "fec0::1", "2001:db8::1"];
        assert_eq!(all.map(local), [true, true, true, false, false]);
    }

    #[test]
    fn own_addresses_are_those_whose_routes_lead_to_the_router() {
        let routes = Routes::<4>::new().expect("memory");
        let here = Member {
            gateway: None,
            port: LOCAL,
            ..hop(0)
        };
        let [here, away] = [here, hop(1)].map(|hop| routes.add_group(&[hop]).expect("an id"));
        let host = |n| Prefix::new([10, 0, 0, n], 32);
        let own = || {
            let list = routes.local_sources().snapshot();
            [1, 2, 255].map(|n| list.contains(Ipv4Addr::new(10, 0, 0, n)))
        };
        assert_eq!(own(), [false; 3]);
        let all = [
            (host(1), Some(here)),
            (host(2), Some(away)),
            (host(255), Some(here)),
            (Prefix::new([10, 0, 0, 0], 24), Some(here)),
        ];
        routes.apply(&all).expect("room");
        assert_eq!(own(), [true, false, true]);
        routes
            .apply(&[(host(1), Some(away)), (host(2), Some(here))])
            .expect("room");
        assert_eq!(own(), [false, true, true]);
        routes
            .apply(&[(host(2), None), (host(255), None)])
            .expect("room");
        assert_eq!(own(), [false; 3]);
    }

    #[test]
    fn ids_of_groups_that_are_gone_come_back_when_there_are_no_others() {
        let routes = Routes::<4>::new().expect("memory");
        let mut ids = Vec::new();
        while let Ok(id) = routes.add_group(&[hop(1)]) {
            ids.push(id);
        }
        assert_eq!(ids.len(), 65_534);
        routes.remove_group(ids[7]);
        assert_eq!(routes.add_group(&[hop(2)]), Ok(ids[7]));
    }
}
