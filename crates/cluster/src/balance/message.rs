//! Messages between balancers: settings of back ends, tables, and buckets that wait to move.
//!
//! All numbers are big-endian. A message is refused if its length differs from what its header says, or if its format
//! number is unknown. So the format may change.

use super::BUCKETS;

/// Longest message in bytes.
pub const LEN_MAX: usize = HEADER + BUCKETS_LEN;
/// Number of buckets in one message.
pub const CHUNK: usize = 4096;
/// Number of messages for all buckets of a table.
pub const CHUNKS: usize = BUCKETS / CHUNK;
/// Number of words of 64 buckets in a chunk.
pub const WORDS: usize = CHUNK / 64;

const MAGIC: [u8; 4] = *b"AshB";
const FORMAT: u8 = 1;
const HEADER: usize = 24;
const MEMBER: usize = 20;
const TABLE: usize = 9;
const BUCKETS_LEN: usize = 8 + 2 * WORDS * 8;
/// Maximum number of back ends in one message.
pub const MEMBERS_MAX: usize = 50;
/// Maximum number of tables of a balancer.
pub const TABLES_MAX: usize = 16;

/// Weight and intent of a back end, as set by an operator, with a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setting {
    /// Number of changes of this back end by an operator so far. The setting with the greater number is the newer
    /// one.
    pub stamp: u32,
    /// True if the back end is drained.
    pub is_drained: bool,
    /// Weight of the back end.
    pub weight: u16,
    /// Time in milliseconds after which the back end's buckets move even if they are busy; `None`: the file's
    /// deadline.
    pub within_ms: Option<u32>,
}

/// Planned owners of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableState {
    /// Digest of the back ends that may own buckets; all owners are computed from these.
    pub digest: u64,
    /// True if buckets still move.
    pub is_moving: bool,
}

/// State of the buckets in one part of a table, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Index of the table.
    pub table: u8,
    /// Index of the part, below [`CHUNKS`].
    pub at: u8,
    /// See [`TableState::digest`].
    pub digest: u64,
    /// For each bucket, a bit: set if the bucket has not yet moved to its planned owner.
    pub waiting: [u64; WORDS],
    /// For each bucket, a bit: set if the bucket waits and has had packets lately.
    pub busy: [u64; WORDS],
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Back ends by the key of their names, [`MEMBERS_MAX`] at most.
    Members(Vec<(u64, Setting)>),
    /// All tables in their order, 1 to [`TABLES_MAX`].
    Tables(Vec<TableState>),
    /// Buckets of one part of a table.
    Buckets(Box<Chunk>),
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Number of the message; greater than that of every earlier message of the sender.
    pub sequence: u64,
    /// Digest of the parts of the file that all balancers must have in common.
    pub version: u64,
    /// Content.
    pub body: Body,
}

/// Reason why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The bytes are not a balancer's message, or their length is wrong.
    Malformed,
    /// The message is in a format that this program does not know.
    Format,
}

impl Message {
    /// The bytes, [`LEN_MAX`] at most.
    pub fn write(&self) -> Vec<u8> {
        let (kind, count) = match &self.body {
            Body::Members(all) => (1, all.len() as u8),
            Body::Tables(all) => (2, all.len() as u8),
            Body::Buckets(of) => (3, of.table),
        };
        let at = match &self.body {
            Body::Buckets(of) => of.at,
            _ => 0,
        };
        let mut out = Vec::with_capacity(LEN_MAX);
        out.extend(MAGIC);
        out.extend([FORMAT, kind, count, at]);
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.version.to_be_bytes());
        match &self.body {
            Body::Members(all) => {
                for (key, of) in all {
                    out.extend(key.to_be_bytes());
                    out.extend(of.stamp.to_be_bytes());
                    out.extend(of.weight.to_be_bytes());
                    out.extend([u8::from(of.is_drained), 0]);
                    out.extend(of.within_ms.unwrap_or(u32::MAX).to_be_bytes());
                }
            }
            Body::Tables(all) => {
                for of in all {
                    out.extend(of.digest.to_be_bytes());
                    out.push(u8::from(of.is_moving));
                }
            }
            Body::Buckets(of) => {
                out.extend(of.digest.to_be_bytes());
                let words = of.waiting.iter().chain(&of.busy);
                out.extend(words.flat_map(|word| word.to_be_bytes()));
            }
        }
        out
    }

    /// Reads a message.
    pub fn read(bytes: &[u8]) -> Result<Message, Bad> {
        let mut r = Reader(bytes);
        if r.take::<4>()? != MAGIC {
            return Err(Bad::Malformed);
        }
        let [format, kind, count, at] = r.take()?;
        if format != FORMAT {
            return Err(Bad::Format);
        }
        let (sequence, version) = (r.u64()?, r.u64()?);
        let expected = match kind {
            1 if usize::from(count) <= MEMBERS_MAX => usize::from(count) * MEMBER,
            2 if (1..=TABLES_MAX).contains(&usize::from(count)) => usize::from(count) * TABLE,
            3 if usize::from(count) < TABLES_MAX && usize::from(at) < CHUNKS => BUCKETS_LEN,
            _ => return Err(Bad::Malformed),
        };
        if r.0.len() != expected {
            return Err(Bad::Malformed);
        }
        let body = match kind {
            1 => {
                let all = (0..count).map(|_| r.member());
                Body::Members(all.collect::<Result<_, _>>()?)
            }
            2 => {
                let all = (0..count).map(|_| r.table());
                Body::Tables(all.collect::<Result<_, _>>()?)
            }
            _ => Body::Buckets(Box::new(Chunk {
                table: count,
                at,
                digest: r.u64()?,
                waiting: r.words()?,
                busy: r.words()?,
            })),
        };
        Ok(Message {
            sequence,
            version,
            body,
        })
    }
}

/// Bytes that are still to be parsed.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Bad::Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    fn u64(&mut self) -> Result<u64, Bad> {
        self.take().map(u64::from_be_bytes)
    }

    fn flag(byte: u8) -> Result<bool, Bad> {
        match byte {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Bad::Malformed),
        }
    }

    fn member(&mut self) -> Result<(u64, Setting), Bad> {
        let key = self.u64()?;
        let stamp = u32::from_be_bytes(self.take()?);
        let weight = u16::from_be_bytes(self.take()?);
        let [drained, _] = self.take()?;
        let within = u32::from_be_bytes(self.take()?);
        if !(1..=super::WEIGHT_MAX).contains(&weight) {
            return Err(Bad::Malformed);
        }
        let setting = Setting {
            stamp,
            is_drained: Reader::flag(drained)?,
            weight,
            within_ms: (within != u32::MAX).then_some(within),
        };
        Ok((key, setting))
    }

    fn table(&mut self) -> Result<TableState, Bad> {
        let digest = self.u64()?;
        let [moving] = self.take()?;
        let is_moving = Reader::flag(moving)?;
        Ok(TableState { digest, is_moving })
    }

    fn words(&mut self) -> Result<[u64; WORDS], Bad> {
        let mut words = [0; WORDS];
        for word in &mut words {
            *word = self.u64()?;
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        let setting = Setting {
            stamp: 7,
            is_drained: true,
            weight: 3,
            within_ms: Some(10_000),
        };
        let other = Setting {
            is_drained: false,
            within_ms: None,
            ..setting
        };
        let table = TableState {
            digest: 0x0102_0304_0506_0708,
            is_moving: true,
        };
        let mut chunk = Chunk {
            table: 2,
            at: 15,
            digest: 9,
            waiting: [u64::MAX; WORDS],
            busy: [0; WORDS],
        };
        chunk.busy[3] = 0x8000_0000_0000_0001;
        [
            Body::Members(vec![(1, setting), (2, other)]),
            Body::Members(Vec::new()),
            Body::Members(vec![(3, setting); MEMBERS_MAX]),
            Body::Tables(vec![table, TableState::default()]),
            Body::Buckets(Box::new(chunk)),
        ]
        .map(|body| Message {
            sequence: u64::MAX,
            version: 5,
            body,
        })
        .to_vec()
    }

    #[test]
    fn message_is_read_as_it_was_written_and_no_other_length_is_one() {
        for message in messages() {
            let bytes = message.write();
            assert!(bytes.len() <= LEN_MAX);
            assert_eq!(Message::read(&bytes), Ok(message));
            for len in 0..bytes.len() {
                assert_eq!(Message::read(&bytes[..len]), Err(Bad::Malformed));
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert_eq!(Message::read(&longer), Err(Bad::Malformed));
            let mut newer = bytes;
            newer[4] = 2;
            assert_eq!(Message::read(&newer), Err(Bad::Format));
        }
    }

    #[test]
    fn values_that_no_balancer_has_are_refused() {
        let all = messages();
        let changed = |of: usize, at: usize, to: u8| {
            let mut bytes = all[of].write();
            bytes[at] = to;
            Message::read(&bytes)
        };
        // Kind, count, part, a weight of 0, flags.
        for (of, at, to) in [
            (0, 5, 4),
            (0, 6, 3),
            (4, 6, 16),
            (4, 7, 16),
            (0, HEADER + 13, 0),
            (0, HEADER + 14, 2),
            (3, HEADER + 8, 2),
        ] {
            assert_eq!(changed(of, at, to), Err(Bad::Malformed), "{of} {at}");
        }
    }
}
