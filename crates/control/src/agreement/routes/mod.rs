//! Routes of the cluster: the leader's kernel has them, and every server's tables get them.
//!
//! The rules are in `agree::routes`. Here are the [`source`], a kernel's routes; the [`lead`]er, which serves them over
//! mutual TLS; the servers that [`follow`] it, the leader among them; and each server's [`fib`], where they write.
//!
//! Daemons in the leader's namespace reach neighbours of all servers through its [`interfaces`]: servers [`attach`] to
//! the leader, and exchange [`frames`] with it.

mod attach;
mod fib;
mod follow;
mod frames;
mod gateways;
mod interfaces;
mod lead;
mod serve;
mod source;
mod stream;
mod sys;

pub(super) use fib::Fib;
pub(super) use source::Opened;

use super::home::Home;
use crate::description::cluster::Description;
use crate::process::Process;
use agree::Agent;
use agree::records::Routes;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use sync::Lock;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

/// Port at which a leader serves its routes.
const PORT: u16 = 2382;

/// Address at which a server serves its routes while it leads.
pub(super) fn served_at(home: &Home) -> SocketAddr {
    SocketAddr::new(home.about.address, PORT)
}

/// A leader, as others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    at: String,
    epoch: u64,
}

/// State of the agreement, as far as routes depend on it.
#[derive(Clone, Debug, Default)]
struct Situation {
    /// Description that the server runs.
    description: Option<Arc<Description>>,
    /// Epoch in which the server leads.
    serving: Option<u64>,
    /// Latest known leader.
    leader: Option<Known>,
    /// Highest epoch that the server has seen.
    seen: u64,
    /// Members that have not left, with their identities.
    members: Arc<BTreeMap<String, String>>,
}

/// Clock of all parts, in milliseconds since 1970. It never goes back.
#[derive(Clone, Copy, Debug)]
struct Clock {
    start: Instant,
    wall: u64,
}

impl Clock {
    fn now(self) -> u64 {
        let elapsed = u64::try_from(self.start.elapsed().as_millis());
        self.wall.saturating_add(elapsed.unwrap_or(u64::MAX))
    }
}

/// A server's part in the cluster's routes.
pub(super) struct Routing {
    situation: watch::Sender<Situation>,
}

impl Routing {
    /// Starts to lead and to follow, within tokio's runtime. `accounts` hears what the leader tells others.
    ///
    /// # Errors
    ///
    /// A file of the folder is missing or wrong; a sentence.
    pub(super) fn start(
        home: &Home,
        (process, fib): (Arc<Process>, Arc<Lock<Fib>>),
        namespace: Opened,
        accounts: UnboundedSender<Routes>,
    ) -> Result<Routing, String> {
        let description = fib.lock().description();
        let situation = Situation {
            description,
            ..Situation::default()
        };
        let (sender, receiver) = watch::channel(situation);
        let clock = Clock {
            start: Instant::now(),
            wall: super::wall_clock(),
        };
        let leader = lead::Leader::new(home, (Arc::clone(&fib), namespace), clock, accounts)?;
        let followers = follow::Follower::new(home, fib)?;
        let punting = attach::Punting::new(home, process)?;
        tokio::spawn(followers.follow(receiver.clone()));
        tokio::spawn(punting.attach(receiver.clone()));
        tokio::spawn(leader.lead(receiver));
        Ok(Routing { situation: sender })
    }

    /// Notes that the server runs another description.
    pub(super) fn describe(&self, description: Option<Arc<Description>>) {
        self.situation
            .send_modify(|situation| situation.description = description);
    }

    /// Looks at the agreement. Without a view of the store everything stays as it is: routes need no store.
    pub(super) fn look(&self, agent: &Agent) {
        self.situation.send_if_modified(|situation| {
            let mut changed = false;
            let mut set = |differs: bool| changed |= differs;
            let seen = agent.keeps().epoch.max(situation.seen);
            set(std::mem::replace(&mut situation.seen, seen) != seen);
            let Some(view) = agent.view() else {
                return changed;
            };
            let serving = agent.leads().then(|| view.epoch());
            set(std::mem::replace(&mut situation.serving, serving) != serving);
            if let Some(leader) = view.leader() {
                let known = leader.at.clone().map(|at| Known {
                    at,
                    epoch: leader.epoch,
                });
                if known != situation.leader {
                    situation.leader = known;
                    set(true);
                }
            }
            let members = view.present().filter_map(|name| {
                let member = view.members.get(name)?.record.as_ref()?;
                Some((name.to_owned(), member.identity.clone()))
            });
            let members: BTreeMap<String, String> = members.collect();
            if *situation.members != members {
                situation.members = Arc::new(members);
                set(true);
            }
            changed
        });
    }
}
