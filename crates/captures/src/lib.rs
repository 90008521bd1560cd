//! Capture files: pcap (microseconds or nanoseconds, either byte order) and pcapng are read, pcap is
//! written. Formats: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
//!
//! `pcap:` ports and the elements FromDump and ToDump share the crate. [`summary`] is Click's text format, of
//! FromIPSummaryDump and ToIPSummaryDump. The crate works on readers and writers that it is given: it opens no files.

pub mod date;
pub mod link;
pub mod summary;
pub mod time_window;

use std::io::{self, BufRead, ErrorKind, Write};

/// Link type of Ethernet frames.
pub const ETHERNET: u16 = 1;
/// Maximum length of a plausible record; capture programs write no longer ones.
const MAX_RECORD: usize = 262_144;
/// Maximum length of a plausible pcapng block: a record with its comments.
const MAX_BLOCK: usize = 16 << 20;

const MICROS: u32 = 0xa1b2_c3d4;
const NANOS: u32 = 0xa1b2_3c4d;
const SECTION: u32 = 0x0a0d_0d0a;
const SECTION_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;

/// A file's information about a frame, beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time of capture in nanoseconds since the Unix epoch; 0 = not in the file.
    pub timestamp: u64,
    /// Length of the frame on its wire, in bytes; it may be longer than the captured bytes.
    pub original: usize,
    /// Link type of the interface that the frame was captured on; 1 = Ethernet.
    pub link: u16,
}

/// An interface of a pcapng section.
#[derive(Clone, Copy)]
struct Interface {
    link: u16,
    snap: usize,
    ticks: Ticks,
}

/// Units of a timestamp.
#[derive(Clone, Copy)]
enum Ticks {
    /// 10^-n seconds.
    Decimal(u32),
    /// 2^-n seconds.
    Binary(u32),
}

impl Ticks {
    fn nanos(self, units: u64) -> u64 {
        match self {
            Ticks::Decimal(n @ 0..=9) => units.saturating_mul(10u64.pow(9 - n)),
            Ticks::Decimal(n) => 10u64.checked_pow(n - 9).map_or(0, |by| units / by),
            Ticks::Binary(n) => {
                let nanos = (u128::from(units) * 1_000_000_000)
                    .checked_shr(n)
                    .unwrap_or(0);
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        }
    }
}

enum Kind {
    Pcap { link: u16, nanos: bool },
    Pcapng { interfaces: Vec<Interface> },
}

/// Reads frames from a capture file.
pub struct Reader<R> {
    file: R,
    kind: Kind,
    /// True if numbers are big-endian.
    big_endian: bool,
    /// Number of bytes read so far, for messages.
    at: u64,
    block: Vec<u8>,
}

impl<R: BufRead> Reader<R> {
    /// Reads the file's header.
    ///
    /// # Errors
    /// The file cannot be read or is no capture file; a sentence.
    pub fn new(file: R) -> Result<Reader<R>, String> {
        let kind = Kind::Pcapng {
            interfaces: Vec::new(),
        };
        let mut reader = Reader {
            file,
            kind,
            big_endian: false,
            at: 0,
            block: Vec::new(),
        };
        let mut magic = [0; 4];
        if !reader.fill(&mut magic)? {
            return Err("not a tcpdump file (too short)".into());
        }
        let little = u32::from_le_bytes(magic);
        reader.big_endian = matches!(little.swap_bytes(), MICROS | NANOS);
        match if reader.big_endian {
            little.swap_bytes()
        } else {
            little
        } {
            SECTION => reader.section()?,
            number @ (MICROS | NANOS) => {
                let mut header = [0; 20];
                reader.must_fill(&mut header)?;
                // The upper bits describe a frame check sequence, which Ethernet files do not have.
                let link = reader.number(&header[16..20]) as u16;
                reader.kind = Kind::Pcap {
                    link,
                    nanos: number == NANOS,
                };
            }
            _ => return Err("not a tcpdump file (bad magic number)".into()),
        }
        Ok(reader)
    }

    /// Link type of the whole file; `None` for pcapng, where each record has its own.
    pub fn link(&self) -> Option<u16> {
        match self.kind {
            Kind::Pcap { link, .. } => Some(link),
            Kind::Pcapng { .. } => None,
        }
    }

    /// Number of bytes read so far: where the next record starts.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Passes over what lies before byte `at`, where a record must start; false if that was read
    /// already.
    ///
    /// # Errors
    /// The file ends before, or cannot be read; a sentence.
    pub fn skip_to(&mut self, at: u64) -> Result<bool, String> {
        let mut left = match at.checked_sub(self.at) {
            Some(left) => left,
            None => return Ok(false),
        };
        let mut piece = [0; 4096];
        while left > 0 {
            let len = left.min(piece.len() as u64);
            self.must_fill(&mut piece[..len as usize])?;
            left -= len;
        }
        Ok(true)
    }

    /// Reads the next frame; its bytes replace those in `frame`. `None` at the end of the file.
    ///
    /// # Errors
    /// The file is damaged or cannot be read; a sentence. Nothing can be read after it.
    pub fn next(&mut self, frame: &mut Vec<u8>) -> Result<Option<Record>, String> {
        match self.kind {
            Kind::Pcap { link, nanos } => self.pcap_record(frame, link, nanos),
            Kind::Pcapng { .. } => self.pcapng_record(frame),
        }
    }

    fn pcap_record(
        &mut self,
        frame: &mut Vec<u8>,
        link: u16,
        nanos: bool,
    ) -> Result<Option<Record>, String> {
        let mut header = [0; 16];
        if !self.fill(&mut header)? {
            return Ok(None);
        }
        let [seconds, fraction, captured, original] =
            std::array::from_fn(|i| self.number(&header[i * 4..i * 4 + 4]));
        let captured = captured as usize;
        if captured > MAX_RECORD {
            return Err(format!(
                "damaged: a record of {captured} bytes {}",
                self.position_text()
            ));
        }
        frame.resize(captured, 0);
        self.must_fill(frame)?;
        let fraction = u64::from(fraction) * if nanos { 1 } else { 1000 };
        let timestamp = u64::from(seconds) * 1_000_000_000 + fraction;
        Ok(Some(Record {
            timestamp,
            original: original as usize,
            link,
        }))
    }

    fn pcapng_record(&mut self, frame: &mut Vec<u8>) -> Result<Option<Record>, String> {
        loop {
            let mut head = [0; 4];
            if !self.fill(&mut head)? {
                return Ok(None);
            }
            let kind = self.number(&head);
            if kind == SECTION {
                self.section()?;
                continue;
            }
            self.body()?;
            match kind {
                INTERFACE => self.interface()?,
                SIMPLE | ENHANCED => {
                    let record = self.packet(kind == ENHANCED, frame);
                    return match record {
                        Some(record) => Ok(Some(record)),
                        None => Err(format!("damaged: a packet block {}", self.position_text())),
                    };
                }
                _ => (),
            }
        }
    }

    /// Reads a section header block after its block type.
    fn section(&mut self) -> Result<(), String> {
        let mut head = [0; 8];
        self.must_fill(&mut head)?;
        self.big_endian = match u32::from_le_bytes([head[4], head[5], head[6], head[7]]) {
            SECTION_ORDER => false,
            order if order.swap_bytes() == SECTION_ORDER => true,
            _ => {
                return Err(format!(
                    "damaged: a section header {}",
                    self.position_text()
                ));
            }
        };
        let total = self.number(&head[..4]) as usize;
        self.read_block_rest(total, 12)?;
        self.kind = Kind::Pcapng {
            interfaces: Vec::new(),
        };
        Ok(())
    }

    /// Reads length and body of another block; the body is in `block` then.
    fn body(&mut self) -> Result<(), String> {
        let mut len = [0; 4];
        self.must_fill(&mut len)?;
        let total = self.number(&len) as usize;
        self.read_block_rest(total, 8)
    }

    /// Skips the rest of a block of `total` bytes, of which `read` bytes have been read.
    fn read_block_rest(&mut self, total: usize, read: usize) -> Result<(), String> {
        if total < read + 4 || total > MAX_BLOCK || !total.is_multiple_of(4) {
            return Err(format!(
                "damaged: a block of {total} bytes {}",
                self.position_text()
            ));
        }
        let mut block = std::mem::take(&mut self.block);
        block.resize(total - read, 0);
        let result = self.must_fill(&mut block);
        block.truncate(total - read - 4);
        self.block = block;
        result
    }

    fn interface(&mut self) -> Result<(), String> {
        let damaged = format!("damaged: an interface block {}", self.position_text());
        let block = std::mem::take(&mut self.block);
        if block.len() < 8 {
            return Err(damaged);
        }
        let link = self.read_u16(&block[..2]);
        let snap = match self.number(&block[4..8]) as usize {
            0 => MAX_RECORD,
            snap => snap,
        };
        let mut interface = Interface {
            link,
            snap,
            ticks: Ticks::Decimal(6),
        };
        let mut options = &block[8..];
        while options.len() >= 4 {
            let code = self.read_u16(&options[..2]);
            let len = usize::from(self.read_u16(&options[2..4]));
            let Some(value) = options.get(4..4 + len).filter(|_| code != 0) else {
                break;
            };
            if let (9, [n]) = (code, value) {
                let exponent = u32::from(n & 0x7f);
                let binary = n & 0x80 != 0;
                interface.ticks = if binary {
                    Ticks::Binary(exponent)
                } else {
                    Ticks::Decimal(exponent)
                };
            }
            options = options.get(4 + len.next_multiple_of(4)..).unwrap_or(&[]);
        }
        if let Kind::Pcapng { interfaces } = &mut self.kind {
            interfaces.push(interface);
        }
        self.block = block;
        Ok(())
    }

    /// Reads a packet from `block`.
    fn packet(&self, enhanced: bool, frame: &mut Vec<u8>) -> Option<Record> {
        let Kind::Pcapng { interfaces } = &self.kind else {
            return None;
        };
        let b = &self.block;
        let word = |i: usize| b.get(i * 4..i * 4 + 4).map(|bytes| self.number(bytes));
        let (timestamp, interface, captured, original, data) = if enhanced {
            let interface = interfaces.get(word(0)? as usize)?;
            let units = u64::from(word(1)?) << 32 | u64::from(word(2)?);
            let timestamp = interface.ticks.nanos(units);
            (
                timestamp,
                interface,
                word(3)? as usize,
                word(4)? as usize,
                b.get(20..)?,
            )
        } else {
            let interface = interfaces.first()?;
            let original = word(0)? as usize;
            let data = b.get(4..)?;
            (
                0,
                interface,
                original.min(interface.snap).min(data.len()),
                original,
                data,
            )
        };
        frame.clear();
        frame.extend_from_slice(data.get(..captured)?);
        Some(Record {
            timestamp,
            original,
            link: interface.link,
        })
    }

    fn number(&self, b: &[u8]) -> u32 {
        let bytes = [b[0], b[1], b[2], b[3]];
        if self.big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    fn read_u16(&self, b: &[u8]) -> u16 {
        let bytes = [b[0], b[1]];
        if self.big_endian {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        }
    }

    fn position_text(&self) -> String {
        format!("before byte {}", self.at)
    }

    /// Fills `into`; false if the file ends right here.
    fn fill(&mut self, into: &mut [u8]) -> Result<bool, String> {
        match self.file.fill_buf() {
            Ok([]) => return Ok(false),
            Ok(_) => (),
            Err(e) if e.kind() == ErrorKind::Interrupted => (),
            Err(e) => return Err(format!("cannot be read {}: {e}", self.position_text())),
        }
        self.must_fill(into).map(|()| true)
    }

    fn must_fill(&mut self, mut into: &mut [u8]) -> Result<(), String> {
        while !into.is_empty() {
            match self.file.read(into) {
                Ok(0) => return Err(self.ends_in_record()),
                Ok(read) => {
                    self.at += read as u64;
                    into = &mut into[read..];
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(e) => return Err(format!("cannot be read {}: {e}", self.position_text())),
            }
        }
        Ok(())
    }

    #[cold]
    fn ends_in_record(&self) -> String {
        format!(
            "the file ends in the middle of a record, at byte {}",
            self.at
        )
    }
}

/// Content of a pcap file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Link type of all frames; 1 = Ethernet.
    pub link: u16,
    /// True if times have nanoseconds, not microseconds.
    pub nanos: bool,
    /// Snapshot length: maximum bytes kept of a frame.
    pub snap: u32,
}

impl Default for FileHeader {
    fn default() -> FileHeader {
        FileHeader {
            link: ETHERNET,
            nanos: true,
            snap: MAX_RECORD as u32,
        }
    }
}

/// Writes frames to a pcap file.
pub struct Writer<W: Write> {
    file: W,
    nanos: bool,
}

impl<W: Write> Writer<W> {
    /// Writes the header of a file of Ethernet frames with nanoseconds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(file: W) -> io::Result<Writer<W>> {
        Writer::with_header(file, FileHeader::default())
    }

    /// Writes the file's header.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn with_header(mut file: W, head: FileHeader) -> io::Result<Writer<W>> {
        let magic = if head.nanos { NANOS } else { MICROS };
        let words = [magic, 2 | 4 << 16, 0, 0, head.snap, u32::from(head.link)];
        file.write_all(words.map(u32::to_le_bytes).as_flattened())?;
        Ok(Writer {
            file,
            nanos: head.nanos,
        })
    }

    /// Writes a frame with its time in nanoseconds since the Unix epoch.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, timestamp: u64, frame: &[u8]) -> io::Result<()> {
        self.write_cut(timestamp, frame, frame.len())
    }

    /// Writes the first bytes of a frame of originally `original` bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_cut(&mut self, timestamp: u64, frame: &[u8], original: usize) -> io::Result<()> {
        let (seconds, nanos) = (timestamp / 1_000_000_000, timestamp % 1_000_000_000);
        let fraction = if self.nanos { nanos } else { nanos / 1000 };
        let header = [
            seconds as u32,
            fraction as u32,
            frame.len() as u32,
            original as u32,
        ];
        self.file
            .write_all(header.map(u32::to_le_bytes).as_flattened())?;
        self.file.write_all(frame)
    }

    /// Mutable access to the file, for example to read and empty a file in memory.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.file
    }

    /// The file, including bytes that were in its buffer.
    pub fn into_inner(self) -> W {
        self.file
    }

    /// Flushes buffered frames to the operating system.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests;
