//! Versions of the routes that servers have acknowledged, and who is behind.

use super::At;
use super::message::Acknowledged;
use crate::Millis;
use crate::records::{Behind, RouteState};
use std::collections::{BTreeMap, VecDeque};

/// Time for which a server may lack a version before it is named.
pub const LATE: Millis = 500;
/// Silence after which a server is named.
pub const SILENT: Millis = 800;
/// Maximum number of versions whose times are known.
const TIMES_MAX: usize = 4096;

/// Acknowledgements of all servers to the leader of one epoch.
#[derive(Clone, Debug)]
pub struct Account {
    epoch: u64,
    /// Versions with the times at which the table had them, oldest first.
    times: VecDeque<(u64, Millis)>,
    servers: BTreeMap<String, Heard>,
    began: Millis,
    /// Latest version that all servers have, and the time that the last of them took.
    all_have: u64,
    took: Option<Millis>,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    done: Acknowledged,
    at: Millis,
    /// Since when the server is silent or behind, once it is named.
    since: Option<Millis>,
}

impl Account {
    /// Account of a leader that begins now.
    pub fn new(epoch: u64, now: Millis) -> Account {
        Account {
            epoch,
            times: VecDeque::new(),
            servers: BTreeMap::new(),
            began: now,
            all_have: 0,
            took: None,
        }
    }

    /// Notes that the table has a version now.
    pub fn changed(&mut self, version: u64, now: Millis) {
        if self.times.back().is_some_and(|(last, _)| *last >= version) {
            return;
        }
        self.times.push_back((version, now));
        // The oldest version stays: who lacks it is behind since then.
        if self.times.len() > TIMES_MAX {
            self.times.remove(1);
        }
    }

    /// Hears an acknowledgement.
    pub fn hear(&mut self, server: &str, done: Acknowledged, now: Millis) {
        let since = self.servers.get(server).and_then(|heard| heard.since);
        let heard = Heard {
            done,
            at: now,
            since,
        };
        self.servers.insert(server.to_owned(), heard);
    }

    /// Version of this epoch that a server has; `None` if it has none.
    fn version(&self, server: &str) -> Option<u64> {
        let at = self.servers.get(server)?.done.at?;
        (at.epoch == self.epoch).then_some(at.version)
    }

    /// Time since which a server lacks a version.
    fn lacks_since(&self, version: Option<u64>) -> Option<Millis> {
        let known = |version| self.times.partition_point(|(of, _)| *of <= version);
        let after = version.map_or(0, known);
        self.times.get(after).map(|(_, at)| *at)
    }

    /// Latest version that all of these servers have, and the milliseconds that the last one took. Call it after each
    /// acknowledgement.
    pub fn settle<'a>(&mut self, mut members: impl Iterator<Item = &'a str>, now: Millis) {
        let least = members.try_fold(u64::MAX, |least, server| {
            Some(least.min(self.version(server)?))
        });
        let Some(least) = least.filter(|least| *least > self.all_have && *least < u64::MAX) else {
            return;
        };
        let known = self.times.iter().rfind(|(version, _)| *version <= least);
        self.took = known.map(|(_, at)| now.saturating_sub(*at));
        self.all_have = least;
        // Nobody asks for older times; that of the latest version that all have tells who has it.
        while self.times.get(1).is_some_and(|(next, _)| *next <= least) {
            self.times.pop_front();
        }
    }

    /// Milliseconds from the latest version that all servers have to the last acknowledgement of it.
    pub fn took(&self) -> Option<Millis> {
        self.took
    }

    /// State of each of these servers. A server is named from the time on for which it has been late or silent.
    pub fn look<'a>(
        &mut self,
        members: impl Iterator<Item = &'a str>,
        now: Millis,
    ) -> BTreeMap<String, RouteState> {
        let mut states = BTreeMap::new();
        for server in members {
            let version = self.version(server);
            let late = self.lacks_since(version);
            let late = late.filter(|since| now.saturating_sub(*since) >= LATE);
            let heard = self.servers.get(server);
            let at = heard.map_or(self.began, |heard| heard.at);
            let silent = Some(at).filter(|at| now.saturating_sub(*at) >= SILENT);
            let behind = match (silent, late) {
                (Some(at), _) => Some((Behind::Silent, at)),
                (None, Some(since)) => Some((Behind::Late, since)),
                (None, None) => None,
            };
            let done = heard.map(|heard| heard.done).unwrap_or_default();
            let named = heard.and_then(|heard| heard.since);
            let since = behind.map(|(_, at)| named.map_or(at, |named| named.min(at)));
            if let Some(heard) = self.servers.get_mut(server) {
                heard.since = since;
            }
            let state = RouteState {
                version: version.unwrap_or_default(),
                routes: done.routes,
                missing: done.missing,
                behind: behind.map(|(how, _)| how),
                since: since.unwrap_or_default(),
            };
            states.insert(server.to_owned(), state);
        }
        states
    }

    /// State of the routes that a server has acknowledged.
    pub fn at(&self, server: &str) -> Option<At> {
        self.servers.get(server)?.done.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 2] = ["a", "b"];

    fn done(version: u64) -> Acknowledged {
        Acknowledged {
            at: Some(At { epoch: 3, version }),
            routes: 2,
            missing: 0,
        }
    }

    fn behind(account: &mut Account, now: Millis) -> Vec<Option<(Behind, Millis)>> {
        let states = account.look(ALL.into_iter(), now);
        let named = |state: &RouteState| state.behind.map(|how| (how, state.since));
        states.values().map(named).collect()
    }

    #[test]
    fn a_server_that_lacks_a_version_is_named_within_a_second_since_the_version_was_there() {
        let mut account = Account::new(3, 1_000);
        account.changed(1, 1_000);
        account.hear("a", done(1), 1_010);
        account.hear("b", done(1), 1_020);
        account.settle(ALL.into_iter(), 1_020);
        assert_eq!(account.took(), Some(20));
        account.changed(2, 5_000);
        account.changed(3, 5_300);
        for at in [5_000, 5_400] {
            account.hear("a", done(3), at);
            account.hear("b", done(1), at);
        }
        assert_eq!(behind(&mut account, 5_499), [None, None]);
        let late = [None, Some((Behind::Late, 5_000))];
        assert_eq!(behind(&mut account, 5_500), late);
        account.hear("b", done(2), 5_900);
        account.hear("a", done(3), 5_900);
        // The server lacks something without a break.
        assert_eq!(behind(&mut account, 5_910), late);
        account.hear("b", done(3), 5_950);
        account.settle(ALL.into_iter(), 5_950);
        assert_eq!(behind(&mut account, 5_960), [None, None]);
        assert_eq!(account.took(), Some(650));
    }

    #[test]
    fn a_server_that_says_nothing_is_named_within_a_second_though_nothing_has_changed() {
        let mut account = Account::new(3, 1_000);
        account.changed(1, 1_000);
        account.hear("a", done(1), 1_100);
        account.hear("b", done(1), 1_100);
        account.hear("a", done(1), 1_800);
        let silent = [None, Some((Behind::Silent, 1_100))];
        assert_eq!(behind(&mut account, 1_900), silent);
        account.hear("b", done(1), 2_000);
        account.hear("a", done(1), 2_000);
        assert_eq!(behind(&mut account, 2_100), [None, None]);
    }

    #[test]
    fn a_version_of_another_epoch_is_none() {
        let mut account = Account::new(4, 0);
        account.changed(1, 0);
        account.hear("a", done(9), 600);
        account.hear("b", done(9), 600);
        account.settle(ALL.into_iter(), 600);
        assert_eq!(account.took(), None);
        let late = Some((Behind::Late, 0));
        assert_eq!(behind(&mut account, 700), [late, late]);
    }
}
