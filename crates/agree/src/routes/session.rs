//! The leader's side of one server's stream.

use super::message::{Hello, Message};
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

/// State of the routes that a server has at the beginning of a stream.
#[derive(Clone, Copy, Debug)]
struct Has {
    at: At,
    exact: bool,
}

#[derive(Clone, Debug)]
enum State {
    /// Nothing is sent yet.
    New(Option<Has>),
    /// A snapshot must begin.
    Behind,
    /// A snapshot of the table that had the version `start`: all prefixes up to the cursor are sent.
    Snapshot { start: u64, cursor: Option<Prefix> },
    /// Differences: the number of the next change.
    Follows(u64),
}

impl Session {
    /// Stream for a server.
    pub fn new(hello: &Hello) -> Session {
        let exact = hello.exact;
        Session {
            state: State::New(hello.at.map(|at| Has { at, exact })),
            told: 0,
            owes: None,
        }
    }

    /// Begins with what a server has: the message by which it knows this, and the number of the first change that it
    /// lacks. `None` if it needs a snapshot.
    fn begin(&mut self, table: &Table, has: Has) -> Option<(Option<Message>, u64)> {
        let epoch = table.at().epoch;
        if has.at.epoch == epoch {
            let place = table.place(has.at.version)?;
            self.told = has.at.version;
            return Some((None, place));
        }
        let from = table.began_at().filter(|at| has.exact && *at == has.at)?;
        let place = table.place(0)?;
        Some((Some(Message::Continue { epoch, from }), place))
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
            State::New(has) => {
                let Some((first, place)) = has.and_then(|has| self.begin(table, has)) else {
                    self.state = State::Behind;
                    return self.next(table);
                };
                self.state = State::Follows(place);
                first.or_else(|| self.next(table))
            }
            State::Behind => {
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
                    self.state = State::Behind;
                    return self.next(table);
                };
                self.state = State::Follows(place);
                self.owes = Some(start);
                self.next(table)
            }
            State::Follows(place) => {
                let Some((piece, place, reached)) = table.changes(place, PIECE) else {
                    self.state = State::Behind;
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

#[cfg(test)]
mod tests {
    use super::super::copy::Copy;
    use super::super::{At, Hops};
    use super::*;
    use std::collections::BTreeMap;

    fn prefix(n: u8) -> Prefix {
        Prefix::new([10, n, 0, 0].into(), 16).unwrap()
    }

    /// Has a server hear some messages of a leader's table; returns all of them.
    fn tell(copy: &mut Copy, table: &Table, most: usize) -> Vec<Message> {
        copy.connect();
        let mut session = Session::new(&Hello {
            at: copy.at(),
            exact: copy.exact_at().is_some(),
            ..Hello::default()
        });
        let messages: Vec<Message> = std::iter::from_fn(|| session.next(table)).collect();
        for message in messages.iter().take(most) {
            copy.hear(message.clone()).unwrap();
        }
        messages
    }

    #[test]
    fn servers_continue_with_a_new_leader_if_they_have_exactly_the_routes_with_which_it_began() {
        let hops: Hops = [].into();
        let mut table = Table::new(1);
        table.change([1, 2].map(|n| (prefix(n), Some(hops.clone()))));
        table.complete();
        let (mut server, mut behind, mut partly) = Default::default();
        for copy in [&mut server, &mut behind, &mut partly] {
            tell(copy, &table, 9);
        }
        table.change([(prefix(3), Some(hops.clone()))]);
        tell(&mut server, &table, 9);
        // The change has arrived, but not the end of its version.
        assert_eq!(tell(&mut partly, &table, 1).len(), 2);
        assert_eq!((partly.at(), partly.exact_at()), (behind.at(), None));
        let from = At {
            epoch: 1,
            version: 2,
        };
        assert_eq!(server.exact_at(), Some(from));

        let (mut next, routes) = (Table::new(2), server.routes());
        next.begin(from, routes.map(|(of, to)| (*of, to.clone())).collect());
        next.replace(BTreeMap::from([1, 3, 4].map(|n| (prefix(n), hops.clone()))));
        next.complete();
        let difference = vec![(prefix(2), None), (prefix(4), Some(hops))];
        let reached = Message::Reached(At {
            epoch: 2,
            version: 1,
        });
        let right = [
            Message::Continue { epoch: 2, from },
            Message::Change(difference),
            reached,
        ];
        assert_eq!(tell(&mut server, &next, 9), right);
        for copy in [&mut behind, &mut partly] {
            assert_eq!(tell(copy, &next, 9)[0], Message::Begin { epoch: 2 });
            assert!(copy.routes().eq(server.routes()) && copy.at() == server.at());
        }
        // A table that begins with other routes than the server has is no table to continue with.
        let other = Message::Continue { epoch: 3, from };
        assert!(server.hear(other).is_err());
    }
}
