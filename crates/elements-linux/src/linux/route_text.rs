//! Routes of the kernel as handlers show them: as those of a configuration, with interfaces' names in
//! place of ports.

use crate::mpls::syntax;
use forwarding::Routes;
use forwarding::family::Family;
use forwarding::route_table::row;
use forwarding::{BLACKHOLE, EXCEPTION, FORWARDED, GroupId, Kernel, LOCAL, Member};
use std::collections::BTreeMap;

/// Names of next-hop ports.
pub(super) struct Names(BTreeMap<u16, String>);

impl Names {
    pub(super) fn of(kernel: &Kernel) -> Names {
        let fixed = [
            (LOCAL, "local"),
            (EXCEPTION, "kernel"),
            (FORWARDED, "kernel"),
            (BLACKHOLE, "blackhole"),
        ];
        let fixed = fixed.map(|(port, name)| (port, name.to_owned()));
        let interfaces = kernel.interfaces().into_iter();
        let named = interfaces.map(|i| (i.number(), i.name().to_owned()));
        Names(fixed.into_iter().chain(named).collect())
    }

    pub(super) fn port(&self, port: u16) -> &str {
        self.0.get(&port).map_or("?", String::as_str)
    }

    fn hops(&self, hops: &[Member]) -> String {
        let each = hops.iter().map(|hop| {
            let gateway = hop.gateway.map_or("-".to_owned(), |g| g.to_string());
            let name = self.port(hop.port);
            let weight = match hop.weight {
                1 => String::new(),
                n => format!(" WEIGHT {n}"),
            };
            let labels = match hop.labels.is_empty() {
                true => String::new(),
                false => format!(" MPLS {}", syntax::labels(&hop.labels)),
            };
            format!("{gateway} {name}{labels}{weight}")
        });
        each.collect::<Vec<_>>().join(" | ")
    }
}

/// Text form of all routes, one per line.
pub(super) fn table<F: Family<N>, const N: usize>(routes: &Routes<N>, kernel: &Kernel) -> String {
    let names = Names::of(kernel);
    let mut known: BTreeMap<GroupId, String> = BTreeMap::new();
    let mut all = Vec::new();
    routes.for_each(&mut |prefix, id| all.push((prefix, id)));
    let mut text = String::new();
    for (prefix, id) in all {
        let hops = known
            .entry(id)
            .or_insert_with(|| names.hops(&routes.members(id)));
        text.push_str(&row(&F::show(prefix), hops));
    }
    text
}

/// Next hops of an address as text.
pub(super) fn lookup<F: Family<N>, const N: usize>(
    routes: &Routes<N>,
    kernel: &Kernel,
    address: &str,
) -> Result<String, String> {
    let members = routes.next_hops(|fib| F::lookup(fib, address))?;
    Ok(match members.as_slice() {
        [] => "-1".to_owned(),
        members => Names::of(kernel).hops(members),
    })
}

/// Text form of the groups in use, one per line.
pub(super) fn groups<const N: usize>(routes: &Routes<N>, kernel: &Kernel) -> String {
    let names = Names::of(kernel);
    let mut users: BTreeMap<GroupId, usize> = BTreeMap::new();
    routes.for_each(&mut |_, id| *users.entry(id).or_default() += 1);
    let line = |(id, users): (GroupId, usize)| {
        format!("{id} {users} {}\n", names.hops(&routes.members(id)))
    };
    users.into_iter().map(line).collect()
}
