//! Collector of a kernel's routes with their gateways, for a cluster.

use super::model::ForwardingTable;
use forwarding::{BLACKHOLE, Full, GroupError, GroupId, Kernel, Member, Prefix};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use sync::Lock;

/// Callback for new changes. It must not block.
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
    /// Gateways.
    Gateways(Arc<[Via]>),
    /// None: packets are dropped.
    Nowhere,
    /// A target that a cluster cannot use, with the reason in words.
    Elsewhere(&'static str),
}

/// A changed prefix with its new route; `None` if the route was removed.
pub(crate) type Changed = ((IpAddr, u8), Option<To>);

/// Routes of a kernel, and the routes that have changed since the last [`take`](Self::take).
pub(crate) struct Collector {
    kernel: Arc<Kernel>,
    collected: Lock<Collected>,
    on_change: Bell,
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
    last_group: u16,
    routes: BTreeMap<Prefix<N>, GroupId>,
    changed: BTreeSet<Prefix<N>>,
}

impl<const N: usize> Default for Routes<N> {
    fn default() -> Self {
        Routes {
            groups: HashMap::new(),
            last_group: 0,
            routes: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }
}

impl<const N: usize> Routes<N> {
    fn add(&mut self, to: Option<To>) -> Result<GroupId, GroupError> {
        for _ in 0..u16::MAX {
            self.last_group = self.last_group.wrapping_add(1);
            if let Some(id) = GroupId::new(self.last_group)
                && !self.groups.contains_key(&id)
            {
                self.groups.insert(id, to);
                return Ok(id);
            }
        }
        Err(GroupError::OutOfIds)
    }

    /// Changes groups, and records the routes that use them as changed, in one pass over all routes.
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

    fn take(&mut self, limit: usize, address: impl Fn([u8; N]) -> IpAddr, into: &mut Vec<Changed>) {
        while into.len() < limit {
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
trait FamilyRoutes<const N: usize> {
    fn routes_of_family(collected: &mut Collected) -> &mut Routes<N>;
}

impl FamilyRoutes<4> for Collector {
    fn routes_of_family(collected: &mut Collected) -> &mut Routes<4> {
        &mut collected.v4
    }
}

impl FamilyRoutes<16> for Collector {
    fn routes_of_family(collected: &mut Collected) -> &mut Routes<16> {
        &mut collected.v6
    }
}

impl Collector {
    /// Empty collector. `on_change` is called when there are changes to take.
    pub(crate) fn new(bell: Bell) -> Arc<Collector> {
        Arc::new(Collector {
            kernel: Arc::default(),
            collected: Lock::default(),
            on_change: bell,
        })
    }

    /// Interfaces of the namespace, by which routes are distinguished.
    pub(super) fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }

    /// Records that all routes are known.
    pub(super) fn set_complete(&self) {
        self.collected.lock().complete = true;
        (self.on_change)();
    }

    /// Changed prefixes, at most `limit`; and true if these are all changes and all routes are known.
    pub(crate) fn take(&self, limit: usize) -> (Vec<Changed>, bool) {
        let mut of = self.collected.lock();
        let mut taken = Vec::new();
        of.v4.take(limit, IpAddr::from, &mut taken);
        of.v6.take(limit, IpAddr::from, &mut taken);
        let all = of.v4.changed.is_empty() && of.v6.changed.is_empty();
        (taken, all && of.complete)
    }

    /// Marks all routes as changed.
    pub(crate) fn repeat(&self) {
        let mut of = self.collected.lock();
        let Collected { v4, v6, .. } = &mut *of;
        v4.changed.extend(v4.routes.keys());
        v6.changed.extend(v6.routes.keys());
        drop(of);
        (self.on_change)();
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

impl<const N: usize> ForwardingTable<N> for Collector
where
    Collector: FamilyRoutes<N>,
{
    fn add_group(&self, members: &[Member]) -> Result<GroupId, GroupError> {
        let to = self.to(members);
        Self::routes_of_family(&mut self.collected.lock()).add(to)
    }

    fn change_groups(&self, changes: &[(GroupId, &[Member])]) -> Result<(), GroupError> {
        let changes = changes.iter();
        let changes = changes.map(|(id, members)| (*id, self.to(members)));
        let changes = changes.collect();
        Self::routes_of_family(&mut self.collected.lock()).set(changes);
        (self.on_change)();
        Ok(())
    }

    fn remove_group(&self, id: GroupId) {
        Self::routes_of_family(&mut self.collected.lock())
            .groups
            .remove(&id);
    }

    fn apply(&self, changes: &[(Prefix<N>, Option<GroupId>)]) -> Result<(), Full> {
        if !changes.is_empty() {
            Self::routes_of_family(&mut self.collected.lock()).apply(changes);
            (self.on_change)();
        }
        Ok(())
    }
}
