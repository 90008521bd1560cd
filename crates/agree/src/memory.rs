//! A store in memory, for simulations: time and every answer are inputs.

use crate::Millis;
use crate::records::{EPOCH, delete};
use crate::store::{Answer, Change, Entry, Event, Lease, Request, Revision, Store, Write};
use std::collections::{BTreeMap, VecDeque};

/// The values, leases and past changes of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) revision: Revision,
    values: BTreeMap<String, Entry>,
    leases: BTreeMap<Lease, (u64, Millis)>,
    /// Changes by revision, those after `compacted` only.
    history: BTreeMap<Revision, Vec<Entry>>,
    compacted: Revision,
    granted: Lease,
    ignores_epochs: bool,
}

impl Memory {
    /// An empty store. With the fault `ignores_epochs`, writes are accepted in any epoch.
    pub(crate) fn new(ignores_epochs: bool) -> Memory {
        Memory {
            ignores_epochs,
            ..Memory::default()
        }
    }

    /// Answers a request at a time, but for watches.
    pub(crate) fn answer(&mut self, request: &Request, now: Millis) -> Option<Answer> {
        self.expire(now);
        Some(match request {
            Request::Read => Answer::All(self.revision, self.values.values().cloned().collect()),
            Request::Write(write) => self.write(write),
            Request::Grant(seconds) => {
                self.granted += 1;
                self.leases
                    .insert(self.granted, (*seconds, now + seconds * 1000));
                Answer::Granted(self.granted)
            }
            Request::Renew(lease) => match self.leases.get_mut(lease) {
                Some((seconds, until)) => {
                    *until = now + *seconds * 1000;
                    Answer::Renewed
                }
                None => Answer::Expired,
            },
            Request::Watch(_) => return None,
        })
    }

    fn write(&mut self, write: &Write) -> Answer {
        let at = |key: &str| self.values.get(key).map_or(0, |entry| entry.revision);
        let epoch = self
            .values
            .get(EPOCH)
            .and_then(|entry| entry.value.as_ref()?.parse().ok());
        let epoch: u64 = epoch.unwrap_or_default();
        let guarded = write.epoch.is_none_or(|guard| guard == epoch) || self.ignores_epochs;
        let mut unchanged = write.unchanged.iter();
        let leases = write.changes.iter().filter_map(|change| change.lease);
        if !guarded || !unchanged.all(|(key, revision)| at(key) == *revision) {
            return Answer::Refused;
        }
        if !leases
            .into_iter()
            .all(|lease| self.leases.contains_key(&lease))
        {
            return Answer::Expired;
        }
        self.commit(write.changes.clone());
        Answer::Written(self.revision)
    }

    fn commit(&mut self, changes: Vec<Change>) {
        self.revision += 1;
        for change in changes {
            let entry = change.at(self.revision);
            match entry.value {
                Some(_) => self.values.insert(entry.key.clone(), entry.clone()),
                None => self.values.remove(&entry.key),
            };
            self.history.entry(self.revision).or_default().push(entry);
        }
    }

    /// Ends leases that were not renewed in time.
    pub(crate) fn expire(&mut self, now: Millis) {
        let over: Vec<Lease> = {
            let over = self.leases.iter().filter(|(_, (_, until))| *until <= now);
            over.map(|(lease, _)| *lease).collect()
        };
        for lease in over {
            self.leases.remove(&lease);
            let gone = self
                .values
                .values()
                .filter(|entry| entry.lease == Some(lease));
            let gone: Vec<_> = gone.map(|entry| delete(entry.key.clone())).collect();
            if !gone.is_empty() {
                self.commit(gone);
            }
        }
    }

    /// Changes after a revision, each with its own; `None` if they are forgotten.
    pub(crate) fn since(&self, after: Revision) -> Option<Vec<(Revision, Vec<Entry>)>> {
        let later = self.history.range(after + 1..);
        let later = later.map(|(revision, entries)| (*revision, entries.clone()));
        (after >= self.compacted).then(|| later.collect())
    }

    /// Forgets all past changes.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.revision;
        self.history.clear();
    }

    /// Value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key)?.value.as_deref()
    }
}

/// Connection of one server to the store: requests on their way, and events that have arrived.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) asked: VecDeque<(u64, Request)>,
    pub(crate) arrived: VecDeque<Event>,
}

impl Store for Line {
    fn ask(&mut self, number: u64, request: Request) {
        self.asked.push_back((number, request));
    }

    fn next(&mut self) -> Option<Event> {
        self.arrived.pop_front()
    }
}
