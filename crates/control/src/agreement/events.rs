//! Events of a cluster, as one server notices them: its own, and, while it leads, who is away.
//!
//! So that all servers' lists together name each event once, a server tells of others only while it leads.

use crate::view::{Event, Member};
use agree::View;
use std::collections::BTreeSet;

/// Comparison of the present state with that of the last look.
pub(super) struct Watcher {
    server: String,
    /// State at the last look; `None` before the first one.
    last: Option<Seen>,
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
    error: Option<String>,
    down: BTreeSet<String>,
}

impl Watcher {
    /// Watcher of a server that has just started.
    pub(super) fn new(server: &str) -> Watcher {
        Watcher {
            server: server.to_owned(),
            last: None,
            down: BTreeSet::new(),
            away: None,
        }
    }

    /// Notes the servers at the other ends of links that are not in use.
    pub(super) fn linked(&mut self, down: &[String]) {
        self.down = down.iter().cloned().collect();
    }

    /// Events since the last look. `now` is in milliseconds since 1970.
    pub(super) fn look(&mut self, member: &Member, view: Option<&View>, now: u64) -> Vec<Event> {
        let seen = Seen {
            leads: member.leads,
            version: member.version,
            trouble: member.trouble.clone(),
            error: member.error.clone(),
            down: self.down.clone(),
        };
        let mut told = Vec::new();
        match self.last.take() {
            None => told.push(match member.version {
                0 => "started with the file it joined with".to_owned(),
                version => format!("started with version {version} of the description"),
            }),
            Some(last) => seen.since(&last, &mut told),
        }
        self.last = Some(seen);
        if let Some(view) = view {
            self.members(member, view, &mut told);
        }
        let event = |what| Event {
            time_ms: now,
            epoch: member.epoch,
            server: self.server.clone(),
            what,
        };
        told.into_iter().map(event).collect()
    }

    /// Members that went away, or came back, while the server leads.
    fn members(&mut self, member: &Member, view: &View, told: &mut Vec<String>) {
        if !member.leads {
            self.away = None;
            return;
        }
        let away: BTreeSet<String> = view.away_members().map(str::to_owned).collect();
        // Absence that began before this server led is news, too.
        let last = self.away.replace(away.clone()).unwrap_or_default();
        told.extend(
            away.difference(&last)
                .map(|name| format!("server {name} is away")),
        );
        let back = last
            .difference(&away)
            .filter(|name| view.alive.contains_key(*name));
        told.extend(back.map(|name| format!("server {name} is back")));
    }
}

impl Seen {
    /// Changes since another state, in words.
    fn since(&self, last: &Seen, told: &mut Vec<String>) {
        match (last.leads, self.leads) {
            (false, true) => told.push("leads".to_owned()),
            (true, false) => told.push("leads no more".to_owned()),
            _ => {}
        }
        match (&last.trouble, &self.trouble) {
            (None, Some(why)) => told.push(format!("etcd does not answer: {why}")),
            (Some(_), None) => told.push("etcd answers again".to_owned()),
            _ => {}
        }
        if self.version != last.version {
            told.push(format!("runs version {} of the description", self.version));
        }
        if let Some(why) = self.error.as_ref().filter(|_| self.error != last.error) {
            told.push(format!("did not take a description: {why}"));
        }
        let link = |peer: &String, state: &str| format!("link to {peer} is {state}");
        let down = self.down.difference(&last.down);
        told.extend(down.map(|peer| link(peer, "down")));
        let up = last.down.difference(&self.down);
        told.extend(up.map(|peer| link(peer, "up")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agree::Entry;
    use agree::records::{ALIVE, MEMBER, Member as Record, put};

    /// View with a member b, which is there or away.
    fn view(there: bool) -> View {
        let mut changes = vec![put(format!("{MEMBER}b"), &Record::default())];
        if there {
            changes.push(put(format!("{ALIVE}b"), &""));
        }
        let entries = changes.into_iter().map(|change| Entry {
            key: change.key,
            value: change.value,
            revision: 1,
            lease: None,
        });
        View::new(1, entries.collect())
    }

    fn words(events: Vec<Event>) -> Vec<String> {
        events.into_iter().map(|event| event.what).collect()
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
        assert_eq!(first, [right]);
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
        member.error = Some("no such device".to_owned());
        let right = [
            "etcd answers again",
            "did not take a description: no such device",
        ];
        assert_eq!(look(&member, &["d"]), right);
        member.error = None;
        assert_eq!(look(&member, &["d"]), [""; 0]);
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
