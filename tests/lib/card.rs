//! A port in memory that sorts packets by itself, like a network card: by a hash table and by rules.

use engine::port::{
    Directed, Match, OpenPort, Port, PortCounter, PortDirectory, PortInfo, PortRequest,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::FlowKey;
use wire::rss::{MICROSOFT, rss};

/// The control side of a port of a card that hashes and takes some rules.
pub struct Card {
    inner: Arc<dyn Port>,
    rules: Mutex<HashMap<Match, u16>>,
    /// The key and the indirection table of its hash.
    spread: Mutex<Option<([u8; 40], Vec<u16>)>>,
    refuses: AtomicBool,
    otherwise: AtomicBool,
    busy: AtomicBool,
    lags: AtomicBool,
    /// Number of hash settings, and of queries of the key.
    told: AtomicU64,
    asked: AtomicU64,
    room: usize,
}

impl Card {
    /// Rules of the card.
    pub fn rules(&self) -> MutexGuard<'_, HashMap<Match, u16>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether it refuses another indirection table.
    pub fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Relaxed);
    }

    /// Sets whether it hashes differently than requested, like a card that does not parse tunnels.
    pub fn hash_otherwise(&self, otherwise: bool) {
        self.otherwise.store(otherwise, Relaxed);
    }

    /// Number of queries of the key since the last call.
    pub fn asked(&self) -> u64 {
        self.asked.swap(0, Relaxed)
    }

    /// Sets whether a request is still in progress.
    pub fn be_busy(&self, busy: bool) {
        self.busy.store(busy, Relaxed);
    }

    /// Sets whether it is busy after each request to hash.
    pub fn lag(&self, lags: bool) {
        self.lags.store(lags, Relaxed);
    }

    /// The queue of a flow by its hash.
    pub fn hashed(&self, flow: &FlowKey) -> usize {
        let spread = self.spread.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((key, table)) = &*spread else {
            return 0;
        };
        let key = match self.otherwise.load(Relaxed) {
            true => &MICROSOFT,
            false => key,
        };
        let hash = rss(key, flow) as usize;
        table[hash % table.len()].into()
    }

    /// The queue of a frame by its rule; without a rule, the first.
    pub fn queue(&self, frame: &[u8]) -> usize {
        let flow = FlowKey::of_ip(&frame[14..]).map(Match::Flow);
        let address = frame[..6].try_into().ok();
        let station = Match::Station {
            address,
            vlan: None,
        };
        let rules = self.rules();
        let found = [flow, Some(station)].into_iter().flatten();
        let queue = found.filter_map(|rule| rules.get(&rule)).next();
        queue.copied().unwrap_or(0).into()
    }
}

impl Port for Card {
    fn info(&self) -> PortInfo {
        self.inner.info()
    }

    fn link_up(&self) -> bool {
        self.inner.link_up()
    }

    fn counters(&self) -> Vec<PortCounter> {
        self.inner.counters()
    }

    fn set_rss(&self, key: &[u8; 40], queues: &[u16]) -> Result<(), String> {
        if self.refuses.load(Relaxed) {
            return Err("the card is busy".to_owned());
        }
        *self.spread.lock().unwrap_or_else(PoisonError::into_inner) = Some((*key, queues.to_vec()));
        self.told.fetch_add(1, Relaxed);
        self.busy.fetch_or(self.lags.load(Relaxed), Relaxed);
        Ok(())
    }

    fn hash_key(&self) -> Option<[u8; 40]> {
        self.asked.fetch_add(1, Relaxed);
        let spread = self.spread.lock().unwrap_or_else(PoisonError::into_inner);
        spread.as_ref().map(|spread| spread.0)
    }

    fn hash_changes(&self) -> Option<u64> {
        Some(self.told.load(Relaxed))
    }

    fn redirection_table(&self) -> Vec<u16> {
        let spread = self.spread.lock().unwrap_or_else(PoisonError::into_inner);
        spread
            .as_ref()
            .map_or_else(Vec::new, |spread| spread.1.clone())
    }

    fn direct(&self, rules: &[(Match, Option<u16>)], all: bool) {
        let mut own = self.rules();
        if all {
            own.clear();
        }
        for (rule, queue) in rules {
            match queue {
                None => _ = own.remove(rule),
                Some(_) if own.len() == self.room && !own.contains_key(rule) => {}
                Some(queue) => _ = own.insert(*rule, *queue),
            }
        }
    }

    fn directed(&self) -> Option<Directed> {
        Some(Directed {
            held: self.rules().len(),
            waiting: usize::from(self.busy.load(Relaxed)),
            ..Directed::default()
        })
    }
}

/// Ports of memory, of which one is a card.
pub struct Cards<D> {
    /// All ports as ports in memory.
    pub inner: D,
    name: String,
    room: usize,
    card: Mutex<Option<Arc<Card>>>,
}

impl<D> Cards<D> {
    /// Makes the port of this name a card with room for `room` rules.
    pub fn new(inner: D, name: &str, room: usize) -> Cards<D> {
        Cards {
            inner,
            name: name.to_owned(),
            room,
            card: Mutex::default(),
        }
    }

    /// The card, once it is open.
    ///
    /// # Panics
    /// It is not.
    pub fn card(&self) -> Arc<Card> {
        let card = self.card.lock().unwrap_or_else(PoisonError::into_inner);
        card.clone().expect("it is open")
    }

    fn with_card(&self, name: &str, open: OpenPort) -> OpenPort {
        if name != self.name {
            return open;
        }
        let mut card = self.card.lock().unwrap_or_else(PoisonError::into_inner);
        let card = card.get_or_insert_with(|| {
            Arc::new(Card {
                inner: Arc::clone(&open.port),
                rules: Mutex::default(),
                spread: Mutex::default(),
                refuses: AtomicBool::new(false),
                otherwise: AtomicBool::new(false),
                busy: AtomicBool::new(false),
                lags: AtomicBool::new(false),
                told: AtomicU64::new(0),
                asked: AtomicU64::new(0),
                room: self.room,
            })
        });
        OpenPort {
            port: Arc::clone(card) as _,
            ..open
        }
    }
}

impl<D: PortDirectory> PortDirectory for Cards<D> {
    fn probe(&self, name: &str) -> Result<PortInfo, String> {
        self.inner.probe(name)
    }

    fn open(&self, name: &str, request: &PortRequest) -> Result<OpenPort, String> {
        let open = self.inner.open(name, request)?;
        Ok(self.with_card(name, open))
    }

    fn get(&self, name: &str) -> Option<OpenPort> {
        let open = self.inner.get(name)?;
        Some(self.with_card(name, open))
    }

    fn names(&self) -> Vec<String> {
        self.inner.names()
    }

    fn close(&self, name: &str) {
        self.inner.close(name);
    }
}
