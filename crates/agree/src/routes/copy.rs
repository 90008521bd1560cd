//! A server's copy of the leader's routes.

use super::message::Message;
use super::{At, Change, Hops, Prefix};
use std::collections::{BTreeMap, HashSet};

/// Number of distinct sets of next hops beyond which unused ones are dropped.
const HOPS_KEPT: usize = 4096;

/// Routes of a server. They stay as they are without a leader.
#[derive(Clone, Debug, Default)]
pub struct Copy {
    /// Highest epoch that the server has seen, here or elsewhere.
    seen: u64,
    /// State of the routes; `None` if a snapshot is under way, or was broken off.
    at: Option<At>,
    /// True if the routes are exactly those of `at`: nothing of a later state has arrived.
    exact: bool,
    /// Latest state that the routes ever had.
    latest: At,
    /// Epoch of the present stream.
    stream: u64,
    /// True between the beginning and the end of a snapshot.
    marks: bool,
    routes: BTreeMap<Prefix, (Hops, u32)>,
    /// Mark of routes that the latest snapshot has named.
    mark: u32,
    /// Equal next hops are shared.
    known: HashSet<Hops>,
}

/// Consequence of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// Routes that differ now.
    pub changes: Vec<Change>,
    /// True if the state is to be acknowledged once these changes are written.
    pub acknowledge: bool,
}

impl Copy {
    /// State of the routes; `None` if they are of no single version.
    pub fn at(&self) -> Option<At> {
        self.at
    }

    /// State whose routes are exactly these; `None` if a part of a later state has arrived, too.
    pub fn exact_at(&self) -> Option<At> {
        self.at.filter(|_| self.exact)
    }

    /// Highest epoch that the server has seen.
    pub fn epoch(&self) -> u64 {
        self.seen
    }

    /// All routes.
    pub fn routes(&self) -> impl Iterator<Item = (&Prefix, &Hops)> {
        self.routes.iter().map(|(prefix, (hops, _))| (prefix, hops))
    }

    /// Next hops of a prefix.
    pub fn get(&self, prefix: &Prefix) -> Option<&Hops> {
        self.routes.get(prefix).map(|(hops, _)| hops)
    }

    /// Number of routes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// True if there is no route.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Notes an epoch: older leaders are refused from now on.
    pub fn see(&mut self, epoch: u64) {
        self.seen = self.seen.max(epoch);
    }

    /// Begins a new stream. A snapshot that was broken off is sent again.
    pub fn connect(&mut self) {
        self.marks = false;
        self.stream = self.at.map_or(0, |at| at.epoch);
    }

    /// Hears a message of the leader.
    ///
    /// # Errors
    ///
    /// The leader's epoch is over, or the message cannot follow the ones before it; a sentence. End the stream: the
    /// routes stay as they are.
    pub fn hear(&mut self, message: Message) -> Result<Heard, String> {
        match message {
            Message::Begin { epoch } => {
                self.admit(epoch)?;
                self.at = None;
                self.stream = epoch;
                self.marks = true;
                self.mark = self.mark.wrapping_add(1);
                Ok(Heard::default())
            }
            Message::Continue { epoch, from } => {
                self.admit(epoch)?;
                let at = At { epoch, version: 0 };
                if self.exact_at() != Some(from) || at < self.latest {
                    return Err("the leader continues from routes that are not here".to_owned());
                }
                self.stream = epoch;
                self.at = Some(at);
                self.latest = at;
                Ok(Heard::default())
            }
            Message::Change(changes) => {
                if !self.marks && self.at.is_none() {
                    return Err("the leader sends routes before a snapshot has begun".to_owned());
                }
                self.admit(self.stream)?;
                self.exact &= changes.is_empty();
                let changes = changes.into_iter();
                let changes = changes.filter_map(|change| self.apply(change));
                Ok(Heard {
                    changes: changes.collect(),
                    acknowledge: false,
                })
            }
            Message::Reached(at) => self.reach(at),
            Message::Wait { epoch } => {
                self.admit(epoch)?;
                Ok(Heard {
                    changes: Vec::new(),
                    acknowledge: !self.marks,
                })
            }
            Message::Hello(_)
            | Message::OtherVersion(_)
            | Message::Acknowledged(_)
            | Message::Refused { .. }
            | Message::Attach(_)
            | Message::Alive { .. }
            | Message::Frame { .. } => {
                Err("the leader sends a message that is not about routes".to_owned())
            }
        }
    }

    fn admit(&mut self, epoch: u64) -> Result<(), String> {
        if epoch < self.seen {
            return Err(format!(
                "its epoch {epoch} is over: epoch {} has begun",
                self.seen
            ));
        }
        self.seen = epoch;
        Ok(())
    }

    /// Applies a change; returns it if it makes a difference.
    fn apply(&mut self, (prefix, hops): Change) -> Option<Change> {
        let Some(hops) = hops else {
            return self.routes.remove(&prefix).map(|_| (prefix, None));
        };
        if let Some(known) = self.routes.get_mut(&prefix)
            && known.0 == hops
        {
            known.1 = self.mark;
            return None;
        }
        let hops = self.share(hops);
        self.routes.insert(prefix, (hops.clone(), self.mark));
        Some((prefix, Some(hops)))
    }

    fn share(&mut self, hops: Hops) -> Hops {
        if let Some(known) = self.known.get(&hops) {
            return known.clone();
        }
        if self.known.len() >= HOPS_KEPT {
            self.known.clear();
        }
        self.known.insert(hops.clone());
        hops
    }

    fn reach(&mut self, at: At) -> Result<Heard, String> {
        self.admit(at.epoch)?;
        let expected = match self.at {
            Some(before) => before.epoch == at.epoch && before.version <= at.version,
            None => self.marks && self.stream == at.epoch,
        };
        if !expected || at < self.latest {
            return Err("the leader goes back to an older version".to_owned());
        }
        self.at = Some(at);
        self.exact = true;
        self.latest = at;
        let mut changes = Vec::new();
        if std::mem::take(&mut self.marks) {
            let mark = self.mark;
            self.routes.retain(|prefix, (_, of)| {
                if *of != mark {
                    changes.push((*prefix, None));
                }
                *of == mark
            });
        }
        Ok(Heard {
            changes,
            acknowledge: true,
        })
    }
}

#[cfg(test)]
impl Copy {
    /// Forgets that a newer epoch was seen, to see that tests notice.
    pub(super) fn forget(&mut self, epoch: u64) {
        self.seen = epoch;
        self.latest = At::default();
    }

    /// Forgets all routes, to see that tests notice.
    pub(super) fn clear(&mut self) {
        self.routes.clear();
    }
}
