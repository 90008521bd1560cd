//! Routes and their next hops, from a configuration and from handlers.

use super::route_bound::RouteBound;
use super::route_syntax::{Command, Hops, show_hops};
use super::store::{self, Store};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use tables::fib::{Fib, Full, NoMemory, Prefix, Structure};
use tables::groups::{GroupId, Member};

/// A routing table.
pub struct Table<const N: usize, S: Structure<N> = Fib<N>>(Store<N, WriterState<N>, S>);

/// Writer's state besides routes and groups.
pub struct WriterState<const N: usize> {
    /// Routes of the configuration, in order.
    configured: Vec<(Prefix<N>, Hops)>,
    /// Commands that marked next hops up or down, in order. They also apply to routes added later.
    commands: Vec<(HopSelector, bool)>,
    /// Maximum number of routes.
    bound: Arc<RouteBound>,
}

type Writer<const N: usize, S> = store::Writer<N, WriterState<N>, S>;

impl<const N: usize, S: Structure<N>> Deref for Table<N, S> {
    type Target = Store<N, WriterState<N>, S>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// Selection of next hops by gateway (`None`: those without a gateway), and by port if it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopSelector {
    /// Gateway; `None` for next hops without one.
    pub gateway: Option<IpAddr>,
    /// Port; `None` for all ports.
    pub port: Option<u16>,
}

impl HopSelector {
    /// True if this selection contains all next hops of `other`.
    fn covers(&self, other: &HopSelector) -> bool {
        self.gateway == other.gateway && (self.port.is_none() || self.port == other.port)
    }

    fn matches(&self, member: &Member) -> bool {
        member.gateway == self.gateway && self.port.is_none_or(|port| port == member.port)
    }
}

/// Reason why commands were refused: the index of the failing command, and a message.
pub type Refused = (usize, String);

impl<const N: usize, S: Structure<N>> Table<N, S> {
    /// Adds the routes of a configuration, `limit` at most, to an empty table. The last route to a prefix counts.
    pub fn configure(
        &self,
        limit: usize,
        mut routes: Vec<(Prefix<N>, Hops)>,
    ) -> Result<(), Refused> {
        let commands = routes.iter().map(|(p, h)| Command::Set(*p, Arc::clone(h)));
        self.apply_within(limit, &commands.collect::<Vec<_>>(), |_| String::new())?;
        routes.reverse();
        routes.sort_by_key(|(prefix, _)| *prefix); // stable: the last one comes first now
        routes.dedup_by_key(|(prefix, _)| *prefix);
        self.lock().table_state.configured = routes;
        Ok(())
    }

    /// An empty table.
    ///
    /// # Errors
    ///
    /// Memory for the lookup structure ran out.
    pub fn new(bound: Arc<RouteBound>) -> Result<Table<N, S>, NoMemory> {
        let known = WriterState {
            configured: Vec::new(),
            commands: Vec::new(),
            bound,
        };
        Store::new(known).map(Table)
    }

    /// Executes all commands or none. `show` formats a prefix for messages.
    pub fn apply(
        &self,
        commands: &[Command<N>],
        show: impl Fn(Prefix<N>) -> String,
    ) -> Result<(), Refused> {
        let most = self.lock().table_state.bound.get();
        self.apply_within(most, commands, show)
    }

    /// Executes all commands or none, with at most `limit` routes in the table.
    fn apply_within(
        &self,
        limit: usize,
        commands: &[Command<N>],
        show: impl Fn(Prefix<N>) -> String,
    ) -> Result<(), Refused> {
        let mut writer = self.lock();
        writer.free_retired();
        let groups = writer.groups.len();
        let ids = writer.intern(commands);
        if writer.groups.len() != groups {
            // Groups are published before routes, so that workers know the id of every route. This also holds for
            // refused commands, whose groups later commands may use until they are freed.
            writer.follow_said();
            self.groups().replace(writer.groups.groups());
        }
        writer.change(limit, commands, &ids?, show)
    }

    /// Removes all routes.
    pub fn flush(&self) {
        let mut writer = self.lock();
        writer.free_retired();
        let all: Vec<Prefix<N>> = writer.rib.iter().map(|(p, _)| p).collect();
        let ids = all.into_iter().filter_map(|p| writer.rib.stage_remove(p));
        let ids = ids.collect();
        let published = writer.rib.publish();
        writer.part_with(ids, published);
    }

    /// Marks the selected next hops up or down. Returns the number of groups changed.
    pub fn set_up(&self, up: bool, which: HopSelector) -> usize {
        let mut writer = self.lock();
        writer
            .table_state
            .commands
            .retain(|(before, _)| !which.covers(before));
        // Entry "up" is recorded only if an entry for a wider selection exists.
        if !up
            || writer
                .table_state
                .commands
                .iter()
                .any(|(before, _)| before.covers(&which))
        {
            writer.table_state.commands.push((which, up));
        }
        let changed = writer.groups.set_up(up, |member| which.matches(member));
        self.groups().replace(writer.groups.groups());
        changed
    }

    /// Number of routes.
    pub fn count(&self) -> usize {
        self.lock().rib.len()
    }

    /// Text form of all routes, one per line.
    pub fn show(&self, show: impl Fn(Prefix<N>) -> String) -> String {
        let writer = self.lock();
        let mut text = String::new();
        for (prefix, id) in writer.rib.iter() {
            text.push_str(&row(&show(prefix), &show_hops(&writer.hops(id))));
        }
        text
    }

    /// Calls `see` for each route.
    pub fn for_each(&self, mut see: impl FnMut(Prefix<N>, &[Member])) {
        let writer = self.lock();
        for (prefix, id) in writer.rib.iter() {
            see(prefix, &writer.hops(id));
        }
    }

    /// Calls `see` for each difference from the configuration: with the next hops of a route that the configuration
    /// lacks, and with no next hops for a route that only the configuration has.
    pub fn each_change(&self, mut see: impl FnMut(Prefix<N>, &[Member])) {
        let writer = self.lock();
        for (prefix, id) in writer.rib.iter() {
            let (hops, configured) = (writer.hops(id), writer.configured(&prefix));
            // Next hops are compared sorted, because a group sorts its members.
            let sorted = |hops: &[Member]| {
                let mut hops = hops.to_vec();
                hops.sort_unstable();
                hops
            };
            if configured.is_none_or(|known| sorted(known) != sorted(&hops)) {
                see(prefix, &hops);
            }
        }
        for (prefix, _) in &writer.table_state.configured {
            if writer.rib.get(prefix).is_none() {
                see(*prefix, &[]);
            }
        }
    }

    /// Longest-prefix route to an address.
    pub fn route_of(&self, address: [u8; N]) -> Option<(Prefix<N>, Vec<Member>)> {
        let writer = self.lock();
        let lengths = (0..=Prefix::<N>::BITS).rev();
        let mut prefixes = lengths.map(|length| Prefix::new(address, length));
        prefixes.find_map(|prefix| Some((prefix, writer.hops(writer.rib.get(&prefix)?))))
    }

    /// Next hops of the group that `look` finds. The lock keeps the writer from reusing ids, so the caller need not be
    /// a reader of the epoch domain.
    pub fn hops(
        &self,
        look: impl FnOnce(&S) -> Result<u16, String>,
    ) -> Result<Vec<Member>, String> {
        let writer = self.lock();
        let id = look(self.fib())?;
        Ok(GroupId::new(id).map_or(Vec::new(), |id| writer.hops(id)))
    }

    /// Text form of the groups in use, one per line: id, number of routes, next hops and their states.
    pub fn show_groups(&self) -> String {
        let writer = self.lock();
        let mut users: BTreeMap<GroupId, usize> = BTreeMap::new();
        for (_, id) in writer.rib.iter() {
            *users.entry(id).or_default() += 1;
        }
        let line = |(id, users): (GroupId, usize)| {
            let each = writer.groups.members(id).map(|(member, up)| {
                let state = if up { "up" } else { "down" };
                format!("{} {state}", show_hops([&member]))
            });
            let hops: Vec<String> = each.collect();
            format!("{id} {users} {}\n", hops.join(" | "))
        };
        users.into_iter().map(line).collect()
    }

    /// Takes over the routes of an old table. Where both configurations differ in a route, the new configuration
    /// decides. `port` is the new number of an old port, `None` for a port that is gone, with its routes.
    pub fn inherit(&self, old: &Table<N, S>, port: impl Fn(u16) -> Option<u16>) {
        let old = old.lock();
        let writer = self.lock();
        let mut commands = Vec::new();
        let mut hops: HashMap<GroupId, Option<Hops>> = HashMap::new();
        let moved = |hops: &[Member]| -> Option<Hops> {
            let each = hops.iter().map(|hop| {
                Some(Member {
                    port: port(hop.port)?,
                    ..*hop
                })
            });
            each.collect()
        };
        let stays = |prefix: &Prefix<N>| match (old.configured(prefix), writer.configured(prefix)) {
            (None, None) => true,
            (Some(was), Some(is)) => moved(was).as_ref() == Some(is),
            _ => false,
        };
        for (prefix, id) in old.rib.iter().filter(|(prefix, _)| stays(prefix)) {
            let hops = hops.entry(id).or_insert_with(|| moved(&old.hops(id)));
            if let Some(hops) = hops {
                commands.push(Command::Set(prefix, Arc::clone(hops)));
            }
        }
        for (prefix, _) in &writer.table_state.configured {
            if stays(prefix) && old.rib.get(prefix).is_none() {
                commands.push(Command::Remove(*prefix, None));
            }
        }
        let said = old.table_state.commands.clone();
        drop((old, writer));
        // All routes fit, because the new table has at most as many as the old one. The bound does not apply to routes
        // taken over.
        let _ = self.apply_within(usize::MAX, &commands, |_| String::new());
        for (which, up) in said {
            let port = which.port.map(&port);
            if port != Some(None) {
                let port = port.flatten();
                self.set_up(up, HopSelector { port, ..which });
            }
        }
    }
}

impl<const N: usize, S: Structure<N>> Writer<N, S> {
    fn configured(&self, prefix: &Prefix<N>) -> Option<&Hops> {
        let at = self
            .table_state
            .configured
            .binary_search_by_key(prefix, |(p, _)| *p);
        at.ok().map(|at| &self.table_state.configured[at].1)
    }

    /// Acquires a group id for the next hops of each command that has some.
    fn intern(&mut self, commands: &[Command<N>]) -> Result<Vec<Option<GroupId>>, Refused> {
        // Commands that were parsed together share equal next hops.
        let mut known: HashMap<*const Member, GroupId> = HashMap::new();
        let mut ids = Vec::with_capacity(commands.len());
        for (i, command) in commands.iter().enumerate() {
            let (Command::Add(_, hops) | Command::Set(_, hops)) = command else {
                ids.push(None);
                continue;
            };
            let id = match known.get(&hops.as_ptr()) {
                Some(id) => {
                    self.groups.retain(*id);
                    *id
                }
                None => match self.groups.intern(hops) {
                    Ok(id) => id,
                    Err(wrong) => {
                        // Workers have not seen these ids; retiring them is safe, but slower than needed.
                        self.retire(ids.into_iter().flatten().collect());
                        return Err((i, wrong.to_string()));
                    }
                },
            };
            known.insert(hops.as_ptr(), id);
            ids.push(Some(id));
        }
        Ok(ids)
    }

    /// Applies the recorded up and down states to the next hops of new groups.
    fn follow_said(&mut self) {
        for (which, up) in &self.table_state.commands {
            self.groups.set_up(*up, |member| which.matches(member));
        }
    }

    fn change(
        &mut self,
        limit: usize,
        commands: &[Command<N>],
        ids: &[Option<GroupId>],
        show: impl Fn(Prefix<N>) -> String,
    ) -> Result<(), Refused> {
        let mut before: Vec<(Prefix<N>, Option<GroupId>)> = Vec::with_capacity(commands.len());
        let mut wrong = None;
        let had = self.rib.len();
        for (i, (command, id)) in commands.iter().zip(ids).enumerate() {
            match self.change_one(command, *id, &show) {
                Ok(change) => before.push(change),
                Err(why) => {
                    wrong = Some((i, why));
                    break;
                }
            }
        }
        // A table beyond a lowered bound may still lose routes.
        let has = self.rib.len();
        if wrong.is_none() && has > had && has > limit {
            let why = format!(
                "each table of the router may have {limit} routes at most (`routes`), and this makes {has}"
            );
            wrong = Some((commands.len() - 1, why));
        }
        if wrong.is_none()
            && let Err(full) = self.rib.publish()
        {
            wrong = Some((commands.len() - 1, full.to_string())); // without commands none is staged
        }
        match wrong {
            Some(wrong) => {
                let published = self.undo(before);
                self.part_with(ids.iter().copied().flatten().collect(), published);
                Err(wrong)
            }
            None => {
                let ids = before.into_iter().filter_map(|(_, id)| id).collect();
                self.part_with(ids, Ok(()));
                Ok(())
            }
        }
    }

    /// Stages one command. Returns the prefix and its former group id.
    fn change_one(
        &mut self,
        command: &Command<N>,
        id: Option<GroupId>,
        show: impl Fn(Prefix<N>) -> String,
    ) -> Result<(Prefix<N>, Option<GroupId>), String> {
        match (command, id) {
            (Command::Remove(prefix, hops), _) => {
                let id = self.rib.get(prefix);
                let same = |id| {
                    let wanted = hops.as_ref().map(|hops| normal(hops));
                    wanted.is_none_or(|hops| hops == self.hops(id))
                };
                match id.filter(|id| same(*id)) {
                    Some(_) => Ok((*prefix, self.rib.stage_remove(*prefix))),
                    None => {
                        let hops = hops.as_ref().map_or("- -1".to_owned(), |h| show_hops(&**h));
                        Err(format!("route '{} {hops}' not found", show(*prefix)))
                    }
                }
            }
            (Command::Add(prefix, _), Some(id)) => match self.rib.get(prefix) {
                Some(old) => Err(format!(
                    "conflict with existing route '{} {}'",
                    show(*prefix),
                    show_hops(&self.hops(old))
                )),
                None => Ok((*prefix, self.rib.stage_insert(*prefix, id))),
            },
            (Command::Set(prefix, _), Some(id)) => {
                Ok((*prefix, self.rib.stage_insert(*prefix, id)))
            }
            (Command::Add(..) | Command::Set(..), None) => Err("it has no next hop".to_owned()),
        }
    }

    /// Reverts staged changes. If memory for publishing runs out while freed memory waits in limbo, readers see the
    /// reverted routes with the next change.
    fn undo(&mut self, before: Vec<(Prefix<N>, Option<GroupId>)>) -> Result<(), Full> {
        for (prefix, id) in before.into_iter().rev() {
            match id {
                Some(id) => self.rib.stage_insert(prefix, id),
                None => self.rib.stage_remove(prefix),
            };
        }
        self.rib.publish()
    }
}

/// Text form of a route: prefix, gateway and port in columns of Click's widths, then further next hops.
pub fn row(prefix: &str, hops: &str) -> String {
    let (gateway, port) = hops.split_once(' ').unwrap_or((hops, ""));
    let column = |text: &str, width: usize| match text.len() + 1 < width {
        true => format!("{text}\t\t"),
        false => format!("{text}\t"),
    };
    format!("{}{}{port}\n", column(prefix, 17), column(gateway, 9))
}

/// Next hops in the order in which a group stores them.
fn normal(hops: &[Member]) -> Vec<Member> {
    let mut hops = hops.to_vec();
    hops.sort_unstable();
    hops
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that leads a prefix to a gateway, and that gateway's next hop.
    fn set(n: u8) -> Command<4> {
        let hop = Member {
            gateway: Some(IpAddr::from([192, 0, 2, n])),
            port: 0,
            labels: wire::mpls::Labels::NONE,
            weight: 1,
        };
        Command::Set(Prefix::new([10, 0, 0, 0], 8), [hop].into())
    }

    /// Waits until no reader of this process blocks, and takes a free id then.
    fn id_of(writer: &mut Writer<4, Fib<4>>, n: u8) -> GroupId {
        testkit::wait_until("readers to be past it", || {
            writer.free_retired();
            !writer.unsettled()
        });
        let ids = writer.intern(&[set(n)]).expect("there are ids");
        ids[0].expect("it has a next hop")
    }

    #[test]
    fn an_id_that_readers_may_still_find_is_not_used_again() {
        let table = Table::<4>::new(Arc::default()).expect("memory");
        let mut writer = table.lock();
        let first = id_of(&mut writer, 1);
        // The route was removed, but the table had no room to record it.
        writer.part_with(vec![first], Err(Full));
        let second = id_of(&mut writer, 2);
        assert_ne!(second, first);
        writer.part_with(vec![second], Ok(()));
        let mut free = [id_of(&mut writer, 3), id_of(&mut writer, 4)];
        free.sort_unstable();
        assert_eq!(free, [first, second]);
    }
}
