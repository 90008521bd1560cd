//! Frames from an internal link of a cluster: addresses, tags, and heartbeats to a node that listens.

use cluster::address::{self, Address, LEN};
use cluster::auth::{Key, Life, LinkDirection};
use cluster::health::{Cabling, Config, Health};
use cluster::map::Map;
use cluster::tag::{self, Tag, Windows};
use std::sync::Arc;

/// Reads bytes as a frame, and as heartbeats one after the other.
pub fn run(data: &[u8]) {
    let data = &data[..data.len().min(4 << 10)];
    if let Some(bytes) = data.first_chunk::<LEN>()
        && let Ok(address) = Address::parse(bytes, bytes[11])
    {
        let mut again = address.bytes();
        address::set_lane(&mut again, u32::from(address::lane(bytes)) << 10);
        assert_eq!(&again, bytes, "every bit means something");
    }
    let key = Key::new([7; 16]).of_link(&LinkDirection {
        cluster: "t",
        from: ("a", Life([1; 16])),
        to: ("b", Life([2; 16])),
        link: 0,
    });
    let keys = std::slice::from_ref(&key);
    if let Ok(read) = Tag::read(data) {
        let mut bytes = data.to_vec();
        read.write(&mut bytes, None);
        assert_eq!(bytes, data);
        read.write(&mut bytes, Some(&key));
        assert_eq!(Tag::open(&mut bytes, keys), Ok(read));
        assert_eq!(bytes, data);
        let windows = Windows::default();
        assert!(windows.take(read.link), "the first one is new");
        assert!(!windows.take(read.link), "a number is taken once");
    }
    let opened = Tag::open(&mut data.to_vec(), keys);
    assert!(opened.is_err() || data.len() >= tag::PACKET);
    heartbeats(data);
}

/// Heartbeats, each with a preceding byte: the link that it comes by, and the time since the last.
fn heartbeats(data: &[u8]) {
    const MS: u64 = 1_000_000;
    let map = Map::mesh(3, 1e9);
    let Ok(cabling) = Cabling::new(&map) else {
        return;
    };
    let config = Config::default();
    let bound = 126 + 18 * config.records;
    let mut node = Health::new(&map, Arc::new(cabling), 0, 5, config, 0);
    let mut now = 0;
    // Two records have the length of one heartbeat of the seeds.
    for piece in data.chunks(1 + 126 + 2 * 18) {
        let Some((&first, bytes)) = piece.split_first() else {
            return;
        };
        now += u64::from(first >> 2) * MS;
        let _ = node.heard(usize::from(first & 3), bytes, now);
        node.tick(now, &mut |own, bytes| {
            assert!(own < 2 && bytes.len() <= bound, "{own}: {}", bytes.len());
        });
        assert!(
            node.due() > now || node.states().count() != 2,
            "it would spin"
        );
    }
}
