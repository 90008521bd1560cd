//! The leader: its kernel's routes become the cluster's.

use super::super::authority;
use super::super::home::Home;
use super::Fib;
use super::gateways::Gateways;
use super::serve::Served;
use super::{Clock, Situation, served_at};
use crate::description::cluster::Description;
use crate::netlink::{Changed, Collector, Netlink};
use agree::records::Routes;
use agree::routes::hold::Hold;
use agree::routes::{Change, Hops, Prefix};
use ports::{Named, Namespace};
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

/// Pause between looks at who is behind.
const LOOK: Duration = Duration::from_millis(100);
/// Minimum pause between accounts whose numbers alone differ, and between attempts after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of changed prefixes that are taken together.
const TOGETHER: usize = 4096;
/// Number of routes that cannot be used of which an account tells.
const EXAMPLES: usize = 3;

/// A namespace that was entered when the process still had the right to.
#[derive(Clone, Default)]
pub(crate) struct Opened(Option<Arc<Namespace>>);

impl Opened {
    /// Enters the namespace of a description's routes. If that is not possible, a leader says so later.
    pub(crate) fn of(description: Option<&Description>) -> Opened {
        let name = description.and_then(|of| of.namespace.as_deref());
        Opened(name.and_then(|name| Namespace::open(name).ok().map(Arc::new)))
    }

    /// The namespace that this name denotes now. The error is a sentence.
    fn enter(&mut self, name: &str) -> Result<Arc<Namespace>, String> {
        let good = |of: &&Arc<Namespace>| of.name() == name && of.named() != Named::Another;
        if let Some(namespace) = self.0.as_ref().filter(good) {
            return Ok(Arc::clone(namespace));
        }
        let namespace = Arc::new(Namespace::open(name)?);
        self.0 = Some(Arc::clone(&namespace));
        Ok(namespace)
    }
}

/// A server that may lead.
pub(super) struct Leader {
    at: SocketAddr,
    tls: TlsAcceptor,
    fib: Arc<Lock<Fib>>,
    namespace: Opened,
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
    kernel: Option<Kernel>,
    gateways: Option<(Arc<Description>, Gateways)>,
    left_out: BTreeMap<Prefix, String>,
    /// Routes of the former leader that stay for a while.
    hold: Hold,
    /// Reason why routes are not served or not followed.
    error: Option<String>,
    try_at: Instant,
    /// Latest account, and when it was told.
    told: (Routes, Instant),
}

/// A namespace's kernel.
struct Kernel {
    namespace: Arc<Namespace>,
    collector: Arc<Collector>,
    /// Routes so far, until all are known: then they take the place of others at once.
    gathered: Option<BTreeMap<Prefix, Hops>>,
    _thread: Netlink,
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
        Ok(Leader {
            at: served_at(home),
            tls,
            fib,
            namespace,
            clock,
            accounts,
            latest: None,
        })
    }

    /// Leads whenever the server does, until the process ends.
    pub(super) async fn lead(mut self, mut situation: Receiver<Situation>) {
        let news = Arc::new(Notify::new());
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut term: Option<Term> = None;
        loop {
            let now = situation.borrow_and_update().clone();
            let described = now.description.clone();
            let described = described.filter(|of| of.namespace.is_some());
            let epoch = now.serving.filter(|_| described.is_some());
            term.take_if(|term| Some(term.epoch) != epoch);
            if let (Some(epoch), Some(described)) = (epoch, described) {
                let term = term.get_or_insert_with(|| self.begin(epoch));
                *term.served.members.lock() = Arc::clone(&now.members);
                self.see_to(term, &described, &news).await;
                self.pump(term).await;
                self.tell(term);
            }
            tokio::select! {
                changed = situation.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = news.notified(), if term.is_some() => {}
                _ = looks.tick(), if term.is_some() => {}
            }
        }
    }

    fn begin(&mut self, epoch: u64) -> Term {
        let clock = self.clock;
        self.latest.take_if(|(latest, _)| *latest != epoch);
        let latest = self
            .latest
            .get_or_insert_with(|| (epoch, Served::new(epoch, clock)));
        Term {
            epoch,
            served: Arc::clone(&latest.1),
            server: None,
            kernel: None,
            gateways: None,
            left_out: BTreeMap::new(),
            hold: Hold::default(),
            error: None,
            try_at: Instant::now(),
            told: (Routes::default(), Instant::now()),
        }
    }

    /// Sees to all that the leader needs: description, namespace, listener.
    async fn see_to(&mut self, term: &mut Term, described: &Arc<Description>, news: &Arc<Notify>) {
        let known = term.gateways.as_ref();
        if known.is_none_or(|(of, _)| !Arc::ptr_eq(of, described)) {
            let gateways = Gateways::new(described);
            term.gateways = Some((Arc::clone(described), gateways));
            if let Some(kernel) = &term.kernel {
                kernel.collector.repeat();
            }
        }
        let name = described.namespace.as_deref().unwrap_or_default();
        let is_there = term.kernel.as_ref().is_some_and(|kernel| {
            kernel.namespace.name() == name && kernel.namespace.named() != Named::Another
        });
        if (is_there && term.server.as_ref().is_some_and(|task| !task.is_finished()))
            || Instant::now() < term.try_at
        {
            return;
        }
        let tried = self.try_to_lead(term, (name, is_there), news).await;
        if let Err(why) = &tried
            && term.error.as_ref() != Some(why)
        {
            warn!(
                epoch = term.epoch,
                "the cluster's routes are not led: {why}; servers keep those that they have"
            );
        }
        term.error = tried.err();
        term.try_at = Instant::now() + PAUSE;
    }

    async fn try_to_lead(
        &mut self,
        term: &mut Term,
        (name, is_there): (&str, bool),
        news: &Arc<Notify>,
    ) -> Result<(), String> {
        if !is_there {
            let namespace = self.namespace.enter(name)?;
            let bell = Arc::clone(news);
            let collector = Collector::new(Box::new(move || bell.notify_one()));
            let thread = Netlink::collect(Arc::clone(&collector), Arc::clone(&namespace))?;
            info!(
                namespace = name,
                epoch = term.epoch,
                "the cluster's routes are read"
            );
            term.kernel = Some(Kernel {
                namespace,
                collector,
                gathered: Some(BTreeMap::new()),
                _thread: thread,
            });
        }
        if term.server.as_ref().is_none_or(JoinHandle::is_finished) {
            let listener = TcpListener::bind(self.at).await;
            let listener =
                listener.map_err(|e| format!("cannot serve routes at {}: {e}", self.at))?;
            let served = Arc::clone(&term.served);
            term.server = Some(tokio::spawn(served.serve(listener, self.tls.clone())));
        }
        Ok(())
    }

    /// Brings the kernel's changes into the table.
    async fn pump(&self, term: &mut Term) {
        loop {
            let Some(kernel) = &term.kernel else {
                return;
            };
            let (changed, complete) = kernel.collector.take(TOGETHER);
            let kernel_is_new = kernel.gathered.is_some();
            let more = changed.len() == TOGETHER;
            let changes = term.resolve(changed);
            let former = match complete && kernel_is_new {
                true => self.former().await,
                false => BTreeMap::new(),
            };
            self.change(term, changes, complete, former);
            if !more {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Routes of the former leader, as this server has them.
    async fn former(&self) -> BTreeMap<Prefix, Hops> {
        // A reload holds the tables for a while.
        let fib = Arc::clone(&self.fib);
        let routes = tokio::task::spawn_blocking(move || fib.lock().routes_of_leader());
        routes.await.unwrap_or_default()
    }

    /// Applies changes to the table, or gathers them until all routes are known.
    fn change(
        &self,
        term: &mut Term,
        changes: Vec<Change>,
        complete: bool,
        former: BTreeMap<Prefix, Hops>,
    ) {
        let now = self.clock.now();
        let Some(kernel) = &mut term.kernel else {
            return;
        };
        let mut table = term.served.table.lock();
        let news = match kernel.gathered.take() {
            None => {
                let mut changes = term.hold.pass(changes);
                changes.extend(term.hold.expire(now));
                table.change(changes)
            }
            Some(mut gathered) => {
                for (prefix, hops) in changes {
                    match hops {
                        Some(hops) => gathered.insert(prefix, hops),
                        None => gathered.remove(&prefix),
                    };
                }
                if !complete {
                    kernel.gathered = Some(gathered);
                    return;
                }
                let hold = term
                    .gateways
                    .as_ref()
                    .map_or(0, |(of, _)| of.hold.as_millis());
                if hold > 0 {
                    let until = now.saturating_add(u64::try_from(hold).unwrap_or(u64::MAX));
                    term.hold = Hold::new(former, &mut gathered, until);
                }
                table.replace(gathered);
                table.complete();
                let (routes, epoch) = (table.len(), term.epoch);
                info!(routes, epoch, "the cluster's routes are known");
                true
            }
        };
        let version = table.at().version;
        if news {
            term.served.account.lock().changed(version, now);
        }
        drop(table);
        term.served.version.send_if_modified(|told| {
            let news = *told != Some(version);
            *told = Some(version);
            news
        });
    }

    /// Tells the store how servers are, at once if somebody is to be named.
    fn tell(&self, term: &mut Term) {
        let account = term.account(self.clock.now());
        let (told, at) = &term.told;
        let names = |of: &Routes| -> Vec<(String, _)> {
            let servers = of.servers.iter();
            let named = servers.map(|(name, state)| (name.clone(), state.behind));
            named.collect()
        };
        let urgent = told.error != account.error || names(told) != names(&account);
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
    /// Next hops for the cluster's routes among changed ones.
    fn resolve(&mut self, changed: Vec<Changed>) -> Vec<Change> {
        let mut changes = Vec::with_capacity(changed.len());
        for ((address, length), to) in changed {
            let Some(prefix) = Prefix::new(address, length) else {
                continue;
            };
            let gateways = self.gateways.as_ref();
            let hops = match (to, gateways) {
                (Some(to), Some((_, gateways))) => gateways.hops(prefix, &to).map(Some),
                _ => Ok(None),
            };
            match hops {
                Ok(hops) => {
                    self.left_out.remove(&prefix);
                    changes.push((prefix, hops));
                }
                Err(why) => {
                    self.left_out.insert(prefix, why);
                    changes.push((prefix, None));
                }
            }
        }
        changes
    }

    fn account(&self, now: u64) -> Routes {
        let (at, routes, complete) = {
            let table = self.served.table.lock();
            (table.at(), table.len() as u64, table.is_complete())
        };
        let members = Arc::clone(&self.served.members.lock());
        let mut account = self.served.account.lock();
        let reads = || format!("the routes of {} are being read", self.namespace());
        let unread = (!complete).then(reads);
        let examples = self.left_out.iter().take(EXAMPLES);
        Routes {
            epoch: at.epoch,
            version: at.version,
            routes,
            error: self.error.clone().or(unread),
            left_out: self.left_out.len() as u64,
            held: self.hold.len() as u64,
            examples: examples
                .map(|(prefix, why)| format!("{prefix}: {why}"))
                .collect(),
            took_ms: account.took(),
            servers: account.look(members.keys().map(String::as_str), now),
        }
    }

    fn namespace(&self) -> &str {
        let kernel = self.kernel.as_ref();
        kernel.map_or("the namespace", |kernel| kernel.namespace.name())
    }
}
