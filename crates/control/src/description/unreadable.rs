//! Error texts for a file that is not a configuration: the kind of the file, and the expected kind.

use arguments::near::nearest;
use arguments::show::reason;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// Reason why a file cannot be read.
pub(crate) fn cannot_read(path: &Path, error: &Error) -> String {
    let name = path.display();
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    match error.kind() {
        ErrorKind::IsADirectory => {
            let inside = configurations(path).into_iter().next();
            let such = inside.map(|file| format!(", such as {}", path.join(file).display()));
            format!(
                "{name} is a folder: name a configuration{}",
                such.unwrap_or_default()
            )
        }
        ErrorKind::NotFound if !folder.is_dir() => {
            format!(
                "cannot read {name}: there is no folder {}",
                folder.display()
            )
        }
        ErrorKind::NotFound => {
            let own = path.file_name().unwrap_or_default().to_string_lossy();
            let files = configurations(folder);
            let near = nearest(&own, files.iter().map(String::as_str));
            let meant = near.map(|near| path.with_file_name(near));
            let meant = meant.map(|near| format!("; did you mean {}?", near.display()));
            format!(
                "cannot read {name}: there is no such file{}",
                meant.unwrap_or_default()
            )
        }
        ErrorKind::PermissionDenied => {
            format!("cannot read {name}: its permissions forbid it to this user")
        }
        _ => format!("cannot read {name}: {}", reason(error)),
    }
}

/// Configurations in a folder, by name.
fn configurations(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".click") || name.ends_with(".toml"))
        .collect();
    names.sort();
    names
}

/// Error text for bytes that are not UTF-8; `bad` is the offset of the first such byte.
pub(crate) fn not_text(name: &str, bytes: &[u8], bad: usize) -> String {
    let expected = "a configuration is a text in the Click language";
    let known: [(&[u8], &str); 10] = [
        (b"\x7fELF", "a program"),
        (b"\xd4\xc3\xb2\xa1", CAPTURE),
        (b"\xa1\xb2\xc3\xd4", CAPTURE),
        (b"\x4d\x3c\xb2\xa1", CAPTURE),
        (b"\xa1\xb2\x3c\x4d", CAPTURE),
        (b"\x0a\x0d\x0d\x0a", CAPTURE),
        (b"\x1f\x8b", "compressed (gzip)"),
        (b"\x28\xb5\x2f\xfd", "compressed (zstd)"),
        (b"\xff\xfe", "a text in UTF-16: save it as UTF-8"),
        (b"\xfe\xff", "a text in UTF-16: save it as UTF-8"),
    ];
    if let Some((_, what)) = known.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return format!("{name} is not text but {what}; {expected}");
    }
    if bytes.contains(&0) {
        return format!("{name} is not text but binary data; {expected}");
    }
    let before = &bytes[..bad];
    let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
    let byte = bytes.get(bad).copied().unwrap_or_default();
    format!(
        "{name} is not text in UTF-8: line {line} has the byte 0x{byte:02x}; save the file as UTF-8"
    )
}

/// Description of a capture file, which users may confuse with a configuration.
const CAPTURE: &str = "a capture of packets, which `FromDevice(pcap:FILE)` reads";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_text_is_reported_by_its_kind() {
        let said = |bytes: &[u8]| {
            let bad = std::str::from_utf8(bytes).expect_err("no text");
            not_text("x", bytes, bad.valid_up_to())
        };
        assert!(said(b"\x7fELF\x02\xff").contains("not text but a program;"));
        assert!(said(b"\xd4\xc3\xb2\xa1\0").contains("not text but a capture of packets"));
        assert!(said(b"abc\0\xff").contains("binary data"));
        assert!(
            said(
                "a\nb \u{e9}"
                    .as_bytes()
                    .split_last()
                    .map_or(&[], |(_, all)| all)
            )
            .contains("line 2 has the byte 0xc3")
        );
    }

    #[test]
    fn unreadable_files_are_reported_without_error_numbers() {
        let folder = std::env::temp_dir().join(format!("ashlar-unreadable-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("it takes folders");
        std::fs::write(folder.join("edge.click"), "Idle -> Discard;").expect("it takes files");
        let said = |path: &Path| {
            let error = std::fs::read(path).expect_err("it cannot be read");
            cannot_read(path, &error)
        };
        let edge = folder.join("edge.click").display().to_string();
        assert_eq!(
            said(&folder),
            format!(
                "{} is a folder: name a configuration, such as {edge}",
                folder.display()
            )
        );
        let wrong = folder.join("egde.click");
        assert_eq!(
            said(&wrong),
            format!(
                "cannot read {}: there is no such file; did you mean {edge}?",
                wrong.display()
            )
        );
        let far = said(Path::new("/no/such/file.click"));
        assert_eq!(
            far,
            "cannot read /no/such/file.click: there is no folder /no/such"
        );
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}
