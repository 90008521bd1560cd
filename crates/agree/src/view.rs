//! Copy of all values of the store as of one revision.

use crate::records::{
    ALIVE, AWAY, EPOCH, LEADER, Leader, MEMBER, Member, PROPOSED, Proposal, ROUTES, Routes, STATE,
    State, VERDICT, Verdict, WANTED, Wanted,
};
use crate::store::{Entry, Lease, Revision};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// A record with the revision and the lease of its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Of<T> {
    /// The record; `None` if it does not exist, or if this program cannot read it.
    pub record: Option<T>,
    /// Revision of the key's last change; 0 if the key does not exist.
    pub revision: Revision,
    /// Lease of the key.
    pub lease: Option<Lease>,
}

impl<T: DeserializeOwned> Of<T> {
    fn set(&mut self, entry: Entry) {
        let there = entry.value.is_some();
        self.record = entry
            .value
            .and_then(|text| serde_json::from_str(&text).ok());
        self.revision = if there { entry.revision } else { 0 };
        self.lease = entry.lease;
    }
}

/// Contents of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Revision of the contents.
    pub revision: Revision,
    /// The epoch; `None` before the first leader.
    pub epoch: Of<u64>,
    /// The leader.
    pub leader: Of<Leader>,
    /// The description that all are to run.
    pub wanted: Of<Wanted>,
    /// The latest proposal.
    pub proposed: Of<Proposal>,
    /// The leader's decision on a proposal.
    pub verdict: Of<Verdict>,
    /// Members by name.
    pub members: BTreeMap<String, Of<Member>>,
    /// Leases of running servers by name.
    pub alive: BTreeMap<String, Option<Lease>>,
    /// Times since which members are away, in milliseconds since 1970, by name.
    pub away: BTreeMap<String, Of<u64>>,
    /// States that servers report, by name.
    pub states: BTreeMap<String, Of<State>>,
    /// The leader's account of its routes.
    pub routes: Of<Routes>,
}

impl View {
    /// View of all values at a revision.
    pub fn new(revision: Revision, entries: Vec<Entry>) -> View {
        let mut view = View::default();
        view.change(revision, entries);
        view
    }

    /// Applies all changes up to a revision. Those that the view has already are passed over.
    pub fn change(&mut self, revision: Revision, entries: Vec<Entry>) {
        let known = self.revision;
        for entry in entries.into_iter().filter(|entry| entry.revision > known) {
            self.set(entry);
        }
        self.revision = self.revision.max(revision);
    }

    fn set(&mut self, entry: Entry) {
        let key = entry.key.clone();
        match &*key {
            EPOCH => self.epoch.set(entry),
            LEADER => self.leader.set(entry),
            WANTED => self.wanted.set(entry),
            PROPOSED => self.proposed.set(entry),
            VERDICT => self.verdict.set(entry),
            ROUTES => self.routes.set(entry),
            _ => {
                if let Some(name) = key.strip_prefix(MEMBER) {
                    set_in(&mut self.members, name, entry);
                } else if let Some(name) = key.strip_prefix(STATE) {
                    set_in(&mut self.states, name, entry);
                } else if let Some(name) = key.strip_prefix(AWAY) {
                    set_in(&mut self.away, name, entry);
                } else if let Some(name) = key.strip_prefix(ALIVE) {
                    match entry.value {
                        Some(_) => self.alive.insert(name.to_owned(), entry.lease),
                        None => self.alive.remove(name),
                    };
                }
            }
        }
    }

    /// The epoch, 0 before the first leader.
    pub fn epoch(&self) -> u64 {
        self.epoch.record.unwrap_or_default()
    }

    /// The leader of the present epoch.
    pub fn leader(&self) -> Option<&Leader> {
        let leader = self.leader.record.as_ref();
        leader.filter(|leader| leader.epoch == self.epoch())
    }

    /// Version that all servers are to run, 0 before the first one.
    pub fn version(&self) -> u64 {
        self.wanted
            .record
            .as_ref()
            .map_or(0, |wanted| wanted.version)
    }

    /// The proposal on which nothing is decided yet.
    pub fn open_proposal(&self) -> Option<&Proposal> {
        let proposal = self.proposed.record.as_ref()?;
        let wanted = self.wanted.record.as_ref();
        let verdict = self.verdict.record.as_ref();
        let done = wanted.is_some_and(|wanted| wanted.proposal == proposal.id)
            || verdict.is_some_and(|verdict| verdict.proposal == proposal.id);
        (!done).then_some(proposal)
    }

    /// The wanted description, if an older leader wrote it after the present epoch had begun: it must not be used.
    pub fn stale(&self) -> Option<&Wanted> {
        let wanted = self.wanted.record.as_ref()?;
        let late = self.wanted.revision > self.epoch.revision;
        (late && wanted.epoch < self.epoch()).then_some(wanted)
    }

    /// Members that have not left, by name.
    pub fn present(&self) -> impl Iterator<Item = &str> {
        let members = self.members.iter();
        let present = members.filter(|(_, of)| of.record.as_ref().is_some_and(|one| !one.left));
        present.map(|(name, _)| &**name)
    }

    /// Members that have not left and have no lease, by name: they do not run, or do not reach the store.
    pub fn away_members(&self) -> impl Iterator<Item = &str> {
        let present = self.present();
        present.filter(|name| !self.alive.contains_key(*name))
    }

    /// The account that the leader of the present epoch has given of its routes.
    pub fn current_routes(&self) -> Option<&Routes> {
        self.leader()?;
        let routes = self.routes.record.as_ref();
        routes.filter(|routes| routes.epoch == self.epoch())
    }

    /// Addresses at which members that have not left answer each other, by name.
    pub fn addresses(&self) -> BTreeMap<String, String> {
        let present = self.present();
        let told =
            present.filter_map(|name| Some((name.to_owned(), self.state(name)?.at.clone()?)));
        told.collect()
    }

    /// State that a server reports about itself.
    pub fn state(&self, name: &str) -> Option<&State> {
        self.states.get(name)?.record.as_ref()
    }
}

fn set_in<T: DeserializeOwned + Default>(
    all: &mut BTreeMap<String, Of<T>>,
    name: &str,
    entry: Entry,
) {
    match entry.value {
        Some(_) => all.entry(name.to_owned()).or_default().set(entry),
        None => {
            all.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::put;

    /// View of a store with these changes.
    fn view(changes: impl IntoIterator<Item = crate::Change>) -> View {
        let entries = changes.into_iter().map(|change| change.at(1));
        View::new(1, entries.collect())
    }

    #[test]
    fn members_without_a_lease_are_away_unless_they_have_left() {
        let member = |name: &str, left| {
            let member = Member {
                left,
                ..Member::default()
            };
            put(format!("{MEMBER}{name}"), &member)
        };
        let members = [member("a", false), member("b", false), member("c", true)];
        let view = view(members.into_iter().chain([put(format!("{ALIVE}a"), &"")]));
        assert_eq!(view.away_members().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn routes_are_those_of_the_present_epochs_leader() {
        let leader = |epoch| Leader {
            name: "a".to_owned(),
            epoch,
            at: None,
        };
        let routes = |epoch| Routes {
            epoch,
            ..Routes::default()
        };
        let has_routes = |of_epoch: u64, led: Option<u64>| {
            let mut all = vec![put(EPOCH, &5), put(ROUTES, &routes(of_epoch))];
            all.extend(led.map(|epoch| put(LEADER, &leader(epoch))));
            view(all).current_routes() == Some(&routes(of_epoch))
        };
        assert!(has_routes(5, Some(5)));
        assert!(!has_routes(4, Some(5)));
        assert!(!has_routes(5, Some(4)), "this leader is a former one");
        assert!(!has_routes(5, None));
    }
}
