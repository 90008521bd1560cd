//! Records of flows: found by a tag or a key by all workers, without locks; changed by one writer.
//!
//! All that workers change of a record are atomic words, each by one instruction, so it does not matter which worker a
//! packet of the flow is on. A record is given to another flow only when no worker can have found it for the old one.

use super::key::{self, By, Id};
use engine::packet::Packet;
use engine::publish::{Epoch, domain};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
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

use super::wish::Wish;

/// Time that control waits for workers, and interval of its looks.
const PATIENCE: Duration = Duration::from_millis(100);
const TURN: Duration = Duration::from_micros(50);

/// A worker's record of a flow. Words of absent settings are 0.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Record {
    port: AtomicU64,
    /// Time of a byte at the rate that is reserved.
    reserved: AtomicU64,
    /// Time of a byte at the flow's own rate, and the depth of its bucket.
    rate: AtomicU64,
    depth: AtomicU64,
    /// Time of the longest packet at the rate that is reserved, in nanoseconds.
    hop: AtomicU64,
    /// Time at which all packets will have left at the reserved rate.
    finish: Finish,
    /// Time at which its bucket will be full.
    full: Finish,
    /// Time of its last packet, to a second or so.
    pub(super) used: AtomicU64,
    pub(super) packets: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) excess: AtomicU64,
}

/// Treatment of a flow's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// Leaves by a port.
    Send(u8),
    /// Leaves by a port, by a deadline that advances by the last value at each hop.
    Guaranteed(u8, u64, u32),
    /// Exceeds the flow's own bound.
    Excess,
}

impl Record {
    /// A packet of `bytes` comes. All counts are for people, so no order is needed among them.
    #[inline]
    pub(super) fn rule(&self, police: bool, now: u64, bytes: u64) -> Ruling {
        if self.used.load(Relaxed) != now {
            self.used.store(now, Relaxed);
        }
        self.packets.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        let reserved = self.reserved.load(Relaxed);
        let port = self.port.load(Relaxed) as u8;
        if reserved == 0 {
            return Ruling::Send(port);
        }
        let rate = Pace::of(self.rate.load(Relaxed));
        if police && !self.full.police(rate, self.depth.load(Relaxed), now, bytes) {
            self.excess.fetch_add(1, Relaxed);
            return Ruling::Excess;
        }
        let deadline = self.finish.stamp(Pace::of(reserved), now, bytes);
        Ruling::Guaranteed(port, deadline, self.hop.load(Relaxed) as u32)
    }

    /// Sets the guarantee. Earlier packets keep counting, and a concurrent packet may be judged by a part of either
    /// setting.
    fn set(&self, wish: &Wish, grant: Option<Grant>) {
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

    /// Prepares the record for another flow.
    fn prepare(&self, flow: &Known) {
        self.set(&flow.wish, flow.grant);
        self.finish.reset();
        self.full.reset();
        for count in [&self.used, &self.packets, &self.bytes, &self.excess] {
            count.store(0, Relaxed);
        }
    }
}

/// Control's record of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) id: Id,
    pub(super) wish: Wish,
    pub(super) grant: Option<Grant>,
    /// Time of set-up by the workers' clock; `None` until they have told the time.
    pub(super) since: Option<u64>,
}

/// Index of records.
enum Index {
    /// By tag: number of a record, plus 1.
    Tags(Box<[AtomicU32]>),
    Keys(Arc<Exact>),
}

/// The writer's half.
pub(super) struct Writer {
    keys: Option<ExactWriter>,
    /// Flows by number of the record.
    pub(super) known: BTreeMap<u32, Known>,
    free: Vec<u32>,
    /// The first record that was never used.
    fresh: u32,
    /// Records that workers may still use.
    limbo: VecDeque<(Epoch, Vec<u32>, Vec<u32>)>,
    /// Place at which expiry continues.
    hand: u32,
}

/// The size of a table, which a reload must not change if its flows are to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) by: By,
    pub(super) capacity: usize,
    pub(super) buckets: usize,
    /// Maximum number of flows per bucket.
    pub(super) k: usize,
}

impl Shape {
    /// Number of records: some wait until workers have released them.
    fn records(&self) -> usize {
        self.capacity + self.capacity / 8 + 64
    }
}

/// Reason why there is no place for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The table has as many flows as it may have.
    Full,
    /// The flow's bucket is full.
    Bucket,
    /// Flows that were removed have not left all workers yet.
    Waits,
}

pub(super) struct Records {
    shape: Shape,
    index: Index,
    records: Box<[Record]>,
    writer: Lock<Writer>,
}

impl Records {
    pub(super) fn new(shape: Shape) -> Records {
        let keys = || {
            let seed = RandomState::new().hash_one(0);
            ExactWriter::with_slots(shape.capacity, shape.buckets, 5, seed)
        };
        let (index, keys) = match shape.by.tag_max() {
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

    /// Memory of the records for a shape, in bytes.
    pub(super) fn memory(shape: &Shape) -> usize {
        let index = match shape.by.tag_max() {
            Some(most) => (most as usize + 1) * size_of::<AtomicU32>(),
            None => Exact::bytes_of(shape.capacity, shape.buckets),
        };
        index + shape.records() * size_of::<Record>()
    }

    /// The record of a packet's flow.
    #[inline]
    pub(super) fn of_packet(&self, packet: &Packet) -> Option<&Record> {
        let number = match &self.index {
            Index::Tags(tags) => {
                let tag = self.shape.by.tag(packet)?;
                tags.get(tag as usize)?.load(Acquire).checked_sub(1)?
            }
            Index::Keys(keys) => keys.find(&key::of_flow(&FlowKey::of_ip(packet.network())?))?,
        };
        self.records.get(number as usize)
    }

    pub(super) fn record(&self, number: u32) -> &Record {
        &self.records[number as usize]
    }

    /// The writer's half, for control.
    pub(super) fn lock(&self) -> MutexGuard<'_, Writer> {
        let mut writer = self.writer.lock();
        writer.settle();
        writer
    }

    /// The writer's half for a worker, unless control has it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Writer>> {
        let mut writer = self.writer.try_lock()?;
        writer.settle();
        Some(writer)
    }

    /// The number of a flow's record.
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
    pub(super) fn add(&self, writer: &mut Writer, flow: Known) -> Result<u32, NoPlace> {
        if writer.known.len() >= self.shape.capacity {
            return Err(NoPlace::Full);
        }
        if let (Id::Key(key), Some(keys)) = (&flow.id, &writer.keys)
            && keys.others(key) >= self.shape.k
        {
            return Err(NoPlace::Bucket);
        }
        writer.wait_for_room(self.records.len());
        let number = match writer.free.pop() {
            Some(number) => number,
            None if (writer.fresh as usize) < self.records.len() => {
                writer.fresh += 1;
                writer.fresh - 1
            }
            None => return Err(NoPlace::Waits),
        };
        self.record(number).prepare(&flow);
        // Workers that find the number find the record as it is now: adding the key or tag publishes it.
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
            return Err(NoPlace::Waits);
        }
        writer.known.insert(number, flow);
        Ok(number)
    }

    /// Changes a flow's wish and grant.
    pub(super) fn change(&self, writer: &mut Writer, number: u32, flow: Known) {
        self.record(number).set(&flow.wish, flow.grant);
        writer.known.insert(number, flow);
    }

    /// Removes a flow.
    pub(super) fn remove(&self, writer: &mut Writer, number: u32) -> Option<Known> {
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

    /// Checks up to `max` flows: starts their leases, and removes those whose lease is over or that were idle for
    /// `idle`. Returns the removed ones.
    pub(super) fn expire(&self, now: u64, idle: Option<u64>, max: usize) -> Vec<Known> {
        let Some(mut writer) = self.try_lock() else {
            return Vec::new(); // the next time
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
                .lease
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
    /// Waits, on the control thread, until workers have released a record, if none of `records` is free.
    fn wait_for_room(&mut self, records: usize) {
        let begun = Instant::now();
        while self.free.is_empty() && self.fresh as usize == records && !self.limbo.is_empty() {
            self.settle();
            if begun.elapsed() > PATIENCE {
                return;
            }
            std::thread::sleep(TURN);
        }
    }

    /// Frees records that no worker can reach.
    fn settle(&mut self) {
        while let Some((epoch, ..)) = self.limbo.front()
            && domain().passed(*epoch)
            && let Some((_, entries, numbers)) = self.limbo.pop_front()
        {
            if let Some(keys) = &mut self.keys {
                keys.release(entries);
            }
            self.free.extend(numbers);
        }
    }
}
