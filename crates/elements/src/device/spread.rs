//! What a port does of a classification by itself: it hashes by the same key, and its own indirection table gives
//! flows to the queues of the workers that own their buckets; and it does rules.
//!
//! Nothing depends on it: what comes by a queue of another worker is steered all the same. It saves the way there. So
//! it is done where the driver can, when the port is opened. Later changes of the table are not followed unless
//! that is asked for, as packets that wait in one queue could be overtaken by those of another.

use super::classify::Classify;
use crate::steer::hash_key::{HashKey, Keys, Shared};
use crate::steer::port_rules::{ByPort, PortRules, Receivers};
use engine::args::Args;
use engine::port::Port;
use engine::steer::{Follower, Table, Tables};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What a port can do of its CLASSIFY.
pub(crate) struct Spread {
    /// The key of the hash.
    key: Option<Arc<Shared>>,
    /// The rules.
    rules: Option<Arc<PortRules>>,
    table: Arc<Table>,
    copies: Mutex<Copies>,
}

/// What is known of the copies of the receiver.
#[derive(Default)]
struct Copies {
    port: Option<Arc<dyn Port>>,
    /// Queues by worker.
    queues: BTreeMap<usize, Vec<usize>>,
    /// How the last attempt to have it hash has ended.
    done: Option<Result<(), String>>,
}

impl Spread {
    /// Reads CLASSIFY. Mistakes in it are told where it is replaced by what it stands for.
    pub(super) fn configure(args: &mut Args, device: &str) -> Option<Arc<Spread>> {
        let doc = "how packets are spread over the workers, such as hash";
        let text: String = args.key_maybe("CLASSIFY", doc)?;
        let asked = Classify::of_port(&text)?;
        let (buckets, fits) = (asked.buckets, 1..=engine::steer::BUCKETS_MAX);
        if !fits.contains(&buckets) {
            return None;
        }
        let key = asked.key.map(|key| engine::units::parse::<HashKey>(&key));
        let key = key.transpose().ok()?;
        Some(Arc::new(Spread {
            key: key.map(|key| args.common::<Keys>().get(&format!("{key} {buckets}"), &key)),
            rules: asked.has_rules.then(|| args.common::<ByPort>().get(device)),
            table: args.common::<Tables>().get(&asked.table, buckets),
            copies: Mutex::default(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reload: where the same is asked of the port, it goes on as it is.
    pub(super) fn inherit(self: &mut Arc<Self>, old: &Arc<Spread>) {
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

    /// A copy of the receiver is made; `queues` says which queues have workers by now. A port that is new, or has other
    /// queues now, is told at once, as far as is known; another one stays as it is until it is told to follow.
    pub(super) fn add_copy(
        self: &Arc<Self>,
        port: &Arc<dyn Port>,
        queues: impl FnOnce() -> BTreeMap<usize, Vec<usize>>,
    ) {
        let mut copies = self.lock();
        let old = copies.port.replace(Arc::clone(port));
        // Asked under the lock: copies are made side by side, and the last answer has to be the newest.
        let before = std::mem::replace(&mut copies.queues, queues());
        let is_known = old.as_ref().is_some_and(|old| Arc::ptr_eq(old, port))
            && numbers(&before) == numbers(&copies.queues);
        let is_first = old.is_none();
        drop(copies);
        if is_known {
            return;
        }
        if is_first {
            let this: Weak<Spread> = Arc::downgrade(self);
            self.table.tell(this);
        }
        // How it ended is there to be asked; all works without.
        let _ = self.tell(false);
    }

    /// Has the port follow the table as it is now, and queues that have changed worker.
    pub(super) fn follow(&self, queues: BTreeMap<usize, Vec<usize>>) -> Result<(), String> {
        self.lock().queues = queues;
        self.tell(true)
    }

    /// Tells the port; rules that it knows already only if `again` says so.
    fn tell(&self, again: bool) -> Result<(), String> {
        let mut copies = self.lock();
        let port = copies.port.clone().ok_or("the port is not open")?;
        let receivers = Receivers {
            table: Arc::clone(&self.table),
            queues: copies.queues.clone(),
        };
        let queues = receivers.by_bucket();
        let rules = self.rules.as_ref();
        let has_rules = rules.is_some_and(|rules| rules.go_to(&port, receivers, again));
        let key = self.key.as_ref().map(|key| key.table.snapshot());
        copies.done = key.map(|key| port.spread(key.key(), &queues));
        match &copies.done {
            Some(Err(why)) if !has_rules => Err(why.clone()),
            None if !has_rules => Err("the port takes no rules, or has one queue".into()),
            _ => Ok(()),
        }
    }

    /// How far the port does it.
    pub(super) fn show(&self) -> String {
        let copies = self.lock();
        let entries = || copies.port.as_ref().map_or(0, |p| p.spreading().len());
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

/// The queues, whoever has them.
fn numbers(queues: &BTreeMap<usize, Vec<usize>>) -> BTreeSet<usize> {
    queues.values().flatten().copied().collect()
}

impl Follower for Spread {
    fn dealt(&self) {
        let _ = self.tell(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// A port that keeps what it is told.
    #[derive(Default)]
    struct Told(Mutex<Vec<u16>>);

    impl Port for Told {
        fn info(&self) -> engine::port::PortInfo {
            unreachable!("nobody asks")
        }

        fn link_up(&self) -> bool {
            true
        }

        fn counters(&self) -> Vec<engine::port::PortCounter> {
            Vec::new()
        }

        fn spread(&self, _: &[u8; 40], queues: &[u16]) -> Result<(), String> {
            *self.0.lock().expect("nobody panics") = queues.to_vec();
            Ok(())
        }
    }

    fn both() -> BTreeMap<usize, Vec<usize>> {
        BTreeMap::from([(0, vec![0]), (1, vec![1])])
    }

    fn spread(rules: Option<Arc<PortRules>>) -> Arc<Spread> {
        Arc::new(Spread {
            key: Some(Keys::default().get("x", &HashKey(wire::rss::SYMMETRIC))),
            rules,
            table: Tables::default().get("t", 4),
            copies: Mutex::default(),
        })
    }

    #[test]
    fn the_port_follows_the_table_when_it_is_told_to() {
        let spread = spread(None);
        assert!(spread.follow(BTreeMap::new()).is_err());
        let told = Arc::new(Told::default());
        let port: Arc<dyn Port> = Arc::clone(&told) as _;
        spread.add_copy(&port, || BTreeMap::from([(0, vec![0])]));
        spread.add_copy(&port, both);
        assert_eq!(*told.0.lock().expect("nobody panics"), [0, 1, 0, 1]);
        told.0.lock().expect("nobody panics").clear();
        spread.follow(both()).expect("the port does all");
        assert_eq!(*told.0.lock().expect("nobody panics"), [0, 1, 0, 1]);
        assert!(spread.show().contains("by the same key"));
    }

    #[test]
    fn the_port_learns_who_the_owners_are_when_buckets_are_dealt_out() {
        let spread = spread(Some(Arc::default()));
        let told = Arc::new(Told::default());
        let port: Arc<dyn Port> = Arc::clone(&told) as _;
        spread.add_copy(&port, || BTreeMap::from([(0, vec![0])]));
        spread.add_copy(&port, both);
        spread.table.deal(&[1]);
        assert_eq!(*told.0.lock().expect("nobody panics"), [1, 1, 1, 1]);
        let shown = spread.show();
        assert!(
            shown.ends_with("in software: the port takes none"),
            "{shown}"
        );
    }

    #[test]
    fn copies_that_are_made_side_by_side_leave_the_port_with_all_queues() {
        let spread = spread(None);
        let told = Arc::new(Told::default());
        let port: Arc<dyn Port> = Arc::clone(&told) as _;
        let second_is_added = AtomicBool::new(false);
        std::thread::scope(|s| {
            // The second worker takes its queue right after the first one has looked who has queues.
            spread.add_copy(&port, || {
                s.spawn(|| {
                    spread.add_copy(&port, both);
                    second_is_added.store(true, Relaxed);
                });
                (0..1000)
                    .take_while(|_| !second_is_added.load(Relaxed))
                    .for_each(|_| std::thread::yield_now());
                BTreeMap::from([(0, vec![0])])
            });
        });
        assert_eq!(*told.0.lock().expect("nobody panics"), [0, 1, 0, 1]);
    }
}
