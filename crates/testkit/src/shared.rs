//! Real inputs that lie beside the project and are never part of it.
//!
//! They are looked for under `$ASHLAR_SHARED/data`, else under `../shared/data` beside the workspace. Where
//! a file is missing the reader says so in one form, and the test returns:
//!
//! ```no_run
//! let Some(frames) = testkit::shared::frames("pcap/ndpi-mix-zeropay.pcap.zst") else {
//!     return;
//! };
//! ```
//!
//! A file that is there and cannot be read is a failure.

use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};

/// Where `relative` (as in `"rib/x.txt.zst"`) lies; if nowhere, prints which test is skipped for want of it.
pub fn path(relative: &str) -> Option<PathBuf> {
    let found = locate(relative);
    if found.is_none() {
        // libtest names the thread after the test.
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a test");
        println!("skipped: {name} needs ../shared/data/{relative}");
    }
    found
}

fn locate(relative: &str) -> Option<PathBuf> {
    let root = match std::env::var_os("ASHLAR_SHARED") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    Some(root.join("data").join(relative)).filter(|path| path.exists())
}

/// The bytes of a shared file, unpacked if its name ends in `.zst`; `None` says skip.
pub fn bytes(relative: &str) -> Option<Vec<u8>> {
    let path = path(relative)?;
    let packed = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if !relative.ends_with(".zst") {
        return Some(packed);
    }
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(packed.as_slice())
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut out = Vec::new();
    decoder
        .read_to_end(&mut out)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Some(out)
}

/// The text of a shared file, unpacked if its name ends in `.zst`; `None` says skip.
pub fn text(relative: &str) -> Option<String> {
    bytes(relative).map(|b| String::from_utf8(b).unwrap_or_else(|e| panic!("{relative}: {e}")))
}

/// The frames of a shared capture; `None` says skip.
pub fn frames(relative: &str) -> Option<Vec<Vec<u8>>> {
    bytes(relative).map(|b| capture_frames(&b))
}

/// The captures of a shared `.tar.zst`, each with its file name, in order of name; `None` says skip.
pub fn captures(relative: &str) -> Option<Vec<(String, Vec<Vec<u8>>)>> {
    let bytes = bytes(relative)?;
    let mut archive = tar::Archive::new(Cursor::new(bytes));
    let mut out = Vec::new();
    for entry in archive.entries().expect("a tar archive starts here") {
        let mut entry = entry.expect("the archive is whole");
        let path = entry.path().expect("names are text").into_owned();
        let is_capture = path
            .extension()
            .is_some_and(|e| e == "pcap" || e == "pcapng");
        if let (true, Some(name)) = (is_capture, path.file_name()) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("the archive is whole");
            out.push((name.to_string_lossy().into_owned(), capture_frames(&bytes)));
        }
    }
    out.sort();
    Some(out)
}

/// The frames of a capture in pcap or pcapng form. Panics if it is neither, or broken.
pub fn capture_frames(capture: &[u8]) -> Vec<Vec<u8>> {
    const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
    let mut out = Vec::new();
    if capture.starts_with(&PCAPNG) {
        let mut reader = PcapNgReader::new(capture).expect("a pcapng section starts here");
        while let Some(block) = reader.next_block() {
            match block.expect("the capture is whole") {
                Block::EnhancedPacket(p) => out.push(p.data.into_owned()),
                Block::SimplePacket(p) => out.push(p.data.into_owned()),
                _ => {}
            }
        }
        return out;
    }
    let mut reader = PcapReader::new(capture).expect("a pcap header starts here");
    while let Some(packet) = reader.next_packet() {
        out.push(packet.expect("the capture is whole").data.into_owned());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcap::{PcapPacket, PcapWriter};
    use std::time::Duration;

    #[test]
    fn a_missing_file_is_none() {
        assert_eq!(locate("no/such/file"), None);
    }

    #[test]
    fn a_written_capture_reads_back() {
        let frames = [vec![1, 2, 3], vec![], vec![9; 1518]];
        let mut writer = PcapWriter::new(Vec::new()).unwrap();
        for f in &frames {
            let packet = PcapPacket::new(Duration::ZERO, f.len() as u32, f);
            writer.write_packet(&packet).unwrap();
        }
        assert_eq!(capture_frames(&writer.into_writer()), frames);
    }

    #[test]
    fn the_shared_mix_has_the_frames_its_readme_counts() {
        let Some(frames) = frames("pcap/ndpi-mix-zeropay.pcap.zst") else {
            return;
        };
        assert_eq!(frames.len(), 98_093);
        assert!(frames.iter().all(|f| (14..=1518).contains(&f.len())));
    }

    #[test]
    fn the_shared_features_are_captures_with_frames() {
        let Some(captures) = captures("pcap/features.tar.zst") else {
            return;
        };
        assert_eq!(captures.len(), 47);
        assert!(captures.iter().all(|(_, frames)| !frames.is_empty()));
    }
}
