//! Messages between a leader and its servers, and their form as bytes.
//!
//! A message is its length in four bytes, a byte for its kind, and its fields; numbers have their most significant
//! byte first. No length is believed: every parser is bounded by the bytes that are there.

use super::{At, Change, HOPS_MAX, Hop, Hops, Prefix};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Version of the protocol. It changes when a message changes that a program of the former version would misread. A
/// server's first message has it, and a leader serves servers of its own version only. In all versions the same are the
/// length, kind and version of these first messages, and all of [`Message::Refused`].
pub const VERSION: u16 = 1;
/// Maximum length of a message in bytes, without the four bytes of its length.
pub const LENGTH_MAX: usize = 1 << 20;
/// Maximum length of a name or a reason in bytes.
pub const TEXT_MAX: usize = 512;
/// Minimum length of a frame in bytes: an Ethernet header.
pub const FRAME_MIN: usize = 14;
/// Maximum length of a frame in bytes.
pub const FRAME_MAX: usize = 1 << 16;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// First message of a server.
    Hello(Hello),
    /// First message of a server whose program has this other version of the protocol.
    OtherVersion(u16),
    /// A server has written all routes of a state into its tables.
    Acknowledged(Acknowledged),
    /// A snapshot begins.
    Begin {
        /// Epoch of the leader.
        epoch: u64,
    },
    /// The leader's routes began as those of a former epoch's state, which the server has. Changes follow.
    Continue {
        /// Epoch of the leader.
        epoch: u64,
        /// The state of the former epoch.
        from: At,
    },
    /// Prefixes as they are now.
    Change(Vec<Change>),
    /// With all messages so far the server has this state of the routes.
    Reached(At),
    /// The leader lives, and has not read all its routes yet, or sends a snapshot.
    Wait {
        /// Epoch of the leader.
        epoch: u64,
    },
    /// The leader does not serve this server.
    Refused {
        /// The reason, a sentence.
        why: String,
    },
    /// First message of a server on a connection that carries frames instead of routes.
    Attach(Attach),
    /// Sign of life of both sides on a connection for frames.
    Alive {
        /// Epoch of the leader.
        epoch: u64,
    },
    /// A frame between an external port of the server and the leader's kernel, in either direction.
    Frame {
        /// Number of the port at the server.
        port: u16,
        /// The frame from its Ethernet header on: `FRAME_MIN` to `FRAME_MAX` bytes.
        bytes: Vec<u8>,
    },
}

/// A server's account of itself at the beginning of a connection for frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attach {
    /// Name of the server.
    pub name: String,
    /// Identity of its membership.
    pub identity: String,
    /// Highest epoch that it has seen.
    pub seen: u64,
    /// Ethernet addresses of its external ports, in the order of their numbers.
    pub addresses: Vec<[u8; 6]>,
}

/// A server's account of itself at the beginning of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Name of the server.
    pub name: String,
    /// Identity of its membership.
    pub identity: String,
    /// Highest epoch that it has seen.
    pub seen: u64,
    /// State of its routes; `None` if it has no complete one.
    pub at: Option<At>,
    /// True if its routes are exactly those of this state: nothing of a later one has arrived.
    pub exact: bool,
}

/// A server's account of its routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// State of its routes; `None` if it has no complete one.
    pub at: Option<At>,
    /// Number of routes.
    pub routes: u64,
    /// Number of these that are not in its tables: its description has no such gateway, or a table is full.
    pub missing: u64,
}

/// A byte sequence that is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

const HELLO: u8 = 1;
const ACKNOWLEDGED: u8 = 2;
const BEGIN: u8 = 3;
const CHANGE: u8 = 4;
const REACHED: u8 = 5;
const WAIT: u8 = 6;
const REFUSED: u8 = 7;
const CONTINUE: u8 = 8;
const ATTACH: u8 = 9;
const ALIVE: u8 = 10;
const FRAME: u8 = 11;

/// Family of a prefix; the number of next hops has the upper bits, `GONE` for a route that is gone.
const V4: u8 = 4;
const V6: u8 = 6;
const GONE: u8 = u8::MAX;

impl Message {
    /// Appends the message to bytes that are to be sent. A text that is too long is cut.
    pub fn write(&self, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend([0; 4]);
        match self {
            Message::Hello(hello) => {
                first(to, HELLO, VERSION);
                text(to, &hello.name);
                text(to, &hello.identity);
                number(to, hello.seen);
                state(to, hello.at);
                to.push(hello.exact.into());
            }
            Message::OtherVersion(version) => first(to, HELLO, *version),
            Message::Acknowledged(done) => {
                to.push(ACKNOWLEDGED);
                state(to, done.at);
                number(to, done.routes);
                number(to, done.missing);
            }
            Message::Begin { epoch } => {
                to.push(BEGIN);
                number(to, *epoch);
            }
            Message::Continue { epoch, from } => {
                to.push(CONTINUE);
                number(to, *epoch);
                state(to, Some(*from));
            }
            Message::Change(changes) => {
                to.push(CHANGE);
                changes.iter().for_each(|change| write_change(to, change));
            }
            Message::Reached(at) => {
                to.push(REACHED);
                state(to, Some(*at));
            }
            Message::Wait { epoch } => {
                to.push(WAIT);
                number(to, *epoch);
            }
            Message::Refused { why } => {
                to.push(REFUSED);
                text(to, why);
            }
            Message::Attach(attach) => {
                first(to, ATTACH, VERSION);
                text(to, &attach.name);
                text(to, &attach.identity);
                number(to, attach.seen);
                attach.addresses.iter().for_each(|mac| to.extend(mac));
            }
            Message::Alive { epoch } => {
                to.push(ALIVE);
                number(to, *epoch);
            }
            Message::Frame { port, bytes } => {
                debug_assert!(bytes.len() <= FRAME_MAX);
                to.push(FRAME);
                to.extend(port.to_be_bytes());
                to.extend(bytes);
            }
        }
        let length = u32::try_from(to.len() - start - 4).unwrap_or(u32::MAX);
        to[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Length of the message that follows these four bytes.
    ///
    /// # Errors
    ///
    /// No message is as long.
    pub fn length(head: [u8; 4]) -> Result<usize, Malformed> {
        let length = usize::try_from(u32::from_be_bytes(head)).map_err(|_| Malformed)?;
        match length {
            1..=LENGTH_MAX => Ok(length),
            _ => Err(Malformed),
        }
    }

    /// Message of these bytes, without the four bytes of its length.
    ///
    /// # Errors
    ///
    /// The bytes are no message.
    pub fn read(bytes: &[u8]) -> Result<Message, Malformed> {
        let (kind, rest) = bytes.split_first().ok_or(Malformed)?;
        let mut reader = Reader(rest);
        if matches!(*kind, HELLO | ATTACH) {
            let version = reader.short()?;
            if version != VERSION {
                return Ok(Message::OtherVersion(version));
            }
        }
        let message = match *kind {
            HELLO => Message::Hello(Hello {
                name: reader.text()?,
                identity: reader.text()?,
                seen: reader.number()?,
                at: reader.state()?,
                exact: reader.truth()?,
            }),
            ACKNOWLEDGED => Message::Acknowledged(Acknowledged {
                at: reader.state()?,
                routes: reader.number()?,
                missing: reader.number()?,
            }),
            BEGIN => Message::Begin {
                epoch: reader.number()?,
            },
            CONTINUE => Message::Continue {
                epoch: reader.number()?,
                from: reader.state()?.ok_or(Malformed)?,
            },
            CHANGE => {
                let mut changes = Vec::new();
                let mut last: Option<Hops> = None;
                while !reader.0.is_empty() {
                    changes.push(reader.change(&mut last)?);
                }
                Message::Change(changes)
            }
            REACHED => Message::Reached(reader.state()?.ok_or(Malformed)?),
            WAIT => Message::Wait {
                epoch: reader.number()?,
            },
            REFUSED => Message::Refused {
                why: reader.text()?,
            },
            ATTACH => {
                let mut attach = Attach {
                    name: reader.text()?,
                    identity: reader.text()?,
                    seen: reader.number()?,
                    addresses: Vec::new(),
                };
                while !reader.0.is_empty() {
                    attach.addresses.push(reader.take()?);
                }
                Message::Attach(attach)
            }
            ALIVE => Message::Alive {
                epoch: reader.number()?,
            },
            FRAME => Message::Frame {
                port: reader.short()?,
                bytes: reader.frame()?,
            },
            _ => return Err(Malformed),
        };
        match reader.0.is_empty() {
            true => Ok(message),
            false => Err(Malformed),
        }
    }
}

/// Writes what all versions of a server's first message begin with.
fn first(to: &mut Vec<u8>, kind: u8, version: u16) {
    to.push(kind);
    to.extend(version.to_be_bytes());
}

fn number(to: &mut Vec<u8>, number: u64) {
    to.extend(number.to_be_bytes());
}

fn state(to: &mut Vec<u8>, at: Option<At>) {
    to.push(at.is_some().into());
    let at = at.unwrap_or_default();
    number(to, at.epoch);
    number(to, at.version);
}

fn text(to: &mut Vec<u8>, text: &str) {
    let end = text.floor_char_boundary(TEXT_MAX);
    to.extend((end as u16).to_be_bytes()); // TEXT_MAX at most
    to.extend(&text.as_bytes()[..end]);
}

fn write_change(to: &mut Vec<u8>, (prefix, hops): &Change) {
    match prefix.addr() {
        IpAddr::V4(address) => {
            to.extend([V4, prefix.len()]);
            to.extend(address.octets());
        }
        IpAddr::V6(address) => {
            to.extend([V6, prefix.len()]);
            to.extend(address.octets());
        }
    }
    let Some(hops) = hops else {
        return to.push(GONE);
    };
    let hops = &hops[..hops.len().min(HOPS_MAX)];
    to.push(hops.len() as u8); // HOPS_MAX at most
    for hop in hops {
        for field in [hop.server, hop.port, hop.gateway, hop.weight] {
            to.extend(field.to_be_bytes());
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_be_bytes)
    }

    fn short(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    fn truth(&mut self) -> Result<bool, Malformed> {
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Malformed),
        }
    }

    fn state(&mut self) -> Result<Option<At>, Malformed> {
        let there = self.truth()?;
        let at = At {
            epoch: self.number()?,
            version: self.number()?,
        };
        match (there, at) {
            (true, at) => Ok(Some(at)),
            (false, at) if at == At::default() => Ok(None),
            _ => Err(Malformed),
        }
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let length = usize::from(self.short()?);
        if length > TEXT_MAX {
            return Err(Malformed);
        }
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed)?;
        Ok(text.to_owned())
    }

    fn frame(&mut self) -> Result<Vec<u8>, Malformed> {
        let bytes = std::mem::take(&mut self.0);
        match bytes.len() {
            FRAME_MIN..=FRAME_MAX => Ok(bytes.to_vec()),
            _ => Err(Malformed),
        }
    }

    fn change(&mut self, last: &mut Option<Hops>) -> Result<Change, Malformed> {
        let [family, length] = self.take()?;
        let address = match family {
            V4 => IpAddr::from(Ipv4Addr::from(self.take::<4>()?)),
            V6 => IpAddr::from(Ipv6Addr::from(self.take::<16>()?)),
            _ => return Err(Malformed),
        };
        let prefix = Prefix::new(address, length).ok_or(Malformed)?;
        if prefix.addr() != address {
            return Err(Malformed);
        }
        let [count] = self.take()?;
        if count == GONE {
            return Ok((prefix, None));
        }
        if usize::from(count) > HOPS_MAX {
            return Err(Malformed);
        }
        let mut hops = Vec::with_capacity(count.into());
        for _ in 0..count {
            let hop = Hop {
                server: self.short()?,
                port: self.short()?,
                gateway: self.short()?,
                weight: self.short()?,
            };
            if hop.gateway == 0 || hop.weight == 0 {
                return Err(Malformed);
            }
            hops.push(hop);
        }
        // Neighbouring prefixes often share their next hops.
        let hops = match last {
            Some(last) if last[..] == hops[..] => last.clone(),
            _ => hops.into(),
        };
        *last = Some(hops.clone());
        Ok((prefix, Some(hops)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str, length: u8) -> Prefix {
        Prefix::new(text.parse().unwrap(), length).unwrap()
    }

    fn all() -> Vec<Message> {
        let hop = |gateway| Hop {
            server: 3,
            port: 1,
            gateway,
            weight: 2,
        };
        let at = At {
            epoch: 7,
            version: u64::MAX,
        };
        let hello = Hello {
            name: "a".to_owned(),
            identity: "00ff".to_owned(),
            seen: 9,
            at: None,
            exact: false,
        };
        let done = Acknowledged {
            at: Some(at),
            routes: 5,
            missing: 1,
        };
        let changes = vec![
            (prefix("10.0.0.0", 8), Some([hop(1), hop(2)].into())),
            (prefix("0.0.0.0", 0), Some([].into())),
            (prefix("2001:db8::", 128), Some([hop(2)].into())),
            (prefix("::", 0), None),
        ];
        vec![
            Message::Hello(hello.clone()),
            Message::Hello(Hello {
                at: Some(at),
                exact: true,
                ..hello
            }),
            Message::Acknowledged(done),
            Message::Begin { epoch: 1 },
            Message::Continue { epoch: 8, from: at },
            Message::Change(changes),
            Message::Change(Vec::new()),
            Message::Reached(at),
            Message::Wait { epoch: 2 },
            Message::Refused {
                why: "no".to_owned(),
            },
            Message::Attach(Attach {
                name: "b".to_owned(),
                identity: "00ff".to_owned(),
                seen: 9,
                addresses: vec![[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
            }),
            Message::Alive { epoch: 3 },
        ]
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for message in all() {
            let mut bytes = Vec::new();
            message.write(&mut bytes);
            let (head, rest) = bytes.split_first_chunk::<4>().unwrap();
            assert_eq!(Message::length(*head), Ok(rest.len()));
            assert_eq!(Message::read(rest), Ok(message));
            // A part is no message, unless it ends between changes or addresses; nor is one with a byte more.
            for end in 0..rest.len() {
                let cut = Message::read(&rest[..end]);
                assert!(matches!(
                    cut,
                    Err(Malformed) | Ok(Message::Change(_) | Message::Attach(_))
                ));
            }
            assert_eq!(Message::read(&[rest, &[0]].concat()), Err(Malformed));
        }
    }

    #[test]
    fn first_messages_of_other_versions_are_told_from_others_whatever_follows() {
        for (kind, version) in [(HELLO, 0), (HELLO, VERSION + 1), (ATTACH, u16::MAX)] {
            let mut bytes = Vec::new();
            first(&mut bytes, kind, version);
            for rest in [&[][..], &[0xff; 40]] {
                let read = Message::read(&[&bytes, rest].concat());
                assert_eq!(read, Ok(Message::OtherVersion(version)));
            }
        }
    }

    #[test]
    fn frames_are_read_as_they_were_written_if_an_ethernet_header_fits() {
        for length in [FRAME_MIN, 1514, FRAME_MAX] {
            let frame = Message::Frame {
                port: 3,
                bytes: vec![7; length],
            };
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            assert_eq!(Message::read(&bytes[4..]), Ok(frame));
        }
        let of = |length: usize| [&[FRAME, 0, 3][..], &vec![7; length]].concat();
        for length in [0, FRAME_MIN - 1, FRAME_MAX + 1] {
            assert_eq!(Message::read(&of(length)), Err(Malformed), "{length}");
        }
        assert_eq!(Message::read(&[FRAME, 0]), Err(Malformed));
    }

    #[test]
    fn lengths_and_fields_out_of_bounds_are_refused() {
        assert_eq!(Message::length([0, 0, 0, 0]), Err(Malformed));
        assert_eq!(Message::length([0, 0x10, 0, 1]), Err(Malformed));
        let long = [&[REFUSED, 2, 1][..], &[b'x'; 513]].concat();
        for bytes in [
            &[CHANGE, V4, 33, 0, 0, 0, 0, GONE][..],
            &[CHANGE, V4, 8, 10, 0, 0, 1, GONE],
            &[CHANGE, 5, 8, 10, 0, 0, 0, GONE],
            &[CHANGE, V4, 8, 10, 0, 0, 0, 65],
            &[CHANGE, V4, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1],
            &[CHANGE, V4, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0],
            &[REFUSED, 0, 1, 0xff],
            &[CONTINUE, 0, 0, 0, 0, 0, 0, 0, 9],
            &long,
            &[HELLO, 0],
            &[
                ATTACH, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1,
            ],
            &[12],
            &[],
        ] {
            assert_eq!(Message::read(bytes), Err(Malformed), "{bytes:?}");
        }
        // A text is cut where a character ends.
        let mut bytes = Vec::new();
        let why = "é".repeat(300);
        Message::Refused { why }.write(&mut bytes);
        let why = "é".repeat(256);
        assert_eq!(Message::read(&bytes[4..]), Ok(Message::Refused { why }));
    }
}
