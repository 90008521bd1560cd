//! The leader's side of one server's stream.

use super::message::Message;
use super::table::Table;
use super::{At, Prefix};

/// Maximum number of changes in a message.
pub const PIECE: usize = 1024;

/// Messages that one server needs to have the leader's routes.
#[derive(Clone, Debug)]
pub struct Session {
    state: State,
    /// Version that the server has with all messages so far.
    told: u64,
    owes: Option<u64>,
}

#[derive(Clone, Debug)]
enum State {
    /// A snapshot must begin.
    New,
    /// A snapshot of the table that had the version `start`: all prefixes up to the cursor are sent.
    Snapshot { start: u64, cursor: Option<Prefix> },
    /// Differences: the number of the next change.
    Follows(u64),
}

impl Session {
    /// Stream for a server that has this state of the routes; `None` if it has no complete one.
    pub fn new(table: &Table, has: Option<At>) -> Session {
        let has = has.filter(|at| at.epoch == table.at().epoch && table.is_complete());
        let place = has.and_then(|at| Some((at.version, table.place(at.version)?)));
        match place {
            Some((told, place)) => Session {
                state: State::Follows(place),
                told,
                owes: None,
            },
            None => Session {
                state: State::New,
                told: 0,
                owes: None,
            },
        }
    }

    /// Next message; `None` if the server has been told everything.
    pub fn next(&mut self, table: &Table) -> Option<Message> {
        let epoch = table.at().epoch;
        if !table.is_complete() {
            return None;
        }
        if let Some(version) = self.owes.take() {
            self.told = version;
            return Some(Message::Reached(At { epoch, version }));
        }
        match self.state {
            State::New => {
                self.state = State::Snapshot {
                    start: table.at().version,
                    cursor: None,
                };
                Some(Message::Begin { epoch })
            }
            State::Snapshot { start, cursor } => {
                let routes = table.after(cursor).take(PIECE);
                let routes = routes.map(|(prefix, hops)| (*prefix, Some(hops.clone())));
                let piece: Vec<_> = routes.collect();
                if let Some((last, _)) = piece.last() {
                    let cursor = Some(*last);
                    self.state = State::Snapshot { start, cursor };
                    return Some(Message::Change(piece));
                }
                let Some(place) = table.place(start) else {
                    // Too much has changed meanwhile.
                    self.state = State::New;
                    return self.next(table);
                };
                self.state = State::Follows(place);
                self.owes = Some(start);
                self.next(table)
            }
            State::Follows(place) => {
                let Some((piece, place, reached)) = table.changes(place, PIECE) else {
                    self.state = State::New;
                    return self.next(table);
                };
                self.state = State::Follows(place);
                self.owes = Some(reached).filter(|reached| *reached > self.told);
                match piece.is_empty() {
                    true => self.owes.is_some().then(|| self.next(table)).flatten(),
                    false => Some(Message::Change(piece)),
                }
            }
        }
    }

    /// Sign of life for a server that has been told everything.
    pub fn tick(&self, table: &Table) -> Message {
        let epoch = table.at().epoch;
        match (&self.state, table.is_complete()) {
            (State::Follows(_), true) => Message::Reached(At {
                epoch,
                version: self.told,
            }),
            _ => Message::Wait { epoch },
        }
    }
}
