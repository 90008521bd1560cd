//! Agreement of the two ends of a memif on memory and rings (memif 2.0).

use super::config::MemifConfig;
use super::message::{MESSAGE_BYTES, Message, VERSION};
use super::ring::{self, Doorbell, Memory, Ring};
use super::{MEMORY_MAX, QUEUES_MAX, REGIONS_MAX};
use crate::region::Region;
use crate::sys;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit for all messages of the other end until both are connected.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of the other end's rings, as a base-2 logarithm.
const RING_SIZE_LOG2_MAX: u8 = 14;

/// The rings of a connection, by queues of the port.
#[derive(Default)]
pub(super) struct Rings {
    pub(super) rx: Vec<Ring>,
    pub(super) tx: Vec<Ring>,
}

/// A connection's socket, and the reasons to end it early.
pub(super) struct Connection<'a> {
    pub(super) socket: &'a OwnedFd,
    pub(super) stop: &'a OwnedFd,
}

/// Result of reading the socket.
pub(super) enum Heard {
    Message(Message, Option<OwnedFd>),
    /// End of the connection, or no message of memif.
    End(String),
    /// No message arrived within the given time.
    Timeout,
}

impl Connection<'_> {
    /// Waits for a message.
    pub(super) fn receive(&self, timeout: Duration) -> Heard {
        let fds = [self.socket.as_raw_fd(), self.stop.as_raw_fd()];
        let [spoken, stopped] = sys::poll(fds, timeout);
        if stopped {
            return Heard::End("this end was closed".into());
        }
        if !spoken {
            return Heard::Timeout;
        }
        let mut bytes = [0; MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = match recvmsg(self.socket, parts, &mut control, flags) {
            Ok(got) => got.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Heard::Timeout,
            Err(e) => return Heard::End(e.to_string()),
        };
        let mut files = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => files.collect(),
            _ => Vec::new(),
        });
        let file = files.next();
        if got == 0 {
            return Heard::End("the other end has closed the connection".into());
        }
        match Message::read(&bytes[..got]) {
            Some(Message::Disconnect { why }) => {
                Heard::End(format!("the other end says: {}", why.trim_end()))
            }
            Some(message) => Heard::Message(message, file),
            None => Heard::End("the other end does not speak memif".into()),
        }
    }

    /// Sends a message, with a descriptor. If the other end does not take it at once, the connection ends.
    pub(super) fn send(&self, message: &Message, file: Option<BorrowedFd>) -> Result<(), String> {
        let bytes = message.bytes();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files: Vec<BorrowedFd> = file.into_iter().collect();
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&files));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = sendmsg(self.socket, &[IoSlice::new(&bytes)], &mut control, flags);
        sent.map(drop).map_err(|e| e.to_string())
    }

    /// Ends the connection, with the reason.
    pub(super) fn end(&self, why: &str) {
        // The peer may have closed the connection.
        let _ = self.send(&Message::Disconnect { why: why.into() }, None);
    }

    /// The next message until `end`. The error is a sentence.
    fn next(&self, end: Instant) -> Result<(Message, Option<OwnedFd>), String> {
        loop {
            let remaining = end.saturating_duration_since(Instant::now());
            match self.receive(remaining) {
                Heard::Message(message, file) => return Ok((message, file)),
                Heard::End(why) => return Err(why),
                Heard::Timeout if remaining.is_zero() => {
                    return Err("the other end takes longer than 5 seconds to connect".into());
                }
                Heard::Timeout => {}
            }
        }
    }

    fn acknowledged(&self, end: Instant) -> Result<(), String> {
        match self.next(end)? {
            (Message::Ack, _) => Ok(()),
            _ => Err("the other end did not acknowledge a message".into()),
        }
    }
}

/// Size of an end: receive queues, transmit queues, and buffers of a ring as a logarithm.
#[derive(Clone, Copy)]
pub(super) struct Queues {
    pub(super) rx: usize,
    pub(super) tx: usize,
    pub(super) ring: u8,
}

/// Memory allocated for a client's regions. It is reused for later connections: a peer may keep its mappings, so that a
/// new region for each connection could exhaust memory.
#[derive(Default)]
pub(super) struct ClientMemory {
    /// User of the program that has seen the memory.
    user: Option<u32>,
    regions: Vec<Arc<[Region]>>,
}

impl ClientMemory {
    /// Memory of `bytes` bytes for a connection with a user's process; it is not in use.
    fn free(&mut self, user: Option<u32>, bytes: usize) -> std::io::Result<Arc<[Region]>> {
        if user.is_none() || self.user != user {
            // Memory that one user has seen must not be given to another user.
            *self = ClientMemory {
                user,
                regions: Vec::new(),
            };
        }
        // A queue keeps the rings of its last connection until it is used again. So there are as many regions as queues
        // at most, and one more.
        let fits = |of: &&Arc<[Region]>| Arc::strong_count(of) == 1 && of[0].bytes() == bytes;
        if let Some(free) = self.regions.iter().find(fits) {
            return Ok(Arc::clone(free));
        }
        let made: Arc<[Region]> = Arc::new([Region::new("ashlar-memif", bytes)?]);
        self.regions.push(Arc::clone(&made));
        Ok(made)
    }
}

/// Connects as the client, which makes memory and rings.
///
/// # Errors
/// The server refuses, does not answer in time, or there is no memory; a sentence.
pub(super) fn client(
    connection: &Connection,
    config: &MemifConfig,
    queues: Queues,
    made: &mut ClientMemory,
) -> Result<Rings, String> {
    let end = Instant::now() + HANDSHAKE_TIMEOUT;
    let (
        Message::Hello {
            versions,
            last_rings,
            ring_size,
        },
        _,
    ) = connection.next(end)?
    else {
        return Err("the other end does not begin as a server of memif".into());
    };
    if !(versions.0..=versions.1).contains(&VERSION) {
        return Err("the other end does not speak memif 2.0".into());
    }
    // A port has at least one ring in each direction, used or not, as other programs expect. Each queue of the server
    // has a ring to send by, as far as this port requests that many: each ring takes memory, and is polled in each
    // turn.
    let [last_to_client, last_to_server] = [last_rings.0, last_rings.1].map(usize::from);
    let rings_max = match config.rings {
        0 => queues.rx.max(1),
        rings => rings,
    };
    let (to_server, to_client) = (queues.tx.max(1), rings_max.min(last_to_client + 1));
    if to_server > last_to_server + 1 {
        return Err(format!(
            "the other end receives by {} queues at most, and {to_server} send: use fewer workers",
            last_to_server + 1
        ));
    }
    let ring = queues.ring.min(ring_size);
    connection.send(
        &Message::Init {
            version: VERSION,
            id: config.id,
            is_ethernet: true,
            secret: config.secret,
        },
        None,
    )?;
    connection.acknowledged(end)?;
    let failed = |e: std::io::Error| format!("no memory for its rings: {e}");
    let each = ring::bytes(1 << ring).next_multiple_of(64);
    let count = to_server + to_client;
    let buffers = config.buffer << ring;
    let begin = (each * count).next_multiple_of(4096);
    // The memory is checked for the maximum number of rings that any server may request, so the next server is
    // accepted, too.
    let rings_max = to_server + rings_max;
    let bytes = (ring::bytes(1 << queues.ring).next_multiple_of(64) * rings_max)
        .next_multiple_of(4096)
        + (config.buffer << queues.ring) * rings_max;
    if bytes > MEMORY_MAX {
        return Err(format!(
            "its rings would need {bytes} bytes: say a smaller bsize or rsize"
        ));
    }
    let user = sys::peer(connection.socket).ok().map(|(_, user)| user);
    let regions = made.free(user, bytes).map_err(failed)?;
    let message = Message::AddRegion {
        index: 0,
        bytes: bytes as u64,
    };
    connection.send(&message, regions[0].file().map(AsFd::as_fd))?;
    connection.acknowledged(end)?;
    let mut rings = Rings {
        rx: Vec::new(),
        tx: Vec::new(),
    };
    for number in 0..count {
        let is_to_server = number < to_server;
        let index = if is_to_server {
            number
        } else {
            number - to_server
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
        let (ours, theirs) = pair.map_err(|e| failed(e.into()))?;
        let memory = Memory::Own {
            buffers: begin + number * buffers,
            bytes: config.buffer,
        };
        let made = Ring::new(
            &regions,
            (0, number * each),
            ring,
            memory,
            Doorbell::Pair(ours),
        )?;
        made.set_up(!is_to_server);
        let message = Message::AddRing {
            to_server: is_to_server,
            index: index as u16,
            region: 0,
            offset: (number * each) as u32,
            size: ring,
        };
        connection.send(&message, Some(theirs.as_fd()))?;
        connection.acknowledged(end)?;
        let list = if is_to_server {
            &mut rings.tx
        } else {
            &mut rings.rx
        };
        list.push(made);
    }
    connection.send(&Message::Connect, None)?;
    match connection.next(end)? {
        (Message::Connected, _) => {
            rings.rx.iter().for_each(Ring::begin);
            Ok(rings)
        }
        _ => Err("the other end did not confirm the connection".into()),
    }
}

/// A ring that a client has announced.
struct AnnouncedRing {
    place: (usize, usize),
    size: u8,
    bell: OwnedFd,
}

/// Accepts a client: its memory and its rings.
///
/// # Errors
/// The client's request is not valid; a sentence says why, and the client gets it, too.
pub(super) fn server(
    connection: &Connection,
    config: &MemifConfig,
    queues: Queues,
) -> Result<Rings, String> {
    let done = serve(connection, config, queues);
    done.inspect_err(|why| connection.end(why))
}

fn serve(connection: &Connection, config: &MemifConfig, queues: Queues) -> Result<Rings, String> {
    let end = Instant::now() + HANDSHAKE_TIMEOUT;
    let last = |queues: usize| queues.saturating_sub(1) as u16;
    connection.send(
        &Message::Hello {
            versions: (VERSION, VERSION),
            // A queue receives from as many rings as there are.
            last_rings: (last(queues.tx), QUEUES_MAX as u16 - 1),
            ring_size: RING_SIZE_LOG2_MAX,
        },
        None,
    )?;
    let (
        Message::Init {
            version,
            id,
            is_ethernet,
            secret,
        },
        _,
    ) = connection.next(end)?
    else {
        return Err("the client does not begin as one of memif".into());
    };
    if version != VERSION || !is_ethernet {
        return Err("memif 2.0 with Ethernet frames only".into());
    }
    if id != config.id {
        return Err(format!("there is no id {id}, only {}", config.id));
    }
    if secret != config.secret {
        return Err("it has another secret".into());
    }
    connection.send(&Message::Ack, None)?;
    let mut regions: Vec<Region> = Vec::new();
    let (mut to_server, mut to_client): (Vec<AnnouncedRing>, Vec<AnnouncedRing>) =
        Default::default();
    loop {
        match connection.next(end)? {
            (Message::AddRegion { index, bytes }, Some(file)) => {
                if usize::from(index) != regions.len() || regions.len() == REGIONS_MAX {
                    return Err("its regions are not numbered from 0 to 255".into());
                }
                let all: usize = regions.iter().map(Region::bytes).sum();
                if bytes > (MEMORY_MAX - all) as u64 {
                    return Err(format!("it has more than {MEMORY_MAX} bytes of memory"));
                }
                regions.push(Region::of_peer(file, bytes)?);
            }
            (
                Message::AddRing {
                    to_server: is_to_server,
                    index,
                    region,
                    offset,
                    size,
                },
                Some(bell),
            ) => {
                let list = if is_to_server {
                    &mut to_server
                } else {
                    &mut to_client
                };
                if usize::from(index) != list.len() {
                    return Err("its rings are not numbered in order".into());
                }
                if list.len() == QUEUES_MAX {
                    return Err(format!("it has more than {QUEUES_MAX} rings"));
                }
                list.push(AnnouncedRing {
                    place: (region.into(), offset as usize),
                    size,
                    bell,
                });
            }
            (Message::Connect, _) => break,
            _ => return Err("it sent a message that is not allowed here".into()),
        }
        connection.send(&Message::Ack, None)?;
    }
    if to_client.len() < queues.tx {
        return Err(format!(
            "it receives by {} rings, and {} workers send here: use fewer, or say rings={1} there",
            to_client.len(),
            queues.tx
        ));
    }
    let regions: Arc<[Region]> = regions.into();
    let open = |told: AnnouncedRing| {
        let bell = Doorbell::Event(told.bell);
        let ring = Ring::new(&regions, told.place, told.size, Memory::Peers, bell)?;
        match ring.is_one() {
            true => Ok(ring),
            false => Err("has a ring that does not begin as one"),
        }
    };
    let both: Result<_, ring::ProtocolViolation> = (|| {
        let rx: Result<Vec<Ring>, _> = to_server.into_iter().map(open).collect();
        let tx: Result<Vec<Ring>, _> = to_client.into_iter().map(open).collect();
        Ok((rx?, tx?))
    })();
    let (rx, tx) = both.map_err(|mistake| format!("it {mistake}"))?;
    rx.iter().for_each(Ring::begin);
    connection.send(&Message::Connected, None)?;
    Ok(Rings { rx, tx })
}
