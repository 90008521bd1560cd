use super::*;

fn read(bytes: &[u8]) -> Result<Vec<(Record, Vec<u8>)>, String> {
    let mut reader = Reader::new(bytes)?;
    let (mut all, mut frame) = (Vec::new(), Vec::new());
    while let Some(record) = reader.next(&mut frame)? {
        all.push((record, frame.clone()));
    }
    Ok(all)
}

fn words(big: bool, words: &[u32]) -> Vec<u8> {
    words
        .iter()
        .flat_map(|w| {
            if big {
                w.to_be_bytes()
            } else {
                w.to_le_bytes()
            }
        })
        .collect()
}

/// A pcapng file: section, an interface with resolution `resolution`, an enhanced and a simple block.
fn pcapng(big: bool, resolution: u8) -> Vec<u8> {
    let mut f = words(
        big,
        &[SECTION, 28, SECTION_ORDER, 1, u32::MAX, u32::MAX, 28],
    );
    let link = if big { [0, 1, 0, 0] } else { [1, 0, 0, 0] };
    let option = if big { [0, 9, 0, 1] } else { [9, 0, 1, 0] };
    f.extend(words(big, &[INTERFACE, 32]));
    f.extend(link);
    f.extend(words(big, &[64]));
    f.extend(option);
    f.extend([resolution, 0, 0, 0]);
    f.extend(words(big, &[0, 32]));
    f.extend(words(big, &[99, 16, 7, 16]));
    f.extend(words(big, &[ENHANCED, 40, 0, 1, 5, 5, 1500]));
    f.extend(b"hello\0\0\0");
    f.extend(words(big, &[40, SIMPLE, 20, 3]));
    f.extend(b"abc\0");
    f.extend(words(big, &[20]));
    f
}

#[test]
fn written_blocks_are_read_back_unchanged() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    writer
        .write(1_700_000_000_123_456_789, b"first frame")
        .unwrap();
    writer.write(0, b"").unwrap();
    let record = |timestamp, original| Record {
        timestamp,
        original,
        link: ETHERNET,
    };
    assert_eq!(
        read(&file).unwrap(),
        [
            (
                record(1_700_000_000_123_456_789, 11),
                b"first frame".to_vec()
            ),
            (record(0, 0), Vec::new())
        ]
    );
}

#[test]
fn both_byte_orders_and_microseconds_are_read() {
    for big in [false, true] {
        let mut f = words(big, &[MICROS, 0, 0, 0, 64, 1, 2, 3, 4, 1500]);
        f.extend([1, 2, 3, 4]);
        let record = Record {
            timestamp: 2_000_003_000,
            original: 1500,
            link: 1,
        };
        assert_eq!(read(&f).unwrap(), [(record, vec![1, 2, 3, 4])]);
    }
}

#[test]
fn pcapng_is_read_in_both_byte_orders_and_any_resolution() {
    let units = (1u64 << 32) + 5;
    let cases = [
        (6, units * 1000),
        (9, units),
        (12, units / 1000),
        (0x80 | 20, (units * 1_000_000_000) >> 20),
    ];
    for big in [false, true] {
        for (resolution, nanos) in cases {
            let got = read(&pcapng(big, resolution)).unwrap();
            assert_eq!(
                got[0].0,
                Record {
                    timestamp: nanos,
                    original: 1500,
                    link: 1
                }
            );
            assert_eq!(got[0].1, b"hello");
            assert_eq!(
                got[1],
                (
                    Record {
                        timestamp: 0,
                        original: 3,
                        link: 1
                    },
                    b"abc".to_vec()
                )
            );
            assert_eq!(got.len(), 2);
        }
    }
}

#[test]
fn a_damaged_file_gives_an_error_and_never_a_panic() {
    let mut classic = Vec::new();
    let mut writer = Writer::new(&mut classic).unwrap();
    writer.write(1, &[7; 100]).unwrap();
    for file in [classic, pcapng(false, 9), pcapng(true, 6)] {
        for len in 0..file.len() {
            // A cut between records is an end; everywhere else it is an error.
            let _ = read(&file[..len]);
        }
        assert!(
            read(&file[..file.len() - 1])
                .unwrap_err()
                .contains("middle of a record")
        );
        for at in 0..file.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bad = file.clone();
                bad[at] = value;
                let _ = read(&bad);
            }
        }
    }
    assert!(read(b"GIF89a..").unwrap_err().contains("bad magic number"));
}

#[test]
fn a_cut_frame_keeps_its_length_and_a_reader_finds_its_place_again() {
    let head = FileHeader {
        link: 101,
        nanos: false,
        snap: 2,
    };
    let mut writer = Writer::with_header(Vec::new(), head).unwrap();
    writer.write_cut(1_000_002_003, b"ab", 9).unwrap();
    writer.write(2_000_000_000, b"c").unwrap();
    let file = writer.into_inner();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    let mut frame = Vec::new();
    let first = reader.next(&mut frame).unwrap().unwrap();
    assert_eq!(
        (first.timestamp, first.original, first.link),
        (1_000_002_000, 9, 101)
    );
    let second = reader.position();
    let mut again = Reader::new(file.as_slice()).unwrap();
    assert_eq!(again.skip_to(second), Ok(true));
    assert_eq!(
        again.next(&mut frame).unwrap().unwrap().timestamp,
        2_000_000_000
    );
    assert_eq!(frame, b"c");
    assert_eq!(again.skip_to(1), Ok(false));
    assert!(again.skip_to(10_000).is_err());
}
