//! Fragments that wait until their datagram is complete.

use engine::clock::Time;
use engine::packet::Packet;
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

/// Fields that all fragments of a datagram have in common (RFC 791, 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) src: Ipv4Addr,
    pub(super) dst: Ipv4Addr,
    pub(super) protocol: u8,
    pub(super) ident: u16,
}

/// A fragment, with the positions of its payload in the packet and in the datagram.
pub(super) struct Fragment {
    pub(super) packet: Packet,
    /// Offset of the payload in the packet's data.
    pub(super) payload: usize,
    pub(super) offset: usize,
    pub(super) len: usize,
    pub(super) last: bool,
}

impl Fragment {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.packet.data()[self.payload..self.payload + self.len]
    }

    /// End of the fragment's payload in the datagram.
    pub(super) fn end(&self) -> usize {
        self.offset + self.len
    }

    /// Length of the fragment including its IP header, in bytes.
    pub(super) fn total_len(&self) -> usize {
        self.payload - self.packet.network_offset() + self.len
    }
}

/// Result of adding a fragment.
pub(super) enum Added {
    /// The datagram is incomplete.
    Held,
    /// The fragment is a duplicate.
    Duplicate(Packet),
    /// The fragment overlaps others of its datagram. All are returned, including the new one.
    Overlap(Vec<Fragment>),
    /// The datagram is complete: all fragments, in order.
    Complete(Vec<Fragment>),
}

struct Pending {
    /// Fragments by offset, without overlap.
    fragments: Vec<Fragment>,
    /// Number of payload bytes received.
    have: usize,
    /// Length of the complete payload in bytes, known once the last fragment has arrived.
    total: Option<usize>,
    serial: u64,
    since: Time,
}

/// Incomplete datagrams, oldest first.
#[derive(Default)]
pub(super) struct Table {
    /// True for the rules of Click's driver: each fragment renews its datagram's lifetime, and of overlapping data the
    /// first received counts.
    lenient: bool,
    pending: HashMap<Key, Pending>,
    by_age: BTreeMap<u64, Key>,
    serial: u64,
    packets: usize,
    bytes: usize,
    spare: Vec<Vec<Fragment>>,
}

impl Table {
    /// Creates an empty table.
    pub(super) fn new(lenient: bool) -> Table {
        Table {
            lenient,
            ..Table::default()
        }
    }

    /// Number of fragments held.
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    /// Bytes of the fragments held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a fragment with at least one byte of payload.
    pub(super) fn add(&mut self, key: Key, mut fragment: Fragment, now: Time) -> Added {
        let (by_age, serial, spare) = (&mut self.by_age, &mut self.serial, &mut self.spare);
        let datagram = self.pending.entry(key).or_insert_with(|| {
            *serial += 1;
            by_age.insert(*serial, key);
            Pending {
                fragments: spare.pop().unwrap_or_default(),
                have: 0,
                total: None,
                serial: *serial,
                since: now,
            }
        });
        let end = fragment.end();
        if self.lenient {
            by_age.remove(&datagram.serial);
            *serial += 1;
            by_age.insert(*serial, key);
            (datagram.serial, datagram.since) = (*serial, now);
            if !datagram.cut(&mut fragment) {
                return Added::Duplicate(fragment.packet);
            }
        }
        let at = datagram
            .fragments
            .partition_point(|f| f.offset < fragment.offset);
        if let Some(twin) = datagram.fragments.get(at)
            && twin.offset == fragment.offset
            && twin.last == fragment.last
            && twin.bytes() == fragment.bytes()
        {
            return Added::Duplicate(fragment.packet);
        }
        self.packets += 1;
        self.bytes += fragment.packet.len();
        let fits = datagram.fits(at, &fragment);
        datagram.have += fragment.len;
        if fragment.last {
            datagram.total = Some(end);
        }
        let complete = datagram.total == Some(datagram.have);
        datagram.fragments.insert(at, fragment);
        match (fits, complete) {
            (false, _) => Added::Overlap(self.remove(key)),
            (true, true) => Added::Complete(self.remove(key)),
            (true, false) => Added::Held,
        }
    }

    fn remove(&mut self, key: Key) -> Vec<Fragment> {
        let Some(datagram) = self.pending.remove(&key) else {
            return Vec::new();
        };
        self.by_age.remove(&datagram.serial);
        self.packets -= datagram.fragments.len();
        let bytes: usize = datagram.fragments.iter().map(|f| f.packet.len()).sum();
        self.bytes -= bytes;
        datagram.fragments
    }

    /// Time at which the oldest datagram began.
    pub(super) fn oldest(&self) -> Option<Time> {
        let (_, key) = self.by_age.first_key_value()?;
        self.pending.get(key).map(|d| d.since)
    }

    /// Removes the oldest datagram. Returns its fragments.
    pub(super) fn pop_oldest(&mut self) -> Option<Vec<Fragment>> {
        let (_, &key) = self.by_age.first_key_value()?;
        Some(self.remove(key))
    }

    /// Keeps an emptied list for reuse.
    pub(super) fn recycle(&mut self, mut fragments: Vec<Fragment>) {
        fragments.clear();
        if self.spare.len() < 64 {
            self.spare.push(fragments);
        }
    }
}

impl Pending {
    /// Trims received bytes at either end of a fragment. Returns false if nothing is left.
    fn cut(&self, fragment: &mut Fragment) -> bool {
        for known in &self.fragments {
            if known.offset <= fragment.offset && fragment.offset < known.end() {
                let known = (known.end() - fragment.offset).min(fragment.len);
                fragment.payload += known;
                fragment.offset += known;
                fragment.len -= known;
            } else if known.offset < fragment.end() && fragment.end() <= known.end() {
                fragment.len = known.offset - fragment.offset;
            }
        }
        fragment.len > 0
    }

    /// True if a fragment at index `at` neither overlaps its neighbours nor contradicts the datagram's end.
    fn fits(&self, at: usize, fragment: &Fragment) -> bool {
        let before = at.checked_sub(1).and_then(|i| self.fragments.get(i));
        let behind = self.fragments.get(at);
        let end_known = match self.total {
            Some(total) => fragment.end() <= total && !fragment.last,
            None => !fragment.last || behind.is_none(),
        };
        end_known
            && before.is_none_or(|b| b.end() <= fragment.offset)
            && behind.is_none_or(|b| fragment.end() <= b.offset)
    }
}
