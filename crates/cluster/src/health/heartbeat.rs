//! The heartbeat on the wire.
//!
//! ```text
//!   0 addresses (kind heartbeat, no hops left)   12      54 echo: your time                      8
//!  12 ethertype 0x88b6                            2      62 echo: how long ago                   8
//!  14 format, 2                                   1      70 sender's epoch of the link          16
//!  15 flags: 1 I hear you, 2 send more often      1      86 echo: your epoch of the link        16
//!  16 number of records, up to 128                2     102 newest frame of one of my lanes      8
//!  18 which link between these two nodes          4     110 records of 18 bytes
//!  22 sender's incarnation                        8         HMAC-SHA-256 of all before, cut off 16
//!  30 sequence on this link                       8
//!  38 sender's time                               8
//!  46 echo: your incarnation                      8
//! ```
//!
//! The code also covers the names of the cluster, of the sender and of the receiver, which are not sent. Numbers are
//! big-endian; times are nanoseconds of the clock on which they were measured. A record is a node (2), its version (8)
//! and the bitmap of its own links that are up (8). Without a key, epochs, newest frame and code are 0.

use super::Refused;
use crate::address::{Address, Bad, Kind, LEN, NO_NODE, NodeId};
use crate::auth::{CODE, Code, Ends, Key, Keys, Life};

/// IEEE 802's second ethertype for local experiments.
pub const ETHERTYPE: u16 = 0x88b6;
/// Length of a record in bytes.
const RECORD: usize = 18;
/// Greatest number of records in a heartbeat: a sender without a key must not cause much computation.
pub const RECORDS_MAX: usize = 128;

const FORMAT: u8 = 2;
const HEARS: u8 = 1;
const PROBE: u8 = 2;
const LIFE: usize = 70;
const ECHO_LIFE: usize = 86;
const NEWEST: usize = 102;
const RECORDS_AT: usize = 110;

/// Names of a cluster and its members; empty if they have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Name of the cluster.
    pub cluster: String,
    /// Names of nodes, by number.
    pub nodes: Vec<String>,
}

impl Names {
    fn ends(&self, from: NodeId, to: NodeId) -> Ends<'_> {
        let [from, to] = [from, to].map(|node| self.nodes.get(usize::from(node)));
        Ends {
            cluster: &self.cluster,
            from: from.map_or("", String::as_str),
            to: to.map_or("", String::as_str),
        }
    }
}

/// Identification of the last heartbeat received from the peer, returned to the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// The peer's incarnation; 0 if no heartbeat has arrived yet.
    pub incarnation: u64,
    /// The peer's epoch of the link.
    pub peer_epoch: Life,
    /// The peer's time in the newest heartbeat.
    pub time: u64,
    /// Time since that heartbeat arrived.
    pub age: u64,
}

/// A heartbeat without its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Sender.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// Index of the link among those between the two nodes.
    pub link: u32,
    /// True if the sender receives the receiver's heartbeats well.
    pub receives_peer: bool,
    /// True if the sender suspects the link and requests more frequent heartbeats.
    pub probe: bool,
    /// Start time of the sender; it identifies the sender's run.
    pub incarnation: u64,
    /// Counts the heartbeats on this link, from 1.
    pub sequence: u64,
    /// The sender's time.
    pub time: u64,
    /// The sender's epoch of the link.
    pub epoch: Life,
    /// The newest frame number that the sender has used on one lane of this link; 0: none.
    pub newest: u64,
    /// Last heartbeat that the sender received.
    pub echo: Echo,
}

/// State of a node's links, made by that node and passed on by others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The node.
    pub node: NodeId,
    /// Version of the record; the larger one is newer.
    pub version: u64,
    /// Bit map of the node's own links that are up; the first link is the lowest bit.
    pub up: u64,
}

impl Beat {
    /// Appends the heartbeat to `bytes`.
    pub fn write(
        &self,
        records: &[Record],
        cookie: u8,
        (key, names): (Option<&Key>, &Names),
        bytes: &mut Vec<u8>,
    ) {
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
        let hears = if self.receives_peer { HEARS } else { 0 };
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
        bytes.extend_from_slice(&self.epoch.0);
        bytes.extend_from_slice(&echo.peer_epoch.0);
        bytes.extend_from_slice(&self.newest.to_be_bytes());
        for record in records {
            bytes.extend_from_slice(&record.node.to_be_bytes());
            bytes.extend_from_slice(&record.version.to_be_bytes());
            bytes.extend_from_slice(&record.up.to_be_bytes());
        }
        let code = key.map_or(Code::default(), |key| {
            key.code(&names.ends(self.from, self.to), &bytes[start..])
        });
        bytes.extend_from_slice(&code);
    }

    /// Parses a heartbeat and its records, if it is of this cluster and its sender has a key.
    pub fn parse<'a>(
        bytes: &'a [u8],
        cookie: u8,
        (keys, names): (Option<&Keys>, &Names),
    ) -> Result<(Beat, impl Iterator<Item = Record> + use<'a>), Refused> {
        let malformed = Refused::Malformed;
        let addresses: &[u8; LEN] = bytes.first_chunk().ok_or(malformed)?;
        let address = Address::parse(addresses, cookie).map_err(|bad| match bad {
            Bad::Malformed => Refused::Malformed,
            Bad::Foreign => Refused::Foreign,
        })?;
        let (said, code) = bytes.split_last_chunk::<CODE>().ok_or(malformed)?;
        let head: &[u8; RECORDS_AT] = said.first_chunk().ok_or(malformed)?;
        let count = usize::from(u16::from_be_bytes([head[16], head[17]]));
        let flags = head[15];
        let formed = address.kind == Kind::Heartbeat
            && (address.hops, address.port, address.gateway, address.via) == (0, 0, 0, NO_NODE)
            && u16::from_be_bytes([head[12], head[13]]) == ETHERTYPE
            && head[14] == FORMAT
            && flags & !(HEARS | PROBE) == 0
            && count <= RECORDS_MAX
            && said.len() == RECORDS_AT + count * RECORD;
        if !formed {
            return Err(malformed);
        }
        let ends = names.ends(address.input, address.node);
        let proved = match keys {
            None => *code == Code::default(),
            Some(keys) => keys.iter().any(|key| key.verify(&ends, said, code)),
        };
        if !proved {
            return Err(Refused::Forged);
        }
        let beat = Beat {
            from: address.input,
            to: address.node,
            link: u32::from_be_bytes([head[18], head[19], head[20], head[21]]),
            receives_peer: flags & HEARS != 0,
            probe: flags & PROBE != 0,
            incarnation: number(head, 22),
            sequence: number(head, 30),
            time: number(head, 38),
            epoch: life(head, LIFE),
            newest: number(head, NEWEST),
            echo: Echo {
                incarnation: number(head, 46),
                peer_epoch: life(head, ECHO_LIFE),
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

/// Reads 8 bytes at `at` as a number; 0 if there are fewer.
fn number(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..).and_then(|rest| rest.first_chunk());
    eight.map_or(0, |eight| u64::from_be_bytes(*eight))
}

/// Reads the epoch at `at`.
fn life(bytes: &[u8], at: usize) -> Life {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk());
    Life(bytes.copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Beat = Beat {
        from: 2,
        to: 1,
        link: 70_000,
        receives_peer: true,
        probe: false,
        incarnation: 1 << 60,
        sequence: 9,
        time: 1234,
        epoch: Life([8; 16]),
        newest: 3 << 56 | 4,
        echo: Echo {
            incarnation: 5,
            peer_epoch: Life([9; 16]),
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

    fn parsed(bytes: &[u8], keys: Option<&Keys>) -> Result<(Beat, Vec<Record>), Refused> {
        let (beat, records) = Beat::parse(bytes, 7, (keys, &names(["c", "b", "a"])))?;
        Ok((beat, records.collect()))
    }

    fn names(nodes: [&str; 3]) -> Names {
        Names {
            cluster: "t".to_owned(),
            nodes: nodes.map(str::to_owned).to_vec(),
        }
    }

    fn write(records: &[Record], key: Option<&Key>, bytes: &mut Vec<u8>) {
        BEAT.write(records, 7, (key, &names(["c", "b", "a"])), bytes);
    }

    fn keys(secret: u8) -> Keys {
        Keys::new(Key::new([secret; 16]), None)
    }

    #[test]
    fn written_bytes_parse_to_the_same_values() {
        let keys = keys(3);
        for keys in [None, Some(&keys)] {
            let mut bytes = Vec::new();
            write(&RECORDS, keys.map(Keys::first), &mut bytes);
            assert_eq!(parsed(&bytes, keys), Ok((BEAT, RECORDS.to_vec())));
        }
    }

    #[test]
    fn each_bit_that_changes_is_noticed_where_there_is_a_key() {
        let keys = keys(3);
        let mut bytes = Vec::new();
        write(&RECORDS, Some(keys.first()), &mut bytes);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(parsed(&bytes, Some(&keys)).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(parsed(&bytes, Some(&keys)).is_ok());
        let changing = Keys::new(Key::new([4; 16]), Some(Key::new([3; 16])));
        assert!(parsed(&bytes, Some(&changing)).is_ok());
        assert_eq!(parsed(&bytes, None), Err(Refused::Forged));
        assert_eq!(parsed(&bytes, Some(&self::keys(4))), Err(Refused::Forged));
    }

    #[test]
    fn a_heartbeat_is_of_names_and_not_of_numbers() {
        let keys = keys(3);
        let mut bytes = Vec::new();
        write(&RECORDS, Some(keys.first()), &mut bytes);
        for (nodes, fits) in [
            (["other", "b", "a"], true),
            (["c", "a", "b"], false),
            (["c", "b", "d"], false),
            (["c", "d", "a"], false),
        ] {
            let found = Beat::parse(&bytes, 7, (Some(&keys), &names(nodes)));
            let found = found.map(|(beat, _)| beat);
            let wanted = if fits { Ok(BEAT) } else { Err(Refused::Forged) };
            assert_eq!(found, wanted, "{nodes:?}");
        }
        let found = Beat::parse(&bytes, 7, (Some(&keys), &Names::default()));
        assert_eq!(found.map(|(beat, _)| beat), Err(Refused::Forged));
    }

    #[test]
    fn more_records_than_there_may_be_are_malformed_before_anything_is_computed() {
        let keys = keys(3);
        for (count, wanted) in [
            (RECORDS_MAX, None),
            (RECORDS_MAX + 1, Some(Refused::Malformed)),
        ] {
            let mut bytes = Vec::new();
            write(&vec![RECORDS[0]; count], Some(keys.first()), &mut bytes);
            assert_eq!(parsed(&bytes, Some(&keys)).err(), wanted);
        }
    }

    #[test]
    fn a_heartbeat_that_is_cut_short_or_goes_on_is_malformed() {
        let mut bytes = Vec::new();
        write(&RECORDS, None, &mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(parsed(&bytes[..length], None), Err(Refused::Malformed));
        }
        bytes.push(0);
        assert_eq!(parsed(&bytes, None), Err(Refused::Malformed));
    }
}
