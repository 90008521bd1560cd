//! Following the leader's stream of routes.

use super::super::authority;
use super::super::etcd::chain;
use super::super::home::Home;
use super::stream::{CONNECT, FailureLog, RETRY_PAUSE, connect, late, receive, say};
use super::{Fib, Known, Situation};
use agree::routes::message::Message;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sync::Lock;
use tokio::sync::watch::Receiver;
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::ClientConfig;

/// Silence of the leader after which a new connection is made; the leader says something five times a second.
const SILENT: Duration = Duration::from_secs(2);
/// Time after which a server that is writing says that it lives.
const ALIVE: Duration = Duration::from_millis(200);

/// A server that has the leader's routes. It keeps those that it has when the leader is away.
pub(super) struct Follower {
    fib: Arc<Lock<Fib>>,
    identity: String,
    tls: Arc<ClientConfig>,
}

impl Follower {
    pub(super) fn new(home: &Home, fib: Arc<Lock<Fib>>) -> Result<Follower, String> {
        Ok(Follower {
            fib,
            identity: home.about.identity.clone(),
            tls: Arc::new(authority::client(home)?),
        })
    }

    /// Follows whoever leads, until the process ends.
    pub(super) async fn follow(self, mut situation: Receiver<Situation>) {
        let mut failures = FailureLog::new(
            "the leader's routes are not followed, and those that are there stay",
            "the leader's routes are followed again",
        );
        loop {
            let (leader, seen) = {
                let now = situation.borrow_and_update();
                let wants = now.description.as_ref();
                let wants = wants.is_some_and(|of| of.namespace.is_some());
                (now.leader.clone().filter(|_| wants), now.seen)
            };
            let Some(leader) = leader else {
                failures.has_no_leader();
                if situation.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let stream = self.stream(&leader, seen, &mut failures);
            let ended = tokio::select! {
                ended = stream => ended,
                another = another(&mut situation, &leader) => {
                    match another {
                        true => continue,
                        false => return,
                    }
                }
            };
            if let Err(why) = ended {
                failures.fails(&leader, why);
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Follows one leader until the stream ends.
    async fn stream(
        &self,
        leader: &Known,
        seen: u64,
        failures: &mut FailureLog,
    ) -> Result<(), String> {
        let mut stream = connect(leader, &self.tls).await?;
        let (fib, identity) = (Arc::clone(&self.fib), self.identity.clone());
        let seen = seen.max(leader.epoch);
        // A reload holds the tables for a while.
        let hello = tokio::task::spawn_blocking(move || {
            let mut fib = fib.lock();
            fib.see(seen);
            fib.connect(&identity)
        });
        let (number, hello) = hello.await.map_err(|e| e.to_string())?;
        say(&mut stream, &hello).await.map_err(|e| chain(&e))?;
        let mut said_at = Instant::now();
        loop {
            let message = timeout(SILENT, receive(&mut stream)).await;
            let message = message
                .map_err(|_| "it has not said anything for two seconds".to_owned())?
                .map_err(|e| chain(&e))?;
            if let Message::Refused { why } = message {
                return Err(why);
            }
            let fib = Arc::clone(&self.fib);
            let written = tokio::task::spawn_blocking(move || fib.lock().hear(number, message));
            let (answer, waited_for) = written.await.map_err(|e| e.to_string())??;
            // A long snapshot is written in many steps, and the leader must not take the server for dead meanwhile.
            if !waited_for && said_at.elapsed() < ALIVE {
                continue;
            }
            said_at = Instant::now();
            let said = timeout(CONNECT, say(&mut stream, &answer)).await;
            said.map_err(|_| late())?.map_err(|e| chain(&e))?;
            failures.works(leader, leader.epoch);
        }
    }
}

/// Waits until another leader is to be followed, or none; false if the process ends.
async fn another(situation: &mut Receiver<Situation>, leader: &Known) -> bool {
    let differs = |now: &Situation| {
        let wants = now.description.as_ref();
        let wants = wants.is_some_and(|of| of.namespace.is_some());
        now.leader.as_ref().filter(|_| wants) != Some(leader)
    };
    situation.wait_for(differs).await.is_ok()
}
