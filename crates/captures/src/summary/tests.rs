use super::*;

#[test]
fn every_field_is_found_by_its_name_and_listed_once() {
    for (i, row) in FIELDS.iter().enumerate() {
        assert_eq!(Field::find(row.1), Some(row.0), "{}", row.1);
        assert_eq!(row.0.name(), row.1);
        assert!(!FIELDS[i + 1..].iter().any(|other| other.0 == row.0));
        for name in row.2 {
            assert_eq!(Field::find(name), Some(row.0), "{name}");
        }
    }
    assert_eq!(Field::find("tcp seq"), Some(Field::TcpSeq));
    assert_eq!(Field::find(""), None);
}

#[test]
fn times_are_exact() {
    for (text, nanos) in [
        ("0", 0),
        (".1", 100_000_000),
        ("5.65", 5_650_000_000),
        ("1.", 1_000_000_000),
        ("1.0000000019", 1_000_000_001),
        ("-0.5", -500_000_000),
    ] {
        assert_eq!(record::time(text), Some(nanos), "{text}");
    }
    for wrong in ["", ".", "1.x", "+1", "99999999999999999999"] {
        assert_eq!(record::time(wrong), None, "{wrong}");
    }
    for (nanos, stamp, text) in [
        (-1_500_000_000, Stamp::Exact, "-1.500000"),
        (1_000_000_001, Stamp::Exact, "1.000000001"),
        (1_000_000_001, Stamp::Micro, "1.000000"),
        (1_500_000_000, Stamp::Nano, "1.500000000"),
    ] {
        let mut out = Vec::new();
        record::push_time(nanos, stamp, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), text);
    }
}

#[test]
fn faulty_options_are_a_question_mark() {
    let text = |bytes: &[u8]| {
        let mut out = Vec::new();
        tcp_options::push(bytes, tcp_options::ShownOptions::All, &mut out);
        String::from_utf8(out).expect("options are ASCII")
    };
    assert_eq!(text(&[2, 4, 5, 0xb4, 3, 1, 0, 0]), "?");
    assert_eq!(text(&[2, 3, 5, 0]), "?");
    assert_eq!(text(&[2]), "?");
    assert_eq!(text(&[1, 1, 4, 2, 0, 9]), "sackok");
    assert_eq!(text(&[]), ".");
}
