//! A simulated kernel, the model of it and an image of its routes, side by side, for tests.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU16;

use forwarding::{Full, GroupError, GroupId, Member, Prefix};
use wire::netlink::{Event, RouteKind, TABLE_MAIN, messages};

use super::super::{Flushed, ForwardingTable, Link, Model, Part, Source};
use super::simulated::{SimMember, SimRoute, SimTable, SimTarget, Simulated, as_told};

/// An image that checks each change.
#[derive(Default)]
pub(super) struct Checked<const N: usize> {
    pub(super) groups: RefCell<BTreeMap<GroupId, Vec<Member>>>,
    pub(super) routes: RefCell<BTreeMap<Prefix<N>, GroupId>>,
    pub(super) applied: Cell<usize>,
    pub(super) groups_max: Option<usize>,
}

impl<const N: usize> ForwardingTable<N> for Checked<N> {
    fn add_group(&self, members: &[Member]) -> Result<GroupId, GroupError> {
        assert!(!members.is_empty());
        let mut groups = self.groups.borrow_mut();
        if Some(groups.len()) == self.groups_max {
            return Err(GroupError::OutOfIds);
        }
        let free = (1..).filter_map(NonZeroU16::new);
        let id = free.into_iter().find(|id| !groups.contains_key(id));
        let id = id.ok_or(GroupError::OutOfIds)?;
        groups.insert(id, members.to_vec());
        Ok(id)
    }

    fn change_groups(&self, changes: &[(GroupId, &[Member])]) -> Result<(), GroupError> {
        for (id, members) in changes {
            assert!(!members.is_empty());
            let old = self.groups.borrow_mut().insert(*id, members.to_vec());
            assert!(
                old.is_some_and(|old| old != *members),
                "a change of a group"
            );
        }
        Ok(())
    }

    fn remove_group(&self, id: GroupId) {
        assert!(self.groups.borrow_mut().remove(&id).is_some());
        assert!(self.routes.borrow().values().all(|used| *used != id));
    }

    fn apply(&self, changes: &[(Prefix<N>, Option<GroupId>)]) -> Result<(), Full> {
        self.applied.set(self.applied.get() + changes.len());
        for (prefix, group) in changes {
            match group {
                Some(id) => {
                    assert!(self.groups.borrow().contains_key(id));
                    self.routes.borrow_mut().insert(*prefix, *id);
                }
                None => drop(self.routes.borrow_mut().remove(prefix)),
            }
        }
        Ok(())
    }
}

impl<const N: usize> Checked<N> {
    pub(super) fn members(&self, prefix: &str) -> Option<Vec<SimMember>> {
        let (address, length) = prefix.split_once('/').unwrap();
        let address: IpAddr = address.parse().unwrap();
        let bytes = match address {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let prefix = Prefix::<N>::new(bytes.try_into().unwrap(), length.parse().unwrap());
        let id = *self.routes.borrow().get(&prefix)?;
        let groups = self.groups.borrow();
        Some(groups[&id].iter().map(as_told).collect())
    }
}

/// A kernel, the model of it, and the images that the model updates.
#[derive(Default)]
pub(super) struct Bench {
    pub(super) kernel: Simulated,
    pub(super) model: Option<Model>,
    pub(super) v4: Checked<4>,
    pub(super) v6: Checked<16>,
}

pub(super) const UP: Link = Link {
    number: Some(3),
    up: true,
    carrier: true,
};

impl Bench {
    /// Links 1 and 2 are interfaces 3 and 4 of the configuration, link 9 is not in it.
    pub(super) fn new() -> Bench {
        let mut bench = Bench {
            model: Some(Model::new(false)),
            ..Bench::default()
        };
        for (index, number) in [(1, Some(3)), (2, Some(4)), (9, None)] {
            bench.link(index, Link { number, ..UP });
        }
        bench.hear();
        bench
    }

    pub(super) fn model(&mut self) -> &mut Model {
        self.model.as_mut().unwrap()
    }

    pub(super) fn link(&mut self, index: u32, link: Link) {
        self.model().link(index, Some(link));
        self.kernel.set_link(index, link);
    }

    pub(super) fn tell(&mut self, buffers: &[Vec<u8>]) {
        for message in buffers.iter().flat_map(|bytes| messages(bytes)) {
            let message = message.unwrap();
            match message.event().unwrap() {
                Event::Route(change, route) => {
                    self.model()
                        .route(Source::Kernel, message.flags, change, &route);
                }
                Event::Nexthop(change, nexthop) => {
                    self.model().nexthop(Source::Kernel, change, &nexthop);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Passes the kernel's messages to the image.
    pub(super) fn hear(&mut self) -> Flushed {
        let sent = std::mem::take(&mut self.kernel.sent);
        self.tell(&sent);
        let model = self.model.as_mut().unwrap();
        model.flush(&self.v4, &self.v6).unwrap()
    }

    /// Dumps everything again; `meanwhile` runs during the dump.
    pub(super) fn sync(&mut self, meanwhile: impl FnOnce(&mut Simulated)) -> Flushed {
        let before = self.kernel.dump();
        self.kernel.sent.clear();
        meanwhile(&mut self.kernel);
        let after = self.kernel.dump();
        let parts = [Part::Nexthops, Part::Routes4, Part::Routes6];
        for (n, part) in parts.into_iter().enumerate() {
            self.model().begin_sync(Source::Kernel, part);
            // The first half of the dump has the state before the change, the second half the state after it.
            let cut = before[n].get(before[n].len() / 2).map(|told| told.0);
            let first = before[n].iter().filter(|told| Some(told.0) < cut);
            let rest = after[n].iter().filter(|told| Some(told.0) >= cut);
            for (_, bytes) in first.chain(rest) {
                self.tell(std::slice::from_ref(bytes));
            }
            self.model().end_sync(Source::Kernel, part);
        }
        self.hear()
    }

    pub(super) fn image(&self) -> SimTable {
        fn add<const N: usize>(
            image: &Checked<N>,
            into: &mut impl FnMut((IpAddr, u8), Vec<Member>),
        ) {
            for (prefix, id) in image.routes.borrow().iter() {
                let bytes = prefix.address();
                let ip = match <[u8; 4]>::try_from(&bytes[..]) {
                    Ok(v4) => IpAddr::from(v4),
                    Err(_) => IpAddr::from(<[u8; 16]>::try_from(&bytes[..]).unwrap()),
                };
                into((ip, prefix.length()), image.groups.borrow()[id].clone());
            }
        }
        let mut all = BTreeMap::new();
        let mut into = |dst, members: Vec<Member>| {
            all.insert(dst, members.iter().map(as_told).collect());
        };
        add(&self.v4, &mut into);
        add(&self.v6, &mut into);
        all
    }

    pub(super) fn agree(&self, about: &dyn std::fmt::Debug) {
        let (image, kernel) = (self.image(), self.kernel.table());
        assert_eq!(image, kernel, "after {about:?}");
        let used: BTreeSet<_> = self.v4.routes.borrow().values().copied().collect();
        assert!(self.v4.groups.borrow().len() <= used.len() + 3 + self.kernel.routes.len());
    }
}

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(super) fn route(dst: &str, metric: u32, hops: &[(u32, &str)]) -> SimRoute {
    let (address, length) = dst.split_once('/').unwrap();
    let hops = hops.iter().map(|(link, gateway)| {
        let gateway = (!gateway.is_empty()).then(|| ip(gateway));
        (*link, gateway, 1)
    });
    SimRoute {
        dst: (ip(address), length.parse().unwrap()),
        table: TABLE_MAIN,
        metric,
        protocol: 3,
        kind: RouteKind::Unicast,
        target: SimTarget::Hops(hops.collect()),
    }
}

pub(super) fn by_object(dst: &str, id: u32) -> SimRoute {
    SimRoute {
        target: SimTarget::Object(id),
        ..route(dst, 0, &[])
    }
}

pub(super) fn hop(gateway: &str, port: u16) -> SimMember {
    (port, Some(ip(gateway)), 1)
}
