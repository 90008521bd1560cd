use super::*;
use crate::agreement::operator::block_on;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex, split};

/// A side whose kernel or router is the test.
struct Fake {
    near: UnixDatagram,
    far: UnixDatagram,
}

impl Fake {
    fn new() -> Arc<Fake> {
        let (near, far) = UnixDatagram::pair().unwrap();
        for socket in [&near, &far] {
            socket.set_nonblocking(true).unwrap();
        }
        Arc::new(Fake { near, far })
    }

    /// Next frame that the connection has brought.
    async fn next(&self) -> Vec<u8> {
        let far = readable(self.far.try_clone().unwrap().into()).unwrap();
        let mut room = [0; 2048];
        let length = timeout(Duration::from_secs(20), async {
            loop {
                let mut ready = far.readable().await.unwrap();
                match ready.try_io(|_| self.far.recv(&mut room)) {
                    Ok(length) => return length.unwrap(),
                    Err(_) => continue,
                }
            }
        });
        let length = length.await.expect("a frame");
        room[..length].to_vec()
    }
}

impl Side for Fake {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.near.as_fd())
    }

    fn take(&self, into: &mut [u8]) -> usize {
        self.near.recv(into).unwrap_or(0)
    }

    fn give(&self, frame: &[u8]) {
        let _ = self.near.send(frame);
    }
}

/// One end of a connection in epoch 3, with two ports.
async fn end(sides: [Arc<Fake>; 2], stream: DuplexStream) -> String {
    let ended = exchange(&sides, 3, split(stream)).await;
    ended.expect_err("an exchange ends for a reason")
}

fn two() -> [Arc<Fake>; 2] {
    [Fake::new(), Fake::new()]
}

#[test]
fn frames_reach_the_same_port_at_the_other_end() {
    block_on(async {
        let (server, leader) = (two(), two());
        let (a, b) = duplex(1 << 16);
        let ends = [(server.clone(), a), (leader.clone(), b)];
        let ends = ends.map(|(sides, stream)| tokio::spawn(end(sides, stream)));
        for (port, length) in [(0, 60), (1, 1514), (1, 14)] {
            server[port].far.send(&vec![7; length]).unwrap();
            assert_eq!(leader[port].next().await, vec![7; length]);
            leader[port].far.send(&vec![8; length]).unwrap();
            assert_eq!(server[port].next().await, vec![8; length]);
        }
        // Bytes without room for an Ethernet header are no frame.
        server[0].far.send(&[1; 13]).unwrap();
        server[0].far.send(&[2; 60]).unwrap();
        assert_eq!(leader[0].next().await, [2; 60]);
        assert!(ends.iter().all(|end| !end.is_finished()));
        ends[0].abort();
        let [_, leader] = ends;
        leader.await.map(|_| ()).map_err(|e| e.to_string())
    })
    .unwrap();
}

#[test]
fn connection_ends_when_a_message_is_wrong() {
    let frame = |port| Message::Frame {
        port,
        bytes: vec![1; 60],
    };
    let refused = Message::Refused {
        why: "no".to_owned(),
    };
    for (message, why) in [
        (frame(2), "a frame of port 2, which is not there"),
        (
            Message::Alive { epoch: 2 },
            "it is in epoch 2, and this server in 3",
        ),
        (
            Message::Alive { epoch: 4 },
            "it is in epoch 4, and this server in 3",
        ),
        (refused, "not about frames"),
    ] {
        block_on(async {
            let (sides, (a, mut b)) = (two(), duplex(1 << 16));
            let ended = tokio::spawn(end(sides.clone(), a));
            let mut bytes = Vec::new();
            Message::Alive { epoch: 3 }.write(&mut bytes);
            frame(1).write(&mut bytes);
            message.write(&mut bytes);
            b.write_all(&bytes).await.unwrap();
            let said = ended.await.unwrap();
            assert!(said.contains(why), "{said}");
            // Earlier frames have arrived.
            assert_eq!(sides[1].next().await, [1; 60]);
            Ok(())
        })
        .unwrap();
    }
    block_on(async {
        let (a, mut b) = duplex(1 << 16);
        let ended = tokio::spawn(end(two(), a));
        b.write_all(&[0, 0, 0, 1, 99]).await.unwrap();
        let said = ended.await.unwrap();
        assert!(said.contains("what is no message"), "{said}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn frames_wait_at_their_side_when_the_connection_takes_none() {
    block_on(async {
        let (sides, (a, _b)) = (two(), duplex(64));
        let ended = tokio::spawn(end(sides.clone(), a));
        let mut sent = 0;
        while !ended.is_finished() {
            while sides[0].far.send(&[1; 1514]).is_ok() {
                sent += 1;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let said = ended.await.unwrap();
        assert!(
            said.contains("it takes nothing") || said.contains("it says nothing"),
            "{said}"
        );
        let waiting = std::iter::from_fn(|| Some(sides[0].take(&mut [0; 2048])).filter(|n| *n > 0));
        let taken = sent - waiting.count();
        // The queue, a message under way, and a frame in the hand of the reader.
        assert!(taken <= QUEUE + TOGETHER / 1514 + 2, "{taken} of {sent}");
        Ok(())
    })
    .unwrap();
}
