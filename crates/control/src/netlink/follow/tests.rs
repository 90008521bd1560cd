use super::super::model::{Model, Source};
use super::*;
use forwarding::{EXCEPTION, LOCAL, Neighbour};
use std::net::IpAddr;
use wire::EtherAddr;
use wire::netlink::{
    AF_MPLS, Event, NUD_STALE, RTM_DELROUTE, RTM_NEWNETCONF, RTM_NEWROUTE, Writer,
};

/// A message about a link `eth0` with the number 5.
fn link(flags: u32) -> Vec<u8> {
    let mut message = vec![32 + 12, 0, 0, 0, RTM_NEWLINK as u8, 0, 0, 0];
    message.extend([0; 8]);
    message.extend([0, 0, 1, 0, 5, 0, 0, 0]);
    message.extend(flags.to_ne_bytes());
    message.extend([0; 4]);
    message.extend(*b"\x09\0\x03\0eth0\0\0\0\0");
    message
}

fn neighbour() -> Vec<u8> {
    let mut buffer = [0; 64];
    let mut writer = Writer::new(&mut buffer);
    let address = IpAddr::from([192, 0, 2, 9]);
    let ether = Some(EtherAddr([2, 0, 0, 0, 0, 9]));
    let said = writer.neighbour((RTM_NEWNEIGH, 0, 0), (5, address), (NUD_STALE, 0, ether));
    said.expect("room");
    writer.bytes().to_vec()
}

const UP: u32 = 0x1_0041;

fn follower() -> Follower {
    let kernel = Arc::<Kernel>::default();
    kernel.interface("eth0").expect("room");
    let mut follower = Follower::new((kernel, Arc::default()), Arc::default(), None);
    let state = &mut follower.state;
    state.links.renumber(&state.kernel);
    follower.all_at = None;
    follower
}

fn heard(follower: &mut Follower, messages: &[Vec<u8>]) {
    follower.received.extend(messages.concat());
}

fn count(follower: &Follower, name: &str) -> u64 {
    let list = follower.state.counts.list();
    list.iter()
        .find(|count| count.1 == name)
        .expect("it counts")
        .3
}

#[test]
fn a_message_that_cannot_be_read_is_left_out_and_the_others_hold() {
    let mut follower = follower();
    let mut bad = neighbour();
    // The neighbour's address is truncated after one byte.
    let at = 16 + 12;
    bad[at] = 5;
    heard(&mut follower, &[link(UP), bad, neighbour()]);
    follower.process_received(None);
    let eth0 = follower.state.kernel.interface("eth0").expect("room");
    let known = eth0.neighbours();
    assert!(matches!(known[..], [(_, Neighbour::Stale(_))]), "{known:?}");
    assert_eq!(count(&follower, "bad_messages"), 1);
    // Changed parts are dumped, but not at once: more changes may follow.
    assert!(
        follower.next_dump_at().expect("it is asked for")
            > Instant::now() + UNREADABLE_DUMP_DELAY / 2
    );
}

#[test]
fn links_and_neighbours_do_not_wait_for_the_end_of_a_dump() {
    let mut follower = follower();
    heard(&mut follower, &[link(UP), neighbour()]);
    follower.serve_urgent();
    let eth0 = follower.state.kernel.interface("eth0").expect("room");
    assert!(eth0.is_up());
    assert_eq!(eth0.neighbours().len(), 1);
    heard(&mut follower, &[link(0)]);
    follower.serve_urgent();
    assert!(!eth0.is_up());
    // Each message is processed once.
    follower.process_received(None);
    assert_eq!(count(&follower, "messages"), 3);
    assert!(!eth0.is_up());
}

#[test]
fn memory_for_messages_during_a_large_dump_is_given_back() {
    let mut follower = follower();
    follower.received.reserve(64 << 20);
    follower.discard_processed();
    assert!(follower.received.capacity() <= 2 * BATCH_BYTES);
}

/// A message about an MPLS route: a label, and its attributes.
fn label_route(kind: u16, label: u8, attributes: &[u8]) -> Vec<u8> {
    let body = [
        &[AF_MPLS, 20, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0][..],
        &[8, 0, 1, 0, 0, label >> 4, label << 4 | 1, 0],
        attributes,
    ];
    let body = body.concat();
    let mut message = (16 + body.len() as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend([0; 10]);
    message.extend(body);
    message
}

/// A hop by link 5 to 192.0.2.9, with label 200 instead of the packet's, or none.
fn by_link(swaps: bool) -> Vec<u8> {
    let mut all = vec![
        8, 0, 4, 0, 5, 0, 0, 0, 10, 0, 18, 0, 2, 0, 192, 0, 2, 9, 0, 0,
    ];
    if swaps {
        all.extend([8, 0, 19, 0, 0, 0x0c, 0x81, 0]);
    }
    all
}

/// A message that link 5 does or does not accept labels.
fn input(takes: u8) -> Vec<u8> {
    let mut message = vec![36, 0, 0, 0, RTM_NEWNETCONF as u8, 0, 0, 0];
    message.extend([0; 8]);
    message.extend([AF_MPLS, 0, 0, 0]);
    message.extend([8, 0, 1, 0, 5, 0, 0, 0, 8, 0, 7, 0, takes, 0, 0, 0]);
    message
}

/// Labels, and their next hops: labels, gateway, port.
type Table = Vec<(u32, Vec<(usize, Option<IpAddr>, u16)>)>;

#[test]
fn labels_follow_their_routes_and_links() {
    let mut follower = follower();
    let kernel = Arc::clone(&follower.state.kernel);
    let table = |messages: &[Vec<u8>], follower: &mut Follower| -> Table {
        heard(follower, messages);
        follower.process_received(None);
        follower.discard_processed();
        let Some(routes) = kernel.labels() else {
            return Vec::new();
        };
        let labels = routes.labels().into_iter().filter(|label| *label >= 16);
        let hops = |label| routes.hops(label).expect("it has some").into_iter();
        let hops = |label| hops(label).map(|hop| (hop.labels.len(), hop.gateway, hop.port));
        labels.map(|label| (label, hops(label).collect())).collect()
    };
    let gateway = Some(IpAddr::from([192, 0, 2, 9]));
    let eth0 = kernel.interface("eth0").expect("room").number();
    let local = label_route(RTM_NEWROUTE, 101, &[8, 0, 4, 0, 1, 0, 0, 0]);
    let tunnel = label_route(RTM_NEWROUTE, 102, &[8, 0, 4, 0, 9, 0, 0, 0]);
    let swap = label_route(RTM_NEWROUTE, 100, &by_link(true));
    let said = [link(UP), swap, local, tunnel.clone()];
    assert_eq!(table(&said, &mut follower), []);
    // An element uses the labels from now on, and gets the earlier messages, too.
    kernel.use_labels();
    assert!(follower.state.links.is_outdated(&kernel));
    follower.state.renumber();
    let others = [
        (101, vec![(0, None, LOCAL)]),
        (102, vec![(0, None, EXCEPTION)]),
    ];
    let with = |first: (usize, Option<IpAddr>, u16)| [&[(100, vec![first])], &others[..]].concat();
    assert_eq!(table(&[], &mut follower), with((1, gateway, eth0)));
    // Without its link, the kernel handles it.
    assert_eq!(table(&[link(0)], &mut follower), with((0, None, EXCEPTION)));
    let pop = label_route(RTM_NEWROUTE, 100, &by_link(false));
    assert_eq!(
        table(&[link(UP), pop], &mut follower),
        with((0, gateway, eth0))
    );
    // Routes that a full dump does not contain are removed.
    follower
        .state
        .model
        .begin_sync(Source::Kernel, Part::Labels);
    table(&[tunnel], &mut follower);
    follower.state.model.end_sync(Source::Kernel, Part::Labels);
    follower.state.flush();
    assert_eq!(table(&[], &mut follower), others[1..]);
    let gone = label_route(RTM_DELROUTE, 102, &[]);
    assert_eq!(table(&[gone], &mut follower), []);
    assert_eq!(count(&follower, "labels"), 0);
}

#[test]
fn labels_are_taken_from_links_where_the_kernel_takes_them() {
    let mut follower = follower();
    let eth0 = follower.state.kernel.interface("eth0").expect("room");
    let mut told = |messages: &[Vec<u8>]| {
        heard(&mut follower, messages);
        follower.process_received(None);
        follower.discard_processed();
        (
            eth0.takes_labels(),
            follower.state.model.stale_parts().labels,
        )
    };
    assert_eq!(told(&[link(UP)]), (false, false));
    // From this message the follower learns that the kernel has MPLS, and requests its routes.
    assert_eq!(told(&[input(1)]), (true, true));
    assert_eq!(told(&[link(UP)]), (true, true));
    assert_eq!(told(&[input(0)]), (false, true));
    assert_eq!(told(&[input(1)]), (true, true));
    let mut gone = link(0);
    gone[4] = RTM_DELLINK as u8;
    assert_eq!(told(&[gone, link(UP)]), (false, true));
}

#[test]
fn dumps_of_daemon_and_kernel_labels_are_independent() {
    let mut model = Model::new(true);
    let routes = forwarding::LabelRoutes::default();
    let said = [100u8, 101].map(|label| label_route(RTM_NEWROUTE, label, &by_link(true)));
    let tell = |model: &mut Model, source: Source, bytes: &[u8]| {
        for message in messages(bytes).flatten() {
            let Ok(Event::Route(change, route)) = message.event() else {
                panic!("it is a route");
            };
            model.route(source, 0, change, &route);
        }
    };
    model.begin_sync(Source::Fpm, Part::Labels);
    tell(&mut model, Source::Fpm, &said[0]);
    // Meanwhile the kernel's own routes are dumped.
    model.begin_sync(Source::Kernel, Part::Labels);
    tell(&mut model, Source::Kernel, &said[1]);
    model.end_sync(Source::Kernel, Part::Labels);
    model.end_sync(Source::Fpm, Part::Labels);
    model.flush_labels(&routes, true);
    assert_eq!(routes.labels(), [0, 2, 100]);
    // The daemon has reconnected, and no longer names the route.
    model.begin_sync(Source::Fpm, Part::Labels);
    model.end_sync(Source::Fpm, Part::Labels);
    model.flush_labels(&routes, false);
    assert_eq!(routes.labels(), [0, 2]);
}
