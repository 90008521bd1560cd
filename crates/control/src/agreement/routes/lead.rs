//! The leader: its kernel's routes become the cluster's.

use super::super::authority;
use super::super::home::Home;
use super::Fib;
use super::interfaces::Interfaces;
use super::serve::Served;
use super::source::{Opened, Source};
use super::{Clock, Situation, served_at};
use agree::records::Routes;
use agree::routes::hold::Hold;
use agree::routes::table::Table;
use agree::routes::{Change, Hops};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use sync::Lock;
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, watch::Receiver};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};
use wire::Prefix;

/// Pause between looks at who is behind.
const LOOK: Duration = Duration::from_millis(100);
/// Minimum pause between accounts whose numbers alone differ, and between attempts after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of routes that cannot be used of which an account tells.
const EXAMPLES: usize = 3;

/// A server that may lead.
pub(super) struct Leader {
    at: SocketAddr,
    tls: TlsAcceptor,
    fib: Arc<Lock<Fib>>,
    source: Source,
    interfaces: Interfaces,
    news: Arc<Notify>,
    clock: Clock,
    accounts: UnboundedSender<Routes>,
    /// Table of the latest epoch in which the server led. Its versions go on if it leads again in that epoch.
    latest: Option<(u64, Arc<Served>)>,
}

/// The present leadership.
struct Term {
    epoch: u64,
    served: Arc<Served>,
    server: Option<JoinHandle<()>>,
    /// Routes of the former leader that stay for a while.
    hold: Hold,
    /// Reason why routes are not served.
    error: Option<String>,
    try_at: Instant,
    /// Latest account, and when it was told.
    told: (Routes, Instant),
}

impl Drop for Term {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

impl Leader {
    pub(super) fn new(
        home: &Home,
        (fib, namespace): (Arc<Lock<Fib>>, Opened),
        clock: Clock,
        accounts: UnboundedSender<Routes>,
    ) -> Result<Leader, String> {
        let tls = TlsAcceptor::from(Arc::new(authority::mutual(home)?));
        let news = Arc::new(Notify::new());
        Ok(Leader {
            at: served_at(home),
            tls,
            fib,
            source: Source::new(namespace, Arc::clone(&news)),
            interfaces: Interfaces::default(),
            news,
            clock,
            accounts,
            latest: None,
        })
    }

    /// Leads whenever the server does, until the process ends.
    pub(super) async fn lead(mut self, mut situation: Receiver<Situation>) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut term: Option<Term> = None;
        loop {
            let now = situation.borrow_and_update().clone();
            let described = now.description.clone();
            let described = described.filter(|of| of.namespace.is_some());
            let epoch = now.serving.filter(|_| described.is_some());
            if term.take_if(|term| Some(term.epoch) != epoch).is_some() {
                self.source.gather_again();
            }
            match &described {
                Some(described) => self.source.follow(described),
                None => self.source.leave(),
            }
            let namespace = self.source.namespace().cloned();
            let interfaces = &mut self.interfaces;
            interfaces
                .follow(namespace.as_ref(), described.as_ref())
                .await;
            if let Some(epoch) = epoch {
                let term = term.get_or_insert_with(|| self.begin(epoch));
                *term.served.members.lock() = Arc::clone(&now.members);
                self.listen(term).await;
                self.pump(Some(term)).await;
                self.tell(term);
            } else {
                self.pump(None).await;
            }
            tokio::select! {
                changed = situation.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = self.news.notified() => {}
                _ = looks.tick(), if described.is_some() || self.interfaces.is_making() => {}
            }
        }
    }

    fn begin(&mut self, epoch: u64) -> Term {
        let clock = self.clock;
        self.latest.take_if(|(latest, _)| *latest != epoch);
        let interfaces = self.interfaces.shared();
        let latest = self
            .latest
            .get_or_insert_with(|| (epoch, Served::new(epoch, clock, interfaces)));
        Term {
            epoch,
            served: Arc::clone(&latest.1),
            server: None,
            hold: Hold::default(),
            error: None,
            try_at: Instant::now(),
            told: (Routes::default(), Instant::now()),
        }
    }

    /// Serves the routes, if nobody does yet.
    async fn listen(&mut self, term: &mut Term) {
        let serves = term.server.as_ref().is_some_and(|task| !task.is_finished());
        if serves || Instant::now() < term.try_at {
            return;
        }
        term.try_at = Instant::now() + PAUSE;
        match TcpListener::bind(self.at).await {
            Ok(listener) => {
                let served = Arc::clone(&term.served);
                term.server = Some(tokio::spawn(served.serve(listener, self.tls.clone())));
                term.error = None;
            }
            Err(e) => {
                let why = format!("cannot serve routes at {}: {e}", self.at);
                if term.error.as_ref() != Some(&why) {
                    warn!(
                        epoch = term.epoch,
                        "the cluster's routes are not led: {why}; servers keep those that they have"
                    );
                }
                term.error = Some(why);
            }
        }
    }

    /// Reads all that has changed in the kernel, and brings it into the table of a leader.
    async fn pump(&mut self, mut term: Option<&mut Term>) {
        loop {
            let (changes, more) = self.source.read();
            if let Some(term) = &mut term {
                if let Some(routes) = self.source.take() {
                    self.install(term, routes).await;
                } else if self.source.is_taken() {
                    self.change(term, changes);
                }
            }
            if !more {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Makes the kernel's routes those of the table, which begins with the former leader's.
    async fn install(&mut self, term: &mut Term, mut routes: BTreeMap<Prefix, Hops>) {
        let until = self.clock.now().saturating_add(self.source.hold());
        let holds = self.source.hold() > 0;
        let fib = Arc::clone(&self.fib);
        let mut table = term.served.table.lock().clone();
        // A reload holds the server's tables for a while, and many routes take time.
        let installed = tokio::task::spawn_blocking(move || -> (Table, Hold) {
            let (at, former) = fib.lock().routes_of_leader();
            let hold = match holds {
                true => Hold::new(&former, &mut routes, until),
                false => Hold::default(),
            };
            if let Some(at) = at {
                table.begin(at, former);
            }
            table.replace(routes);
            table.complete();
            (table, hold)
        });
        let Ok((table, hold)) = installed.await else {
            return self.source.gather_again();
        };
        let (routes, at) = (table.len(), table.at());
        term.hold = hold;
        *term.served.table.lock() = table;
        info!(routes, epoch = at.epoch, "the cluster's routes are known");
        self.announce(term, at.version);
    }

    /// Applies changes to the table.
    fn change(&self, term: &mut Term, changes: Vec<Change>) {
        let mut changes = term.hold.pass(changes);
        changes.extend(term.hold.expire(self.clock.now()));
        let mut table = term.served.table.lock();
        let version = table.change(changes).then(|| table.at().version);
        drop(table);
        if let Some(version) = version {
            self.announce(term, version);
        }
    }

    /// Notes that the table has a version now, and has servers told.
    fn announce(&self, term: &Term, version: u64) {
        let now = self.clock.now();
        term.served.account.lock().changed(version, now);
        term.served.version.send_replace(Some(version));
    }

    /// Tells the store how servers are, at once if somebody is to be named.
    fn tell(&self, term: &mut Term) {
        let account = term.account((&self.source, &self.interfaces), self.clock.now());
        let (told, at) = &term.told;
        let names = |of: &Routes| -> Vec<(String, _)> {
            let servers = of.servers.iter();
            let named = servers.map(|(name, state)| (name.clone(), state.behind));
            named.collect()
        };
        let urgent = told.error != account.error
            || told.interfaces != account.interfaces
            || names(told) != names(&account);
        if account == *told || (!urgent && at.elapsed() < PAUSE) {
            return;
        }
        for (name, state) in &account.servers {
            let before = told.servers.get(name).and_then(|state| state.behind);
            match (state.behind, before) {
                (Some(how), before) if before != Some(how) => warn!(
                    server = name,
                    version = state.version,
                    wanted = account.version,
                    ?how,
                    "a server does not have the cluster's routes"
                ),
                (None, Some(_)) => info!(server = name, "a server has the cluster's routes again"),
                _ => {}
            }
        }
        term.told = (account.clone(), Instant::now());
        // Nobody listens when the process ends.
        let _ = self.accounts.send(account);
    }
}

impl Term {
    fn account(&self, (source, interfaces): (&Source, &Interfaces), now: u64) -> Routes {
        let (at, routes, complete) = {
            let table = self.served.table.lock();
            (table.at(), table.len() as u64, table.is_complete())
        };
        let members = Arc::clone(&self.served.members.lock());
        let mut account = self.served.account.lock();
        let reads = || format!("the routes of {} are being read", source.name());
        let unread = (!complete).then(reads);
        let examples = source.left_out().iter().take(EXAMPLES);
        Routes {
            epoch: at.epoch,
            version: at.version,
            routes,
            error: source
                .error()
                .or(self.error.as_deref())
                .map(str::to_owned)
                .or(unread),
            left_out: source.left_out().len() as u64,
            held: self.hold.len() as u64,
            examples: examples
                .map(|(prefix, why)| format!("{prefix}: {why}"))
                .collect(),
            interfaces: interfaces.error().map(str::to_owned),
            took_ms: account.took(),
            servers: account.look(members.keys().map(String::as_str), now),
        }
    }
}
