//! Netlink messages: any bytes are read to their end or refused. A route that was read is written, and read back as
//! the same.

use wire::mpls::Labels;
use wire::netlink::{Event, NewHop, NewRoute, RTM_NEWROUTE, Route, Target, Writer, messages};

/// Reads bytes as the result of one receive call.
pub fn run(data: &[u8]) {
    for message in messages(data) {
        let Ok(message) = message else {
            return;
        };
        match message.event() {
            Ok(Event::Route(_, route)) => again(&route),
            Ok(Event::Nexthop(_, hop)) => {
                assert_eq!(hop.is_group(), hop.members().count() > 0);
            }
            Ok(Event::Link(_, link)) => assert!(link.name.len() < data.len()),
            _ => {}
        }
    }
}

fn again(route: &Route<'_>) {
    let hops: Vec<NewHop> = route
        .hops()
        .map(|hop| NewHop {
            interface: hop.interface,
            gateway: hop.gateway,
            weight: hop.weight,
            flags: hop.flags,
        })
        .collect();
    let new = NewRoute {
        dst: route.dst,
        dst_len: route.dst_len,
        table: route.table,
        protocol: route.protocol,
        kind: route.kind,
        priority: route.priority,
        target: Target::Hops(&hops),
    };
    let known = route.prefix4().is_some() || route.prefix6().is_some();
    let mut buffer = vec![0; 128 << 10];
    let mut writer = Writer::new(&mut buffer);
    if !known || hops.is_empty() || writer.route(RTM_NEWROUTE, 0, 1, &new).is_err() {
        return;
    }
    let mut read = messages(writer.bytes());
    let read = read.next().expect("one was written").expect("it is whole");
    let Ok(Event::Route(_, read)) = read.event() else {
        panic!("what was written is a route");
    };
    assert_eq!(
        (read.prefix4(), read.prefix6()),
        (route.prefix4(), route.prefix6())
    );
    assert_eq!(
        (read.table, read.kind, read.priority),
        (route.table, route.kind, route.priority)
    );
    let plain = route.hops().map(|hop| wire::netlink::Hop {
        labels: Some(Labels::NONE),
        ..hop
    });
    assert!(read.hops().eq(plain), "the hops are the same");
}
