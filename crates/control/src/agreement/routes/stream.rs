//! Connections to a leader, and messages on them.

use super::Known;
use agree::routes::message::Message;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tracing::{info, warn};

/// Time limit for a connection, and for a message to be taken.
pub(super) const CONNECT: Duration = Duration::from_secs(1);
/// Pause between attempts to connect.
pub(super) const AGAIN: Duration = Duration::from_millis(200);
/// Time after which the log tells of a failure.
const PATIENCE: Duration = Duration::from_secs(2);

/// State of the connections for one purpose, as the log tells it.
pub(super) struct Told {
    /// Sentence about a failure; the reason follows.
    failure: &'static str,
    /// Sentence about the first connection after the failure.
    recovery: &'static str,
    /// Beginning of the present failure.
    since: Option<Instant>,
    /// Reason that the log has.
    why: Option<String>,
}

impl Told {
    /// State before the first connection, with the sentences about a failure and about its end.
    pub(super) fn new(failure: &'static str, recovery: &'static str) -> Told {
        Told {
            failure,
            recovery,
            since: None,
            why: None,
        }
    }

    /// Notes that a connection has failed. Shorter failures than `PATIENCE` are a part of every change of leader.
    pub(super) fn fails(&mut self, leader: &Known, why: String) {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < PATIENCE || self.why.as_ref() == Some(&why) {
            return;
        }
        let (at, epoch) = (&leader.at, leader.epoch);
        warn!(leader = at, epoch, "{}: {why}", self.failure);
        self.why = Some(why);
    }

    /// Notes that a connection to a leader works in this epoch.
    pub(super) fn works(&mut self, leader: &Known, epoch: u64) {
        self.since = None;
        if self.why.take().is_some() {
            info!(leader = leader.at, epoch, "{}", self.recovery);
        }
    }
}

/// Connects to a leader.
///
/// # Errors
///
/// The leader does not answer, or has no certificate of the cluster; a sentence.
pub(super) async fn connect(
    leader: &Known,
    tls: &Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, String> {
    let at: SocketAddr = leader
        .at
        .parse()
        .map_err(|_| "its address cannot be read".to_owned())?;
    super::super::connect(at, tls, CONNECT, CONNECT).await
}

/// Reason of a connection's end: the other side is too slow.
pub(super) fn late() -> String {
    "it does not answer in time".to_owned()
}

/// Receives a message. A call that is broken off may have read a part of one.
pub(super) async fn receive(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Message> {
    let malformed = |_| io::Error::other("it sends what is no message");
    let mut head = [0; 4];
    from.read_exact(&mut head).await?;
    let mut left = Message::length(head).map_err(malformed)?;
    let mut bytes = Vec::new();
    // Memory is taken as bytes arrive, not as the length says.
    while left > 0 {
        let (start, piece) = (bytes.len(), left.min(64 << 10));
        bytes.resize(start + piece, 0);
        from.read_exact(&mut bytes[start..]).await?;
        left -= piece;
    }
    Message::read(&bytes).map_err(malformed)
}

/// Sends bytes at once.
pub(super) async fn send(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

/// Sends a message.
pub(super) async fn say(to: &mut (impl AsyncWrite + Unpin), message: &Message) -> io::Result<()> {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    send(to, &bytes).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_after_a_while_once_for_each_reason() {
        let leader = Known {
            at: "192.0.2.1:2382".to_owned(),
            epoch: 3,
        };
        let mut told = Told::new("nothing works", "all works again");
        let fails = |told: &mut Told, why: &str| told.fails(&leader, why.to_owned());
        fails(&mut told, "one");
        assert_eq!(told.why, None, "it may be over in a moment");
        told.since = Instant::now().checked_sub(PATIENCE);
        for why in ["one", "other"] {
            fails(&mut told, why);
            assert_eq!(told.why.as_deref(), Some(why));
        }
        told.works(&leader, 3);
        assert_eq!(told.why, None);
        fails(&mut told, "other");
        assert_eq!(told.why, None, "this is another failure");
    }
}
