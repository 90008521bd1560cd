//! An own link with authenticated frames: its epoch, its keys, and the newest frame numbers of both directions.

use crate::auth::{FrameKey, Keys, Life, LinkDirection};
use crate::tag::{Bad, Lanes, Tag, Windows};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An own link while the node's configuration has it. Frame numbers start with it, so no number is used twice under
/// one key.
#[derive(Debug)]
pub struct Cable {
    epoch: Life,
    lanes: Lanes,
    refused: AtomicU64,
}

impl Cable {
    /// Makes a link with an epoch that no link had before.
    pub fn new(life: Life) -> Cable {
        Cable {
            epoch: life,
            lanes: Lanes::default(),
            refused: AtomicU64::new(0),
        }
    }

    /// Epoch of the link at this end.
    pub fn life(&self) -> Life {
        self.epoch
    }

    /// The newest frame number of one worker; `turn` selects the worker. 0: none.
    pub fn sent(&self, turn: u64) -> u64 {
        self.lanes.newest(turn)
    }

    /// Number of frames that were refused because they were forged or replayed.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts a refused frame.
    #[cold]
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Names of a link at both of its ends.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Name of the cluster.
    pub cluster: &'a str,
    /// Name of this node.
    pub own: &'a str,
    /// The node at the other end.
    pub peer: &'a str,
    /// Number of the link among those between these two nodes.
    pub link: usize,
}

/// Keys and windows that both ends of a link have agreed on by heartbeats.
#[derive(Debug)]
pub struct Session {
    cable: Arc<Cable>,
    peer: Life,
    send: FrameKey,
    /// Keys to check frames with, the most likely one first.
    receive: Vec<FrameKey>,
    windows: Arc<Windows>,
}

impl Session {
    /// Makes a session for a peer's new epoch, of which no frame has arrived yet.
    pub fn new(keys: &Keys, names: &Names, cable: Arc<Cable>, peer: Life) -> Session {
        let own = (names.own, cable.epoch);
        let there = (names.peer, peer);
        let direction = |from, to| LinkDirection {
            cluster: names.cluster,
            from,
            to,
            link: names.link,
        };
        let back = direction(there, own);
        Session {
            send: keys.first().of_link(&direction(own, there)),
            receive: keys.iter().map(|key| key.of_link(&back)).collect(),
            cable,
            peer,
            windows: Arc::default(),
        }
    }

    /// Continues the session with other keys or names; it still knows the frame numbers that have arrived.
    pub fn renew(&self, keys: &Keys, names: &Names) -> Session {
        Session {
            windows: Arc::clone(&self.windows),
            ..Session::new(keys, names, Arc::clone(&self.cable), self.peer)
        }
    }

    /// The epoch of the link at the peer.
    pub fn peer(&self) -> Life {
        self.peer
    }

    /// Writes a tag to a frame: the worker's next number and the code. The frame must have room for it, and must
    /// already contain the addresses and the packet.
    #[inline]
    pub fn seal(&self, worker: usize, mut tag: Tag, frame: &mut [u8]) {
        tag.link = self.cable.lanes.next(worker);
        tag.write(frame, Some(&self.send));
    }

    /// Reads the tag of a frame if the peer wrote it for this link in this epoch.
    #[inline]
    pub fn open(&self, frame: &mut [u8]) -> Result<Tag, Bad> {
        let opened = Tag::open(frame, &self.receive);
        if opened == Err(Bad::Forged) {
            self.cable.refuse();
        }
        opened
    }

    /// Accepts a new frame number; returns false if it was accepted before. Call this last, because a frame refused for
    /// another reason may be sent again.
    #[inline]
    pub fn take(&self, tag: &Tag) -> bool {
        let new = self.windows.take(tag.link);
        if !new {
            self.cable.refuse();
        }
        new
    }

    /// The newest accepted number on the lane of `number`.
    pub fn newest(&self, number: u64) -> u64 {
        self.windows.newest(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::PACKET;

    const A: Names = Names {
        cluster: "t",
        own: "a",
        peer: "b",
        link: 0,
    };
    const B: Names = Names {
        own: "b",
        peer: "a",
        ..A
    };
    const TAG: Tag = Tag {
        link: 0,
        flow: 1,
        sequence: 2,
        ethertype: 0x0800,
    };

    fn keys(digits: &str) -> Keys {
        Keys::parse(digits).expect("keys")
    }

    fn cable(life: u8) -> Arc<Cable> {
        Arc::new(Cable::new(Life([life; 16])))
    }

    fn sealed(session: &Session) -> Vec<u8> {
        let mut frame = vec![7; PACKET + 60];
        session.seal(3, TAG, &mut frame);
        frame
    }

    fn opened(session: &Session, frame: &[u8]) -> Result<bool, Bad> {
        let tag = session.open(&mut frame.to_vec())?;
        Ok(session.take(&tag))
    }

    #[test]
    fn a_frame_is_accepted_once_and_only_by_the_other_end() {
        let keys = keys(&"1".repeat(32));
        let (at_a, at_b) = (cable(1), cable(2));
        let a = Session::new(&keys, &A, Arc::clone(&at_a), at_b.life());
        let b = Session::new(&keys, &B, Arc::clone(&at_b), at_a.life());
        let frame = sealed(&a);
        assert_eq!(opened(&b, &frame), Ok(true));
        assert_eq!(opened(&b, &frame), Ok(false), "again");
        assert_eq!(opened(&a, &frame), Err(Bad::Forged), "sent back");
        let other = Names { own: "c", ..B };
        let c = Session::new(&keys, &other, cable(2), at_a.life());
        assert_eq!(opened(&c, &frame), Err(Bad::Forged), "on another link");
        let again = Session::new(&keys, &B, cable(3), at_a.life());
        assert_eq!(opened(&again, &frame), Err(Bad::Forged), "after a restart");
        assert_eq!((at_a.refused(), at_b.refused()), (1, 1));
        assert_eq!(b.newest(at_a.sent(0)), at_a.sent(0));
    }

    #[test]
    fn a_key_changes_without_loss_if_both_ends_know_both_meanwhile() {
        let (old, new) = ("1".repeat(32), "2".repeat(32));
        let both = [format!("{old} {new}"), format!("{new} {old}")];
        let steps = [&old, &both[0], &both[1], &new].map(|digits| keys(digits));
        let (at_a, at_b) = (cable(1), cable(2));
        let mut a = Session::new(&steps[0], &A, Arc::clone(&at_a), at_b.life());
        let mut b = Session::new(&steps[0], &B, Arc::clone(&at_b), at_a.life());
        let first = sealed(&a);
        assert_eq!(opened(&b, &first), Ok(true));
        for step in &steps[1..] {
            let before = sealed(&a);
            a = a.renew(step, &A);
            let between = sealed(&a);
            assert_eq!(opened(&b, &between), Ok(true));
            b = b.renew(step, &B);
            assert_eq!(opened(&b, &before), Ok(true), "it was on its way");
            assert_eq!(opened(&b, &sealed(&a)), Ok(true));
            assert_ne!(opened(&b, &first), Ok(true));
        }
        assert_eq!(opened(&b, &first), Err(Bad::Forged), "the old key is gone");
    }
}
