//! Decisions of one server: what to ask the store, what to check, take and keep.
//!
//! The caller carries out each [`Act`] and reports its end. All decisions follow from the present view of the store,
//! from what the server runs, and from the time. Lost answers and repeated changes therefore do no harm.

use crate::Millis;
use crate::lease::{LEASE_SECONDS, Tenure};
use crate::records::{
    ALIVE, AWAY, Checked, EPOCH, LEADER, Leader, Links, MEMBER, Member, PROPOSED, Proposal, ROUTES,
    Routes, STATE, State, VERDICT, Verdict, WANTED, Wanted, delete, put,
};
use crate::store::{Answer, Event, Lease, Request, Revision, Unwatched, Write};
use crate::view::View;
use serde::{Deserialize, Serialize};

/// Time limit for the answer to a request.
pub const ANSWER: Millis = 5_000;
/// Pause after a request that failed.
const RETRY: Millis = 1_000;
/// Time within which the watch should report the server's own write.
const SEEN: Millis = 2_000;
/// Time after which all values are read again, although a watch reports changes.
const REREAD: Millis = 30_000;
/// Pause after a description that the server could not take.
const AGAIN: Millis = 30_000;

/// State of a server on its disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Highest epoch that the server has seen.
    pub epoch: u64,
    /// Version of the cluster's file that the server runs.
    pub version: u64,
    /// Time at which the server took that version, in milliseconds since 1970.
    pub since: u64,
    /// Digest of that version's text: shows if another text has the same version.
    #[serde(default)]
    pub digest: String,
    /// True if the server has left the cluster.
    #[serde(default)]
    pub left: bool,
}

/// Something that the caller is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Ask the store.
    Ask(u64, Request),
    /// Write to the disk, then call [`Agent::kept`].
    Keep(Kept),
    /// Find out whether the server could run a description, then call [`Agent::checked`].
    Check(Proposal),
    /// Run a description and keep it, then call [`Agent::took`].
    Take(Wanted),
}

/// Identity of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Name of the server in the description.
    pub name: String,
    /// Identifier of this membership. A server that joins again gets a new one.
    pub id: String,
    /// Version of the server's program.
    pub program: String,
    /// Address and port at which it serves routes while it leads.
    pub routes_at: Option<String>,
    /// Address and port at which it answers members of the cluster.
    pub asked_at: Option<String>,
}

/// One server's part in the agreement.
#[derive(Clone, Debug)]
pub struct Agent {
    own: Identity,
    kept: Kept,
    view: Option<View>,
    read_at: Millis,
    /// Number of the watch whose changes follow the view.
    watch: Option<u64>,
    tenure: Tenure,
    waiting: Option<Waiting>,
    number: u64,
    retry_at: Millis,
    /// Revision of the last own write, and the time until which the watch should have reported it.
    written: (Revision, Millis),
    working: bool,
    checked: Option<Checked>,
    /// Version that the server could not take, the reason, and the time of the next attempt.
    failed: Option<(u64, String, Millis)>,
    /// Last wanted description that was not stale.
    good: Option<Wanted>,
    trouble: Option<String>,
    links: Option<Links>,
    routes: Option<Routes>,
    began: u64,
}

#[derive(Clone, Debug)]
struct Waiting {
    number: u64,
    asked: Millis,
    until: Millis,
}

impl Agent {
    /// Agent of a server that has kept this. Its time begins at `began`, in milliseconds since 1970.
    pub fn new(own: Identity, kept: Kept, began: u64) -> Agent {
        Agent {
            own,
            kept,
            view: None,
            read_at: 0,
            watch: None,
            tenure: Tenure::default(),
            waiting: None,
            number: 0,
            retry_at: 0,
            written: (0, 0),
            working: false,
            checked: None,
            failed: None,
            good: None,
            trouble: None,
            links: None,
            routes: None,
            began,
        }
    }

    /// Present view of the store; `None` if it is not known.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// State that the server keeps on its disk.
    pub fn keeps(&self) -> &Kept {
        &self.kept
    }

    /// Reason why the store does not answer; `None` if the store answers.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// True if the server leads, as far as it knows.
    pub fn leads(&self) -> bool {
        self.view.as_ref().is_some_and(|view| self.leads_in(view))
    }

    fn leads_in(&self, view: &View) -> bool {
        let lease = self.tenure.lease();
        let leader = view.leader();
        leader.is_some_and(|leader| leader.name == self.own.name) && view.leader.lease == lease
    }

    /// Next thing to do; `None` until an event, an end of work, or [`Agent::wake_at`].
    pub fn next(&mut self, now: Millis) -> Option<Act> {
        if self.kept.left {
            return None;
        }
        if let Some(lease) = self.tenure.renew(self.number + 1, now) {
            self.number += 1;
            return Some(Act::Ask(self.number, Request::Renew(lease)));
        }
        if let Some(waiting) = &self.waiting {
            if now < waiting.until {
                return None;
            }
            self.fail("the store does not answer".to_owned(), now);
        }
        if now < self.retry_at {
            return None;
        }
        let unseen = self.written.0 > self.view.as_ref().map_or(0, |view| view.revision);
        if unseen && self.view.is_some() && now < self.written.1 {
            return None;
        }
        let Some(view) = self
            .view
            .take_if(|_| !unseen && now < self.read_at + REREAD)
        else {
            return Some(self.ask(Request::Read, now));
        };
        let act = self.decide(&view, now);
        self.view = Some(view);
        act
    }

    /// Time at which [`Agent::next`] may have something to do without an event.
    pub fn wake_at(&self) -> Millis {
        let renew_at = self.tenure.renew_at().unwrap_or(Millis::MAX);
        renew_at.min(self.decide_at())
    }

    /// Time of the next decision without an event.
    fn decide_at(&self) -> Millis {
        if let Some(waiting) = &self.waiting {
            return waiting.until;
        }
        let again = self.failed.as_ref().map_or(Millis::MAX, |failed| failed.2);
        let grant = self.tenure.lease().map_or(0, |_| Millis::MAX);
        let seen = match &self.view {
            Some(view) if self.written.0 > view.revision => self.written.1,
            _ => Millis::MAX,
        };
        let due = grant.min(again).min(seen).min(self.read_at + REREAD);
        due.max(self.retry_at)
    }

    fn decide(&mut self, view: &View, now: Millis) -> Option<Act> {
        let Some(lease) = self.tenure.lease() else {
            return Some(self.ask(Request::Grant(LEASE_SECONDS), now));
        };
        if self.watch.is_none() {
            self.number += 1;
            self.watch = Some(self.number);
            return Some(Act::Ask(self.number, Request::Watch(view.revision)));
        }
        if self.working {
            return None;
        }
        let (member, left) = self.membership(view);
        let epoch = self.kept.epoch.max(view.epoch());
        if left || epoch > self.kept.epoch {
            self.working = true;
            let kept = self.kept.clone();
            return Some(Act::Keep(Kept {
                epoch,
                left,
                ..kept
            }));
        }
        // A failure concerns one version alone.
        self.failed
            .take_if(|failed| failed.0 != view.version() || view.stale().is_some());
        if view.stale().is_none() {
            self.good.clone_from(&view.wanted.record);
        }
        let write = member
            .or_else(|| self.presence(view, lease))
            .or_else(|| self.campaign(view, lease))
            .or_else(|| self.lead(view, now));
        if let Some(write) = write {
            return Some(self.ask(Request::Write(write), now));
        }
        self.work(view, now)
    }

    /// Write that makes the server a member, and true if it was made to leave.
    fn membership(&self, view: &View) -> (Option<Write>, bool) {
        let known = view.members.get(&self.own.name);
        let (record, revision) = match known {
            Some(of) => (of.record.as_ref(), of.revision),
            None => (None, 0),
        };
        match record {
            Some(record) if record.identity == self.own.id => (None, record.left),
            _ => {
                let key = format!("{MEMBER}{}", self.own.name);
                let record = Member {
                    identity: self.own.id.clone(),
                    left: false,
                };
                let write = Write {
                    epoch: None,
                    unchanged: vec![(key.clone(), revision)],
                    changes: vec![put(key, &record)],
                };
                (Some(write), false)
            }
        }
    }

    /// Write by which others see that the server runs, and what.
    fn presence(&self, view: &View, lease: Lease) -> Option<Write> {
        let name = &self.own.name;
        let mut write = Write::default();
        if view.alive.get(name) != Some(&Some(lease)) {
            let mut change = put(format!("{ALIVE}{name}"), &self.own.id);
            change.lease = Some(lease);
            write.changes.push(change);
        }
        let state = self.state(view);
        if view.state(name) != Some(&state) {
            let key = format!("{STATE}{name}");
            // A delayed write of an older state must not replace a newer one.
            let revision = view.states.get(name).map_or(0, |of| of.revision);
            write.unchanged.push((key.clone(), revision));
            write.changes.push(put(key, &state));
        }
        (!write.changes.is_empty()).then_some(write)
    }

    fn state(&self, view: &View) -> State {
        let refused = view.stale().map(|wanted| {
            format!(
                "refused version {} of {}, whose epoch {} is over: epoch {} has begun",
                wanted.version,
                wanted.leader,
                wanted.epoch,
                view.epoch()
            )
        });
        let failed = self.failed.as_ref();
        let failed = failed.filter(|(version, ..)| *version == view.version());
        State {
            epoch: self.kept.epoch,
            version: self.kept.version,
            since: self.kept.since,
            program: self.own.program.clone(),
            checked: self.checked.clone(),
            error: refused.or_else(|| failed.map(|(_, why, _)| why.clone())),
            links: self.links.clone(),
            at: self.own.asked_at.clone(),
        }
    }

    /// Write that makes the server the leader of a new epoch, if there is no leader.
    fn campaign(&self, view: &View, lease: Lease) -> Option<Write> {
        let epoch = view.epoch().max(self.kept.epoch);
        let leader = view.leader();
        let former = leader.is_some_and(|leader| leader.name == self.own.name)
            && view.leader.lease != Some(lease);
        // A store that was restored from an old copy has an epoch that is over.
        if leader.is_some() && !former && epoch == view.epoch() {
            return None;
        }
        let leader = Leader {
            name: self.own.name.clone(),
            epoch: epoch + 1,
            at: self.own.routes_at.clone(),
        };
        let mut held = put(LEADER, &leader);
        held.lease = Some(lease);
        Some(Write {
            epoch: Some(view.epoch()),
            unchanged: vec![(LEADER.to_owned(), view.leader.revision)],
            changes: vec![put(EPOCH, &leader.epoch), held],
        })
    }

    /// Write of the leader: repeats the wanted description in the new epoch, says who is away or which routes there
    /// are, or decides on a proposal.
    fn lead(&self, view: &View, now: Millis) -> Option<Write> {
        if !self.leads_in(view) {
            return None;
        }
        let epoch = view.epoch();
        let guarded = |change, unchanged: Vec<(String, Revision)>| Write {
            epoch: Some(epoch),
            unchanged,
            changes: vec![change],
        };
        let wanted_is = (WANTED.to_owned(), view.wanted.revision);
        if let Some(good) = &self.good
            && view
                .wanted
                .record
                .as_ref()
                .is_none_or(|now| now.epoch < epoch)
        {
            let again = Wanted {
                epoch,
                leader: self.own.name.clone(),
                ..good.clone()
            };
            return Some(guarded(put(WANTED, &again), vec![wanted_is]));
        }
        for name in view.present() {
            let (there, known) = (view.alive.contains_key(name), view.away.contains_key(name));
            let key = format!("{AWAY}{name}");
            let change = match (there, known) {
                (true, true) => delete(key),
                (false, false) => put(key, &(self.began + now)),
                _ => continue,
            };
            return Some(guarded(change, Vec::new()));
        }
        if let Some(routes) = &self.routes
            && routes.epoch == epoch
            && view.routes.record.as_ref() != Some(routes)
        {
            return Some(guarded(put(ROUTES, routes), Vec::new()));
        }
        let proposal = view.open_proposal()?;
        let unchanged = vec![(PROPOSED.to_owned(), view.proposed.revision), wanted_is];
        let verdict = |error| {
            let verdict = Verdict {
                proposal: proposal.id.clone(),
                error,
            };
            put(VERDICT, &verdict)
        };
        if proposal.base != view.version() {
            let why = format!(
                "it was made for version {}, and version {} is wanted by now: look at that one first",
                proposal.base,
                view.version()
            );
            return Some(guarded(verdict(Some(why)), unchanged));
        }
        for name in view.present().filter(|name| view.alive.contains_key(*name)) {
            let checked = view.state(name).and_then(|state| state.checked.as_ref());
            let checked = checked.filter(|checked| checked.proposal == proposal.id)?;
            if let Some(why) = &checked.error {
                let why = format!("server {name} refuses it: {why}");
                return Some(guarded(verdict(Some(why)), unchanged));
            }
        }
        if proposal.dry_run {
            return Some(guarded(verdict(None), unchanged));
        }
        // Servers may be ahead of a store that was restored from an old copy.
        let versions = view.states.values().filter_map(|of| of.record.as_ref());
        let highest = versions
            .map(|state| state.version)
            .max()
            .unwrap_or_default();
        let wanted = Wanted {
            version: view.version().max(highest) + 1,
            epoch,
            leader: self.own.name.clone(),
            proposal: proposal.id.clone(),
            by: proposal.by.clone(),
            at: proposal.at,
            text: proposal.text.clone(),
        };
        Some(guarded(put(WANTED, &wanted), unchanged))
    }

    /// Work of a server: it checks a proposal, or takes the wanted description.
    fn work(&mut self, view: &View, now: Millis) -> Option<Act> {
        if let Some(wanted) = &view.wanted.record
            && wanted.epoch >= self.kept.epoch
            && wanted.version > self.kept.version
        {
            // The reason of the last failure stays until this attempt has ended.
            let again = self.failed.as_mut().map(|failed| &mut failed.2);
            let due = again.as_ref().is_none_or(|again| now >= **again);
            if due {
                if let Some(again) = again {
                    *again = Millis::MAX;
                }
                self.working = true;
                return Some(Act::Take(wanted.clone()));
            }
        }
        let proposal = view.open_proposal()?;
        let checked = self.checked.as_ref();
        if checked.is_some_and(|checked| checked.proposal == proposal.id) {
            return None;
        }
        self.working = true;
        Some(Act::Check(proposal.clone()))
    }

    fn ask(&mut self, request: Request, now: Millis) -> Act {
        self.number += 1;
        self.waiting = Some(Waiting {
            number: self.number,
            asked: now,
            until: now + ANSWER,
        });
        Act::Ask(self.number, request)
    }

    /// Discards the view after a failure: the store's contents are unknown then.
    fn fail(&mut self, why: String, now: Millis) {
        self.waiting = None;
        self.view = None;
        self.retry_at = now + RETRY;
        self.trouble = Some(why);
    }

    /// Hears of an event of the store.
    pub fn hear(&mut self, event: Event, now: Millis) {
        match event {
            Event::Changed(watch, revision, entries) => {
                let view = self.view.as_mut().filter(|_| self.watch == Some(watch));
                if let Some(view) = view {
                    view.change(revision, entries);
                }
            }
            Event::Unwatched(watch, why) => {
                if self.watch.take_if(|own| *own == watch).is_some() && why == Unwatched::Compacted
                {
                    self.view = None;
                }
            }
            Event::Answered(number, answer) => {
                if let Some(asked) = self.tenure.answered(number) {
                    return self.renewed(answer, asked, now);
                }
                let waited = self.waiting.take_if(|waiting| waiting.number == number);
                if let Some(waited) = waited {
                    self.answered(waited.asked, answer, now);
                }
            }
        }
    }

    /// Hears the answer to a renewal that was asked for at a time.
    fn renewed(&mut self, answer: Result<Answer, String>, asked: Millis, now: Millis) {
        match answer {
            Ok(Answer::Renewed) => self.tenure.renewed(asked),
            Ok(_) => self.tenure.end(),
            // Another renewal may reach the store in time.
            Err(_) if self.tenure.is_certain(now) => {}
            Err(why) => {
                if self.view.is_some() && self.waiting.is_none() {
                    self.fail(why, now);
                }
            }
        }
    }

    fn answered(&mut self, asked: Millis, answer: Result<Answer, String>, now: Millis) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => return self.fail(why, now),
        };
        self.trouble = None;
        match answer {
            Answer::All(revision, entries) => {
                self.view = Some(View::new(revision, entries));
                // The watch before may have reported changes that this answer does not have yet.
                self.watch = None;
                self.read_at = now;
                self.written = (0, 0);
            }
            Answer::Written(revision) => self.written = (revision, now + SEEN),
            Answer::Refused => {
                self.view = None;
                self.retry_at = now + RETRY / 10;
            }
            Answer::Granted(lease) => self.tenure.begin(lease, asked, now),
            Answer::Renewed | Answer::Expired => self.tenure.end(),
        }
    }

    /// Hears how the server's links are.
    pub fn linked(&mut self, links: Links) {
        self.links = Some(links);
    }

    /// Takes the account of the routes that the server serves as the leader of an epoch. Each new one is written to the
    /// store.
    pub fn routed(&mut self, routes: Routes) {
        self.routes = Some(routes);
    }

    /// Takes the result of [`Act::Keep`]. If the disk refused, the server does not act on its view.
    pub fn kept(&mut self, kept: Result<Kept, String>, now: Millis) {
        self.working = false;
        match kept {
            Ok(kept) => self.kept = kept,
            Err(why) => self.fail(why, now),
        }
    }

    /// Takes the result of [`Act::Check`].
    pub fn checked(&mut self, proposal: String, error: Option<String>) {
        self.working = false;
        self.checked = Some(Checked { proposal, error });
    }

    /// Takes the result of [`Act::Take`]: the state that the server keeps now, or the reason why it does not run the
    /// description.
    pub fn took(&mut self, version: u64, kept: Result<Kept, String>, now: Millis) {
        self.working = false;
        match kept {
            Ok(kept) => {
                self.kept = kept;
                self.failed = None;
            }
            Err(why) => self.failed = Some((version, why, now + AGAIN)),
        }
    }
}
