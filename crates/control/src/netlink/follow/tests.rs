use super::*;
use elements::linux::Neighbour;
use std::net::IpAddr;
use wire::EtherAddr;
use wire::netlink::{NUD_STALE, Writer};

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
    let mut follower = Follower::new(kernel, Arc::default(), None);
    let state = &mut follower.state;
    state.links.renumber(&state.kernel);
    follower.all_at = None;
    follower
}

fn heard(follower: &mut Follower, messages: &[Vec<u8>]) {
    follower.heard.extend(messages.concat());
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
    // Its address ends after one byte.
    let at = 16 + 12;
    bad[at] = 5;
    heard(&mut follower, &[link(UP), bad, neighbour()]);
    follower.take_heard(None);
    let eth0 = follower.state.kernel.interface("eth0").expect("room");
    let known = eth0.neighbours();
    assert!(matches!(known[..], [(_, Neighbour::Stale(_))]), "{known:?}");
    assert_eq!(count(&follower, "bad_messages"), 1);
    // What it has changed is asked for, but not at once: there may be more like it.
    assert!(follower.due().expect("it is asked for") > Instant::now() + UNREAD / 2);
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
    // Each is taken up once.
    follower.take_heard(None);
    assert_eq!(count(&follower, "messages"), 3);
    assert!(!eth0.is_up());
}

#[test]
fn room_for_what_was_heard_during_a_large_dump_is_given_back() {
    let mut follower = follower();
    follower.heard.reserve(64 << 20);
    follower.forget_heard();
    assert!(follower.heard.capacity() <= 2 * BATCH);
}
