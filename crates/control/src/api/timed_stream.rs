//! A connection whose client must read answers within a time limit.

use super::CLIENT_TIMEOUT;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Stream whose writes fail if the client reads nothing for some time. Otherwise such a client would keep its slot
/// forever.
pub(super) struct TimedStream<S> {
    stream: S,
    timeout: Duration,
    /// Timer started by the first write that blocked; `None` if none blocks.
    blocked_timer: Option<Pin<Box<Sleep>>>,
}

impl<S> TimedStream<S> {
    pub(super) fn new(stream: S) -> TimedStream<S> {
        TimedStream {
            stream,
            timeout: CLIENT_TIMEOUT,
            blocked_timer: None,
        }
    }

    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.blocked_timer = None;
            return done;
        }
        let patience = self.timeout;
        let begin = || Box::pin(tokio::time::sleep(patience));
        let waits = self.blocked_timer.get_or_insert_with(begin);
        let over = waits.as_mut().poll(context);
        over.map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.bounded(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(context, done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[test]
    fn reading_clients_get_everything_and_silent_ones_are_disconnected() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().expect("a runtime");
        let done = runtime.block_on(async {
            let (ours, mut theirs) = duplex(16);
            let mut stream = TimedStream::new(ours);
            let mut into = [0; 1000];
            stream.timeout = Duration::from_millis(20);
            let (written, read) =
                tokio::join!(stream.write_all(&[1; 1000]), theirs.read_exact(&mut into));
            written.and(read).expect("it is read");
            stream.write_all(&[1; 17]).await
        });
        assert_eq!(done.expect_err("nobody reads").kind(), ErrorKind::TimedOut);
    }
}
