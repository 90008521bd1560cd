//! A minimal simulation of a Linux kernel's routing state for tests: it sends the same messages as the kernel, and is
//! silent where the kernel is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use forwarding::{BLACKHOLE, EXCEPTION, FORWARDED, LOCAL, Member};
use wire::netlink::{
    self, NLM_F_APPEND, NLM_F_CREATE, NLM_F_MULTI, NLM_F_REPLACE, NewHop, NewRoute, RTM_DELNEXTHOP,
    RTM_DELROUTE, RTM_NEWROUTE, RTNH_F_DEAD, RTNH_F_LINKDOWN, RouteKind, TABLE_LOCAL, Target,
    Writer,
};

use super::super::Link;

/// A destination.
pub(super) type Dst = (IpAddr, u8);

/// A member of a group: port, gateway, weight.
pub(super) type SimMember = (u16, Option<IpAddr>, u16);

/// Group members for packets to each destination.
pub(super) type SimTable = BTreeMap<Dst, BTreeSet<SimMember>>;

/// Index of a link, gateway, weight.
pub(super) type SimHop = (u32, Option<IpAddr>, u16);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SimTarget {
    None,
    Hops(Vec<SimHop>),
    Object(u32),
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SimRoute {
    pub(super) dst: Dst,
    pub(super) table: u32,
    pub(super) metric: u32,
    pub(super) protocol: u8,
    pub(super) kind: RouteKind,
    pub(super) target: SimTarget,
}

impl SimRoute {
    fn is4(&self) -> bool {
        self.dst.0.is_ipv4()
    }

    fn same_rank(&self, other: &SimRoute) -> bool {
        (self.dst, self.table, self.metric) == (other.dst, other.table, other.metric)
    }

    /// True if the route combines with others of IPv6 into a multipath route.
    fn joins(&self) -> bool {
        match &self.target {
            SimTarget::Hops(hops) => !self.is4() && hops.iter().all(|hop| hop.1.is_some()),
            _ => false,
        }
    }

    fn hops(&self) -> &[SimHop] {
        match &self.target {
            SimTarget::Hops(hops) => hops,
            _ => &[],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SimObject {
    One(SimHop),
    Blackhole,
    Group(Vec<(u32, u16)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Append,
    Prepend,
    Replace,
}

/// The kernel.
#[derive(Debug, Clone, Default)]
pub(super) struct Simulated {
    pub(super) links: BTreeMap<u32, Link>,
    pub(super) objects: BTreeMap<u32, SimObject>,
    /// Routes, in the kernel's order.
    pub(super) routes: Vec<SimRoute>,
    /// Messages since the last query.
    pub(super) sent: Vec<Vec<u8>>,
}

impl Simulated {
    fn send(&mut self, write: impl FnOnce(&mut Writer<'_>) -> Result<(), netlink::Full>) {
        let mut buffer = [0; 2048];
        let mut writer = Writer::new(&mut buffer);
        write(&mut writer).expect("a message of a few hops fits");
        self.sent.push(writer.bytes().to_vec());
    }

    fn send_route(&mut self, kind: u16, flags: u16, route: &SimRoute) {
        let flag = |hop: &SimHop| match self.links.get(&hop.0) {
            Some(link) if !link.up => RTNH_F_DEAD | RTNH_F_LINKDOWN,
            Some(link) if !link.carrier => RTNH_F_LINKDOWN,
            _ => 0,
        };
        let hops = route.hops().iter().map(|hop| NewHop {
            interface: hop.0,
            gateway: hop.1,
            weight: hop.2,
            flags: flag(hop),
        });
        let hops: Vec<NewHop> = hops.collect();
        let new = NewRoute {
            dst: route.dst.0,
            dst_len: route.dst.1,
            table: route.table,
            protocol: route.protocol,
            kind: match route.target {
                SimTarget::Object(id) if self.objects.get(&id) == Some(&SimObject::Blackhole) => {
                    RouteKind::Blackhole
                }
                _ => route.kind,
            },
            priority: route.metric,
            target: match &route.target {
                SimTarget::None => Target::None,
                SimTarget::Hops(_) => Target::Hops(&hops),
                SimTarget::Object(id) => Target::Nexthop(*id),
            },
        };
        self.send(|w| w.route(kind, flags, 0, &new));
    }

    fn send_object(&mut self, id: u32, flags: u16) {
        match self.objects[&id].clone() {
            SimObject::Blackhole => self.send(|w| w.nexthop(flags, 0, id, &Target::None)),
            SimObject::One((interface, gateway, weight)) => {
                let hop = [NewHop {
                    interface,
                    gateway,
                    weight,
                    flags: 0,
                }];
                self.send(|w| w.nexthop(flags, 0, id, &Target::Hops(&hop)));
            }
            SimObject::Group(members) => {
                let members = members.iter().map(|(id, weight)| netlink::Member {
                    id: *id,
                    weight: (*weight).into(),
                });
                let members: Vec<_> = members.collect();
                self.send(|w| w.nexthop(flags, 0, id, &Target::Group(&members)));
            }
        }
    }

    /// `ip route append`, `prepend` or `replace`. Returns true if the kernel accepts it.
    pub(super) fn add(&mut self, verb: Verb, route: SimRoute) -> bool {
        let rank = |r: &SimRoute| r.same_rank(&route);
        if route.joins() && verb != Verb::Replace {
            return self.join(route);
        }
        if self.routes.contains(&route) {
            return false;
        }
        let first = self.routes.iter().position(rank);
        let flags = match verb {
            Verb::Append => NLM_F_CREATE | NLM_F_APPEND,
            Verb::Prepend => NLM_F_CREATE,
            Verb::Replace => NLM_F_REPLACE,
        };
        let alike = |r: &SimRoute| rank(r) && (route.is4() || r.joins() == route.joins());
        let replaced = self.routes.iter().position(alike).or(first);
        match (verb, replaced) {
            (Verb::Replace, Some(at)) => self.routes[at] = route.clone(),
            (Verb::Prepend, _) if route.is4() => {
                self.routes.insert(first.unwrap_or(0), route.clone());
            }
            _ => self.routes.push(route.clone()),
        }
        self.send_route(RTM_NEWROUTE, flags, &route);
        true
    }

    fn join(&mut self, route: SimRoute) -> bool {
        let whole = self.routes.iter_mut();
        let mut whole = whole.filter(|r| r.same_rank(&route) && r.joins());
        let new = match whole.next() {
            None => {
                drop(whole);
                self.routes.push(route.clone());
                route
            }
            Some(known) => {
                let SimTarget::Hops(hops) = &mut known.target else {
                    return false;
                };
                let has = |hop: &SimHop| hops.iter().any(|h| (h.0, h.1) == (hop.0, hop.1));
                if route.hops().iter().any(has) {
                    return false;
                }
                hops.extend(route.hops());
                known.clone()
            }
        };
        self.send_route(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND, &new);
        true
    }

    /// `ip route del` of the `n`th route.
    pub(super) fn delete(&mut self, n: usize) {
        let route = self.routes.remove(n);
        self.send_route(RTM_DELROUTE, 0, &route);
    }

    /// `ip -6 route del` of one hop of the `n`th route, which has several.
    pub(super) fn delete_hop(&mut self, n: usize, hop: usize) {
        let mut part = self.routes[n].clone();
        let SimTarget::Hops(hops) = &mut self.routes[n].target else {
            return;
        };
        part.target = SimTarget::Hops(vec![hops.remove(hop)]);
        self.send_route(RTM_DELROUTE, 0, &part);
    }

    pub(super) fn set_object(&mut self, id: u32, object: SimObject) {
        let had = self.objects.insert(id, object).is_some();
        self.send_object(id, if had { NLM_F_REPLACE } else { NLM_F_CREATE });
        if had {
            // The kernel does this with net.ipv4.nexthop_compat_mode.
            let mut using = self.using(id);
            for (group, object) in &self.objects {
                if matches!(object, SimObject::Group(m) if m.iter().any(|m| m.0 == id)) {
                    using.extend(self.using(*group));
                }
            }
            for route in using {
                self.send_route(RTM_NEWROUTE, NLM_F_REPLACE, &route);
            }
        }
    }

    fn using(&self, id: u32) -> Vec<SimRoute> {
        let uses = |r: &&SimRoute| r.target == SimTarget::Object(id);
        self.routes.iter().filter(uses).cloned().collect()
    }

    /// `ip nexthop del`; with or without a message, as when its link has gone.
    pub(super) fn remove_object(&mut self, id: u32, silent: bool) {
        if self.objects.remove(&id).is_none() {
            return;
        }
        if !silent {
            self.send(|w| w.nexthop_by_id(RTM_DELNEXTHOP, 0, 0, id));
        }
        for route in self.using(id) {
            if !route.is4() {
                self.send_route(RTM_DELROUTE, 0, &route);
            }
        }
        self.routes.retain(|r| r.target != SimTarget::Object(id));
        let mut groups = Vec::new();
        for (group, object) in &mut self.objects {
            if let SimObject::Group(members) = object
                && members.iter().any(|m| m.0 == id)
            {
                members.retain(|m| m.0 != id);
                groups.push((*group, members.is_empty()));
            }
        }
        for (group, empty) in groups {
            if empty {
                self.remove_object(group, silent);
            } else if !silent {
                self.send_object(group, NLM_F_REPLACE);
            }
        }
    }

    /// `ip link set up` or `down`, or an unplugged cable; the caller sends the message about the link itself.
    pub(super) fn set_link(&mut self, index: u32, link: Link) {
        let was = self.links.insert(index, link);
        let lost = was.is_some_and(|l| l.carrier) && !link.carrier;
        let down = was.is_some_and(|l| l.up) && !link.up;
        if down {
            let dead = |hop: &SimHop| self.links.get(&hop.0).is_some_and(|l| !l.up);
            let gone =
                |r: &SimRoute| r.hops().iter().any(|h| h.0 == index) && r.hops().iter().all(dead);
            let (gone, rest) = self.routes.clone().into_iter().partition(gone);
            self.routes = rest;
            let gone: Vec<SimRoute> = gone;
            for route in gone.iter().filter(|route| !route.is4()) {
                self.send_route(RTM_DELROUTE, 0, route);
            }
        }
        if down || lost {
            let on_it = |object: &SimObject| matches!(object, SimObject::One(h) if h.0 == index);
            let objects = self.objects.iter().filter(|(_, object)| on_it(object));
            let objects: Vec<u32> = objects.map(|(id, _)| *id).collect();
            for id in objects {
                self.remove_object(id, true);
            }
        }
    }

    /// Removes the last address of a link: its IPv4 routes disappear without a message.
    pub(super) fn lose_address(&mut self, index: u32) {
        let all_on = |r: &SimRoute| r.hops().iter().all(|h| h.0 == index);
        self.routes
            .retain(|r| !r.is4() || r.hops().is_empty() || !all_on(r));
    }

    /// All messages of dumps, in order: objects, routes of IPv4, routes of IPv6. Each has its destination.
    pub(super) fn dump(&self) -> [Vec<(Dst, Vec<u8>)>; 3] {
        let mut copy = self.clone();
        let mut sent = |send: &dyn Fn(&mut Simulated)| {
            copy.sent.clear();
            send(&mut copy);
            copy.sent.remove(0)
        };
        let object = |id: &u32| {
            let key = (IpAddr::from(id.to_be_bytes()), 0);
            (key, sent(&|copy| copy.send_object(*id, NLM_F_MULTI)))
        };
        let objects = self.objects.keys().map(object).collect();
        let mut routes = |is4: bool| {
            let routes = self.routes.iter().filter(|r| r.is4() == is4);
            let mut routes: Vec<&SimRoute> = routes.collect();
            routes.sort_by_key(|r| (r.dst, r.table, r.metric));
            let route = |route: &SimRoute| {
                let told = sent(&|copy| copy.send_route(RTM_NEWROUTE, NLM_F_MULTI, route));
                (route.dst, told)
            };
            routes.into_iter().map(route).collect()
        };
        [objects, routes(true), routes(false)]
    }

    /// Group members for packets to each destination.
    pub(super) fn table(&self) -> SimTable {
        let mut table = BTreeMap::new();
        let mut routes: Vec<&SimRoute> = self.routes.iter().collect();
        routes.sort_by_key(|r| (r.table != TABLE_LOCAL, r.metric));
        for route in routes {
            table
                .entry(route.dst)
                .or_insert_with(|| self.members(route));
        }
        table
    }

    fn members(&self, route: &SimRoute) -> BTreeSet<SimMember> {
        let only = |port| BTreeSet::from([(port, None, 1)]);
        match (route.kind, &route.target) {
            (RouteKind::Unicast, SimTarget::Hops(hops)) => self.live(hops),
            (RouteKind::Unicast, SimTarget::Object(id)) => match &self.objects[id] {
                SimObject::Blackhole => only(BLACKHOLE),
                SimObject::One(hop) => self.live(&[*hop]),
                SimObject::Group(members) => {
                    let hop = |(id, weight): &(u32, u16)| match self.objects[id] {
                        SimObject::One((link, gateway, _)) => (link, gateway, *weight),
                        _ => unreachable!("groups have plain members here"),
                    };
                    self.live(&members.iter().map(hop).collect::<Vec<_>>())
                }
            },
            (RouteKind::Blackhole, _) => only(BLACKHOLE),
            (RouteKind::Local | RouteKind::Broadcast, _) => only(LOCAL),
            _ => only(EXCEPTION),
        }
    }

    fn live(&self, hops: &[SimHop]) -> BTreeSet<SimMember> {
        let up = |h: &&SimHop| self.links[&h.0].up;
        let good = |h: &&SimHop| up(h) && self.links[&h.0].carrier;
        let good: Vec<_> = hops.iter().filter(good).collect();
        let up: Vec<_> = hops.iter().filter(up).collect();
        let used = if good.is_empty() { up } else { good };
        let ports = used.iter().map(|h| self.links[&h.0].number);
        if used.is_empty() {
            return BTreeSet::from([(EXCEPTION, None, 1)]);
        }
        if ports.clone().any(|p| p.is_none()) {
            return BTreeSet::from([(FORWARDED, None, 1)]);
        }
        let members = used.iter().zip(ports.flatten());
        members.map(|(hop, port)| (port, hop.1, hop.2)).collect()
    }
}

/// A member in the form of [`Simulated::table`].
pub(super) fn as_told(member: &Member) -> SimMember {
    (member.port, member.gateway, member.weight)
}
