//! What a port does of a classification by itself: it hashes by the same key, and its own indirection table gives
//! flows to the queues of the workers that own their buckets.
//!
//! Nothing depends on it: what comes by a queue of another worker is steered all the same. It saves the way there. So
//! it is done where the driver can, when the port is opened. Later changes of the table are not followed unless
//! that is asked for, as packets that wait in one queue could be overtaken by those of another.

use super::classify::Classify;
use crate::steer::hash_key::{HashKey, Keys, Shared};
use engine::args::Args;
use engine::port::Port;
use engine::steer::{Table, Tables};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The hash of a port's CLASSIFY.
pub(crate) struct Spread {
    key: Arc<Shared>,
    table: Arc<Table>,
    copies: Mutex<Copies>,
}

/// What the copies of the receiver have said of themselves.
#[derive(Default)]
struct Copies {
    port: Option<Arc<dyn Port>>,
    /// Queues by worker.
    queues: BTreeMap<usize, Vec<usize>>,
    /// How the last attempt has ended.
    done: Option<Result<(), String>>,
}

impl Spread {
    /// Reads CLASSIFY. Mistakes in it are told where it is replaced by what it stands for.
    pub(super) fn configure(args: &mut Args) -> Option<Spread> {
        let doc = "how packets are spread over the workers, such as hash";
        let text: String = args.key_maybe("CLASSIFY", doc)?;
        let (key, buckets, table) = Classify::of_port(&text)?;
        let key: HashKey = engine::units::parse(&key).ok()?;
        let fits = 1..=engine::steer::BUCKETS_MAX;
        fits.contains(&buckets).then(|| Spread {
            key: args.common::<Keys>().get(&format!("{key} {buckets}"), &key),
            table: args.common::<Tables>().get(&table, buckets),
            copies: Mutex::default(),
        })
    }

    /// A copy of the receiver is made: the port is told at once, as far as is known by now.
    pub(super) fn add_copy(&self, port: &Arc<dyn Port>, worker: usize, queues: &[usize]) {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.port = Some(Arc::clone(port));
        copies.queues.insert(worker, queues.to_vec());
        drop(copies);
        // How it ended is there to be asked; all works without.
        let _ = self.follow();
    }

    /// Has the port follow the table as it is now.
    pub(super) fn follow(&self) -> Result<(), String> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let port = copies.port.clone().ok_or("the port is not open")?;
        let queues = queues(&self.table.owners(), self.table.buckets(), &copies.queues);
        let done = port.spread(self.key.table.snapshot().key(), &queues);
        copies.done = Some(done.clone());
        done
    }

    /// How far the port does it.
    pub(super) fn show(&self) -> String {
        let copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        match &copies.done {
            None => "the port is not open".into(),
            Some(Err(why)) => format!("done in software: {why}"),
            Some(Ok(())) => {
                let table = copies
                    .port
                    .as_ref()
                    .map_or(0, |port| port.spreading().len());
                format!("the port hashes by the same key, with a table of {table}")
            }
        }
    }
}

/// The queue of each bucket: one of its owner's. Buckets of workers without a queue are spread over all queues, and so
/// are all of them before they have owners.
fn queues(owners: &[usize], buckets: usize, of: &BTreeMap<usize, Vec<usize>>) -> Vec<u16> {
    let all: Vec<usize> = of.values().flatten().copied().collect();
    if all.is_empty() {
        return Vec::new();
    }
    let each = (0..buckets).map(|bucket| {
        let own = owners.get(bucket).and_then(|owner| of.get(owner));
        match own.filter(|queues| !queues.is_empty()) {
            Some(own) => own[bucket / of.len() % own.len()] as u16,
            None => all[bucket % all.len()] as u16,
        }
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_go_to_a_queue_of_their_owner() {
        let of = BTreeMap::from([(0, vec![0, 2]), (1, vec![1, 3])]);
        assert_eq!(queues(&[0, 1, 0, 1], 4, &of), [0, 1, 2, 3]);
        assert_eq!(queues(&[1, 1, 1, 1], 4, &of), [1, 1, 3, 3]);
        assert_eq!(queues(&[], 4, &of), [0, 2, 1, 3]);
        // The third worker receives nothing.
        let got = queues(&[2; 8], 8, &of);
        assert!((0..4).all(|queue| got.contains(&queue)), "{got:?}");
        assert!(queues(&[0], 1, &BTreeMap::new()).is_empty());
    }

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

    #[test]
    fn the_port_follows_the_table_when_it_is_told_to() {
        let tables = Tables::default();
        let spread = Spread {
            key: Keys::default().get("x", &HashKey(wire::rss::SYMMETRIC)),
            table: tables.get("t", 4),
            copies: Mutex::default(),
        };
        assert!(spread.follow().is_err());
        let told = Arc::new(Told::default());
        let port: Arc<dyn Port> = Arc::clone(&told) as _;
        spread.add_copy(&port, 0, &[0]);
        spread.add_copy(&port, 1, &[1]);
        assert_eq!(*told.0.lock().expect("nobody panics"), [0, 1, 0, 1]);
        spread.table.deal(&[1]);
        spread.follow().expect("the port does all");
        assert_eq!(*told.0.lock().expect("nobody panics"), [1, 1, 1, 1]);
        assert!(spread.show().contains("by the same key"));
    }
}
