//! Frames between an interface of the leader's kernel and a port of a server, over a connection of their own.
//!
//! Both ends are alike. Each reads frames from its side of every port, sends them, and writes those that it receives.
//! Nothing here grows: while the connection takes no frames, they wait in the kernel's queues of the sides, which drop
//! and count those that find no room.

use super::super::etcd::chain;
use super::stream::{receive, send};
use super::sys::readable;
use agree::routes::message::{FRAME_MAX, FRAME_MIN, Message};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Pause between signs of life.
const ALIVE: Duration = Duration::from_millis(200);
/// Silence after which the connection is closed.
const SILENT: Duration = Duration::from_secs(2);
/// Time limit for frames to be taken.
const TAKEN: Duration = Duration::from_secs(2);
/// Maximum number of frames between the readers and the connection.
const QUEUE: usize = 64;
/// Maximum number of waiting frames that are discarded: more than a TAP interface or a port holds.
const DISCARDED_MAX: u32 = 4096;
/// Number of bytes after which frames are sent without further ones.
const TOGETHER: usize = 64 << 10;

/// A place where frames of a port come from and go to.
pub(super) trait Side: Send + Sync + 'static {
    /// Descriptor that becomes readable when there is a frame to take.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Takes a frame; 0 if there is none.
    fn take(&self, into: &mut [u8]) -> usize;

    /// Gives a frame, which the side drops if it has no room.
    fn give(&self, frame: &[u8]);
}

impl Side for ports::Tap {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.queues().next()
    }

    fn take(&self, into: &mut [u8]) -> usize {
        ports::Tap::take(self, into)
    }

    fn give(&self, frame: &[u8]) {
        // A frame that the kernel does not take is lost, as on a cable.
        let _ = ports::Tap::give(self, frame);
    }
}

impl Side for ports::Punt {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(ports::Punt::fd(self))
    }

    fn take(&self, into: &mut [u8]) -> usize {
        ports::Punt::take(self, into)
    }

    fn give(&self, frame: &[u8]) {
        // The port counts frames that it does not take.
        let _ = ports::Punt::give(self, frame);
    }
}

/// Throws away the frames that wait at a side: they are of an earlier connection. New ones may come meanwhile.
pub(super) fn discard(side: &impl Side) {
    let mut frame = [0; FRAME_MIN];
    for _ in 0..DISCARDED_MAX {
        if side.take(&mut frame) == 0 {
            return;
        }
    }
}

/// A frame and the number of its port.
type Numbered = (u16, Vec<u8>);

/// Exchanges frames of all ports in `epoch` until the connection ends.
///
/// # Errors
///
/// The reason of the end, always; a sentence.
pub(super) async fn exchange<S: Side>(
    sides: &[Arc<S>],
    epoch: u64,
    (reader, writer): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
) -> Result<(), String> {
    let (frames, queue) = channel(QUEUE);
    let mut readers = JoinSet::new();
    for (port, side) in (0..).zip(sides) {
        readers.spawn(read(port, Arc::clone(side), frames.clone()));
    }
    let failed = async {
        // Readers end when their descriptor fails. The sender here keeps the queue open without any.
        while let Some(ended) = readers.join_next().await {
            if let Ok(Err(e)) = ended {
                return Err(format!("frames of a port cannot be read: {e}"));
            }
        }
        std::future::pending::<Result<(), String>>().await
    };
    tokio::select! {
        ended = failed => ended,
        ended = hear(sides, epoch, reader) => ended,
        ended = tell(epoch, queue, writer) => ended,
    }
}

/// Reads the frames of one port into the queue.
async fn read<S: Side>(port: u16, side: Arc<S>, queue: Sender<Numbered>) -> io::Result<()> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    // A former connection may not have ended its registration of the descriptor itself.
    let ready = readable(side.fd().ok_or_else(gone)?.try_clone_to_owned()?)?;
    let mut room = vec![0; FRAME_MAX];
    loop {
        let mut guard = ready.readable().await?;
        loop {
            let length = side.take(&mut room);
            if length == 0 {
                guard.clear_ready();
                break;
            }
            let frame = room[..length].to_vec();
            if length >= FRAME_MIN && queue.send((port, frame)).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Writes received frames to the sides of their ports.
async fn hear<S: Side>(
    sides: &[Arc<S>],
    epoch: u64,
    mut from: impl AsyncRead + Unpin,
) -> Result<(), String> {
    loop {
        let message = timeout(SILENT, receive(&mut from)).await;
        let message = message.map_err(|_| "it says nothing".to_owned())?;
        match message.map_err(|e| chain(&e))? {
            Message::Alive { epoch: its } if its == epoch => {}
            Message::Alive { epoch: its } => {
                return Err(format!("it is in epoch {its}, and this server in {epoch}"));
            }
            Message::Frame { port, bytes } => match sides.get(usize::from(port)) {
                Some(side) => side.give(&bytes),
                None => {
                    return Err(format!(
                        "it sends a frame of port {port}, which is not there"
                    ));
                }
            },
            _ => return Err("it sends a message that is not about frames".to_owned()),
        }
    }
}

/// Sends the frames of the queue, and signs of life.
async fn tell(
    epoch: u64,
    mut queue: Receiver<Numbered>,
    mut to: impl AsyncWrite + Unpin,
) -> Result<(), String> {
    let mut bytes = Vec::new();
    let mut alive_at: Option<Instant> = None;
    loop {
        bytes.clear();
        if alive_at.is_none_or(|at| at.elapsed() >= ALIVE) {
            alive_at = Some(Instant::now());
            Message::Alive { epoch }.write(&mut bytes);
        } else if let Ok(Some((port, frame))) = timeout(ALIVE, queue.recv()).await {
            Message::Frame { port, bytes: frame }.write(&mut bytes);
        }
        while bytes.len() < TOGETHER
            && let Ok((port, frame)) = queue.try_recv()
        {
            Message::Frame { port, bytes: frame }.write(&mut bytes);
        }
        if !bytes.is_empty() {
            let sent = timeout(TAKEN, send(&mut to, &bytes)).await;
            sent.map_err(|_| "it takes nothing".to_owned())?
                .map_err(|e| chain(&e))?;
        }
    }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
