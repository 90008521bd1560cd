//! Events of a cluster, as one server notices them: its own, and, while it leads, who is away.
//!
//! So that all servers' lists together name each event once, a server tells of others only while it leads.

use crate::view::{Event, Member};
use agree::View;
use std::collections::BTreeSet;
use tracing::Level;

/// Comparison of the present state with that of the last look.
pub(super) struct Watcher {
    server: String,
    /// State at the last look; `None` before the first one.
    last: Option<Seen>,
    /// Version that the server could not run at its last attempt, and the reason; `None` if the attempt succeeded.
    failed: Option<(u64, String)>,
    down: BTreeSet<String>,
    /// Members that are away, while the server leads.
    away: Option<BTreeSet<String>>,
}

/// State of a server, as far as a change of it is an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    leads: bool,
    version: u64,
    trouble: Option<String>,
    failed: Option<(u64, String)>,
    /// Version and epoch of the wanted description, if the leader of an epoch that is over has written it.
    stale: Option<(u64, u64)>,
    down: BTreeSet<String>,
}

impl Watcher {
    /// Watcher of a server that has just started.
    pub(super) fn new(server: &str) -> Watcher {
        Watcher {
            server: server.to_owned(),
            last: None,
            failed: None,
            down: BTreeSet::new(),
            away: None,
        }
    }

    /// Notes the servers at the other ends of links that are not in use.
    pub(super) fn linked(&mut self, down: &[String]) {
        self.down = down.iter().cloned().collect();
    }

    /// Notes the end of an attempt to run a version of the description; with the reason if it failed.
    pub(super) fn took(&mut self, version: u64, error: Option<&str>) {
        self.failed = error.map(|why| (version, why.to_owned()));
    }

    /// Events since the last look, each with its level in the log: losses and refusals are warnings. `now` is in
    /// milliseconds since 1970.
    pub(super) fn look(
        &mut self,
        member: &Member,
        view: Option<&View>,
        now: u64,
    ) -> Vec<(Level, Event)> {
        let stale = match view {
            Some(view) => view.stale().map(|wanted| (wanted.version, wanted.epoch)),
            // The view is missing for a moment whenever all values are read again.
            None => self.last.as_ref().and_then(|last| last.stale),
        };
        let seen = Seen {
            leads: member.leads,
            version: member.version,
            trouble: member.trouble.clone(),
            failed: self.failed.clone(),
            stale,
            down: self.down.clone(),
        };
        let mut told = Vec::new();
        match self.last.take() {
            None => {
                let what = match member.version {
                    0 => "started with the file it joined with".to_owned(),
                    version => format!("started with version {version} of the description"),
                };
                told.push((Level::INFO, what));
            }
            Some(last) => seen.since(&last, &mut told),
        }
        self.last = Some(seen);
        if let Some(view) = view {
            self.members(member, view, &mut told);
        }
        let event = |(level, what)| {
            let event = Event {
                time_ms: now,
                epoch: member.epoch,
                server: self.server.clone(),
                what,
            };
            (level, event)
        };
        told.into_iter().map(event).collect()
    }

    /// Members that went away, or came back, while the server leads.
    fn members(&mut self, member: &Member, view: &View, told: &mut Vec<(Level, String)>) {
        if !member.leads {
            self.away = None;
            return;
        }
        let away: BTreeSet<String> = view.away_members().map(str::to_owned).collect();
        // Absence that began before this server led is news, too.
        let last = self.away.replace(away.clone()).unwrap_or_default();
        let gone = away.difference(&last);
        told.extend(gone.map(|name| (Level::WARN, format!("server {name} is away"))));
        let back = last
            .difference(&away)
            .filter(|name| view.alive.contains_key(*name));
        told.extend(back.map(|name| (Level::INFO, format!("server {name} is back"))));
    }
}

impl Seen {
    /// Changes since another state, in words.
    fn since(&self, last: &Seen, told: &mut Vec<(Level, String)>) {
        match (last.leads, self.leads) {
            (false, true) => told.push((Level::INFO, "leads".to_owned())),
            (true, false) => told.push((Level::INFO, "leads no more".to_owned())),
            _ => {}
        }
        match (&last.trouble, &self.trouble) {
            (None, Some(why)) => {
                told.push((Level::WARN, format!("etcd does not answer: {why}")));
            }
            (Some(_), None) => told.push((Level::INFO, "etcd answers again".to_owned())),
            _ => {}
        }
        if self.version != last.version {
            let what = format!("runs version {} of the description", self.version);
            told.push((Level::INFO, what));
        }
        if let Some((version, why)) = &self.failed
            && self.failed != last.failed
        {
            let what = format!("did not take version {version} of the description: {why}");
            told.push((Level::WARN, what));
        }
        if let Some((version, epoch)) = self.stale
            && self.stale != last.stale
        {
            let what = format!("refused version {version} of epoch {epoch}, which is over");
            told.push((Level::WARN, what));
        }
        let down = self.down.difference(&last.down);
        told.extend(down.map(|peer| (Level::WARN, format!("link to {peer} is down"))));
        let up = last.down.difference(&self.down);
        told.extend(up.map(|peer| (Level::INFO, format!("link to {peer} is up"))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agree::records::{ALIVE, EPOCH, MEMBER, Member as Record, WANTED, Wanted, put};

    /// View with a member b, which is there or away.
    fn view(there: bool) -> View {
        let mut changes = vec![put(format!("{MEMBER}b"), &Record::default())];
        if there {
            changes.push(put(format!("{ALIVE}b"), &""));
        }
        let entries = changes.into_iter().map(|change| change.at(1));
        View::new(1, entries.collect())
    }

    /// View of epoch 6 with a wanted description of epoch 5, which was written after epoch 6 had begun.
    fn late() -> View {
        let wanted = Wanted {
            version: 4,
            epoch: 5,
            ..Wanted::default()
        };
        let entries = vec![put(EPOCH, &6).at(1), put(WANTED, &wanted).at(2)];
        View::new(2, entries)
    }

    fn words(events: Vec<(Level, Event)>) -> Vec<String> {
        events.into_iter().map(|(_, event)| event.what).collect()
    }

    #[test]
    fn each_change_of_a_server_is_told_once() {
        let mut watcher = Watcher::new("a");
        let mut member = Member {
            version: 2,
            epoch: 5,
            ..Member::default()
        };
        let first = watcher.look(&member, None, 7);
        let right = Event {
            time_ms: 7,
            epoch: 5,
            server: "a".to_owned(),
            what: "started with version 2 of the description".to_owned(),
        };
        assert_eq!(first, [(Level::INFO, right)]);
        let mut look = |member: &Member, down: &[&str]| {
            let down: Vec<String> = down.iter().map(|&peer| peer.to_owned()).collect();
            watcher.linked(&down);
            let told = words(watcher.look(member, None, 8));
            assert_eq!(words(watcher.look(member, None, 9)), [""; 0]);
            told
        };
        assert_eq!(
            look(&member, &["c", "d"]),
            ["link to c is down", "link to d is down"]
        );
        member.version = 3;
        member.trouble = Some("no majority".to_owned());
        let right = [
            "etcd does not answer: no majority",
            "runs version 3 of the description",
            "link to c is up",
        ];
        assert_eq!(look(&member, &["d"]), right);
        member.trouble = None;
        assert_eq!(look(&member, &["d"]), ["etcd answers again"]);
    }

    #[test]
    fn each_version_that_a_server_could_not_run_is_told_once() {
        let mut watcher = Watcher::new("a");
        let member = Member::default();
        watcher.look(&member, None, 0);
        let mut took = |version, error: Option<&str>| {
            watcher.took(version, error);
            let told = watcher.look(&member, None, 0);
            assert!(told.iter().all(|(level, _)| *level == Level::WARN));
            words(told)
        };
        let why = Some("no such device");
        let right = "did not take version 4 of the description: no such device";
        assert_eq!(took(4, why), [right]);
        assert_eq!(took(4, why), [""; 0]);
        let right = "did not take version 5 of the description: no such device";
        assert_eq!(took(5, why), [right]);
        assert_eq!(took(5, None), [""; 0]);
    }

    #[test]
    fn a_description_of_an_epoch_that_is_over_is_told_once() {
        let mut watcher = Watcher::new("a");
        let member = Member::default();
        watcher.look(&member, None, 0);
        let mut look = |view: Option<View>| words(watcher.look(&member, view.as_ref(), 0));
        let right = "refused version 4 of epoch 5, which is over";
        assert_eq!(look(Some(late())), [right]);
        assert_eq!(look(Some(late())), [""; 0]);
        assert_eq!(look(None), [""; 0]);
        assert_eq!(look(Some(late())), [""; 0]);
        assert_eq!(look(Some(view(true))), [""; 0]);
    }

    #[test]
    fn only_a_leader_tells_who_is_away() {
        let mut watcher = Watcher::new("a");
        let mut member = Member::default();
        let mut look = |leads, view: Option<View>| {
            member.leads = leads;
            words(watcher.look(&member, view.as_ref(), 0))
        };
        assert_eq!(
            look(false, Some(view(false))),
            ["started with the file it joined with"]
        );
        assert_eq!(look(true, Some(view(false))), ["leads", "server b is away"]);
        assert_eq!(look(true, None), [""; 0]);
        assert_eq!(look(true, Some(view(true))), ["server b is back"]);
        assert_eq!(look(true, Some(view(false))), ["server b is away"]);
        assert_eq!(look(false, Some(view(true))), ["leads no more"]);
        assert_eq!(look(true, Some(view(true))), ["leads"]);
    }
}
