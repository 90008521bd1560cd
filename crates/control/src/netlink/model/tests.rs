mod harness;
mod random;
mod simulated;

use forwarding::{BLACKHOLE, EXCEPTION, LOCAL};
use wire::netlink::{Event, NETCONF_ALL, RouteKind, TABLE_LOCAL, messages};

use super::{Flushed, Link, Model, Part, Source};
use harness::{Bench, UP, by_object, hop, ip, route};
use simulated::{SimObject, SimRoute, SimTarget, Simulated, Verb};

#[test]
fn the_lowest_metric_counts_and_the_next_takes_its_place() {
    let mut bench = Bench::new();
    bench
        .kernel
        .add(Verb::Append, route("10.0.0.0/8", 20, &[(1, "1.1.1.1")]));
    bench
        .kernel
        .add(Verb::Append, route("10.0.0.0/8", 10, &[(2, "1.1.1.2")]));
    bench.hear();
    assert_eq!(
        bench.v4.members("10.0.0.0/8"),
        Some(vec![hop("1.1.1.2", 4)])
    );
    bench.kernel.delete(1);
    bench.hear();
    assert_eq!(
        bench.v4.members("10.0.0.0/8"),
        Some(vec![hop("1.1.1.1", 3)])
    );
    bench.kernel.delete(0);
    bench.hear();
    assert_eq!(bench.v4.members("10.0.0.0/8"), None);
    assert_eq!(bench.v4.groups.borrow().len(), 1, "exceptions");
}

#[test]
fn the_local_table_comes_first_and_kinds_go_where_they_belong() {
    let mut bench = Bench::new();
    let kinds = [
        (RouteKind::Local, LOCAL),
        (RouteKind::Broadcast, LOCAL),
        (RouteKind::Anycast, LOCAL),
        (RouteKind::Multicast, LOCAL),
        (RouteKind::Blackhole, BLACKHOLE),
        (RouteKind::Unreachable, EXCEPTION),
        (RouteKind::Prohibit, EXCEPTION),
        (RouteKind::Throw, EXCEPTION),
    ];
    bench
        .kernel
        .add(Verb::Append, route("10.0.0.1/32", 0, &[(1, "")]));
    bench.hear();
    for (kind, port) in kinds {
        let own = SimRoute {
            table: TABLE_LOCAL,
            kind,
            target: SimTarget::None,
            ..route("10.0.0.1/32", 500, &[])
        };
        bench.kernel.add(Verb::Replace, own);
        bench.hear();
        let members = bench.v4.members("10.0.0.1/32");
        assert_eq!(members, Some(vec![(port, None, 1)]), "{kind:?}");
    }
    bench.kernel.delete(1);
    bench.hear();
    assert_eq!(bench.v4.members("10.0.0.1/32"), Some(vec![(3, None, 1)]));
}

#[test]
fn lost_hop_and_replaced_object_change_groups_but_no_prefix() {
    let mut bench = Bench::new();
    let one = |link, gateway| SimObject::One((link, Some(ip(gateway)), 1));
    bench.kernel.set_object(1, one(1, "1.1.1.1"));
    bench.kernel.set_object(2, one(2, "1.1.1.2"));
    bench
        .kernel
        .set_object(7, SimObject::Group(vec![(1, 1), (2, 3)]));
    for n in 0..100 {
        let dst = format!("10.0.{n}.0/24");
        bench.kernel.add(Verb::Append, by_object(&dst, 7));
        let dst = format!("10.1.{n}.0/24");
        let two = [(1, "1.1.1.1"), (2, "1.1.1.2")];
        bench.kernel.add(Verb::Append, route(&dst, 0, &two));
    }
    bench.hear();
    assert_eq!(bench.v4.groups.borrow().len(), 3);
    let applied = bench.v4.applied.get();
    bench.kernel.set_object(1, one(1, "1.1.1.9"));
    assert_eq!(bench.hear().groups, 1);
    let weighted = vec![hop("1.1.1.9", 3), (4, Some(ip("1.1.1.2")), 3)];
    assert_eq!(bench.v4.members("10.0.7.0/24"), Some(weighted));
    bench.link(
        1,
        Link {
            carrier: false,
            ..UP
        },
    );
    assert_eq!(bench.hear().groups, 2);
    assert_eq!(
        bench.v4.members("10.1.7.0/24"),
        Some(vec![hop("1.1.1.2", 4)])
    );
    bench.agree(&"a lost hop");
    bench.link(1, UP);
    bench.hear();
    bench.agree(&"the link's return");
    bench.sync(|_| {});
    bench.agree(&"a sync");
    assert_eq!(bench.v4.applied.get(), applied);
    // The interface is now another one of the configuration; then no interface has its name.
    for number in [Some(5), None, Some(3)] {
        bench.link(1, Link { number, ..UP });
        assert!(bench.hear().groups > 0);
        bench.agree(&number);
    }
    assert_eq!(bench.v4.applied.get(), applied);
}

#[test]
fn carrier_that_returns_before_the_kernel_acts_costs_no_route_by_an_object() {
    let mut bench = Bench::new();
    let one = |link, gateway| SimObject::One((link, Some(ip(gateway)), 1));
    bench.kernel.set_object(1, one(1, "1.1.1.1"));
    bench.kernel.set_object(2, one(1, "2001:db8::1"));
    bench.kernel.set_object(7, SimObject::Group(vec![(1, 1)]));
    for (dst, id) in [("10.0.0.0/8", 1), ("11.0.0.0/8", 7), ("2001:db8:1::/48", 2)] {
        bench.kernel.add(Verb::Append, by_object(dst, id));
    }
    bench.hear();
    bench.agree(&"the beginning");
    // Others see the link without a carrier. The kernel's routes do not.
    let down = Link {
        carrier: false,
        ..UP
    };
    bench.model().link(1, Some(down));
    bench.model().link(1, Some(UP));
    assert!(bench.model().stale_parts().nexthops);
    bench.model().begin_sync(Source::Kernel, Part::Nexthops);
    for (_, bytes) in bench.kernel.dump()[0].clone() {
        bench.tell(&[bytes]);
    }
    bench.model().end_sync(Source::Kernel, Part::Nexthops);
    let stale = bench.model().stale_parts();
    assert!(stale.routes4 && stale.routes6 && !stale.nexthops);
    bench.sync(|_| {});
    bench.agree(&"the dumps");
    assert!(!bench.model().stale_parts().any());
    // A message comes before the kernel acts, and one after it.
    bench.model().link(1, Some(down));
    bench.sync(|_| {});
    bench.agree(&"a dump before the kernel acts");
    bench.link(1, down);
    bench.sync(|_| {});
    bench.link(1, UP);
    bench.hear();
    bench.agree(&"a loss that the kernel noticed");
}

#[test]
fn route_is_removed_with_its_last_link_and_a_wider_one_applies() {
    let mut bench = Bench::new();
    bench
        .kernel
        .add(Verb::Append, route("10.0.0.0/8", 0, &[(1, "1.1.1.1")]));
    bench.kernel.add(
        Verb::Append,
        route("11.0.0.0/8", 0, &[(1, "1.1.1.1"), (2, "1.1.1.2")]),
    );
    bench.hear();
    bench.link(1, Link { up: false, ..UP });
    bench.hear();
    assert_eq!(bench.v4.members("10.0.0.0/8"), None);
    assert_eq!(
        bench.v4.members("11.0.0.0/8"),
        Some(vec![hop("1.1.1.2", 4)])
    );
    assert!(!bench.model().stale_parts().any(), "nothing is left to ask");
    bench.link(1, UP);
    bench.hear();
    bench.agree(&"the link's return");
    bench.sync(|_| {});
    assert!(!bench.model().stale_parts().any());
}

#[test]
fn an_address_that_several_links_have_is_local_until_the_last_has_lost_it() {
    let mut bench = Bench::new();
    let own = |link| SimRoute {
        table: TABLE_LOCAL,
        kind: RouteKind::Local,
        ..route("2001:db8::1/128", 0, &[(link, "")])
    };
    for link in [1, 2] {
        bench.kernel.add(Verb::Append, own(link));
    }
    bench.hear();
    let local = Some(vec![(LOCAL, None, 1)]);
    bench.kernel.delete(0);
    bench.hear();
    assert_eq!(bench.v6.members("2001:db8::1/128"), local);
    assert!(!bench.model().stale_parts().any(), "nothing is left to ask");
    bench.kernel.delete(0);
    bench.hear();
    assert_eq!(bench.v6.members("2001:db8::1/128"), None);
}

#[test]
fn routes_without_carrier_rest_if_the_operator_wants_it() {
    let mut bench = Bench::new();
    for (dst, metric, link, gateway) in [
        ("10.0.0.0/24", 0, 1, "1.1.1.1"),
        ("10.0.0.0/8", 0, 2, "1.1.1.2"),
        ("11.0.0.0/8", 5, 1, "1.1.1.1"),
        ("11.0.0.0/8", 7, 2, "1.1.1.2"),
    ] {
        let route = route(dst, metric, &[(link, gateway)]);
        bench.kernel.add(Verb::Append, route);
    }
    bench.hear();
    let down = Link {
        carrier: false,
        ..UP
    };
    let first = Some(vec![hop("1.1.1.1", 3)]);
    let second = Some(vec![hop("1.1.1.2", 4)]);
    bench.link(1, down);
    bench.hear();
    assert_eq!(bench.v4.members("10.0.0.0/24"), first, "used as it is");
    for index in [1, NETCONF_ALL] {
        bench.model().ignore_linkdown(true, index, true);
        bench.hear();
        assert_eq!(bench.v4.members("10.0.0.0/24"), None, "a wider one counts");
        assert_eq!(
            bench.v4.members("11.0.0.0/8"),
            second,
            "the next one counts"
        );
        // A route that arrives meanwhile is also pending, and one after it counts.
        let more = route("12.0.0.0/8", 0, &[(1, "1.1.1.1")]);
        bench.kernel.add(Verb::Append, more);
        bench.hear();
        assert_eq!(bench.v4.members("12.0.0.0/8"), None);
        let behind = route("12.0.0.0/8", 9, &[(2, "1.1.1.2")]);
        bench.kernel.add(Verb::Append, behind);
        bench.hear();
        assert_eq!(bench.v4.members("12.0.0.0/8"), second);
        bench.link(1, UP);
        bench.hear();
        bench.agree(&"the carrier's return");
        bench.link(1, down);
        bench.hear();
        assert_eq!(bench.v4.members("10.0.0.0/24"), None);
        bench.model().ignore_linkdown(true, index, false);
        bench.hear();
        bench.agree(&"a setting taken back");
        bench.kernel.delete(5);
        bench.kernel.delete(4);
        bench.hear();
    }
}

#[test]
fn daemons_routes_survive_a_removed_and_recreated_link() {
    let mut bench = Bench::new();
    bench.model = Some(Model::new(true));
    for (index, number) in [(1, Some(3)), (2, Some(4))] {
        bench.link(index, Link { number, ..UP });
    }
    let mut daemon = Simulated::default();
    daemon.add(Verb::Replace, route("10.2.0.0/16", 20, &[(1, "1.1.1.7")]));
    let message = messages(&daemon.sent[0]).next().unwrap().unwrap();
    let Event::Route(change, told) = message.event().unwrap() else {
        panic!("a route");
    };
    let flags = message.flags;
    bench.model().route(Source::Fpm, flags, change, &told);
    bench.hear();
    bench.link(1, Link { up: false, ..UP });
    bench.hear();
    let kernels = Some(vec![(EXCEPTION, None, 1)]);
    assert_eq!(bench.v4.members("10.2.0.0/16"), kernels);
    assert!(!bench.model().stale_parts().any());
    bench.link(1, UP);
    bench.hear();
    let back = Some(vec![hop("1.1.1.7", 3)]);
    assert_eq!(bench.v4.members("10.2.0.0/16"), back);
}

#[test]
fn a_sync_changes_only_differing_routes() {
    let mut bench = Bench::new();
    for n in 0..100 {
        let dst = format!("10.0.{n}.0/24");
        bench
            .kernel
            .add(Verb::Append, route(&dst, 0, &[(1, "1.1.1.1")]));
    }
    bench.hear();
    assert_eq!(bench.sync(|_| {}), Flushed::default());
    bench.kernel.delete(5);
    bench
        .kernel
        .add(Verb::Replace, route("10.0.9.0/24", 0, &[(2, "1.1.1.2")]));
    bench
        .kernel
        .add(Verb::Append, route("2001:db8::/32", 7, &[(2, "fe80::1")]));
    bench.kernel.sent.clear();
    assert_eq!(bench.sync(|_| {}).prefixes, 3);
    bench.agree(&"lost messages");
    // A dump that fails half way discards the routes that it has reported.
    bench.model().begin_sync(Source::Kernel, Part::Routes4);
    for (_, bytes) in &bench.kernel.dump()[1] {
        bench.tell(std::slice::from_ref(bytes));
    }
    bench.kernel.delete(0);
    bench.kernel.sent.clear();
    assert_eq!(bench.sync(|_| {}).prefixes, 1);
    bench.agree(&"a dump that failed");
}

#[test]
fn routes_without_a_group_go_to_the_kernel_until_there_is_one() {
    let mut bench = Bench::new();
    bench.v4.groups_max = Some(2);
    bench
        .kernel
        .add(Verb::Append, route("10.0.0.0/8", 0, &[(1, "1.1.1.1")]));
    bench
        .kernel
        .add(Verb::Append, route("11.0.0.0/8", 0, &[(1, "1.1.1.2")]));
    bench.hear();
    let first = bench.v4.members("10.0.0.0/8") == Some(vec![hop("1.1.1.1", 3)]);
    let other = if first { "11.0.0.0/8" } else { "10.0.0.0/8" };
    assert_eq!(bench.v4.members(other), Some(vec![(EXCEPTION, None, 1)]));
    assert_eq!(bench.model().counts().no_group, 1);
    bench.kernel.delete(usize::from(!first));
    bench.hear();
    bench.sync(|_| {});
    bench.agree(&"a group that is free");
}

#[test]
fn daemons_routes_replace_the_main_table() {
    let mut bench = Bench::new();
    bench.model = Some(Model::new(true));
    for (index, number) in [(1, Some(3)), (2, Some(4))] {
        bench.link(index, Link { number, ..UP });
    }
    let connected = SimRoute {
        protocol: 2,
        ..route("10.1.0.0/16", 0, &[(1, "")])
    };
    bench.kernel.add(Verb::Append, connected);
    bench
        .kernel
        .add(Verb::Append, route("10.2.0.0/16", 0, &[(1, "1.1.1.1")]));
    bench.hear();
    assert_eq!(bench.v4.members("10.1.0.0/16"), Some(vec![(3, None, 1)]));
    assert_eq!(bench.v4.members("10.2.0.0/16"), None);
    let fpm = |bench: &mut Bench, routes: &[(&str, &str)], gone: bool| {
        let mut kernel = Simulated::default();
        for (dst, gateway) in routes {
            kernel.add(Verb::Replace, route(dst, 20, &[(2, gateway)]));
        }
        if gone {
            kernel.sent.clear();
            (0..routes.len()).for_each(|_| kernel.delete(0));
        }
        for bytes in &kernel.sent {
            let message = messages(bytes).next().unwrap().unwrap();
            let Event::Route(change, route) = message.event().unwrap() else {
                panic!("a route");
            };
            let model = bench.model.as_mut().unwrap();
            model.route(Source::Fpm, message.flags, change, &route);
        }
        let model = bench.model.as_mut().unwrap();
        model.flush(&bench.v4, &bench.v6).unwrap();
    };
    fpm(
        &mut bench,
        &[("10.2.0.0/16", "1.1.1.7"), ("10.1.0.0/16", "1.1.1.7")],
        false,
    );
    fpm(
        &mut bench,
        &[("10.3.0.0/16", "1.1.1.7"), ("10.2.0.0/16", "1.1.1.8")],
        false,
    );
    fpm(&mut bench, &[("10.3.0.0/16", "1.1.1.7")], true);
    assert_eq!(bench.v4.members("10.1.0.0/16"), Some(vec![(3, None, 1)]));
    assert_eq!(
        bench.v4.members("10.2.0.0/16"),
        Some(vec![hop("1.1.1.8", 4)])
    );
    assert_eq!(bench.v4.members("10.3.0.0/16"), None);
    // The kernel cannot be asked for routes beyond a limit; a changed route is not a further one.
    let mut bounded = |most: usize, routes: &[(&str, &str)]| {
        bench.model().set_object_limit(most);
        fpm(&mut bench, routes, false);
        assert!(!bench.model().stale_parts().any());
    };
    bounded(2, &[("10.2.0.0/16", "1.1.1.9"), ("10.4.0.0/16", "1.1.1.9")]);
    bounded(9, &[("10.2.0.0/16", "1.1.1.8")]);
    assert_eq!(bench.v4.members("10.4.0.0/16"), None);
    assert_eq!(bench.model().counts().left_out, 1);
    // The kernel's dumps and the daemon's are independent.
    bench.sync(|_| {});
    assert_eq!(
        bench.v4.members("10.2.0.0/16"),
        Some(vec![hop("1.1.1.8", 4)])
    );
    bench.model().begin_sync(Source::Fpm, Part::Routes4);
    bench.model().end_sync(Source::Fpm, Part::Routes4);
    bench.hear();
    assert_eq!(bench.v4.members("10.2.0.0/16"), None);
    assert_eq!(bench.v4.members("10.1.0.0/16"), Some(vec![(3, None, 1)]));
}
