//! Routes of a kernel whose gateways matter, and nothing else: a cluster's routes.

use super::model::Image;
use forwarding::{BLACKHOLE, Full, GroupError, GroupId, Kernel, Member, Prefix};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use sync::Lock;

/// Callback that tells of new changes. It must not wait.
type Bell = Box<dyn Fn() + Send + Sync>;

/// Next hop of a kernel's route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Via {
    /// The gateway.
    pub(crate) gateway: IpAddr,
    /// Name of the kernel's interface.
    pub(crate) interface: Arc<str>,
    /// Share of the traffic.
    pub(crate) weight: u16,
}

/// Target of a kernel's route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// To gateways.
    Gateways(Arc<[Via]>),
    /// Nowhere: they are dropped.
    Nowhere,
    /// Somewhere else: a reason in words.
    Elsewhere(&'static str),
}

/// A changed prefix with its route; `None` if there is none.
pub(crate) type Changed = ((IpAddr, u8), Option<To>);

/// Routes of a kernel, and those that have changed since they were taken.
pub(crate) struct Collector {
    kernel: Arc<Kernel>,
    of: Lock<Collected>,
    bell: Bell,
}

#[derive(Default)]
struct Collected {
    v4: Routes<4>,
    v6: Routes<16>,
    /// True once all routes are known.
    complete: bool,
}

struct Routes<const N: usize> {
    groups: HashMap<GroupId, Option<To>>,
    last: u16,
    routes: BTreeMap<Prefix<N>, GroupId>,
    changed: BTreeSet<Prefix<N>>,
}

impl<const N: usize> Default for Routes<N> {
    fn default() -> Self {
        Routes {
            groups: HashMap::new(),
            last: 0,
            routes: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }
}

impl<const N: usize> Routes<N> {
    fn add(&mut self, to: Option<To>) -> Result<GroupId, GroupError> {
        for _ in 0..u16::MAX {
            self.last = self.last.wrapping_add(1);
            if let Some(id) = GroupId::new(self.last)
                && !self.groups.contains_key(&id)
            {
                self.groups.insert(id, to);
                return Ok(id);
            }
        }
        Err(GroupError::NoIds)
    }

    /// Changes groups, and notes the routes that use them, in one pass over all routes.
    fn set(&mut self, changes: HashMap<GroupId, Option<To>>) {
        let users = self.routes.iter();
        let users = users.filter(|(_, id)| changes.contains_key(id));
        self.changed.extend(users.map(|(prefix, _)| *prefix));
        self.groups.extend(changes);
    }

    fn apply(&mut self, changes: &[(Prefix<N>, Option<GroupId>)]) {
        for (prefix, id) in changes {
            match id {
                Some(id) => self.routes.insert(*prefix, *id),
                None => self.routes.remove(prefix),
            };
            self.changed.insert(*prefix);
        }
    }

    fn take(&mut self, most: usize, address: impl Fn([u8; N]) -> IpAddr, into: &mut Vec<Changed>) {
        while into.len() < most {
            let Some(prefix) = self.changed.pop_first() else {
                return;
            };
            let id = self.routes.get(&prefix);
            let to = id.and_then(|id| self.groups.get(id).cloned().flatten());
            into.push(((address(prefix.address()), prefix.length()), to));
        }
    }
}

/// The part of a collector for one family.
trait Side<const N: usize> {
    fn side(of: &mut Collected) -> &mut Routes<N>;
}

impl Side<4> for Collector {
    fn side(of: &mut Collected) -> &mut Routes<4> {
        &mut of.v4
    }
}

impl Side<16> for Collector {
    fn side(of: &mut Collected) -> &mut Routes<16> {
        &mut of.v6
    }
}

impl Collector {
    /// Empty collector. `bell` is called whenever there is something to take.
    pub(crate) fn new(bell: Bell) -> Arc<Collector> {
        Arc::new(Collector {
            kernel: Arc::default(),
            of: Lock::default(),
            bell,
        })
    }

    /// Interfaces by which routes are told apart.
    pub(super) fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Notes that all routes are known.
    pub(super) fn set_complete(&self) {
        self.of.lock().complete = true;
        (self.bell)();
    }

    /// Changed prefixes, `most` at most; and true if these are all, and all routes are known.
    pub(crate) fn take(&self, most: usize) -> (Vec<Changed>, bool) {
        let mut of = self.of.lock();
        let mut taken = Vec::new();
        of.v4.take(most, IpAddr::from, &mut taken);
        of.v6.take(most, IpAddr::from, &mut taken);
        let all = of.v4.changed.is_empty() && of.v6.changed.is_empty();
        (taken, all && of.complete)
    }

    /// Has all routes taken again.
    pub(crate) fn repeat(&self) {
        let mut of = self.of.lock();
        let Collected { v4, v6, .. } = &mut *of;
        v4.changed.extend(v4.routes.keys());
        v6.changed.extend(v6.routes.keys());
        drop(of);
        (self.bell)();
    }

    /// Meaning of a group; `None` for routes within the namespace and to its attached networks.
    fn to(&self, members: &[Member]) -> Option<To> {
        let interfaces = self.kernel.interfaces();
        let named = |number: u16| {
            let mut interfaces = interfaces.iter();
            let found = interfaces.find(|interface| interface.number() == number);
            found.map(|interface| interface.known_as())
        };
        let mut vias = Vec::with_capacity(members.len());
        for member in members {
            let Some(interface) = named(member.port) else {
                return match member.port {
                    BLACKHOLE => Some(To::Nowhere),
                    forwarding::LOCAL => None,
                    _ => Some(To::Elsewhere(
                        "it has no next hop that is up, or is answered by the kernel",
                    )),
                };
            };
            if !member.labels.is_empty() {
                return Some(To::Elsewhere("it pushes MPLS labels"));
            }
            vias.push(Via {
                gateway: member.gateway?,
                interface: interface.into(),
                weight: member.weight,
            });
        }
        vias.sort_unstable();
        Some(To::Gateways(vias.into()))
    }
}

impl<const N: usize> Image<N> for Collector
where
    Collector: Side<N>,
{
    fn add_group(&self, members: &[Member]) -> Result<GroupId, GroupError> {
        let to = self.to(members);
        Self::side(&mut self.of.lock()).add(to)
    }

    fn change_groups(&self, changes: &[(GroupId, &[Member])]) -> Result<(), GroupError> {
        let changes = changes.iter();
        let changes = changes.map(|(id, members)| (*id, self.to(members)));
        let changes = changes.collect();
        Self::side(&mut self.of.lock()).set(changes);
        (self.bell)();
        Ok(())
    }

    fn remove_group(&self, id: GroupId) {
        Self::side(&mut self.of.lock()).groups.remove(&id);
    }

    fn apply(&self, changes: &[(Prefix<N>, Option<GroupId>)]) -> Result<(), Full> {
        if !changes.is_empty() {
            Self::side(&mut self.of.lock()).apply(changes);
            (self.bell)();
        }
        Ok(())
    }
}
