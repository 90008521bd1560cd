//! The part of a classification that a port does by itself. It hashes with the same key, and its indirection
//! table gives each flow to a queue of the worker that owns the flow's bucket; it may also match rules.
//!
//! Nothing depends on it: a packet that comes by a queue of another worker is steered anyway. It only saves the
//! crossing. So it is set up when the port is opened, if the driver can do it. The router makes later changes
//! ([`steer::follow`]), because packets in one queue must not be overtaken by those of another.

use super::classify::Classify;
use crate::steer::hash_key::{HashKey, Keys, Shared};
use crate::steer::port_rules::{ByPort, PortRules, Receivers};
use arguments::Args;
use engine::port::Port;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, Weak};
use steer::{Assigned, Misdelivered, Table, Tables};
use sync::Lock;

/// Part of CLASSIFY that a port performs in hardware.
pub(crate) struct Rss {
    /// Shared hash key; `None` if the port does not hash.
    key: Option<Arc<Shared>>,
    /// Rules of the port; `None` without rules.
    rules: Option<Arc<PortRules>>,
    table: Arc<Table>,
    copies: Lock<Copies>,
}

/// State shared by the receiver's clones.
#[derive(Default)]
struct Copies {
    port: Option<Arc<dyn Port>>,
    /// Receive queues by worker.
    queues: BTreeMap<usize, Vec<usize>>,
    /// Receive queue of each bucket in the port's last settings, and their hash key.
    told: Vec<u16>,
    key: Option<[u8; 40]>,
    /// Size of the port's indirection table; `None` if the port does not report it.
    entries: Option<usize>,
    /// Result of the last attempt to set the port's hash.
    done: Option<Result<(), String>>,
    /// True if the port applies rules.
    directs: bool,
}

impl Copies {
    /// True if the port distributes packets by hash.
    fn hashes(&self) -> bool {
        matches!(self.done, Some(Ok(())))
    }
}

impl Rss {
    /// Parses CLASSIFY. Errors in it are reported where its elements are inserted.
    pub(super) fn configure(args: &mut Args, device: &str) -> Option<Arc<Rss>> {
        let doc = "method to spread packets over workers, such as hash";
        let text: String = args.key_maybe("CLASSIFY", doc)?;
        let asked = Classify::of_port(&text)?;
        let (buckets, fits) = (asked.buckets, 1..=engine::packet::BUCKETS_MAX);
        if !fits.contains(&buckets) {
            return None;
        }
        let key = asked
            .key
            .map(|key| arguments::units::parse::<HashKey>(&key));
        let key = key.transpose().ok()?;
        Some(Arc::new(Rss {
            key: key.map(|key| {
                args.router_wide::<Keys>()
                    .get(&format!("{key} {buckets}"), &key)
            }),
            rules: asked
                .has_rules
                .then(|| args.router_wide::<ByPort>().get(device)),
            table: args.router_wide::<Tables>().get(&asked.table, buckets),
            copies: Lock::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock()
    }

    /// Keeps the state of the replaced configuration if its request to the port is the same.
    pub(super) fn inherit(self: &mut Arc<Self>, old: &Arc<Rss>) {
        fn same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            a.map(Arc::as_ptr) == b.map(Arc::as_ptr)
        }
        if same(self.key.as_ref(), old.key.as_ref())
            && same(self.rules.as_ref(), old.rules.as_ref())
            && Arc::ptr_eq(&self.table, &old.table)
        {
            *self = Arc::clone(old);
        }
    }

    /// Registers a clone of the receiver; `queues` returns the queues that have workers now. A new port, or one with
    /// other queues, gets all known settings at once. Any other port keeps its settings until it is reprogrammed.
    pub(super) fn add_copy(
        self: &Arc<Self>,
        port: &Arc<dyn Port>,
        queues: impl FnOnce() -> BTreeMap<usize, Vec<usize>>,
    ) {
        let mut copies = self.lock();
        let old = copies.port.replace(Arc::clone(port));
        // The queues are read under the lock: clones are created concurrently, and the last reading must be the latest.
        let before = std::mem::replace(&mut copies.queues, queues());
        let is_known = old.as_ref().is_some_and(|old| Arc::ptr_eq(old, port))
            && numbers(&before) == numbers(&copies.queues);
        let is_first = old.is_none();
        drop(copies);
        if is_known {
            return;
        }
        if is_first {
            let this: Weak<Rss> = Arc::downgrade(self);
            self.table.add_listener(this);
        }
        // A failure is stored for the handlers; software steering works without the port.
        let _ = self.apply(false);
    }

    /// Repeats the last settings, since the port may now have room for rules that it refused before.
    pub(super) fn tell_again(&self) -> Result<(), String> {
        self.apply(true)
    }

    /// Sends the settings to the port. Unchanged rules are repeated only if `again`.
    fn apply(&self, again: bool) -> Result<(), String> {
        let mut copies = self.lock();
        let port = copies.port.clone().ok_or("the port is not open")?;
        let receivers = self.receivers(&copies.queues);
        if !again || copies.told.len() != self.table.buckets() {
            copies.told = receivers.by_bucket();
        }
        let rules = self.rules.as_ref();
        copies.directs =
            rules.is_some_and(|rules| rules.go_to(&port, receivers, &copies.told, again));
        let key = self.key();
        copies.done = key.map(|key| port.set_rss(&key, &copies.told));
        copies.key = key.filter(|_| copies.hashes());
        // The size is read once, since drivers may be slow.
        copies.entries = match copies.hashes() {
            true => Some(port.redirection_table().len()).filter(|entries| *entries > 0),
            false => None,
        };
        match &copies.done {
            Some(Err(why)) if !copies.directs => Err(why.clone()),
            None if !copies.directs => Err("the port takes no rules, or has one queue".into()),
            _ => Ok(()),
        }
    }

    fn receivers(&self, queues: &BTreeMap<usize, Vec<usize>>) -> Receivers {
        Receivers {
            table: Arc::clone(&self.table),
            queues: queues.clone(),
        }
    }

    /// Hash key that the port should use.
    fn key(&self) -> Option<[u8; 40]> {
        Some(*self.key.as_ref()?.table.snapshot().key())
    }

    /// Indirection table by which packets are steered.
    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Buckets that arrive at another worker than their owner, although the owner has a queue. `queues` contains the
    /// queues of each worker.
    pub(super) fn misdelivered(&self, queues: &BTreeMap<usize, Vec<usize>>) -> Vec<Misdelivered> {
        let copies = self.lock();
        let (owners, buckets) = (self.table.owners(), self.table.buckets());
        let hashes = copies.hashes();
        let ruled = self.rules.as_ref().filter(|_| copies.directs);
        let is_ruled = ruled.is_some();
        // The buckets with rules are computed only on demand, since there may be many.
        let ruled = LazyCell::new(|| ruled.map(|rules| rules.buckets()));
        if copies.told.len() != buckets || owners.len() != buckets {
            return Vec::new();
        }
        // A port that does not report its table size may share entries among buckets. If the port hashes by an outdated
        // key, all flows arrive elsewhere, until the key is set by hand.
        let entries = match (hashes, copies.entries) {
            (true, None) => return Vec::new(),
            (true, _) if copies.key != self.key() => return Vec::new(),
            (_, entries) => entries.unwrap_or(buckets),
        };
        let is_small = hashes && entries < buckets;
        // Buckets with equal remainders share an entry of the port's table.
        let apart = if is_small { entries } else { buckets };
        let fits = entries.max(buckets).is_multiple_of(entries.min(buckets));
        if hashes && !fits || is_small && is_ruled {
            return Vec::new();
        }
        let workers = queues.iter();
        let pairs = workers.flat_map(|(worker, own)| own.iter().map(|queue| (*queue, *worker)));
        let worker_of: BTreeMap<usize, usize> = pairs.collect();
        let to = self.receivers(queues).by_bucket();
        let one = |(bucket, &owner): (usize, &usize)| {
            let entry = bucket % apart;
            let comes = usize::from(copies.told[entry]);
            let worker = *worker_of.get(&comes)?;
            let has_queue = queues.get(&owner).is_some_and(|own| !own.is_empty());
            if worker == owner || !has_queue {
                return None;
            }
            let can = hashes || ruled.as_ref()?.contains(&(bucket as u16));
            // An entry can move only if one worker owns all its buckets.
            let is_whole = (entry..buckets).step_by(apart).all(|b| owners[b] == owner);
            (can && is_whole).then(|| Misdelivered {
                bucket: bucket as u16,
                entry,
                owner,
                from: (comes, worker),
                to: usize::from(to[entry]),
            })
        };
        owners.iter().enumerate().filter_map(one).collect()
    }

    /// Reprograms the port to deliver these buckets to other queues.
    pub(super) fn redirect(
        &self,
        buckets: &[Misdelivered],
        queues: BTreeMap<usize, Vec<usize>>,
    ) -> Result<(), String> {
        let mut copies = self.lock();
        let port = copies.port.clone().ok_or("the port is not open")?;
        let mut told = copies.told.clone();
        for one in buckets {
            if let Some(queue) = told.get_mut(usize::from(one.bucket)) {
                *queue = one.to as u16;
            }
        }
        copies.queues = queues;
        if copies.hashes() {
            // The port's key is kept, since another key would move all flows.
            copies.key.map_or(Ok(()), |key| port.set_rss(&key, &told))?;
        }
        if let Some(rules) = self.rules.as_ref().filter(|_| copies.directs) {
            let buckets = buckets.iter().map(|one| one.bucket).collect();
            rules.redirect(self.receivers(&copies.queues), &buckets, &told);
        }
        copies.told = told;
        Ok(())
    }

    /// True if the port has applied all settings.
    pub(super) fn is_done(&self) -> bool {
        let port = self.lock().port.clone();
        let directed = port.and_then(|port| port.directed());
        directed.is_none_or(|directed| directed.waiting == 0)
    }

    /// Progress of the port in applying the settings, as text.
    pub(super) fn show(&self) -> String {
        let copies = self.lock();
        let entries = || {
            let table = copies
                .port
                .as_ref()
                .map_or_else(Vec::new, |p| p.redirection_table());
            let mut by_queue: BTreeMap<u16, usize> = BTreeMap::new();
            table
                .iter()
                .for_each(|queue| *by_queue.entry(*queue).or_default() += 1);
            let each = by_queue.iter();
            let each = each.map(|(queue, n)| format!("{n} of queue {queue}"));
            format!("{}: {}", table.len(), each.collect::<Vec<_>>().join(", "))
        };
        let hash = self.key.as_ref().map(|_| match &copies.done {
            None => "the port is not open".into(),
            Some(Err(why)) => format!("flows are hashed in software: {why}"),
            Some(Ok(())) => format!(
                "the port hashes by the same key, with a table of {}",
                entries()
            ),
        });
        let rules = self.rules.as_ref().map(|rules| rules.show());
        let both: Vec<String> = hash.into_iter().chain(rules).collect();
        both.join("\n")
    }
}

/// Queue numbers of all workers.
fn numbers(queues: &BTreeMap<usize, Vec<usize>>) -> BTreeSet<usize> {
    queues.values().flatten().copied().collect()
}

impl Assigned for Rss {
    fn assigned(&self) {
        // Packets for removed workers go to others, and no packet waits for those in the old queues.
        self.lock().told.clear();
        let _ = self.apply(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// A port that records its settings.
    #[derive(Default)]
    struct RecordingPort(Lock<Vec<u16>>);

    impl Port for RecordingPort {
        fn info(&self) -> engine::port::PortInfo {
            unreachable!("nobody asks")
        }

        fn link_up(&self) -> bool {
            true
        }

        fn counters(&self) -> Vec<engine::port::PortCounter> {
            Vec::new()
        }

        fn set_rss(&self, _: &[u8; 40], queues: &[u16]) -> Result<(), String> {
            *self.0.lock() = queues.to_vec();
            Ok(())
        }
    }

    fn both() -> BTreeMap<usize, Vec<usize>> {
        BTreeMap::from([(0, vec![0]), (1, vec![1])])
    }

    fn rss(rules: Option<Arc<PortRules>>) -> Arc<Rss> {
        Arc::new(Rss {
            key: Some(Keys::default().get("x", &HashKey(wire::rss::SYMMETRIC))),
            rules,
            table: Tables::default().get("t", 4),
            copies: Lock::default(),
        })
    }

    /// A port that records its settings, with a table of this number of entries.
    struct Entries(RecordingPort, usize);

    impl Port for Entries {
        fn info(&self) -> engine::port::PortInfo {
            self.0.info()
        }

        fn link_up(&self) -> bool {
            true
        }

        fn counters(&self) -> Vec<engine::port::PortCounter> {
            Vec::new()
        }

        fn set_rss(&self, key: &[u8; 40], queues: &[u16]) -> Result<(), String> {
            let table: Vec<u16> = queues.iter().copied().cycle().take(self.1).collect();
            self.0.set_rss(key, &table)
        }

        fn redirection_table(&self) -> Vec<u16> {
            self.0.0.lock().clone()
        }
    }

    /// Misdelivered buckets after these have moved to worker 1, for a port with `entries` entries; and its table after
    /// it has followed.
    fn moved(entries: usize, buckets: &[u16]) -> (Vec<u16>, Vec<u16>) {
        let rss = rss(None);
        let port: Arc<dyn Port> = Arc::new(Entries(RecordingPort::default(), entries));
        rss.add_copy(&port, both);
        rss.table.assign(&[0, 1]);
        assert_eq!(rss.misdelivered(&both()), []);
        rss.table.set_owner(buckets, 1);
        let misdelivered = rss.misdelivered(&both());
        let done = rss.redirect(&misdelivered, both());
        done.expect("the port does all");
        assert_eq!(rss.misdelivered(&both()), []);
        let numbers = misdelivered.iter().map(|one| one.bucket).collect();
        (numbers, port.redirection_table())
    }

    #[test]
    fn buckets_whose_packets_come_by_another_worker_than_their_owner_follow_it() {
        assert_eq!(moved(4, &[0]), (vec![0], vec![1, 1, 0, 1]));
        assert_eq!(moved(8, &[0]), (vec![0], vec![1, 1, 0, 1, 1, 1, 0, 1]));
        // Two buckets share an entry, which moves only if both move to one worker.
        assert_eq!(moved(2, &[0]), (vec![], vec![0, 1]));
        assert_eq!(moved(2, &[0, 2]), (vec![0, 2], vec![1, 1]));
        // Such entries belong to no bucket.
        assert_eq!(moved(6, &[0]).0, []);
    }

    #[test]
    fn a_bucket_whose_owner_has_no_queue_or_that_comes_by_one_of_its_queues_stays() {
        let rss = rss(None);
        let port: Arc<dyn Port> = Arc::new(Entries(RecordingPort::default(), 4));
        rss.add_copy(&port, both);
        rss.table.assign(&[0, 1]);
        rss.table.set_owner(&[1], 2);
        assert_eq!(rss.misdelivered(&both()), []);
        let all = BTreeMap::from([(1, vec![0, 1])]);
        rss.table.set_owner(&[0, 1, 2], 1);
        assert_eq!(rss.misdelivered(&both()).len(), 2);
        assert_eq!(rss.misdelivered(&all), []);
        // Queue 0 is not polled for now. The worker that takes it over delivers its packets, and then its buckets may
        // follow.
        let one = BTreeMap::from([(1, vec![1])]);
        assert_eq!(rss.misdelivered(&one), []);
    }

    #[test]
    fn a_port_that_does_not_tell_of_its_table_or_has_another_key_is_not_asked_to_follow() {
        let rss = rss(None);
        let port: Arc<dyn Port> = Arc::new(RecordingPort::default());
        rss.add_copy(&port, both);
        rss.table.assign(&[0, 1]);
        rss.table.set_owner(&[0], 1);
        assert_eq!(rss.misdelivered(&both()), []);
        let port: Arc<dyn Port> = Arc::new(Entries(RecordingPort::default(), 4));
        rss.add_copy(&port, both);
        rss.table.set_owner(&[2], 1);
        let misdelivered = rss.misdelivered(&both());
        assert_eq!(misdelivered.len(), 1);
        let key = rss.key.as_ref().expect("it hashes");
        let changed = key.replace(&HashKey(wire::rss::MICROSOFT));
        changed.expect("nobody needs it");
        assert_eq!(rss.misdelivered(&both()), []);
        // A worker that has read the key before does not change it either.
        let done = rss.redirect(&misdelivered, both());
        done.expect("the port does all");
        assert_eq!(rss.lock().key, Some(wire::rss::SYMMETRIC));
        rss.tell_again().expect("the port does all");
        assert_eq!(rss.lock().key, Some(wire::rss::MICROSOFT));
    }

    #[test]
    fn a_port_that_cannot_be_told_is_not_asked_to_follow() {
        let rss = rss(None);
        let port: Arc<dyn Port> = Arc::new(engine::port::PortInfo::of_process("", 2));
        rss.add_copy(&port, both);
        rss.table.assign(&[0, 1]);
        rss.table.set_owner(&[0, 2], 1);
        assert_eq!(rss.misdelivered(&both()), []);
    }

    #[test]
    fn the_port_learns_who_the_owners_are_when_buckets_are_dealt_out() {
        let rss = rss(Some(Arc::default()));
        let told = Arc::new(RecordingPort::default());
        let port: Arc<dyn Port> = Arc::clone(&told) as _;
        rss.add_copy(&port, || BTreeMap::from([(0, vec![0])]));
        rss.add_copy(&port, both);
        rss.table.assign(&[1]);
        assert_eq!(*told.0.lock(), [1, 1, 1, 1]);
        let shown = rss.show();
        assert!(
            shown.ends_with("in software: the port takes none"),
            "{shown}"
        );
    }

    #[test]
    fn copies_that_are_made_side_by_side_leave_the_port_with_all_queues() {
        let rss = rss(None);
        let told = Arc::new(RecordingPort::default());
        let port: Arc<dyn Port> = Arc::clone(&told) as _;
        let second_is_added = AtomicBool::new(false);
        std::thread::scope(|s| {
            // The second worker takes its queue right after the first one has read the owners.
            rss.add_copy(&port, || {
                s.spawn(|| {
                    rss.add_copy(&port, both);
                    second_is_added.store(true, Relaxed);
                });
                (0..1000)
                    .take_while(|_| !second_is_added.load(Relaxed))
                    .for_each(|_| std::thread::yield_now());
                BTreeMap::from([(0, vec![0])])
            });
        });
        assert_eq!(*told.0.lock(), [0, 1, 0, 1]);
    }
}
