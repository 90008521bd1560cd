//! Driver of a server's agent: asks etcd, keeps state on the disk, and reloads the router as `ashlar reload` does.

use super::etcd::{Etcd, Line};
use super::events::Watcher;
use super::home::{DESCRIPTION, Home};
use super::membership::Membership;
use super::routes::{Fib, Opened, Routing, served_at};
use super::validity::certificates;
use super::{authority, hex, wall_clock};
use crate::description::cluster::Description;
use crate::description::file;
use crate::description::source::Source;
use crate::host::build::program;
use crate::process::Process;
use crate::view::{Certificates, MemberLink, ReloadRequest};
use agree::agent::Identity;
use agree::records::{Links, Wanted};
use agree::{Act, Agent, Kept, Millis, Store};
use ports::Namespace;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sync::Lock;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tracing::{Level, error, info, warn};

/// Polling interval for the server's links.
const LOOK: Duration = Duration::from_secs(1);

/// A server that takes part in its cluster's agreement.
pub struct Participant {
    home: Home,
    kept: Kept,
    etcd: Arc<Etcd>,
    /// Description with which the server starts.
    description: Option<Arc<Description>>,
    /// Namespace of the cluster's routes, which is entered while the process has the right to.
    namespace: Opened,
    members: Members,
}

/// Place at which a server answers members of its cluster, and nobody else.
#[derive(Clone)]
pub(crate) struct Members {
    /// Address and port.
    pub(crate) at: SocketAddr,
    /// Acceptor of connections whose other end has a certificate of the cluster.
    pub(crate) tls: TlsAcceptor,
}

/// End of an act that takes time.
enum Done {
    Looked(Option<Vec<MemberLink>>),
    Kept(Result<Kept, String>),
    Checked(String, Option<String>),
    Took(u64, Result<Kept, String>, Option<Arc<Description>>),
}

impl Participant {
    /// The server of this folder.
    ///
    /// # Errors
    ///
    /// The server has left, or a file of the folder is missing or wrong; a sentence.
    pub fn new(home: Home) -> Result<Participant, String> {
        let mut kept = home.kept()?;
        if kept.digest != digest(&home.read(DESCRIPTION)?) {
            // The server's copy is no version of the cluster, or somebody has changed it: take the wanted one again.
            kept.version = 0;
        }
        if kept.left {
            return Err(format!(
                "server {} has left cluster {}: run `ashlar cluster leave` here, then join again",
                home.about.server, home.about.cluster
            ));
        }
        let tls = authority::client(&home)?;
        let etcd = Arc::new(Etcd::new(home.members(), tls, &home.about.cluster));
        let parsed = file::parse_cluster(DESCRIPTION, &home.read(DESCRIPTION)?);
        let description = parsed.description.map(Arc::new);
        let namespace = Opened::of(description.as_deref());
        let members = Members {
            at: home.asked_at(),
            tls: TlsAcceptor::from(Arc::new(authority::mutual(&home)?)),
        };
        Ok(Participant {
            home,
            kept,
            etcd,
            description,
            namespace,
            members,
        })
    }

    /// Namespace of the cluster's routes, whose thread makes interfaces there and needs the right to.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.namespace.get()
    }

    /// Place at which the server answers members of its cluster.
    pub(crate) fn members(&self) -> Members {
        self.members.clone()
    }

    /// Reader of the ends of the server's certificates, which may be renewed while the process runs.
    pub(crate) fn certificates(&self) -> impl Fn() -> Certificates + Send + Sync + use<> {
        let home = self.home.clone();
        move || certificates(&home)
    }

    /// Takes part until the process ends.
    pub(crate) async fn take_part(self, process: Arc<Process>) {
        let Participant {
            home,
            kept,
            etcd,
            description,
            namespace,
            members,
        } = self;
        let own = Identity {
            name: home.about.server.clone(),
            id: home.about.identity.clone(),
            program: program(),
            routes_at: Some(served_at(&home).to_string()),
            asked_at: Some(members.at.to_string()),
        };
        let mut membership = Membership::new(&home, &own.program, description.clone());
        let (mut agent, mut line) = (Agent::new(own, kept, wall_clock()), Line::new(etcd));
        let (done, mut ended) = unbounded_channel();
        let mut watcher = Watcher::new(&home.about.server);
        let mut addresses = Addresses::default();
        let fib = Fib::new(Arc::clone(&process), &home.about.server, description);
        let fib = Arc::new(Lock::new(fib));
        let (account, mut accounts) = unbounded_channel();
        let both = (Arc::clone(&process), Arc::clone(&fib));
        let routing = match Routing::start(&home, both, namespace, account) {
            Ok(routing) => routing,
            Err(why) => return error!("this server takes no part in its cluster: {why}"),
        };
        let worker = Worker {
            home,
            process,
            fib,
            done,
        };
        let start = Instant::now();
        let now = || Millis::try_from(start.elapsed().as_millis()).unwrap_or(Millis::MAX);
        worker.look_at_links();
        loop {
            while let Some(act) = agent.next(now()) {
                match act {
                    Act::Ask(number, request) => line.ask(number, request),
                    act => worker.begin(act, agent.keeps().clone()),
                }
            }
            routing.look(&agent);
            if let Some(view) = agent.view() {
                addresses.look(view.addresses(), &worker.home).await;
            }
            let member = membership.tell(&agent);
            for (level, event) in watcher.look(&member, agent.view(), wall_clock()) {
                if level == Level::WARN {
                    warn!(epoch = event.epoch, "cluster event: {}", event.what);
                } else {
                    info!(epoch = event.epoch, "cluster event: {}", event.what);
                }
                worker.process.note_event(event);
            }
            worker.process.set_member(member);
            if agent.keeps().left {
                warn!("this server has left its cluster: it takes no new description");
                return;
            }
            let wait = Duration::from_millis(agent.wake_at().saturating_sub(now()).max(1));
            tokio::select! {
                event = line.heard() => {
                    if let Some(event) = event {
                        agent.hear(event, now());
                    }
                }
                done = ended.recv() => match done {
                    Some(Done::Kept(kept)) => agent.kept(kept, now()),
                    Some(Done::Checked(proposal, error)) => agent.checked(proposal, error),
                    Some(Done::Took(version, kept, description)) => {
                        watcher.took(version, kept.as_ref().err().map(|why| &**why));
                        membership.describe(description.clone());
                        routing.describe(description);
                        agent.took(version, kept, now());
                    }
                    Some(Done::Looked(links)) => {
                        if let Some(links) = links {
                            let down = links.iter().filter(|link| !link.up);
                            let down: Vec<String> = down.map(|link| link.peer.clone()).collect();
                            watcher.linked(&down);
                            let all = links.len();
                            agent.linked(Links { all, down });
                        }
                        worker.look_at_links();
                    }
                    None => return,
                },
                account = accounts.recv() => {
                    if let Some(account) = account {
                        agent.routed(account);
                    }
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }
}

/// Addresses of servers, kept on the disk for the time when etcd does not answer.
#[derive(Default)]
struct Addresses {
    kept: BTreeMap<String, String>,
    /// Task that writes addresses, and returns those that it has written.
    writing: Option<JoinHandle<Result<BTreeMap<String, String>, String>>>,
    /// Reason why the last write failed, and the earliest time of the next one; `None` if it did not fail.
    failed: Option<(String, Instant)>,
}

impl Addresses {
    /// Keeps the present addresses if they have changed, or their last write failed a while ago. While addresses are
    /// being written, a later look does.
    async fn look(&mut self, now: BTreeMap<String, String>, home: &Home) {
        if let Some(ended) = self.writing.take_if(|task| task.is_finished()) {
            match ended.await {
                Ok(Ok(kept)) => {
                    self.kept = kept;
                    self.failed = None;
                }
                Ok(Err(why)) => {
                    if self.failed.as_ref().is_none_or(|(last, _)| *last != why) {
                        warn!("the addresses of the cluster's servers are not kept: {why}");
                    }
                    self.failed = Some((why, Instant::now() + LOOK));
                }
                // The runtime ends, or the write panicked: a later look repeats it.
                Err(_) => return,
            }
        }
        let waits = matches!(&self.failed, Some((_, next)) if Instant::now() < *next);
        if self.writing.is_some() || now == self.kept || waits {
            return;
        }
        let home = home.clone();
        let write = move || home.keep_servers(&now).map(|()| now);
        self.writing = Some(tokio::task::spawn_blocking(write));
    }
}

/// Runner of acts that wait for the disk or for workers.
struct Worker {
    home: Home,
    process: Arc<Process>,
    fib: Arc<Lock<Fib>>,
    done: UnboundedSender<Done>,
}

impl Worker {
    /// Looks at the links after a pause.
    fn look_at_links(&self) {
        let (process, done) = (Arc::clone(&self.process), self.done.clone());
        tokio::spawn(async move {
            tokio::time::sleep(LOOK).await;
            let links = tokio::task::spawn_blocking(move || process.links().ok().flatten());
            // Nobody waits when the process ends.
            let _ = done.send(Done::Looked(links.await.ok().flatten()));
        });
    }

    fn begin(&self, act: Act, kept: Kept) {
        let (home, process) = (self.home.clone(), Arc::clone(&self.process));
        let (fib, done) = (Arc::clone(&self.fib), self.done.clone());
        tokio::task::spawn_blocking(move || {
            let ended = match act {
                Act::Ask(..) => return,
                Act::Keep(kept) => Done::Kept(home.keep(&kept).map(|()| kept)),
                Act::Check(proposal) => {
                    let error = reload(&home, &process, &proposal.text, true).err();
                    Done::Checked(proposal.id, error)
                }
                Act::Take(wanted) => {
                    let taken = take(&home, (&process, &fib), &wanted, kept);
                    Done::Took(wanted.version, taken, fib.lock().description())
                }
            };
            // Nobody waits when the process ends.
            let _ = done.send(ended);
        });
    }
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// Runs a description, then keeps it for the next start.
fn take(
    home: &Home,
    (process, fib): (&Process, &Lock<Fib>),
    wanted: &Wanted,
    kept: Kept,
) -> Result<Kept, String> {
    let description = file::parse_cluster(DESCRIPTION, &wanted.text).description;
    let reloaded = fib.lock().reload(description.map(Arc::new), || {
        reload(home, process, &wanted.text, false)
    });
    reloaded.and_then(|()| {
        let kept = Kept {
            version: wanted.version,
            since: wall_clock(),
            digest: digest(&wanted.text),
            ..kept
        };
        home.write(DESCRIPTION, &wanted.text)?;
        home.keep(&kept)?;
        Ok(kept)
    })
}

/// Reloads the router with a cluster's file, or finds out whether that would be possible.
fn reload(home: &Home, process: &Process, text: &str, dry_run: bool) -> Result<(), String> {
    let path = home.path(DESCRIPTION);
    let parsed = file::parse_cluster(DESCRIPTION, text);
    let Some(description) = &parsed.description else {
        return Err(parsed.text());
    };
    if description.name != home.about.cluster {
        return Err(format!(
            "the file describes cluster {}, and this server belongs to {}",
            description.name, home.about.cluster
        ));
    }
    let source = Source {
        name: DESCRIPTION.to_owned(),
        path: Some(path),
        text: text.into(),
        ..Source::default()
    };
    let source = source.of_server(description, &home.about.server)?;
    let request = ReloadRequest::of(source, dry_run);
    let reply = process
        .reload(None, &request)
        .map_err(|failure| failure.text)?;
    match reply.good {
        true => Ok(()),
        false => Err(reply.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::testing::Folder;

    #[tokio::test]
    async fn addresses_are_written_again_until_a_write_succeeds() {
        let folder = Folder::new("participant-addresses");
        let now = BTreeMap::from([("b".to_owned(), "192.0.2.2:2383".to_owned())]);
        let mut addresses = Addresses::default();
        let (path, away) = (folder.home.path(""), folder.beside("away"));
        std::fs::rename(&path, &away).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while addresses.failed.is_none() {
            assert!(Instant::now() < until, "the write does not fail");
            addresses.look(now.clone(), &folder.home).await;
            tokio::task::yield_now().await;
        }
        assert!(addresses.kept.is_empty());
        std::fs::rename(&away, &path).unwrap();
        while addresses.kept != now {
            assert!(Instant::now() < until, "nothing is written");
            addresses.look(now.clone(), &folder.home).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(addresses.failed, None);
        assert_eq!(folder.home.servers().unwrap(), now);
    }
}
