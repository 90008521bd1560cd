//! Neighbours of a link, and the packets that wait for them: the common part of ARP and Neighbour Discovery.
//!
//! A [`Link`] is the table of one link's neighbours. All workers share it; it lies in the element's `Config` and
//! survives reloads ([`Link::inherit`]). A [`Resolver`] is one worker's part: it lies in the element's state and keeps
//! the packets that wait for an address, bounded per neighbour and in total. When a bound is met the oldest packet
//! goes, as RFC 1122, 2.3.2.2 and RFC 4861, 7.2.2 want it.
//!
//! An element uses it so:
//!
//! - `configure` makes `Arc<Link<K>>` (`K` is `u32` for IPv4 in host order, `[u8; 16]` for IPv6); `inherit` replaces it
//!   by `Link::inherit(&config.link, &old.link)`.
//! - `new` makes `Resolver::new(&config.link, init.workers)`; `take` calls [`Resolver::take`]; `held` returns
//!   [`Resolver::held`].
//! - For a batch of packets to send: [`Resolver::catch_up`] once, then [`Resolver::find`] for each packet; those that
//!   get [`Resolution::Wait`] go to [`Resolver::hold`]. Unknown neighbours are asked for at a limited rate, which no
//!   source can use up.
//! - For an answer: [`Resolver::answered`]; for anything else in which a neighbour names itself: [`Resolver::learn`].
//! - After every batch: [`Resolver::arm`], and in `timer`: [`Resolver::tick`]; then `cx.set_timer` with the time that
//!   they return.
//!
//! All of them report [`Event`]s: packets that may leave, questions to send, packets to give up. The table makes sure
//! that each question is asked by one worker and at most once per `Timing::retry`.

use arguments::Args;
use engine::clock::Time;
use packet::Packet;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tables::bucket::{FairBucket, FairRate};
use tables::neighbours::{Ask, Key, Neighbour, Neighbours, Refused, State, Timing};
use waiting::WaitingPackets;
use wire::EtherAddr;

mod waiting;

/// Interval at which a worker with waiting packets checks if another worker has resolved the address.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// Interval of repeated requests, and of expiry steps.
const STEP: Duration = Duration::from_millis(250);
/// Number of table buckets processed per expiry step.
const STEP_BUCKETS: usize = 256;

/// Limits of a link's neighbour table and its waiting packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of neighbours in the table.
    pub entries: usize,
    /// Maximum number of waiting packets of all workers, who have equal shares.
    pub packets: usize,
    /// Maximum number of packets that wait for one neighbour on one worker.
    pub packets_each: usize,
    /// Divisor of the packets dropped if too many wait: one of `drop_divisor` is dropped; `usize::MAX` to drop only the
    /// excess.
    pub drop_divisor: usize,
    /// Timeouts of table entries and requests.
    pub timing: Timing,
    /// Rate limit and burst of requests for new neighbours, per second. 0 for no limit.
    pub asks: (u64, u64),
}

/// Parses `QUERY_RATE`. Without a limit, a scan of a network's addresses would cause a multicast request for each (RFC
/// 6583).
pub fn asks(args: &mut Args) -> (u64, u64) {
    let usual = if args.as_click { 0 } else { 1000 };
    let doc = "new neighbours asked for per second; 0 = no limit";
    let rate: u64 = args.key("QUERY_RATE", usual, doc);
    (rate, (rate / 5).max(1))
}

impl Bounds {
    /// True if a request is sent for each packet to an unresolved neighbour, without giving up.
    #[inline]
    fn asks_on(&self) -> bool {
        self.timing.slow_interval.is_some()
    }
}

/// Neighbours of one link, shared by all workers.
pub struct Link<K> {
    bounds: Bounds,
    /// Number that hosts must not know: it chooses their places in the table and among rate limits.
    secret: u64,
    table: OnceLock<Neighbours<K>>,
    /// Latest time reported by a worker, for the control thread, which lacks the workers' clock.
    now: AtomicU64,
    /// Time of the next expiry step, and the bucket at which it starts.
    step_at: AtomicU64,
    bucket: AtomicUsize,
    /// Numbers of packets waiting, and of packets dropped, on all workers.
    waiting: AtomicUsize,
    drops: AtomicU64,
    /// Rate limit of requests for new neighbours; `None` for no limit.
    asks: Option<(FairRate, FairBucket)>,
}

impl<K: Key> Link<K> {
    /// A link without neighbours. The table is allocated on first use. Hosts must not know `secret`, which chooses
    /// their places in it.
    pub fn new(bounds: Bounds, secret: u64) -> Link<K> {
        Link {
            bounds,
            secret,
            table: OnceLock::new(),
            now: AtomicU64::new(0),
            step_at: AtomicU64::new(0),
            bucket: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            drops: AtomicU64::new(0),
            asks: match bounds.asks {
                (0, _) => None,
                (rate, burst) => {
                    let rate = FairRate::new(rate, burst, burst);
                    Some((rate, FairBucket::new(&rate, secret)))
                }
            },
        }
    }

    /// True if the rate limit permits another request on behalf of `source`.
    fn may_ask(&self, source: u64, now: Time) -> bool {
        let asks = self.asks.as_ref();
        asks.is_none_or(|(rate, bucket)| bucket.take_at(source, rate, now.0))
    }

    /// Memory of the table in bytes, whether allocated yet or not.
    pub fn memory(&self) -> usize {
        Neighbours::<K>::bytes_for(self.bounds.entries)
    }

    /// Records the current time for threads without a clock.
    pub fn set_now(&self, now: Time) {
        self.now.fetch_max(now.0, Relaxed);
    }

    /// Latest time reported by a worker.
    pub fn now(&self) -> Time {
        Time(self.now.load(Relaxed))
    }

    /// Records the current time, and removes expired entries.
    pub fn catch_up(&self, now: Time) {
        self.set_now(now);
        let table = self.table();
        table.expire(now.0, 0..table.buckets(), |_, _| ());
    }

    /// Adds an entry by hand: permanent, or like a received answer if entries can expire by configuration.
    ///
    /// # Errors
    ///
    /// The table has no room, or another thread is writing the entry.
    pub fn insert(&self, key: K, mac: EtherAddr) -> Result<(), Refused> {
        let (table, now) = (self.table(), self.now.load(Relaxed));
        let news = match self.bounds.asks_on() {
            true => table.set_reachable(key, mac, now),
            false => table.set_permanent(key, mac, now),
        };
        news.map(|_| ())
    }

    /// True if an answer of this age has expired.
    pub fn has_expired(&self, age: Duration) -> bool {
        self.bounds.asks_on() && age.as_nanos() >= u128::from(self.bounds.timing.idle)
    }

    /// Number of waiting packets on all workers.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Number of packets that were dropped while they waited, on all workers.
    pub fn drops(&self) -> u64 {
        self.drops.load(Relaxed)
    }

    /// Neighbour table, allocated on first use.
    #[inline]
    pub fn table(&self) -> &Neighbours<K> {
        self.table
            .get_or_init(|| Neighbours::new(self.bounds.entries, self.bounds.timing, self.secret))
    }

    /// Link of a reconfigured element: the old one if its bounds are the same, otherwise a new one with the old one's
    /// entries.
    pub fn inherit(new: &Arc<Link<K>>, old: &Arc<Link<K>>) -> Arc<Link<K>> {
        if new.bounds == old.bounds {
            return Arc::clone(old);
        }
        if let Some(known) = old.table.get() {
            for (key, neighbour) in known.iter() {
                // Neighbours that do not fit any more are resolved again when needed.
                let (table, mac, at) = (new.table(), neighbour.mac, neighbour.confirmed);
                let _ = match neighbour.state {
                    State::Incomplete => Ok(false),
                    State::Permanent => table.set_permanent(key, mac, 0),
                    // Confirmed addresses stay confirmed.
                    State::Reachable => table.learn(key, mac, at).and(table.confirm(key, mac, at)),
                    _ => table.learn(key, mac, at),
                };
            }
        }
        new.now.store(old.now.load(Relaxed), Relaxed);
        Arc::clone(new)
    }

    /// All entries, and the time since each was confirmed, by the last time that a worker reported.
    pub fn entries(&self) -> Vec<(K, Neighbour, Duration)> {
        let now = Time(self.now.load(Relaxed));
        let each = self.table().iter();
        each.map(|(key, n)| (key, n, now.since(Time(n.confirmed))))
            .collect()
    }

    /// Removes all entries, or all except permanent ones.
    pub fn clear(&self, permanent_too: bool) {
        for (key, neighbour) in self.table().iter() {
            if permanent_too || neighbour.state != State::Permanent {
                // If another thread is updating an entry, the entry is fresh and may stay.
                let _ = self.table().remove(key);
            }
        }
    }

    /// Expires a part of the table if a step is due and no other worker performs it.
    fn step(&self, now: Time) {
        self.set_now(now);
        let due = self.step_at.load(Relaxed);
        let next = (now + STEP).0;
        let mine = || self.step_at.compare_exchange(due, next, Relaxed, Relaxed);
        if now.0 >= due && mine().is_ok() {
            let table = self.table();
            let from = self.bucket.load(Relaxed) % table.buckets();
            table.expire(now.0, from..from + STEP_BUCKETS, |_, _| ());
            self.bucket.store(from + STEP_BUCKETS, Relaxed);
        }
    }
}

/// An element's port to a link, for elements that write frames to resolved neighbours.
pub struct Face<K> {
    link: Arc<Link<K>>,
    ether: EtherAddr,
}

impl<K: Key> Face<K> {
    /// Port to a link, with the element's own Ethernet address.
    pub fn new(link: &Arc<Link<K>>, ether: EtherAddr) -> Face<K> {
        Face {
            link: Arc::clone(link),
            ether,
        }
    }

    /// Destination and source address of frames to a neighbour; `None` if the neighbour must be confirmed first. The
    /// result is valid until [`changes`](Self::changes), read before, changes.
    pub fn addresses(&self, key: K) -> Option<[u8; 12]> {
        let [a, b, c, d, e, f] = self.link.table().usable_address(key)?.0;
        let [g, h, i, j, k, l] = self.ether.0;
        Some([a, b, c, d, e, f, g, h, i, j, k, l])
    }

    /// Version of the neighbour table: changes whenever an address changes.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.link.table().changes()
    }
}

/// Action that the element must perform.
pub enum Event<K> {
    /// Send a packet to an Ethernet address.
    Ready(EtherAddr, Packet),
    /// Send a request for the neighbour: unicast to its last known address, or multicast.
    Ask(K, Option<EtherAddr>),
    /// The packet's neighbour does not answer (RFC 1812, 3.3.2).
    Failed(Packet),
    /// The packet was dropped in favour of a later one.
    Full(Packet),
}

/// Result of finding a packet's neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Ethernet address of the neighbour.
    Known(EtherAddr),
    /// A request was sent: pass the packet to [`Resolver::hold`].
    Wait,
    /// The neighbour has recently failed to answer.
    Unreachable,
    /// The table has no room for one more neighbour.
    TableFull,
    /// The rate limit of requests is exceeded.
    TooMany,
}

/// A worker's waiting packets, and its access to the neighbour table.
pub struct Resolver<K> {
    link: Arc<Link<K>>,
    waiting: WaitingPackets<K>,
    /// Table generation at which the waiting packets were last checked.
    checked_generation: u64,
    ask_at: Time,
    /// Time of the element's timer, if this resolver has set it.
    timer_at: Option<Time>,
    keys: Vec<K>,
    /// Number of waiting packets last reported to the link.
    told: usize,
}

impl<K> Drop for Resolver<K> {
    fn drop(&mut self) {
        self.link.waiting.fetch_sub(self.told, Relaxed);
    }
}

impl<K: Key + Hash> Resolver<K> {
    /// A worker's resolver for a link, without waiting packets.
    pub fn new(link: &Arc<Link<K>>, workers: usize) -> Resolver<K> {
        Resolver {
            waiting: WaitingPackets::new(&link.bounds, workers),
            checked_generation: link.table().generation(),
            link: Arc::clone(link),
            ask_at: Time::default(),
            timer_at: None,
            keys: Vec::new(),
            told: 0,
        }
    }

    /// Reports the number of waiting packets to the link.
    fn report(&mut self) {
        let held = self.waiting.packets;
        self.link
            .waiting
            .fetch_add(held.wrapping_sub(self.told), Relaxed);
        self.told = held;
    }

    /// Number of packets waiting here.
    pub fn held(&self) -> usize {
        self.waiting.packets
    }

    /// Takes over the waiting packets of the replaced element.
    pub fn take(&mut self, old: Resolver<K>) {
        let mut old = old;
        let new = &self.waiting;
        let bounds = (new.total, new.each, new.drop_divisor, new.keeps_order);
        self.waiting =
            std::mem::replace(&mut old.waiting, WaitingPackets::new(&self.link.bounds, 1));
        let w = &mut self.waiting;
        (w.total, w.each, w.drop_divisor, w.keeps_order) = bounds;
        self.checked_generation = self.link.table().generation().wrapping_sub(1);
        self.report();
    }

    /// Releases packets whose neighbours were resolved by other workers. If there are none, the call costs one load.
    #[inline]
    pub fn catch_up(&mut self, out: &mut impl FnMut(Event<K>)) {
        let generation = self.link.table().generation();
        if generation != self.checked_generation {
            self.checked_generation = generation;
            if !self.waiting.queues.is_empty() {
                self.release_known(out);
            }
        }
    }

    #[cold]
    fn release_known(&mut self, out: &mut impl FnMut(Event<K>)) {
        self.each_key(|this, key| this.release_if_known(key, out));
    }

    fn each_key(&mut self, mut act: impl FnMut(&mut Self, K)) {
        let mut keys = std::mem::take(&mut self.keys);
        keys.extend(self.waiting.queues.keys());
        for key in keys.drain(..) {
            act(self, key);
        }
        self.keys = keys;
    }

    fn release_if_known(&mut self, key: K, out: &mut impl FnMut(Event<K>)) {
        let link = self.link.table().address(key);
        if let Some((mac, _)) = link.filter(|(_, state)| *state != State::Incomplete) {
            self.waiting
                .take(key, |packet| out(Event::Ready(mac, packet)));
        }
    }

    /// Ethernet address for a packet from `source` to `key`. Waiting packets to `key` are released first.
    #[inline]
    pub fn find(
        &mut self,
        key: K,
        source: impl FnOnce() -> u64,
        now: Time,
        out: &mut impl FnMut(Event<K>),
    ) -> Resolution {
        let known = match self.link.table().address(key) {
            Some((mac, State::Permanent)) => Some(mac),
            Some((mac, State::Reachable)) if !self.link.bounds.asks_on() => Some(mac),
            Some((mac, State::Reachable | State::Stale | State::Probe)) => {
                match self.ask(key, now, out) {
                    Ok(Ask::All) => None,
                    _ => Some(mac),
                }
            }
            _ => None,
        };
        match known {
            Some(mac) if self.waiting.queues.is_empty() => Resolution::Known(mac),
            Some(mac) => {
                self.waiting.take(key, |p| out(Event::Ready(mac, p)));
                Resolution::Known(mac)
            }
            None => self.find_unknown(key, source, now, out),
        }
    }

    #[cold]
    fn find_unknown(
        &mut self,
        key: K,
        source: impl FnOnce() -> u64,
        now: Time,
        out: &mut impl FnMut(Event<K>),
    ) -> Resolution {
        let is_new = self.link.table().address(key).is_none();
        if is_new && !self.link.may_ask(source(), now) {
            return Resolution::TooMany;
        }
        match self.ask(key, now, out) {
            Ok(Ask::Unreachable) => Resolution::Unreachable,
            Ok(_) | Err(Refused::Contended) => Resolution::Wait,
            Err(Refused::Full) => Resolution::TableFull,
        }
    }

    fn ask(&self, key: K, now: Time, out: &mut impl FnMut(Event<K>)) -> Result<Ask, Refused> {
        let answer = self.link.table().ask(key, now.0);
        match answer {
            Ok(Ask::All) => out(Event::Ask(key, None)),
            Ok(Ask::One(mac)) => out(Event::Ask(key, Some(mac))),
            _ => {}
        }
        answer
    }

    /// Holds a packet until its neighbour is resolved.
    pub fn hold(&mut self, key: K, packet: Packet, now: Time, out: &mut impl FnMut(Event<K>)) {
        let mut gone = 0;
        self.waiting.push(key, packet, now, |packet| {
            gone += 1;
            out(Event::Full(packet));
        });
        self.link.set_now(now);
        self.link.drops.fetch_add(gone, Relaxed);
        self.report();
    }

    /// Handles a neighbour's answer to a request.
    pub fn answered(&mut self, key: K, mac: EtherAddr, now: Time, out: &mut impl FnMut(Event<K>)) {
        self.link.set_now(now);
        let news = self.link.table().confirm(key, mac, now.0);
        self.after_news(news, key, out);
    }

    /// Handles an unsolicited announcement of an address. Unknown neighbours are added only if `make`.
    pub fn learn(
        &mut self,
        key: K,
        mac: EtherAddr,
        make: bool,
        now: Time,
        out: &mut impl FnMut(Event<K>),
    ) {
        if make || self.link.table().address(key).is_some() {
            self.link.set_now(now);
            let news = self.link.table().learn(key, mac, now.0);
            self.after_news(news, key, out);
        }
    }

    fn after_news(&mut self, news: Result<bool, Refused>, key: K, out: &mut impl FnMut(Event<K>)) {
        // If the table has no other changes, no other packets need to be checked.
        if news == Ok(true)
            && self.link.table().generation() == self.checked_generation.wrapping_add(1)
        {
            self.checked_generation = self.checked_generation.wrapping_add(1);
        }
        if !self.waiting.queues.is_empty() {
            self.release_if_known(key, out);
            self.report();
        }
    }

    /// Time at which to call [`tick`](Self::tick), if it is earlier than the last returned one.
    #[inline]
    pub fn arm(&mut self, now: Time) -> Option<Time> {
        let wanted = self.next_tick(now)?;
        if self.timer_at.is_some_and(|at| at <= wanted) {
            return None;
        }
        self.timer_at = Some(wanted);
        self.timer_at
    }

    fn next_tick(&self, now: Time) -> Option<Time> {
        if !self.waiting.queues.is_empty() {
            Some(now + CHECK_INTERVAL)
        } else if !self.link.table().is_empty() {
            Some(now + STEP)
        } else {
            None
        }
    }

    /// Repeats requests, gives up, and expires entries. Returns the time of the next call.
    pub fn tick(&mut self, now: Time, out: &mut impl FnMut(Event<K>)) -> Option<Time> {
        self.catch_up(out);
        if now >= self.ask_at && !self.waiting.queues.is_empty() {
            self.ask_at = now + STEP;
            self.each_key(|this, key| this.ask_again(key, now, out));
        }
        self.report();
        self.link.step(now);
        self.timer_at = self.next_tick(now);
        self.timer_at
    }

    fn ask_again(&mut self, key: K, now: Time, out: &mut impl FnMut(Event<K>)) {
        if self.link.bounds.asks_on() {
            // Packets themselves trigger requests; here only removed neighbours are detected.
            match self.link.table().address(key) {
                None => self.give_up(key, out),
                Some(_) => self.release_if_known(key, out),
            }
            return;
        }
        let timing = &self.link.bounds.timing;
        // The time limit also applies if another worker has given up meanwhile, and a new request was started.
        let time_limit = timing.retry.saturating_mul(u64::from(timing.tries) + 1);
        let (since, asked) = self.waiting.times(key).unwrap_or((now, now));
        // The table counts requests per entry. In a flood, the entry may have been replaced; then the interval between
        // requests is kept nevertheless.
        let counted = self.link.table().address(key).is_some();
        let answer = match counted || now.since(asked).as_nanos() >= u128::from(timing.retry) {
            true => self.ask(key, now, out),
            false => Ok(Ask::NoProbe),
        };
        if matches!(answer, Ok(Ask::All | Ask::One(_))) {
            self.waiting.asked(key, now);
        }
        if answer == Ok(Ask::Unreachable) || now.since(since).as_nanos() > u128::from(time_limit) {
            self.give_up(key, out);
        } else {
            self.release_if_known(key, out);
        }
    }

    fn give_up(&mut self, key: K, out: &mut impl FnMut(Event<K>)) {
        let mut gone = 0;
        self.waiting.take(key, |packet| {
            gone += 1;
            out(Event::Failed(packet));
        });
        self.link.drops.fetch_add(gone, Relaxed);
    }
}

#[cfg(test)]
mod tests;
