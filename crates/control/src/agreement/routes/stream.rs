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
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Time after which a failure, and its end, is logged. Shorter failures are a part of every change of leader.
pub(super) const LOGGED_AFTER: Duration = Duration::from_secs(2);

/// Log of failed connections for one purpose: each reason once, after [`LOGGED_AFTER`].
pub(super) struct FailureLog {
    /// Sentence about a failure; the reason follows.
    failure: &'static str,
    /// Sentence about the end of the failure.
    recovery: &'static str,
    /// Time of the first failure since a connection worked for [`LOGGED_AFTER`].
    failing_since: Option<Instant>,
    /// Time since when the present connection works.
    working_since: Option<Instant>,
    /// Reason that was logged last; `None` once connections work again.
    logged_reason: Option<String>,
}

impl FailureLog {
    /// Log with the sentences about a failure and about its end.
    pub(super) fn new(failure: &'static str, recovery: &'static str) -> FailureLog {
        FailureLog {
            failure,
            recovery,
            failing_since: None,
            working_since: None,
            logged_reason: None,
        }
    }

    /// Notes that a connection has failed. If it worked for less than [`LOGGED_AFTER`], the earlier failure goes on.
    pub(super) fn fails(&mut self, leader: &Known, why: String) {
        let worked = self.working_since.take();
        if worked.is_some_and(|since| since.elapsed() >= LOGGED_AFTER) {
            self.failing_since = None;
        }
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if since.elapsed() < LOGGED_AFTER || self.logged_reason.as_ref() == Some(&why) {
            return;
        }
        let (at, epoch) = (&leader.at, leader.epoch);
        warn!(leader = at, epoch, "{}: {why}", self.failure);
        self.logged_reason = Some(why);
    }

    /// Notes that a connection to a leader works in this epoch. To be called again after [`LOGGED_AFTER`], when the
    /// failure has ended.
    pub(super) fn works(&mut self, leader: &Known, epoch: u64) {
        let since = *self.working_since.get_or_insert_with(Instant::now);
        if since.elapsed() < LOGGED_AFTER {
            return;
        }
        self.failing_since = None;
        if self.logged_reason.take().is_some() {
            info!(leader = leader.at, epoch, "{}", self.recovery);
        }
    }

    /// Notes that there is no leader to connect to.
    pub(super) fn has_no_leader(&mut self) {
        (self.failing_since, self.working_since) = (None, None);
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

    fn leader() -> Known {
        Known {
            at: "192.0.2.1:2382".to_owned(),
            epoch: 3,
        }
    }

    fn earlier() -> Option<Instant> {
        Instant::now().checked_sub(LOGGED_AFTER)
    }

    #[test]
    fn failures_are_logged_after_a_while_once_for_each_reason() {
        let leader = leader();
        let mut log = FailureLog::new("nothing works", "all works again");
        let fails = |log: &mut FailureLog, why: &str| log.fails(&leader, why.to_owned());
        fails(&mut log, "one");
        assert_eq!(log.logged_reason, None, "it may be over in a moment");
        log.failing_since = earlier();
        for why in ["one", "other"] {
            fails(&mut log, why);
            assert_eq!(log.logged_reason.as_deref(), Some(why));
        }
        log.working_since = earlier();
        log.works(&leader, 3);
        assert_eq!(log.logged_reason, None);
        fails(&mut log, "other");
        assert_eq!(log.logged_reason, None, "this is another failure");
    }

    #[test]
    fn a_failure_goes_on_if_connections_work_for_a_moment_only() {
        let leader = leader();
        let mut log = FailureLog::new("nothing works", "all works again");
        log.fails(&leader, "one".to_owned());
        log.failing_since = earlier();
        for _ in 0..3 {
            log.works(&leader, 3);
            log.fails(&leader, "one".to_owned());
            assert_eq!(log.logged_reason.as_deref(), Some("one"));
        }
        log.works(&leader, 3);
        assert_eq!(log.logged_reason.as_deref(), Some("one"));
        log.has_no_leader();
        assert_eq!(log.failing_since, None);
    }
}
