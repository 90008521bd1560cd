//! The stream of a cluster's routes: any bytes are messages or none, and what a server makes of them is as it says.

use agree::routes::copy::Copy;
use agree::routes::message::{FRAME_MAX, FRAME_MIN, Malformed, Message};
use agree::routes::{At, Hops};
use std::collections::BTreeMap;
use wire::Prefix;

/// Reads bytes as messages of a leader, one after the other, and applies them. Streams begin anew after each one that a
/// server refuses.
pub fn run(data: &[u8]) {
    let mut rest = &data[..data.len().min(64 << 10)];
    let mut copy = Copy::default();
    let mut written: BTreeMap<Prefix, Hops> = BTreeMap::new();
    let mut reached: Option<At> = None;
    while let Some((head, more)) = rest.split_first_chunk::<4>() {
        let Ok(length) = Message::length(*head) else {
            // A length that no message has ends the stream; a byte further another one may begin.
            rest = &rest[1..];
            copy.connect();
            continue;
        };
        let (bytes, more) = more.split_at(length.min(more.len()));
        rest = more;
        let Ok(message) = Message::read(bytes) else {
            continue;
        };
        same(&message);
        if let Message::Frame { bytes, .. } = &message {
            assert!((FRAME_MIN..=FRAME_MAX).contains(&bytes.len()));
        }
        let (epoch, before) = (copy.epoch(), copy.at());
        let Ok(heard) = copy.hear(message) else {
            assert!(copy.at() == before, "a refused message changed the state");
            copy.connect();
            continue;
        };
        for (prefix, hops) in heard.changes {
            let before = match &hops {
                Some(hops) => written.insert(prefix, hops.clone()),
                None => written.remove(&prefix),
            };
            assert_ne!(before, hops, "a change that is none");
        }
        assert!(copy.routes().eq(written.iter()));
        assert!(copy.epoch() >= epoch);
        if let Some(at) = copy.at() {
            assert!(Some(at) >= reached, "back from {reached:?} to {at:?}");
            reached = Some(at);
        }
    }
}

/// A message is written and read as itself.
fn same(message: &Message) {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    let read: Result<Message, Malformed> = Message::read(&bytes[4..]);
    // Bytes of a message that is long already are not written longer.
    assert_eq!(read.as_ref(), Ok(message));
}
