mod hostile;

use super::connector::seqpacket;
use super::session::{self, ClientMemory, Connection, Queues, Rings};
use super::{config, sys as doorbells};
use crate::waiter::{Waiter, WakeReason};
use crate::{Directory, sys};
use engine::packet::{Batch, Packet, pool};
use engine::port::{OpenPort, PortDirectory, PortRequest};
use rustix::net::{SocketAddrUnix, accept, bind, connect, listen};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;
use testkit::wait_until;

const LONG: Duration = Duration::from_secs(60);

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ashlar-memif-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn port(&self, words: &str) -> String {
        format!("memif:{words},socket={}", self.0.join("m.sock").display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn request(queues: usize) -> PortRequest {
    PortRequest {
        rx_queues: queues,
        tx_queues: queues,
        descriptors: 0,
        promiscuous: true,
    }
}

fn batch(frames: &[Vec<u8>]) -> Batch {
    let mut batch = Batch::new();
    let packets = frames.iter().map(|frame| Packet::from_bytes(frame));
    packets.for_each(|packet| batch.push(packet.unwrap()));
    batch
}

fn frames(from: usize, count: usize) -> Vec<Vec<u8>> {
    let frame = |n: usize| vec![n as u8; 60 + n % 1400];
    (from..from + count).map(frame).collect()
}

fn counter(port: &OpenPort, name: &str) -> u64 {
    let all = port.port.counters();
    let of = all.iter().filter(|(n, ..)| *n == name);
    of.map(|(.., value)| value).sum()
}

/// Both ends, connected.
fn pair(directory: &Directory, folder: &Folder, more: &str) -> [OpenPort; 2] {
    let ends = ["server", "client"].map(|role| {
        let name = folder.port(&format!("role={role}{more}"));
        directory.open(&name, &request(1)).unwrap()
    });
    wait_until("both ends to connect", || {
        ends.iter().all(|end| end.port.link_up())
    });
    ends
}

fn send(port: &OpenPort, frames: &[Vec<u8>]) -> usize {
    let mut tx = port.tx[0].take().unwrap();
    let sent = tx.transmit(&mut batch(frames), &mut Batch::new());
    port.tx[0].put_back(tx);
    sent
}

fn receive(port: &OpenPort) -> Vec<Vec<u8>> {
    let mut rx = port.rx[0].take().unwrap();
    let mut got = Batch::new();
    while rx.receive(&mut got, 7) > 0 {}
    port.rx[0].put_back(rx);
    got.drain().map(|packet| packet.data().to_vec()).collect()
}

#[test]
fn frames_cross_both_ways_in_order_and_more_than_a_ring_holds_wait() {
    let (folder, directory) = (Folder::new("cross"), Directory::new());
    for more in ["", ",rsize=5,bsize=128"] {
        let ends = pair(&directory, &folder, more);
        for (from, to) in [(0, 1), (1, 0)] {
            let mut seen = 0;
            for _ in 0..300 {
                let all = frames(seen, 40);
                let sent = send(&ends[from], &all);
                assert!(
                    sent > 0 && (!more.is_empty() || sent == all.len()),
                    "{sent}"
                );
                assert_eq!(receive(&ends[to]), all[..sent]);
                seen += sent;
            }
            // The indices of the rings have wrapped around.
            assert!(seen > 1000);
        }
        let names = ends.map(|end| end.name);
        names.iter().for_each(|name| directory.close(name));
    }
}

#[test]
fn link_held_down_at_one_end_is_down_at_both() {
    let (folder, directory) = (Folder::new("held"), Directory::new());
    let ends = pair(&directory, &folder, "");
    for held in [&ends[1], &ends[0]] {
        held.port.hold_down(true);
        wait_until("both ends to be down", || {
            !ends.iter().any(|end| end.port.link_up())
        });
        held.port.hold_down(true);
        assert!(!held.port.link_up());
        held.port.hold_down(false);
        wait_until("both ends to connect again", || {
            ends.iter().all(|end| end.port.link_up())
        });
        let all = frames(0, 5);
        assert_eq!(send(&ends[0], &all), 5);
        assert_eq!(receive(&ends[1]), all);
    }
    // An interface that is closed while its link is held down ends.
    ends[1].port.hold_down(true);
    let names = ends.map(|end| end.name);
    names.iter().for_each(|name| directory.close(name));
}

#[test]
fn a_ring_that_is_full_takes_no_more_until_it_is_read() {
    let (folder, directory) = (Folder::new("full"), Directory::new());
    let ends = pair(&directory, &folder, ",rsize=5");
    for (from, to) in [(0, 1), (1, 0)] {
        let all = frames(0, 50);
        assert_eq!(send(&ends[from], &all), 32);
        assert_eq!(send(&ends[from], &all), 0);
        assert_eq!(receive(&ends[to]), all[..32]);
        assert_eq!(send(&ends[from], &all), 32);
        assert_eq!(receive(&ends[to]).len(), 32);
    }
}

#[test]
fn frames_that_no_buffer_or_ring_can_hold_are_counted() {
    let (folder, directory) = (Folder::new("long"), Directory::new());
    let ends = pair(&directory, &folder, ",rsize=5,bsize=128");
    let whole = pool::data_bytes();
    for (from, to) in [(0, 1), (1, 0)] {
        // All buffers of the ring have 4,096 bytes.
        let long = Packet::large(9000).map(|mut packet| {
            packet.put(9000).unwrap().fill(1);
            packet
        });
        let mut all = batch(&frames(3, 1));
        all.push(long.unwrap());
        all.push(Packet::from_bytes(&frames(4, 1)[0]).unwrap());
        let mut tx = ends[from].tx[0].take().unwrap();
        // The long packet delays the others only until earlier packets have been read.
        assert_eq!(tx.transmit(&mut all, &mut Batch::new()), 1);
        assert_eq!(receive(&ends[to]), frames(3, 1));
        let mut refused = Batch::new();
        assert_eq!(tx.transmit(&mut all, &mut refused), 1);
        assert_eq!((all.len(), refused.bytes()), (0, 9000));
        assert_eq!(counter(&ends[from], "tx_too_long"), 1);
        assert_eq!(receive(&ends[to]), frames(4, 1));
        // The ring has room for it, but a packet has not.
        let mut long = Packet::large(whole + 1000).unwrap();
        long.put(whole + 1000).unwrap().fill(1);
        all.push(long);
        assert_eq!(tx.transmit(&mut all, &mut Batch::new()), 1);
        assert_eq!(receive(&ends[to]), Vec::<Vec<u8>>::new());
        assert_eq!(counter(&ends[to], "too_long"), 1);
        ends[from].tx[0].put_back(tx);
    }
}

#[test]
fn frames_wake_a_worker_that_sleeps_and_polling_needs_no_bell() {
    let (folder, directory) = (Folder::new("wake"), Directory::new());
    let ends = pair(&directory, &folder, "");
    for (from, to) in [(0, 1), (1, 0)] {
        let mut rx = ends[to].rx[0].take().unwrap();
        let mut got = Batch::new();
        rx.receive(&mut got, 32);
        let (mut waiter, _waker) = Waiter::new().unwrap();
        waiter.add(rx.wait_fd().unwrap()).unwrap();
        for round in 0..2000 {
            // Packets that arrived before the wake-up was requested count, too.
            if round % 2 == 0 {
                send(&ends[from], &frames(round, 1));
            }
            rx.wait_fd();
            let other = ends[from].clone();
            let sender = (round % 2 != 0)
                .then(|| std::thread::spawn(move || send(&other, &frames(round, 1))));
            while got.is_empty() {
                assert_eq!(waiter.wait(LONG), WakeReason::Ready);
                rx.receive(&mut got, 32);
                rx.wait_fd();
            }
            assert_eq!(got.drain().count(), 1);
            sender.map(|sender| sender.join().unwrap());
            // Needless wake-ups end soon.
            let mut wakes = 0;
            while waiter.wait(Duration::ZERO) == WakeReason::Ready {
                rx.receive(&mut got, 32);
                rx.wait_fd();
                wakes += 1;
                assert!(wakes < 4);
            }
        }
    }
}

#[test]
fn a_peer_that_closes_and_opens_again_is_connected_again() {
    let (folder, directory) = (Folder::new("again"), Directory::new());
    let [server, client] = pair(&directory, &folder, "");
    let name = client.name.clone();
    drop(client);
    for _ in 0..3 {
        directory.close(&name);
        wait_until("the server to see it", || !server.port.link_up());
        assert_eq!(send(&server, &frames(0, 3)), 0);
        let client = directory.open(&name, &request(1)).unwrap();
        wait_until("both to connect", || {
            client.port.link_up() && server.port.link_up()
        });
        assert_eq!(receive(&client), Vec::<Vec<u8>>::new());
        assert_eq!(send(&server, &frames(5, 3)), 3);
        assert_eq!(receive(&client), frames(5, 3));
    }
    assert_eq!(counter(&server, "tx_link_down"), 9);
    // The client starts before the server.
    let named = server.name.clone();
    drop(server);
    directory.close(&named);
    let client = directory.open(&name, &request(1)).unwrap();
    wait_until("it to be told", || {
        directory
            .events()
            .iter()
            .any(|e| e.contains("it tries again"))
    });
    let server = directory.open(&named, &request(1)).unwrap();
    wait_until("both to connect", || {
        client.port.link_up() && server.port.link_up()
    });
}

#[test]
fn an_end_that_does_not_fit_is_told_why() {
    let (folder, directory) = (Folder::new("fit"), Directory::new());
    let server = folder.port("role=server,id=3,secret=abc");
    let _server = directory.open(&server, &request(1)).unwrap();
    for (words, queues, why) in [
        ("role=client,id=4,secret=abc", 1, "there is no id 4, only 3"),
        ("role=client,id=3", 1, "another secret"),
        (
            "role=client,id=3,secret=abc,peer=4000000",
            1,
            "not user 4000000",
        ),
    ] {
        let name = folder.port(words);
        let client = directory.open(&name, &request(queues)).unwrap();
        let mut said = Vec::new();
        wait_until(why, || {
            said.extend(directory.events());
            let mine = |text: &&String| text.starts_with(&name);
            said.iter().filter(mine).any(|text| text.contains(why))
        });
        assert!(!client.port.link_up());
        drop(client);
        directory.close(&name);
    }
    let twice = folder.port("role=server,id=5");
    let refused = directory.open(&twice, &request(1)).err().unwrap();
    assert!(refused.contains("another program listens"), "{refused}");
}

#[test]
fn ends_with_different_numbers_of_queues_carry_all_frames() {
    let (folder, directory) = (Folder::new("queues"), Directory::new());
    for queues in [[1, 3], [3, 1], [2, 2]] {
        let mut ends = Vec::new();
        for (role, own) in ["server", "client"].into_iter().zip(queues) {
            // A client has as many rings as queues, unless its argument gives the server's number.
            let rings = match role {
                "client" => format!(",rings={}", queues[0]),
                _ => String::new(),
            };
            let name = folder.port(&format!("role={role}{rings}"));
            ends.push(directory.open(&name, &request(own)).unwrap());
        }
        wait_until("both ends to connect", || {
            ends.iter().all(|end| end.port.link_up())
        });
        for (from, to) in [(0, 1), (1, 0)] {
            let mut sent = Vec::new();
            for (queue, tx) in ends[from].tx.iter().enumerate() {
                let all = frames(10 * queue, 5);
                let mut owned = tx.take().unwrap();
                assert_eq!(owned.transmit(&mut batch(&all), &mut Batch::new()), 5);
                tx.put_back(owned);
                sent.extend(all);
            }
            let mut got = Batch::new();
            for rx in &ends[to].rx {
                let mut owned = rx.take().unwrap();
                while owned.receive(&mut got, 4) > 0 {}
                rx.put_back(owned);
            }
            let mut got: Vec<_> = got.drain().map(|packet| packet.data().to_vec()).collect();
            got.sort();
            sent.sort();
            assert_eq!(got, sent, "{queues:?}");
        }
        let names: Vec<_> = ends.into_iter().map(|end| end.name).collect();
        names.iter().for_each(|name| directory.close(name));
    }
}
