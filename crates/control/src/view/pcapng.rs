//! Capture files in the pcapng format (draft-ietf-opsawg-pcapng): written by the router, and read
//! back as far as the client needs.

/// Link type of Ethernet frames.
pub const ETHERNET: u16 = 1;
/// Link type of packets that start with an IP header.
pub const RAW_IP: u16 = 101;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

const COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const ISB_IFDROP: u16 = 5;

/// A block under construction.
struct Block(Vec<u8>);

impl Block {
    fn new(kind: u32) -> Block {
        let mut block = Block(Vec::new());
        block.number(kind).number(0);
        block
    }

    fn number(&mut self, n: u32) -> &mut Block {
        self.0.extend(n.to_le_bytes());
        self
    }

    fn padded(&mut self, bytes: &[u8]) -> &mut Block {
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn option(&mut self, code: u16, bytes: &[u8]) -> &mut Block {
        let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
        self.0.extend(code.to_le_bytes());
        self.0.extend((bytes.len() as u16).to_le_bytes());
        self.padded(bytes)
    }

    fn finish(&mut self) -> Vec<u8> {
        let length = (self.0.len() + 4) as u32;
        self.number(length);
        self.0[4..8].copy_from_slice(&length.to_le_bytes());
        std::mem::take(&mut self.0)
    }
}

/// The block that starts a file.
pub fn section() -> Vec<u8> {
    let mut block = Block::new(SECTION);
    // Byte order, version 1.0, unknown length.
    block.number(0x1a2b_3c4d).number(1);
    block.number(u32::MAX).number(u32::MAX).finish()
}

/// An interface: its name, its link type. Times of its packets are in nanoseconds.
pub fn interface(name: &str, link: u16, snap: usize) -> Vec<u8> {
    let mut block = Block::new(INTERFACE);
    block.number(u32::from(link)).number(snap as u32);
    block.option(IF_NAME, name.as_bytes());
    block.option(IF_TSRESOL, &[9]).option(0, &[]).finish()
}

/// A packet of an interface: nanoseconds since 1970, its first bytes, its length, a comment.
pub fn packet(interface: u32, time: u64, bytes: &[u8], len: usize, comment: &str) -> Vec<u8> {
    let mut block = Block::new(PACKET);
    block.number(interface);
    block.number((time >> 32) as u32).number(time as u32);
    block.number(bytes.len() as u32).number(len as u32);
    block.padded(bytes);
    if !comment.is_empty() {
        block.option(COMMENT, comment.as_bytes()).option(0, &[]);
    }
    block.finish()
}

/// Packets that were lost between the router and the file, so far.
pub fn lost_packets(interface: u32, time: u64, lost: u64) -> Vec<u8> {
    let mut block = Block::new(STATISTICS);
    block.number(interface);
    block.number((time >> 32) as u32).number(time as u32);
    block
        .option(ISB_IFDROP, &lost.to_le_bytes())
        .option(0, &[])
        .finish()
}

/// A block that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PcapngBlock {
    /// An interface: name, link type.
    Interface(String, u16),
    /// A packet: interface, nanoseconds, first bytes, length, comment.
    Packet(u32, u64, Vec<u8>, usize, String),
    /// Packets lost so far.
    Lost(u64),
    /// Anything else.
    Other,
}

/// Removes the first block from `bytes`, if all of it is there: its content, and its length. `Err` if these are no
/// blocks as this module writes them.
pub fn take_block(bytes: &[u8]) -> Result<Option<(PcapngBlock, usize)>, String> {
    let number = |bytes: &[u8], at: usize| -> Option<u32> {
        let four = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(four.try_into().ok()?))
    };
    let (Some(kind), Some(length)) = (number(bytes, 0), number(bytes, 4)) else {
        return Ok(None);
    };
    let length = length as usize;
    if length < 12 || !length.is_multiple_of(4) || length > 1 << 24 {
        return Err("this is no capture".to_owned());
    }
    if bytes.len() < length {
        return Ok(None);
    }
    let body = &bytes[8..length - 4];
    let time = || Some(u64::from(number(body, 4)?) << 32 | u64::from(number(body, 8)?));
    let found = match kind {
        INTERFACE => number(body, 0).map(|link| {
            let name = option(body.get(8..), IF_NAME).unwrap_or_default();
            PcapngBlock::Interface(String::from_utf8_lossy(name).into_owned(), link as u16)
        }),
        PACKET => (|| {
            let (captured, len) = (number(body, 12)? as usize, number(body, 16)? as usize);
            let data = body.get(20..20usize.checked_add(captured)?)?.to_vec();
            let options = body.get((20 + captured).next_multiple_of(4)..);
            let comment = String::from_utf8_lossy(option(options, COMMENT).unwrap_or_default());
            Some(PcapngBlock::Packet(
                number(body, 0)?,
                time()?,
                data,
                len,
                comment.into_owned(),
            ))
        })(),
        STATISTICS => option(body.get(12..), ISB_IFDROP).and_then(|value| {
            Some(PcapngBlock::Lost(u64::from_le_bytes(
                value.try_into().ok()?,
            )))
        }),
        _ => Some(PcapngBlock::Other),
    };
    let found = found.ok_or("this capture is damaged")?;
    Ok(Some((found, length)))
}

/// An option's value.
fn option(options: Option<&[u8]>, wanted: u16) -> Option<&[u8]> {
    let mut rest = options?;
    while let [a, b, c, d, more @ ..] = rest {
        let (code, length) = (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
        let length = usize::from(length);
        if code == wanted {
            return more.get(..length);
        }
        rest = more.get(length.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut bytes: &[u8]) -> Vec<PcapngBlock> {
        let mut found = Vec::new();
        while let Some((one, length)) = take_block(bytes).expect("these are blocks") {
            found.push(one);
            bytes = &bytes[length..];
        }
        assert!(bytes.is_empty());
        found
    }

    #[test]
    fn written_blocks_are_read_back_unchanged() {
        let mut file = section();
        file.extend(interface("a -> b", RAW_IP, 96));
        file.extend(packet(0, 1 << 40 | 5, &[1, 2, 3], 60, "dropped: full"));
        file.extend(packet(0, 7, &[], 0, ""));
        file.extend(lost_packets(0, 8, 3));
        let right = [
            PcapngBlock::Other,
            PcapngBlock::Interface("a -> b".into(), RAW_IP),
            PcapngBlock::Packet(0, 1 << 40 | 5, vec![1, 2, 3], 60, "dropped: full".into()),
            PcapngBlock::Packet(0, 7, vec![], 0, String::new()),
            PcapngBlock::Lost(3),
        ];
        assert_eq!(all(&file), right);
    }

    #[test]
    fn a_block_that_is_not_all_there_is_waited_for() {
        let block = packet(0, 1, &[1; 10], 10, "c");
        for cut in 0..block.len() {
            assert_eq!(take_block(&block[..cut]), Ok(None), "{cut} bytes");
        }
    }

    #[test]
    fn damaged_blocks_are_refused_without_harm() {
        let block = packet(0, 1, &[1; 10], 10, "c");
        for at in 0..block.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bad = block.clone();
                bad[at] = value;
                let _ = take_block(&bad);
            }
        }
        assert!(take_block(b"HTTP/1.1 404 Not Found").is_err());
    }
}
