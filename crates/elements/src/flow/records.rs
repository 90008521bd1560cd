//! Records of flows: found by a tag or a key by all workers, without locks; changed by one writer.
//!
//! All that workers change of a record are atomic words, each by one instruction, so it does not matter which worker a
//! packet of the flow is on. A record is given to another flow only when no worker can have found it for the old one.

use super::key::{self, Id, KeyKind};
use crate::secret;
use engine::packet::Packet;
use engine::publish::{Epoch, domain};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use sync::Lock;
use tables::exact::{Exact, ExactWriter};
use tables::guarantee::{Finish, Grant, Pace};
use wire::FlowKey;

use super::flow_request::FlowTreatment;

/// Maximum time that the control thread waits for workers, and its polling interval.
const WORKER_TIMEOUT: Duration = Duration::from_millis(100);
const TURN: Duration = Duration::from_micros(50);

/// Workers' record of a flow. Words of absent settings are 0.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Record {
    port: AtomicU64,
    /// Transmission time per byte at the reserved rate; 0 without a guarantee.
    reserved: AtomicU64,
    /// Transmission time per byte at the policed rate of the flow, and the depth of its token bucket.
    rate: AtomicU64,
    depth: AtomicU64,
    /// Transmission time of the longest packet at the reserved rate, in nanoseconds.
    hop: AtomicU64,
    /// Time at which the last packet finishes at the reserved rate.
    finish: Finish,
    /// Time at which the token bucket will be full.
    full: Finish,
    /// Time of the most recent packet, accurate to about a second.
    pub(super) used: AtomicU64,
    pub(super) packets: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) excess: AtomicU64,
}

/// Decision for a packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketDecision {
    /// Send the packet to a port.
    Send(u8),
    /// Send the packet to a port. The fields are the port, the deadline, and the deadline's increment per hop in
    /// nanoseconds.
    Guaranteed(u8, u64, u32),
    /// The packet exceeds the flow's token bucket.
    Excess,
}

impl Record {
    /// Accounts for a packet of `bytes` and decides on it. The counters need no memory ordering, since only handlers
    /// read them.
    #[inline]
    pub(super) fn rule(&self, police: bool, now: u64, bytes: u64) -> PacketDecision {
        if self.used.load(Relaxed) != now {
            self.used.store(now, Relaxed);
        }
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        let reserved = self.reserved.load(Relaxed);
        let port = self.port.load(Relaxed) as u8;
        if reserved == 0 {
            return PacketDecision::Send(port);
        }
        let rate = Pace::of(self.rate.load(Relaxed));
        if police && !self.full.police(rate, self.depth.load(Relaxed), now, bytes) {
            self.excess.fetch_add(1, Relaxed);
            return PacketDecision::Excess;
        }
        let deadline = self.finish.stamp(Pace::of(reserved), now, bytes);
        PacketDecision::Guaranteed(port, deadline, self.hop.load(Relaxed) as u32)
    }

    /// Sets the guarantee. Packets already counted keep counting; a concurrent packet may see a mixture of both
    /// settings.
    fn set(&self, wish: &FlowTreatment, grant: Option<Grant>) {
        self.port.store(wish.port.into(), Relaxed);
        let (mut reserved, mut rate, mut depth, mut hop) = (0, 0, 0, 0);
        if let (Some(wanted), Some(grant)) = (&wish.wanted, grant) {
            let pace = Pace::new(wanted.rate);
            reserved = Pace::new(grant.reserved).word();
            (rate, depth) = (pace.word(), pace.depth(wanted.burst));
            hop = grant.hop(wanted).min(u32::MAX.into());
        }
        self.reserved.store(reserved, Relaxed);
        self.rate.store(rate, Relaxed);
        self.depth.store(depth, Relaxed);
        self.hop.store(hop, Relaxed);
    }

    /// Resets the record for a new flow.
    fn prepare(&self, flow: &FlowRecord) {
        self.set(&flow.wish, flow.grant);
        self.finish.reset();
        self.full.reset();
        for count in [&self.used, &self.packets, &self.bytes, &self.excess] {
            count.store(0, Relaxed);
        }
    }
}

/// Control thread's record of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowRecord {
    pub(super) id: Id,
    pub(super) wish: FlowTreatment,
    pub(super) grant: Option<Grant>,
    /// Set-up time on the workers' clock; `None` until a worker first checks the flow.
    pub(super) since: Option<u64>,
}

/// Index from keys to records.
enum Index {
    /// Record number plus 1, by tag; 0 for none.
    Tags(Box<[AtomicU32]>),
    Keys(Arc<Exact>),
}

/// Writer's half of the flow records.
pub(super) struct Writer {
    keys: Option<ExactWriter>,
    /// Flows by record number.
    pub(super) known: BTreeMap<u32, FlowRecord>,
    free: Vec<u32>,
    /// Lowest record number never used.
    fresh: u32,
    /// Removed entries and record numbers that workers may still use, by epoch.
    limbo: VecDeque<(Epoch, Vec<u32>, Vec<u32>)>,
    /// Record number at which expiry continues.
    hand: u32,
}

/// Dimensions of a table. Flows survive a reload in place only if these are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dimensions {
    pub(super) key_kind: KeyKind,
    pub(super) capacity: usize,
    pub(super) buckets: usize,
    /// Maximum number of flows per bucket.
    pub(super) k: usize,
}

impl Dimensions {
    /// Number of records, including spares for removed flows that workers have not released.
    fn records(&self) -> usize {
        self.capacity + self.capacity / 8 + 64
    }
}

/// Reason why a flow was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddError {
    /// The table contains its maximum number of flows.
    Full,
    /// The flow's bucket is full.
    Bucket,
    /// Workers have not yet released the records of removed flows.
    Waits,
}

pub(super) struct Records {
    shape: Dimensions,
    index: Index,
    records: Box<[Record]>,
    writer: Lock<Writer>,
}

impl Records {
    pub(super) fn new(shape: Dimensions) -> Records {
        let keys = || {
            let seed = secret(cfg!(test));
            ExactWriter::with_slots(shape.capacity, shape.buckets, 5, seed)
        };
        let (index, keys) = match shape.key_kind.tag_max() {
            Some(most) => {
                let tags = (0..=most).map(|_| AtomicU32::new(0)).collect();
                (Index::Tags(tags), None)
            }
            None => {
                let keys = keys();
                (Index::Keys(Arc::clone(keys.table())), Some(keys))
            }
        };
        Records {
            shape,
            index,
            records: (0..shape.records()).map(|_| Record::default()).collect(),
            writer: Lock::new(Writer {
                keys,
                known: BTreeMap::new(),
                free: Vec::new(),
                fresh: 0,
                limbo: VecDeque::new(),
                hand: 0,
            }),
        }
    }

    /// Memory for the records of a table, in bytes.
    pub(super) fn memory(shape: &Dimensions) -> usize {
        let index = match shape.key_kind.tag_max() {
            Some(most) => (most as usize + 1) * size_of::<AtomicU32>(),
            None => Exact::bytes_of(shape.capacity, shape.buckets),
        };
        index + shape.records() * size_of::<Record>()
    }

    /// Record of a packet's flow.
    #[inline]
    pub(super) fn of_packet(&self, packet: &Packet) -> Option<&Record> {
        let number = match &self.index {
            Index::Tags(tags) => {
                let tag = self.shape.key_kind.tag(packet)?;
                tags.get(tag as usize)?.load(Acquire).checked_sub(1)?
            }
            Index::Keys(keys) => keys.find(&key::of_flow(&FlowKey::of_ip(packet.network())?))?,
        };
        self.records.get(number as usize)
    }

    pub(super) fn record(&self, number: u32) -> &Record {
        &self.records[number as usize]
    }

    /// Locks the writer's half, for the control thread.
    pub(super) fn lock(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock();
        writer.free_unreachable();
        writer
    }

    /// Locks the writer's half without waiting, for a worker; `None` while the control thread holds it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Writer>> {
        let mut writer = self.writer.try_lock()?;
        writer.free_unreachable();
        Some(writer)
    }

    /// Record number of a flow.
    pub(super) fn find(&self, id: &Id) -> Option<u32> {
        match (&self.index, id) {
            (Index::Tags(tags), Id::Tag(tag)) => {
                tags.get(*tag as usize)?.load(Relaxed).checked_sub(1)
            }
            (Index::Keys(keys), Id::Key(key)) => keys.find(key),
            _ => None,
        }
    }

    /// Adds a new flow.
    pub(super) fn add(&self, writer: &mut Writer, flow: FlowRecord) -> Result<u32, AddError> {
        if writer.known.len() >= self.shape.capacity {
            return Err(AddError::Full);
        }
        if let (Id::Key(key), Some(keys)) = (&flow.id, &writer.keys)
            && keys.colliding_keys(key) >= self.shape.k
        {
            return Err(AddError::Bucket);
        }
        writer.wait_for_room(self.records.len());
        let number = match writer.free.pop() {
            Some(number) => number,
            None if (writer.fresh as usize) < self.records.len() => {
                writer.fresh += 1;
                writer.fresh - 1
            }
            None => return Err(AddError::Waits),
        };
        self.record(number).prepare(&flow);
        // The record is complete before its key or tag is published in the index.
        let added = match (&self.index, &flow.id, &mut writer.keys) {
            (Index::Keys(_), Id::Key(key), Some(keys)) => keys.insert(key, number).is_ok(),
            (Index::Tags(tags), Id::Tag(tag), _) => {
                let place = tags.get(*tag as usize);
                place
                    .inspect(|place| place.store(number + 1, Release))
                    .is_some()
            }
            _ => false,
        };
        if !added {
            writer.free.push(number);
            return Err(AddError::Waits);
        }
        writer.known.insert(number, flow);
        Ok(number)
    }

    /// Changes the request and the grant of a flow.
    pub(super) fn change(&self, writer: &mut Writer, number: u32, flow: FlowRecord) {
        self.record(number).set(&flow.wish, flow.grant);
        writer.known.insert(number, flow);
    }

    /// Removes a flow.
    pub(super) fn remove(&self, writer: &mut Writer, number: u32) -> Option<FlowRecord> {
        let flow = writer.known.remove(&number)?;
        let mut entries = Vec::new();
        match (&self.index, &flow.id, &mut writer.keys) {
            (Index::Keys(_), Id::Key(key), Some(keys)) => {
                keys.remove(key);
                entries = keys.take_limbo();
            }
            (Index::Tags(tags), Id::Tag(tag), _) => {
                if let Some(place) = tags.get(*tag as usize) {
                    place.store(0, Relaxed);
                }
            }
            _ => {}
        }
        let epoch = domain().advance();
        writer.limbo.push_back((epoch, entries, vec![number]));
        Some(flow)
    }

    /// Checks up to `max` flows. New flows start their lease; flows with an expired lease, or idle for `idle`
    /// nanoseconds, are removed and returned.
    pub(super) fn expire(&self, now: u64, idle: Option<u64>, max: usize) -> Vec<FlowRecord> {
        let Some(mut writer) = self.try_lock() else {
            return Vec::new(); // the next call removes them
        };
        let writer = &mut *writer;
        let mut over = Vec::new();
        let hand = writer.hand;
        writer.hand = 0;
        for (&number, flow) in writer.known.range_mut(hand..).take(max) {
            let since = *flow.since.get_or_insert(now);
            let used = self.record(number).used.load(Relaxed).max(since);
            let lease = flow
                .wish
                .lifetime
                .map(|lease| u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX));
            let past = |from: u64, time: Option<u64>| {
                time.is_some_and(|time| from.saturating_add(time) <= now)
            };
            if past(since, lease) || past(used, idle) {
                over.push(number);
            }
            writer.hand = number + 1;
        }
        if writer.known.range(writer.hand..).next().is_none() {
            writer.hand = 0;
        }
        let gone = over
            .into_iter()
            .filter_map(|number| self.remove(writer, number));
        gone.collect()
    }
}

impl Writer {
    /// Waits on the control thread until workers release a record, if none of `records` is free. Gives up after
    /// `WORKER_TIMEOUT`.
    fn wait_for_room(&mut self, records: usize) {
        let begun = Instant::now();
        while self.free.is_empty() && self.fresh as usize == records && !self.limbo.is_empty() {
            self.free_unreachable();
            if begun.elapsed() > WORKER_TIMEOUT {
                return;
            }
            std::thread::sleep(TURN);
        }
    }

    /// Frees records that no worker can reach.
    fn free_unreachable(&mut self) {
        while let Some((epoch, ..)) = self.limbo.front()
            && domain().has_passed(*epoch)
            && let Some((_, entries, numbers)) = self.limbo.pop_front()
        {
            if let Some(keys) = &mut self.keys {
                keys.release(entries);
            }
            self.free.extend(numbers);
        }
    }
}
