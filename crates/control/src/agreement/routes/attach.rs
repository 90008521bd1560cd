//! A server's frames for the leader's kernel, which its external ports have punted, and the frames of this kernel.

use super::super::authority;
use super::super::etcd::chain;
use super::super::home::Home;
use super::frames::{discard, exchange};
use super::stream::{CONNECT, FailureLog, LOGGED_AFTER, RETRY_PAUSE, connect, late, receive, say};
use super::{Known, Situation};
use crate::description::cluster::Description;
use crate::process::Process;
use crate::running::port_of;
use agree::routes::message::{Attach, Message};
use ports::Punt;
use std::sync::Arc;
use tokio::sync::watch::Receiver;
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::ClientConfig;

/// A server whose ports the leader's kernel uses.
pub(super) struct Punting {
    process: Arc<Process>,
    server: String,
    identity: String,
    tls: Arc<ClientConfig>,
}

/// The leader to attach to, and the description that says by which ports.
#[derive(Clone)]
struct Target {
    leader: Known,
    seen: u64,
    description: Arc<Description>,
}

impl Target {
    /// Target of a situation; `None` if there is no leader, or the cluster has no interfaces.
    fn of(now: &Situation) -> Option<Target> {
        let description = now.description.clone().filter(|of| of.interfaces)?;
        let leader = now.leader.clone()?;
        Some(Target {
            seen: now.seen.max(leader.epoch),
            leader,
            description,
        })
    }

    fn has_same_leader(&self, other: &Target) -> bool {
        self.leader == other.leader && self.seen == other.seen
    }
}

/// The server's ports to the leader's kernel, in the order of the numbers of its external ports.
#[derive(Clone, Default)]
struct Ports {
    punts: Vec<Arc<Punt>>,
    /// Ethernet addresses of the external ports.
    addresses: Vec<[u8; 6]>,
}

impl Ports {
    fn are_same(&self, other: &Ports) -> bool {
        let pairs = self.punts.iter().zip(&other.punts);
        self.addresses == other.addresses
            && self.punts.len() == other.punts.len()
            && pairs
                .into_iter()
                .all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

/// The ports while they are attached. Their links are down before and afterwards.
struct Linked(Vec<Arc<Punt>>);

impl Linked {
    fn new(punts: Vec<Arc<Punt>>) -> Linked {
        for punt in &punts {
            discard(&**punt);
            punt.set_link(true);
        }
        Linked(punts)
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        self.0.iter().for_each(|punt| punt.set_link(false));
    }
}

impl Punting {
    pub(super) fn new(home: &Home, process: Arc<Process>) -> Result<Punting, String> {
        Ok(Punting {
            process,
            server: home.about.server.clone(),
            identity: home.about.identity.clone(),
            tls: Arc::new(authority::client(home)?),
        })
    }

    /// Attaches to whoever leads, until the process ends.
    pub(super) async fn attach(self, mut situation: Receiver<Situation>) {
        let mut failures = FailureLog::new(
            "packets for the leader's kernel are dropped",
            "the leader's kernel gets packets again",
        );
        loop {
            let target = Target::of(&situation.borrow_and_update());
            let Some(target) = target else {
                failures.has_no_leader();
                if situation.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let ports = self.ports(&target.description);
            let ended = tokio::select! {
                ended = self.connection(&target, ports.clone(), &mut failures) => ended,
                goes_on = self.another(&mut situation, &target, &ports) => {
                    if goes_on {
                        continue;
                    }
                    return;
                }
            };
            if let Err(why) = ended {
                failures.fails(&target.leader, why);
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Waits until there is another leader or none, or the router has other ports; false if the process ends. Another
    /// description with the same ports ends no connection, and so takes no carrier from the leader's interfaces.
    async fn another(
        &self,
        situation: &mut Receiver<Situation>,
        target: &Target,
        ports: &Result<Ports, String>,
    ) -> bool {
        let differs = |now: &Situation| {
            let Some(now) = Target::of(now).filter(|now| now.has_same_leader(target)) else {
                return true;
            };
            match (ports, self.ports(&now.description)) {
                (Ok(ports), Ok(now)) => !ports.are_same(&now),
                (ports, now) => ports.is_ok() != now.is_ok(),
            }
        };
        situation.wait_for(differs).await.is_ok()
    }

    /// Attaches to one leader until the connection ends.
    async fn connection(
        &self,
        to: &Target,
        ports: Result<Ports, String>,
        failures: &mut FailureLog,
    ) -> Result<(), String> {
        let Ports { punts, addresses } = ports?;
        if punts.is_empty() {
            return std::future::pending().await;
        }
        let mut stream = connect(&to.leader, &self.tls).await?;
        let attach = Message::Attach(Attach {
            name: self.server.clone(),
            identity: self.identity.clone(),
            seen: to.seen,
            addresses,
        });
        say(&mut stream, &attach).await.map_err(|e| chain(&e))?;
        let first = timeout(CONNECT, receive(&mut stream)).await;
        let first = first.map_err(|_| late())?.map_err(|e| chain(&e))?;
        let epoch = match first {
            Message::Alive { epoch } if epoch >= to.seen => epoch,
            Message::Alive { epoch } => {
                let seen = to.seen;
                return Err(format!("its epoch {epoch} is over: epoch {seen} has begun"));
            }
            Message::Refused { why } => return Err(why),
            _ => return Err("it sends a message that is not about frames".to_owned()),
        };
        let linked = Linked::new(punts);
        failures.works(&to.leader, epoch);
        let exchange = exchange(&linked.0, epoch, tokio::io::split(stream));
        tokio::pin!(exchange);
        tokio::select! {
            ended = &mut exchange => return ended,
            () = sleep(LOGGED_AFTER) => failures.works(&to.leader, epoch),
        }
        exchange.await
    }

    /// The error is a sentence.
    fn ports(&self, of: &Description) -> Result<Ports, String> {
        let mut ports = Ports::default();
        let Some(server) = of.server(&self.server) else {
            return Ok(ports);
        };
        let router = self.process.router(None).map_err(|failure| failure.text)?;
        for port in &of.servers[server].ports {
            let punt = router.ports.punt(&port.name);
            let device = port_of(&router.ports, &port.device);
            let (Some(punt), Some((device, _))) = (punt, device) else {
                return Err(format!("the router does not have port {} now", port.name));
            };
            ports.punts.push(punt);
            ports.addresses.push(device.port.info().mac);
        }
        Ok(ports)
    }
}
