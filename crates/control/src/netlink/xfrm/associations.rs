//! The kernel's associations in use, by their keys, and the state reported to the kernel for each.

use super::super::counts::XfrmCounts;
use esp::{Direction, Limits, Sa, Spec};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Bound;
use std::sync::Arc;
use wire::netlink::xfrm::{Current, Id, Replay, SELECTOR};
use wire::netlink::{Full, Writer};

/// Sequence number after which an association with 32-bit numbers should be renewed.
const RENEWAL_NUMBER: u64 = 0xf000_0000;
/// SPI, direction (true for outbound), and the complete identity of an association.
type Key = (u32, bool, Id);

/// Removal time of an association in nanoseconds, and the association.
type RemovedSa = (u64, Arc<Sa>);

fn key(id: &Id, is_out: bool) -> Key {
    (id.spi, is_out, *id)
}

/// True for an outbound association in transport mode.
fn is_outbound_transport(spec: &Spec) -> bool {
    spec.direction == Direction::Out && spec.tunnel.is_none()
}

/// Associations in use, and recently removed ones. Look-ups are logarithmic in the number of associations.
#[derive(Default)]
pub(super) struct Associations {
    all: BTreeMap<Key, TrackedSa>,
    /// Recently removed associations, by SPI and direction (true for outbound).
    removed: HashMap<(u32, bool), Vec<RemovedSa>>,
    /// Latest outbound association in transport mode, by number.
    transport_out: HashMap<u32, Key>,
    /// Association after which the next report to the kernel continues; `None` to start with the first.
    last_reported: Option<Key>,
}

impl Associations {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &Id> {
        self.all.keys().map(|(_, _, id)| id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TrackedSa> {
        self.all.values()
    }

    pub(super) fn get(&self, id: &Id, is_out: bool) -> Option<&TrackedSa> {
        self.all.get(&key(id, is_out))
    }

    pub(super) fn get_mut(&mut self, id: &Id, is_out: bool) -> Option<&mut TrackedSa> {
        self.all.get_mut(&key(id, is_out))
    }

    /// True if an outbound association with this number has another selector. Policies find associations by number
    /// alone, so one of both would encrypt the packets of both selectors.
    pub(super) fn has_rival(&self, spec: &Spec, selector: &[u8; SELECTOR]) -> bool {
        let rival = self
            .transport_out
            .get(&spec.reqid)
            .filter(|_| is_outbound_transport(spec));
        let rival = rival.and_then(|key| self.all.get(key));
        rival.is_some_and(|rival| rival.selector != *selector)
    }

    /// Adds an association. Returns the association that it replaces, if there was one.
    pub(super) fn insert(&mut self, id: &Id, is_out: bool, known: TrackedSa) -> Option<TrackedSa> {
        let spec = known.sa.spec();
        if is_outbound_transport(spec) {
            self.transport_out.insert(spec.reqid, key(id, is_out));
        }
        self.all.insert(key(id, is_out), known)
    }

    /// Removes an association.
    pub(super) fn remove(&mut self, id: &Id, is_out: bool, now: u64) -> Option<Arc<Sa>> {
        let known = self.all.remove(&key(id, is_out))?;
        let number = known.sa.spec().reqid;
        if self.transport_out.get(&number) == Some(&key(id, is_out)) {
            self.transport_out.remove(&number);
        }
        let removed = self.removed.entry((id.spi, is_out)).or_default();
        removed.push((now, Arc::clone(&known.sa)));
        Some(known.sa)
    }

    /// Removes associations that were removed at least `kept` nanoseconds ago.
    pub(super) fn expire_removed(&mut self, now: u64, kept: u64) {
        self.removed.retain(|_, list| {
            list.retain(|(since, _)| now.saturating_sub(*since) < kept);
            !list.is_empty()
        });
    }

    /// Latest association with the same keys, SPI and direction as `sa`, in use or recently removed.
    pub(super) fn same_as(&self, sa: &Sa) -> Option<&Arc<Sa>> {
        let (spi, is_out) = (sa.spec().spi, sa.spec().direction == Direction::Out);
        let least = Id {
            dst: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            spi: 0,
            protocol: 0,
        };
        let there = self.all.range((spi, is_out, least)..);
        let there = there.take_while(|((s, out, _), _)| (*s, *out) == (spi, is_out));
        let there = there.map(|(_, known)| &known.sa);
        let removed = self.removed.get(&(spi, is_out)).into_iter().flatten();
        let all = there.chain(removed.map(|(_, sa)| sa));
        all.filter(|old| old.has_keys_of(sa))
            .max_by_key(|old| old.created_at())
    }

    /// Writes unreported counters for the kernel until `writer` is full. Returns true if all were written. The next
    /// call continues after this one's last association, so that busy associations do not starve others.
    pub(super) fn report(
        &mut self,
        writer: &mut Writer<'_>,
        now: u64,
        counts: &XfrmCounts,
    ) -> bool {
        let from = self.last_reported.map_or(Bound::Unbounded, Bound::Excluded);
        for (key, known) in self.all.range_mut((from, Bound::Unbounded)) {
            let (_, is_out, id) = key;
            if known.report(id, *is_out, writer, now, counts).is_err() {
                return false;
            }
            self.last_reported = Some(*key);
        }
        self.last_reported = None;
        true
    }
}

/// Association in use, with the state last reported to the kernel.
pub(super) struct TrackedSa {
    pub(super) sa: Arc<Sa>,
    pub(super) src: IpAddr,
    /// Selector of the packets that may use the association.
    pub(super) selector: [u8; SELECTOR],
    pub(super) replay: Replay,
    pub(super) current: Current,
    /// Packets, bytes and sequence number last reported to the kernel.
    pub(super) last_reported: (u64, u64, u64),
    pub(super) soft: bool,
    pub(super) hard: bool,
    /// Number of the last dump that contained the association.
    pub(super) dump_number: u64,
}

impl TrackedSa {
    /// Writes the counters that have changed since the last report to the kernel.
    pub(super) fn report(
        &mut self,
        id: &Id,
        is_out: bool,
        writer: &mut Writer<'_>,
        now: u64,
        counts: &XfrmCounts,
    ) -> Result<(), Full> {
        let (packets, bytes) = self.sa.counts();
        let is = (packets, bytes, self.sa.number());
        if is != self.last_reported {
            let mut current = self.current;
            (current.packets, current.bytes) = (packets, bytes);
            if current.used == 0 {
                current.used = now / 1_000_000_000;
            }
            let mut replay = self.replay;
            match is_out {
                true => replay.sent = is.2,
                false => replay.seen = is.2,
            }
            writer.xfrm_counts(id, self.src, &current, &replay)?;
            counts.xfrm_told.add(1);
            (self.current, self.replay, self.last_reported) = (current, replay, is);
        }
        let spec = self.sa.spec();
        let limited = |limits: Limits| limits != Limits::default();
        let late = is_out && !spec.esn && is.2 >= RENEWAL_NUMBER;
        let soft = late || limited(spec.lifetime.soft) && self.sa.is_soft_expired(now);
        if soft && !self.soft {
            writer.xfrm_expire(id, false)?;
            counts.xfrm_expired.add(1);
            self.soft = true;
        }
        if !self.hard && self.sa.is_hard_expired(now) {
            writer.xfrm_expire(id, true)?;
            counts.xfrm_expired.add(1);
            self.hard = true;
        }
        Ok(())
    }
}
