//! The leader's listener: each member gets the routes that it lacks.

use super::super::etcd::chain;
use super::super::refusals::Refusals;
use super::Clock;
use super::frames::exchange;
use super::interfaces::{Attached, Shared};
use super::stream::{receive, say, send};
use agree::routes::account::Account;
use agree::routes::message::{Attach, Hello, Message, VERSION};
use agree::routes::session::Session;
use agree::routes::table::Table;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use sync::Lock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Time limit for the beginning of a connection.
const BEGIN: Duration = Duration::from_secs(2);
/// Pause after which a server that has everything is told so again.
const TICK: Duration = Duration::from_millis(200);
/// Silence of a server after which its connection is closed.
const SILENT: Duration = Duration::from_secs(5);
/// Time limit for a piece of the routes to be taken.
const TAKEN: Duration = Duration::from_secs(10);
/// Maximum number of connections at a time; more are closed at once.
const CLIENTS_MAX: usize = 1024;
/// Maximum number of messages that are sent together.
const TOGETHER: usize = 16;

/// State that all connections of one leader share.
pub(super) struct Served {
    /// Routes of the leader.
    pub(super) table: Lock<Table>,
    /// Acknowledgements of servers.
    pub(super) account: Lock<Account>,
    /// Members that have not left, with their identities.
    pub(super) members: Lock<Arc<BTreeMap<String, String>>>,
    /// Version of the table; `None` until it is complete.
    pub(super) version: watch::Sender<Option<u64>>,
    pub(super) clock: Clock,
    /// Interfaces in the leader's namespace, by server.
    interfaces: Shared,
    refusals: Refusals,
}

impl Served {
    pub(super) fn new(epoch: u64, clock: Clock, interfaces: Shared) -> Arc<Served> {
        Arc::new(Served {
            table: Lock::new(Table::new(epoch)),
            account: Lock::new(Account::new(epoch, clock.now())),
            members: Lock::default(),
            version: watch::Sender::new(None),
            clock,
            interfaces,
            refusals: Refusals::default(),
        })
    }

    /// Serves members until the future is dropped.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener, tls: TlsAcceptor) {
        let room = Arc::new(Semaphore::new(CLIENTS_MAX));
        let mut connections = JoinSet::new();
        loop {
            let accepted = listener.accept().await;
            while connections.try_join_next().is_some() {}
            match accepted {
                Ok((stream, peer)) => {
                    let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
                        continue;
                    };
                    let (served, tls) = (Arc::clone(&self), tls.clone());
                    connections.spawn(async move {
                        let _ = served.connection(stream, peer, tls).await;
                        drop(place);
                    });
                }
                // An error of accept(2) is about one connection, or descriptors are short.
                Err(_) => tokio::time::sleep(TICK).await,
            }
        }
    }

    /// One connection, until it ends.
    async fn connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        tls: TlsAcceptor,
    ) -> Result<(), String> {
        let late = |_| "it does not say anything".to_owned();
        stream.set_nodelay(true).map_err(|e| chain(&e))?;
        let secured = timeout(BEGIN, tls.accept(stream)).await.map_err(late)?;
        let stream = secured.map_err(|e| {
            let why = chain(&e);
            self.refusals.tell(&format!(
                "refused a connection for routes from {peer}: {why}"
            ));
            why
        })?;
        let (mut reader, mut writer) = tokio::io::split(stream);
        let hello = timeout(BEGIN, receive(&mut reader)).await.map_err(late)?;
        let admitted = match hello.map_err(|e| chain(&e))? {
            Message::Hello(hello) => {
                let admitted = self.admit(&hello.name, &hello.identity, hello.seen);
                admitted.map(|()| hello)
            }
            Message::Attach(attach) => return self.attach(attach, (reader, writer)).await,
            Message::OtherVersion(version) => Err(format!(
                "the server's program has version {version} of the cluster's protocol, and the leader's has version \
                 {VERSION}: run the same program on both"
            )),
            _ => return Err("it does not say who it is".to_owned()),
        };
        let hello = match admitted {
            Ok(hello) => hello,
            Err(why) => {
                self.refusals
                    .tell(&format!("refused a server at {peer}: {why}"));
                let _ = timeout(BEGIN, say(&mut writer, &Message::Refused { why })).await;
                return Ok(());
            }
        };
        tokio::select! {
            ended = self.listen(&hello.name, reader) => ended,
            ended = self.tell(&hello, writer) => ended,
        }
    }

    /// Exchanges frames with a server until the connection ends.
    async fn attach(
        &self,
        attach: Attach,
        (reader, mut writer): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    ) -> Result<(), String> {
        let admitted = self.admit(&attach.name, &attach.identity, attach.seen);
        let attached = admitted.and_then(|()| {
            let server = self.interfaces.lock().get(&attach.name).cloned();
            let none = || "the leader has no interfaces for this server's ports".to_owned();
            Attached::new(server.ok_or_else(none)?, &attach.addresses)
        });
        let attached = match attached {
            Ok(attached) => attached,
            Err(why) => {
                // The server logs it.
                let _ = timeout(BEGIN, say(&mut writer, &Message::Refused { why })).await;
                return Ok(());
            }
        };
        let epoch = self.table.lock().at().epoch;
        tokio::select! {
            ended = exchange(attached.taps(), epoch, (reader, writer)) => ended,
            () = attached.replaced() => Ok(()),
        }
    }

    /// Admits members that have seen no newer epoch. The error is a sentence.
    fn admit(&self, name: &str, identity: &str, seen: u64) -> Result<(), String> {
        if self.members.lock().get(name).map(String::as_str) != Some(identity) {
            return Err(format!("`{name}` is no member of the cluster here"));
        }
        let epoch = self.table.lock().at().epoch;
        match seen > epoch {
            true => Err(format!(
                "`{name}` has seen epoch {seen}, and this leader's is {epoch}"
            )),
            false => Ok(()),
        }
    }

    /// Hears what a server has.
    async fn listen(&self, name: &str, mut from: impl AsyncRead + Unpin) -> Result<(), String> {
        loop {
            let message = timeout(SILENT, receive(&mut from)).await;
            let message = message.map_err(|_| "it says nothing".to_owned())?;
            let Message::Acknowledged(done) = message.map_err(|e| chain(&e))? else {
                return Err("it sends what only the leader may send".to_owned());
            };
            let now = self.clock.now();
            let members = Arc::clone(&self.members.lock());
            let mut account = self.account.lock();
            account.hear(name, done, now);
            account.settle(members.keys().map(String::as_str), now);
        }
    }

    /// Tells a server all that it lacks, whenever there is something.
    async fn tell(&self, hello: &Hello, mut to: impl AsyncWrite + Unpin) -> Result<(), String> {
        let mut version = self.version.subscribe();
        let mut session = Session::new(hello);
        let mut bytes = Vec::new();
        loop {
            version.mark_unchanged();
            bytes.clear();
            let mut more = true;
            {
                let table = self.table.lock();
                for _ in 0..TOGETHER {
                    let Some(message) = session.next(&table) else {
                        more = false;
                        break;
                    };
                    message.write(&mut bytes);
                }
                if bytes.is_empty() {
                    session.tick(&table).write(&mut bytes);
                }
            }
            let sent = timeout(TAKEN, send(&mut to, &bytes)).await;
            sent.map_err(|_| "it takes nothing".to_owned())?
                .map_err(|e| chain(&e))?;
            if more {
                // Other work of the control thread goes on between pieces.
                tokio::task::yield_now().await;
                continue;
            }
            // Its sender is here, so that a change is the only end but the pause's.
            let _ = timeout(TICK, version.changed()).await;
        }
    }
}
