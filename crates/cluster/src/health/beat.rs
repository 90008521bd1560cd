//! The heartbeat on the wire.
//!
//! ```text
//!  0 addresses (kind heartbeat, no hops left)   12     30 sequence on this link      8
//! 12 ethertype 0x88b6                            2     38 sender's time              8
//! 14 format, 1                                   1     46 echo: your incarnation     8
//! 15 flags: 1 I hear you, 2 send more often      1     54 echo: your time            8
//! 16 number of records                           2     62 echo: how long ago         8
//! 18 which link between these two nodes          4     70 records of 18 bytes
//! 22 sender's incarnation                        8        SipHash-2-4 of all before  8
//! ```
//!
//! Numbers are big-endian, times are nanoseconds of the clock of who took them. A record is a node (2), its version
//! (8) and the bitmap of its own links that are up (8). Without a key the digest is 0.

use super::Refused;
use crate::address::{Address, Bad, Kind, LEN, NO_NODE, NodeId};
use crate::auth::Key;

/// IEEE 802's second ethertype for local experiments.
pub const ETHERTYPE: u16 = 0x88b6;
/// Bytes of a record.
const RECORD: usize = 18;

const FORMAT: u8 = 1;
const HEARS: u8 = 1;
const PROBE: u8 = 2;
const RECORDS_AT: usize = 70;
const DIGEST: usize = 8;

/// What a node last heard of its peer, told back to the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// The peer's incarnation; 0: nothing was heard yet.
    pub incarnation: u64,
    /// The peer's time in the newest heartbeat.
    pub time: u64,
    /// How long ago that came.
    pub age: u64,
}

/// A heartbeat without its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Who sends it.
    pub from: NodeId,
    /// To whom.
    pub to: NodeId,
    /// Over which of the links between these two.
    pub link: u32,
    /// The sender hears the receiver well.
    pub hears: bool,
    /// The sender suspects the link and wants heartbeats more often, to judge sooner.
    pub probe: bool,
    /// Since when the sender runs: a later one is another life.
    pub incarnation: u64,
    /// Counts the heartbeats on this link, from 1.
    pub sequence: u64,
    /// The sender's time.
    pub time: u64,
    /// What the sender heard.
    pub echo: Echo,
}

/// What a node says of its links, or what others say that it said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The node.
    pub node: NodeId,
    /// The larger one is the newer one.
    pub version: u64,
    /// The links of its own that are up, the first one lowest.
    pub up: u64,
}

impl Beat {
    /// Appends the heartbeat to `bytes`.
    pub fn write(&self, records: &[Record], cookie: u8, key: Option<&Key>, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        let address = Address {
            kind: Kind::Heartbeat,
            hops: 0,
            node: self.to,
            port: 0,
            gateway: 0,
            input: self.from,
            via: NO_NODE,
            cookie,
        };
        let hears = if self.hears { HEARS } else { 0 };
        let flags = hears | if self.probe { PROBE } else { 0 };
        bytes.extend_from_slice(&address.bytes());
        bytes.extend_from_slice(&ETHERTYPE.to_be_bytes());
        bytes.extend_from_slice(&[FORMAT, flags]);
        bytes.extend_from_slice(&(records.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&self.link.to_be_bytes());
        let echo = self.echo;
        let numbers = [self.incarnation, self.sequence, self.time];
        for number in numbers
            .into_iter()
            .chain([echo.incarnation, echo.time, echo.age])
        {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        for record in records {
            bytes.extend_from_slice(&record.node.to_be_bytes());
            bytes.extend_from_slice(&record.version.to_be_bytes());
            bytes.extend_from_slice(&record.up.to_be_bytes());
        }
        let digest = key.map_or(0, |key| key.digest(&[&bytes[start..]]));
        bytes.extend_from_slice(&digest.to_be_bytes());
    }

    /// Reads a heartbeat and its records, if it is of this cluster and from one who has the key.
    pub fn parse<'a>(
        bytes: &'a [u8],
        cookie: u8,
        key: Option<&Key>,
    ) -> Result<(Beat, impl Iterator<Item = Record> + use<'a>), Refused> {
        let malformed = Refused::Malformed;
        let addresses: &[u8; LEN] = bytes.first_chunk().ok_or(malformed)?;
        let address = Address::parse(addresses, cookie).map_err(|bad| match bad {
            Bad::Malformed => Refused::Malformed,
            Bad::Foreign => Refused::Foreign,
        })?;
        let (said, digest) = bytes.split_last_chunk::<DIGEST>().ok_or(malformed)?;
        let head: &[u8; RECORDS_AT] = said.first_chunk().ok_or(malformed)?;
        let count = usize::from(u16::from_be_bytes([head[16], head[17]]));
        let flags = head[15];
        let formed = address.kind == Kind::Heartbeat
            && (address.hops, address.port, address.gateway, address.via) == (0, 0, 0, NO_NODE)
            && u16::from_be_bytes([head[12], head[13]]) == ETHERTYPE
            && head[14] == FORMAT
            && flags & !(HEARS | PROBE) == 0
            && said.len() == RECORDS_AT + count * RECORD;
        if !formed {
            return Err(malformed);
        }
        if key.map_or(0, |key| key.digest(&[said])) != u64::from_be_bytes(*digest) {
            return Err(Refused::Forged);
        }
        let beat = Beat {
            from: address.input,
            to: address.node,
            link: u32::from_be_bytes([head[18], head[19], head[20], head[21]]),
            hears: flags & HEARS != 0,
            probe: flags & PROBE != 0,
            incarnation: number(head, 22),
            sequence: number(head, 30),
            time: number(head, 38),
            echo: Echo {
                incarnation: number(head, 46),
                time: number(head, 54),
                age: number(head, 62),
            },
        };
        let records = said[RECORDS_AT..].chunks_exact(RECORD).map(|bytes| Record {
            node: u16::from_be_bytes([bytes[0], bytes[1]]),
            version: number(bytes, 2),
            up: number(bytes, 10),
        });
        Ok((beat, records))
    }
}

/// The number of 8 bytes at `at`; 0 where there are none.
fn number(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..).and_then(|rest| rest.first_chunk());
    eight.map_or(0, |eight| u64::from_be_bytes(*eight))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Beat = Beat {
        from: 2,
        to: 1,
        link: 70_000,
        hears: true,
        probe: false,
        incarnation: 1 << 60,
        sequence: 9,
        time: 1234,
        echo: Echo {
            incarnation: 5,
            time: 6,
            age: 7,
        },
    };
    const RECORDS: [Record; 2] = [
        Record {
            node: 2,
            version: 8,
            up: 3,
        },
        Record {
            node: 0,
            version: 1 << 50,
            up: 1 << 63,
        },
    ];

    fn parsed(bytes: &[u8], key: Option<&Key>) -> Result<(Beat, Vec<Record>), Refused> {
        let (beat, records) = Beat::parse(bytes, 7, key)?;
        Ok((beat, records.collect()))
    }

    #[test]
    fn what_is_written_is_read_again() {
        let key = Key::new([3; 16]);
        for key in [None, Some(&key)] {
            let mut bytes = Vec::new();
            BEAT.write(&RECORDS, 7, key, &mut bytes);
            assert_eq!(parsed(&bytes, key), Ok((BEAT, RECORDS.to_vec())));
        }
    }

    #[test]
    fn each_bit_that_changes_is_noticed_where_there_is_a_key() {
        let key = Key::new([3; 16]);
        let mut bytes = Vec::new();
        BEAT.write(&RECORDS, 7, Some(&key), &mut bytes);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(parsed(&bytes, Some(&key)).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(parsed(&bytes, Some(&key)).is_ok());
        assert_eq!(parsed(&bytes, None), Err(Refused::Forged));
        assert_eq!(
            parsed(&bytes, Some(&Key::new([4; 16]))),
            Err(Refused::Forged)
        );
    }

    #[test]
    fn a_heartbeat_that_is_cut_short_or_goes_on_is_malformed() {
        let mut bytes = Vec::new();
        BEAT.write(&RECORDS, 7, None, &mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(parsed(&bytes[..length], None), Err(Refused::Malformed));
        }
        bytes.push(0);
        assert_eq!(parsed(&bytes, None), Err(Refused::Malformed));
    }
}
