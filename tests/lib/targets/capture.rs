//! Capture files: any bytes are frames or a sentence about the damage, in bounded memory; written files can be read
//! again.

use ports::pcap::format::{ETHERNET, Reader, Writer};

/// Reads bytes as a capture file.
pub fn run(data: &[u8]) {
    let mut reader = match Reader::new(data) {
        Ok(reader) => reader,
        Err(sentence) => return assert!(!sentence.is_empty()),
    };
    let mut frame = Vec::new();
    let mut frames = Vec::new();
    loop {
        match reader.next(&mut frame) {
            Ok(Some(record)) => {
                assert!(frame.len() <= data.len());
                if frames.len() < 64 {
                    frames.push((record.timestamp, frame.clone()));
                }
            }
            Ok(None) => break,
            Err(sentence) => {
                assert!(!sentence.is_empty());
                break;
            }
        }
    }
    write_and_read(&frames);
}

fn write_and_read(frames: &[(u64, Vec<u8>)]) {
    // Times beyond the 32 bits of seconds that the format has cannot come back.
    let fits = |time: u64| u32::try_from(time / 1_000_000_000).is_ok();
    let frames: Vec<_> = frames.iter().filter(|(time, _)| fits(*time)).collect();
    let mut writer = Writer::new(Vec::new()).expect("memory can be written");
    for (time, frame) in &frames {
        writer.write(*time, frame).expect("memory can be written");
    }
    let file = writer.into_inner();
    let mut reader = Reader::new(file.as_slice()).expect("a whole header was written");
    let mut again = Vec::new();
    for (time, frame) in frames {
        let record = reader.next(&mut again).expect("the file is whole");
        let record = record.expect("each frame is there");
        assert_eq!((record.timestamp, record.link), (*time, ETHERNET));
        assert_eq!(&again, frame);
    }
    assert_eq!(reader.next(&mut again), Ok(None));
}
