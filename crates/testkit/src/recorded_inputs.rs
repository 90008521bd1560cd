//! Real inputs that lie beside the project and are never part of it.
//!
//! They are looked for under `$ASHLAR_SHARED/data`, else under `../shared/data` beside the workspace. A test that
//! reads them has `shared_data` in its path: where they are missing it fails, unless such tests are left out, as
//! `make test` does then.

use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};

/// Path of `relative`, such as `"rib/x.txt.zst"`.
pub fn path(relative: &str) -> PathBuf {
    let root = match std::env::var_os("ASHLAR_SHARED") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let path = root.join("data").join(relative);
    assert!(
        path.exists(),
        "there is no ../shared/data/{relative}, nor is it under $ASHLAR_SHARED: \
         leave out the tests that need such data: cargo test -- --skip shared_data"
    );
    path
}

/// The bytes of a shared file, unpacked if its name ends in `.zst`.
pub fn bytes(relative: &str) -> Vec<u8> {
    let path = path(relative);
    let packed = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if !relative.ends_with(".zst") {
        return packed;
    }
    let mut decoder = ruzstd::decoding::StreamingDecoder::new(packed.as_slice())
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut out = Vec::new();
    decoder
        .read_to_end(&mut out)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    out
}

/// The text of a shared file, unpacked if its name ends in `.zst`.
pub fn text(relative: &str) -> String {
    String::from_utf8(bytes(relative)).unwrap_or_else(|e| panic!("{relative}: {e}"))
}

/// The frames of a shared capture.
pub fn frames(relative: &str) -> Vec<Vec<u8>> {
    capture_frames(&bytes(relative))
}

/// The captures of a shared `.tar.zst`, each with its file name, in order of name.
pub fn captures(relative: &str) -> Vec<(String, Vec<Vec<u8>>)> {
    let bytes = bytes(relative);
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
    out
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
    #[should_panic(expected = "cargo test -- --skip shared_data")]
    fn missing_file_error_says_how_to_skip_the_tests() {
        path("no/such/file");
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
    fn shared_data_mix_has_the_frames_that_its_readme_counts() {
        let frames = frames("pcap/ndpi-mix-zeropay.pcap.zst");
        assert_eq!(frames.len(), 98_093);
        assert!(frames.iter().all(|f| (14..=1518).contains(&f.len())));
    }

    #[test]
    fn shared_data_features_are_captures_with_frames() {
        let captures = captures("pcap/features.tar.zst");
        assert_eq!(captures.len(), 47);
        assert!(captures.iter().all(|(_, frames)| !frames.is_empty()));
    }
}
