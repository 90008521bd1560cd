//! The messages by which the two ends of a memif agree, 128 bytes each; numbers are in the machine's order.

use super::config::Id;

/// Length of a message in bytes.
pub(super) const MESSAGE_BYTES: usize = 128;
/// The version that both ends must speak: 2.0.
pub(super) const VERSION: u16 = 0x200;

const NAME: usize = 32;
const SECRET: usize = 24;
const REASON: usize = 96;
/// A ring's flag: from the client to the server.
const TO_SERVER: u16 = 1;
/// Mode of the interface: Ethernet frames.
const ETHERNET: u8 = 0;

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The last message was understood.
    Ack,
    /// Limits of the server.
    Hello {
        /// Versions: first and last.
        versions: (u16, u16),
        /// The greatest numbers of rings: to the client, to the server.
        last_rings: (u16, u16),
        /// The longest ring, as a logarithm.
        ring_size: u8,
    },
    /// The client requests an interface of the server.
    Init {
        /// The version.
        version: u16,
        /// The interface.
        id: Id,
        /// True if Ethernet frames are carried.
        is_ethernet: bool,
        /// Secret that allows to connect; zeros if there is none.
        secret: [u8; SECRET],
    },
    /// Adds a region of the client's memory; its file descriptor is attached to the message.
    AddRegion {
        /// Number of the region.
        index: u16,
        /// Length of the region in bytes.
        bytes: u64,
    },
    /// Adds a ring in such a region; the descriptor of the ring's doorbell is attached to the message.
    AddRing {
        /// True if the ring goes from the client to the server.
        to_server: bool,
        /// Number of the ring among those in its direction.
        index: u16,
        /// Region of the ring.
        region: u16,
        /// Offset in the region.
        offset: u32,
        /// Length, as a base-2 logarithm.
        size: u8,
    },
    /// The client has described all regions and rings.
    Connect,
    /// The server has accepted the connection.
    Connected,
    /// End of the connection.
    Disconnect {
        /// Reason, for people.
        why: String,
    },
}

struct Writer {
    bytes: [u8; MESSAGE_BYTES],
    at: usize,
}

impl Writer {
    fn put(&mut self, bytes: &[u8]) -> &mut Writer {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    /// Text that ends with a zero.
    fn text(&mut self, text: &str, room: usize) -> &mut Writer {
        let fits = text.len().min(room - 1);
        self.bytes[self.at..self.at + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.at += room;
        self
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn short(&mut self) -> Option<u16> {
        self.take().map(u16::from_ne_bytes)
    }

    fn long(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }
}

impl Message {
    /// Encodes the message.
    pub(crate) fn bytes(&self) -> [u8; MESSAGE_BYTES] {
        let mut w = Writer {
            bytes: [0; MESSAGE_BYTES],
            at: 0,
        };
        match self {
            Message::Ack => w.put(&1u16.to_ne_bytes()),
            Message::Hello {
                versions,
                last_rings,
                ring_size,
            } => {
                w.put(&2u16.to_ne_bytes()).text("ashlar", NAME);
                w.put(&versions.0.to_ne_bytes());
                w.put(&versions.1.to_ne_bytes());
                w.put(&(super::REGIONS_MAX as u16 - 1).to_ne_bytes());
                w.put(&last_rings.0.to_ne_bytes());
                w.put(&last_rings.1.to_ne_bytes()).put(&[*ring_size])
            }
            Message::Init {
                version,
                id,
                is_ethernet,
                secret,
            } => {
                w.put(&3u16.to_ne_bytes()).put(&version.to_ne_bytes());
                w.put(&id.to_ne_bytes()).put(&[u8::from(!is_ethernet)]);
                w.put(secret).text("ashlar", NAME)
            }
            Message::AddRegion { index, bytes } => {
                w.put(&4u16.to_ne_bytes()).put(&index.to_ne_bytes());
                w.put(&bytes.to_ne_bytes())
            }
            Message::AddRing {
                to_server,
                index,
                region,
                offset,
                size,
            } => {
                let flags = if *to_server { TO_SERVER } else { 0 };
                w.put(&5u16.to_ne_bytes()).put(&flags.to_ne_bytes());
                w.put(&index.to_ne_bytes()).put(&region.to_ne_bytes());
                w.put(&offset.to_ne_bytes()).put(&[*size])
            }
            Message::Connect => w.put(&6u16.to_ne_bytes()).text("ashlar", NAME),
            Message::Connected => w.put(&7u16.to_ne_bytes()).text("ashlar", NAME),
            Message::Disconnect { why } => {
                w.put(&8u16.to_ne_bytes()).put(&[0; 4]).text(why, REASON)
            }
        };
        w.bytes
    }

    /// Decodes a message; `None` if the bytes are not one.
    pub(crate) fn read(bytes: &[u8]) -> Option<Message> {
        let mut r = Reader(bytes.get(..MESSAGE_BYTES)?);
        let message = match r.short()? {
            1 => Message::Ack,
            2 => {
                r.take::<NAME>()?;
                let versions = (r.short()?, r.short()?);
                r.short()?;
                Message::Hello {
                    versions,
                    last_rings: (r.short()?, r.short()?),
                    ring_size: r.byte()?,
                }
            }
            3 => Message::Init {
                version: r.short()?,
                id: r.long()?,
                is_ethernet: r.byte()? == ETHERNET,
                secret: r.take()?,
            },
            4 => Message::AddRegion {
                index: r.short()?,
                bytes: r.take().map(u64::from_ne_bytes)?,
            },
            5 => Message::AddRing {
                to_server: r.short()? & TO_SERVER != 0,
                index: r.short()?,
                region: r.short()?,
                offset: r.long()?,
                size: r.byte()?,
            },
            6 => Message::Connect,
            7 => Message::Connected,
            8 => {
                r.long()?;
                let words = r.take::<REASON>()?;
                let end = words.iter().position(|b| *b == 0).unwrap_or(REASON);
                // The text is logged, so it must not contain line ends.
                let plain = |b: &u8| {
                    if b.is_ascii_graphic() {
                        *b as char
                    } else {
                        ' '
                    }
                };
                Message::Disconnect {
                    why: words[..end].iter().map(plain).collect(),
                }
            }
            _ => return None,
        };
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut secret = [0; SECRET];
        secret[..3].copy_from_slice(b"abc");
        for message in [
            Message::Ack,
            Message::Hello {
                versions: (VERSION, VERSION),
                last_rings: (254, 255),
                ring_size: 14,
            },
            Message::Init {
                version: VERSION,
                id: 7,
                is_ethernet: true,
                secret,
            },
            Message::AddRegion {
                index: 1,
                bytes: 1 << 33,
            },
            Message::AddRing {
                to_server: true,
                index: 2,
                region: 3,
                offset: 4096,
                size: 10,
            },
            Message::Connect,
            Message::Connected,
            Message::Disconnect {
                why: "no such id".into(),
            },
        ] {
            assert_eq!(Message::read(&message.bytes()).as_ref(), Some(&message));
        }
    }

    /// Offsets of fields in the protocol's header file (memif 2.0, little-endian).
    #[cfg(target_endian = "little")]
    #[test]
    fn fields_are_where_others_look_for_them() {
        let init = Message::Init {
            version: VERSION,
            id: 0x0403_0201,
            is_ethernet: true,
            secret: [9; SECRET],
        };
        assert_eq!(init.bytes()[..10], [3, 0, 0, 2, 1, 2, 3, 4, 0, 9]);
        assert_eq!(init.bytes()[32..34], [9, b'a']);
        let ring = Message::AddRing {
            to_server: true,
            index: 2,
            region: 3,
            offset: 0x0403_0201,
            size: 10,
        };
        assert_eq!(ring.bytes()[..13], [5, 0, 1, 0, 2, 0, 3, 0, 1, 2, 3, 4, 10]);
        let why = "x".repeat(200);
        let bytes = Message::Disconnect { why }.bytes();
        assert_eq!((bytes[6], bytes[100], bytes[101]), (b'x', b'x', 0));
    }

    #[test]
    fn invalid_messages_are_refused_and_reasons_fit_a_line() {
        assert_eq!(Message::read(&[1, 0]), None);
        assert_eq!(Message::read(&[0; MESSAGE_BYTES]), None);
        assert_eq!(Message::read(&[0xff; MESSAGE_BYTES]), None);
        let mut bytes = [0xff; MESSAGE_BYTES];
        bytes[..2].copy_from_slice(&8u16.to_ne_bytes());
        bytes[6..8].copy_from_slice(b"a\n");
        let Some(Message::Disconnect { why }) = Message::read(&bytes) else {
            panic!("it is one");
        };
        assert_eq!((why.len(), why.trim_end()), (REASON, "a"));
    }
}
