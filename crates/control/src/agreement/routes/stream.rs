//! Connections to a leader, and messages on them.

use super::Known;
use agree::routes::message::Message;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;

/// Time limit for a connection, and for a message to be taken.
pub(super) const CONNECT: Duration = Duration::from_secs(1);

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
