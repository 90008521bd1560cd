//! Messages of a routing daemon by FPM: any bytes are processed or end the connection, however they are split.

use control::netlink::fpm::{BadFrame, Session};
use control::netlink::model::{ForwardingTable, Link, Model};
use forwarding::{Full, GroupError, GroupId, Member, Prefix};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

/// Counts groups, and checks that routes refer to existing ones.
#[derive(Default)]
struct Groups {
    last: Cell<u16>,
    live: std::cell::RefCell<BTreeSet<GroupId>>,
}

impl<const N: usize> ForwardingTable<N> for Groups {
    fn add_group(&self, members: &[Member]) -> Result<GroupId, GroupError> {
        if members.len() > forwarding::MEMBERS_MAX {
            return Err(GroupError::TooMany);
        }
        assert!(!members.is_empty());
        self.last.set(self.last.get().saturating_add(1));
        let id = NonZeroU16::new(self.last.get()).ok_or(GroupError::OutOfIds)?;
        self.live.borrow_mut().insert(id);
        Ok(id)
    }

    fn change_groups(&self, changes: &[(GroupId, &[Member])]) -> Result<(), GroupError> {
        assert!(changes.iter().all(|(_, members)| !members.is_empty()));
        Ok(())
    }

    fn remove_group(&self, id: GroupId) {
        assert!(self.live.borrow_mut().remove(&id));
    }

    fn apply(&self, changes: &[(Prefix<N>, Option<GroupId>)]) -> Result<(), Full> {
        let live = self.live.borrow();
        let known = |id: &Option<GroupId>| id.is_none_or(|id| live.contains(&id));
        assert!(changes.iter().all(|(_, id)| known(id)));
        Ok(())
    }
}

/// Result of bytes that arrive in pieces of `piece` bytes.
fn take(data: &[u8], piece: usize) -> (Result<usize, BadFrame>, (usize, usize)) {
    let (mut model, v4, v6) = (Model::new(true), Groups::default(), Groups::default());
    let link = Link {
        number: Some(3),
        up: true,
        carrier: true,
    };
    model.link(3, Some(link));
    let now = Instant::now();
    let mut session = Session::new(Duration::ZERO, now);
    let mut count = Ok(0);
    for piece in data.chunks(piece) {
        session.free_space()[..piece.len()].copy_from_slice(piece);
        match session.process(&mut model, piece.len(), now) {
            Ok(more) => count = count.map(|count| count + more),
            Err(bad) => {
                count = Err(bad);
                break;
            }
        }
    }
    let _ = model.flush(&v4, &v6);
    let len = model.len();
    session.tick(&mut model, now + Duration::from_secs(3600));
    (count, len)
}

/// Takes bytes as messages of a daemon.
pub fn run(data: &[u8]) {
    let data = &data[..data.len().min(64 << 10)];
    let (count, len) = take(data, 64 << 10);
    assert_eq!(take(data, 1 + data.len() / 7), (count, len));
    assert!(len.0 + len.1 <= data.len());
}
