//! An operator's part: proposes descriptions, removes servers, reads everything.

use super::etcd::Etcd;
use super::home::Home;
use super::{authority, identifier, wall_clock};
use agree::records::{MEMBER, Member, PROPOSED, Proposal, VERDICT, WANTED, delete, put};
use agree::{Answer, Request, View, Write};
use std::collections::BTreeSet;
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Polling interval for the states that servers report.
const LOOK: Duration = Duration::from_millis(200);
/// Age after which a proposal that nobody has decided on may be replaced, in milliseconds.
const ABANDONED: u64 = 60_000;

/// An operator at one server.
pub struct Operator {
    etcd: Etcd,
}

/// Result of a proposal.
#[derive(Debug)]
pub enum Outcome {
    /// All servers that are there could run it.
    Possible,
    /// The wanted description has this version now. All servers that are there run it.
    Wanted(u64),
}

/// Runs a future on the calling thread, which belongs to no runtime.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().build();
    runtime
        .map_err(|e| format!("cannot start: {e}"))?
        .block_on(future)
}

/// Error about a description that may have been proposed.
fn unknown(dry_run: bool, why: &str) -> String {
    match dry_run {
        true => format!("etcd does not answer, so the servers' verdict is unknown: {why}"),
        false => format!(
            "etcd does not answer, so it is unknown whether the servers use the description: {why}\nWhen etcd answers \
             again, `ashlar cluster show` says which version they use"
        ),
    }
}

impl Operator {
    /// Operator at the server of this folder.
    ///
    /// # Errors
    ///
    /// A file of the folder is missing or wrong; a sentence.
    pub fn new(home: &Home) -> Result<Operator, String> {
        let etcd = Etcd::new(
            home.members(),
            authority::client(home)?,
            &home.about.cluster,
        );
        Ok(Operator { etcd })
    }

    /// Members of etcd by their names, each with the reason why it does not work, if it does not. The error is a
    /// sentence.
    pub fn etcd_members(home: &Home) -> Result<Vec<(String, Option<String>)>, String> {
        let clients = home.about.etcd.keys().zip(home.members());
        let clients = clients.map(|(name, address)| {
            let tls = authority::client(home)?;
            Ok((name, Etcd::new(vec![address], tls, &home.about.cluster)))
        });
        let clients: Vec<_> = clients.collect::<Result<_, String>>()?;
        block_on(async {
            let asked = clients.into_iter().map(|(name, member)| {
                let asked = tokio::spawn(async move { member.status().await.err() });
                (name.clone(), asked)
            });
            // All are asked at the same time.
            let asked: Vec<_> = asked.collect();
            let mut members = Vec::new();
            for (name, asked) in asked {
                let why = asked.await.map_err(|e| e.to_string())?;
                members.push((name, why));
            }
            Ok(members)
        })
    }

    /// View of everything on which the servers agree. The error is a sentence.
    pub fn view(&self) -> Result<View, String> {
        block_on(self.read())
    }

    async fn read(&self) -> Result<View, String> {
        match self.etcd.answer(&Request::Read).await? {
            Answer::All(revision, entries) => Ok(View::new(revision, entries)),
            _ => Err("etcd gave another answer than was asked for".to_owned()),
        }
    }

    /// Proposes a description, and waits until the servers have refused it, or all available servers run it. `say` is
    /// called for each server that runs it.
    ///
    /// # Errors
    ///
    /// Etcd or the leader is away, a server refuses, or the time is over; a sentence.
    pub fn apply(
        &self,
        text: &str,
        by: &str,
        dry_run: bool,
        limit: Duration,
        mut say: impl FnMut(&str),
    ) -> Result<Outcome, String> {
        block_on(async {
            let end = Instant::now() + limit;
            let id = self.propose(text, by, dry_run).await?;
            let mut told = BTreeSet::new();
            loop {
                let view = self.read().await.map_err(|why| unknown(dry_run, &why))?;
                let verdict = view
                    .verdict
                    .record
                    .as_ref()
                    .filter(|verdict| verdict.proposal == id);
                if let Some(verdict) = verdict {
                    return match &verdict.error {
                        Some(why) => Err(why.clone()),
                        None => Ok(Outcome::Possible),
                    };
                }
                let wanted = view
                    .wanted
                    .record
                    .as_ref()
                    .filter(|wanted| wanted.proposal == id);
                let there = view.present().filter(|name| view.alive.contains_key(*name));
                let mut waits = Vec::new();
                for name in there {
                    let state = view.state(name);
                    let Some(wanted) = wanted else {
                        let checked = state.and_then(|state| state.checked.as_ref());
                        if checked.is_none_or(|checked| checked.proposal != id) {
                            waits.push(name);
                        }
                        continue;
                    };
                    match state {
                        Some(state) if state.version >= wanted.version => {
                            if told.insert(name.to_owned()) {
                                say(&format!("server {name} uses it"));
                            }
                        }
                        Some(state) if state.error.is_some() => {
                            let why = state.error.as_deref().unwrap_or_default();
                            return Err(format!(
                                "version {} is wanted, and server {name} could not take it: {why}",
                                wanted.version
                            ));
                        }
                        _ => waits.push(name),
                    }
                }
                if let Some(wanted) = wanted.filter(|_| waits.is_empty()) {
                    return Ok(Outcome::Wanted(wanted.version));
                }
                let proposed = view.proposed.record.as_ref();
                if wanted.is_none() && proposed.is_none_or(|proposed| proposed.id != id) {
                    return Err(
                        "somebody else has proposed another description meanwhile".to_owned()
                    );
                }
                if Instant::now() >= end {
                    let waits = waits.join(", ");
                    if let Some(wanted) = wanted {
                        let version = wanted.version;
                        return Err(format!(
                            "version {version} is wanted, and the time is over for: {waits}"
                        ));
                    }
                    if self.withdraw(&view).await? {
                        return Err(match waits.is_empty() {
                            true => "there is no leader that would decide on it: it is withdrawn"
                                .to_owned(),
                            false => format!(
                                "the time is over, and it is withdrawn; not checked by: {waits}"
                            ),
                        });
                    }
                }
                sleep(LOOK).await;
            }
        })
    }

    async fn propose(&self, text: &str, by: &str, dry_run: bool) -> Result<String, String> {
        let view = self.read().await.map_err(|why| {
            format!(
                "nothing was proposed, as etcd does not answer: {why}\nDescriptions can be changed while a majority of \
                 its members works: `ashlar cluster doctor` says which do"
            )
        })?;
        if view.present().all(|name| !view.alive.contains_key(name)) {
            return Err(
                "no server of the cluster is running: start one by `ashlar cluster up --agreed`"
                    .to_owned(),
            );
        }
        let now = wall_clock();
        if let Some(open) = view.open_proposal()
            && now.saturating_sub(open.at) < ABANDONED
        {
            return Err(format!(
                "{} proposes a description at this moment: wait a minute, and look at it first",
                open.by
            ));
        }
        let proposal = Proposal {
            id: identifier()?,
            base: view.version(),
            dry_run,
            by: by.to_owned(),
            at: now,
            text: text.to_owned(),
        };
        let write = Write {
            epoch: None,
            unchanged: vec![(PROPOSED.to_owned(), view.proposed.revision)],
            changes: vec![put(PROPOSED, &proposal)],
        };
        let answer = self.etcd.answer(&Request::Write(write)).await;
        match answer.map_err(|why| unknown(dry_run, &why))? {
            Answer::Written(_) => Ok(proposal.id),
            _ => Err(
                "somebody else proposes a description at this moment: look at it first".to_owned(),
            ),
        }
    }

    /// Takes a proposal back; false if the leader has decided on it meanwhile.
    async fn withdraw(&self, view: &View) -> Result<bool, String> {
        let write = Write {
            epoch: None,
            unchanged: vec![
                (PROPOSED.to_owned(), view.proposed.revision),
                (WANTED.to_owned(), view.wanted.revision),
                (VERDICT.to_owned(), view.verdict.revision),
            ],
            changes: vec![delete(PROPOSED)],
        };
        let answer = self.etcd.answer(&Request::Write(write)).await;
        let answer = answer.map_err(|why| format!("the proposal could not be withdrawn: {why}"))?;
        Ok(matches!(answer, Answer::Written(_)))
    }

    /// Makes a server leave: it takes no new description, and nobody waits for it.
    ///
    /// # Errors
    ///
    /// Etcd is away, or the cluster has no such member; a sentence.
    pub fn remove(&self, server: &str) -> Result<(), String> {
        block_on(async {
            let view = self.read().await?;
            let known = view.members.get(server);
            let member =
                known.and_then(|of| of.record.as_ref().map(|record| (record, of.revision)));
            let (record, revision) = member.ok_or_else(|| {
                let names: Vec<&str> = view.present().collect();
                format!(
                    "`{server}` is no member of the cluster; members are: {}",
                    names.join(", ")
                )
            })?;
            let left = Member {
                left: true,
                ..record.clone()
            };
            let key = format!("{MEMBER}{server}");
            let write = Write {
                epoch: None,
                unchanged: vec![(key.clone(), revision)],
                changes: vec![put(key, &left)],
            };
            match self.etcd.answer(&Request::Write(write)).await? {
                Answer::Written(_) => Ok(()),
                _ => Err("somebody else changes this member at this moment: try again".to_owned()),
            }
        })
    }
}
