//! Messages on a connection.

use agree::routes::message::Message;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

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
