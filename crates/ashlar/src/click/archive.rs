//! Configurations in archives of ar(1): the member `config` is the configuration (click(5)). Other members, which
//! contain the code of packages, are ignored: all classes are built in.

/// Magic number at the start of an archive.
const MAGIC: &[u8] = b"!<arch>\n";
/// Bytes of a member's header: name, then numbers as text, then two bytes that end it.
const HEADER_BYTES: usize = 60;
const END: &[u8] = b"`\n";

/// The configuration in a file: a member of an archive, else the file itself. `name` is its name.
///
/// # Errors
/// The archive is broken, or has no configuration; the text is one or two lines.
pub(super) fn configuration<'f>(file: &'f [u8], name: &str) -> Result<&'f [u8], String> {
    let no_config = format!("{name}: archive has no 'config' section");
    let Some(mut rest) = file.strip_prefix(MAGIC) else {
        return Ok(file);
    };
    while let Some((header, after)) = rest.split_at_checked(HEADER_BYTES) {
        let field = |range| {
            String::from_utf8_lossy(&header[range])
                .trim_end()
                .to_owned()
        };
        let (name, size) = (field(0..16), field(48..58).parse::<usize>());
        let data = match size {
            Ok(size) if header.ends_with(END) => after.split_at_checked(size),
            _ => None,
        };
        let Some((data, after)) = data else {
            let short = size.unwrap_or(0).saturating_sub(after.len());
            return Err(match header.ends_with(END) {
                true => format!("truncated archive, {short} bytes short\n{no_config}"),
                false => format!("bad archive: missing header magic number\n{no_config}"),
            });
        };
        // GNU's ar ends names with a slash.
        if name.strip_suffix('/').unwrap_or(&name) == "config" {
            return Ok(data);
        }
        // Members begin at even places.
        rest = after.get(data.len() % 2..).unwrap_or_default();
    }
    Err(match rest.is_empty() {
        true => no_config,
        false => format!("truncated archive\n{no_config}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive as ar(1) writes it.
    fn archive(members: &[(&str, &str)]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        for (name, data) in members {
            let header = format!("{name:<16}{:<32}{:<10}`\n", "0", data.len());
            file.extend(header.bytes().chain(data.bytes()));
            file.extend(vec![b'\n'; data.len() % 2]);
        }
        file
    }

    #[test]
    fn a_file_that_is_no_archive_is_the_configuration() {
        assert_eq!(configuration(b"Idle;", "a.ar"), Ok(&b"Idle;"[..]));
        assert_eq!(configuration(b"", "a.ar"), Ok(&b""[..]));
    }

    #[test]
    fn the_member_config_is_found_among_others() {
        for name in ["config", "config/"] {
            let file = archive(&[("elements.u.cc/", "odd"), (name, "Idle;"), ("x", "y")]);
            assert_eq!(configuration(&file, "a.ar"), Ok(&b"Idle;"[..]));
        }
    }

    #[test]
    fn broken_archives_are_refused_at_every_length() {
        let file = archive(&[("a", "bc"), ("config", "Idle;")]);
        let whole = file.len() - 1;
        for end in MAGIC.len()..whole {
            assert!(configuration(&file[..end], "a.ar").is_err(), "{end}");
        }
        assert!(
            configuration(&file[..whole], "a.ar").is_ok(),
            "the last byte is padding"
        );
        let mut wrong = file.clone();
        wrong[MAGIC.len() + 50] = b'x';
        let said = |file: &[u8]| configuration(file, "a.ar").unwrap_err();
        let no_config = "a.ar: archive has no 'config' section";
        assert_eq!(
            said(&wrong),
            format!("truncated archive, 0 bytes short\n{no_config}")
        );
        assert_eq!(said(&file[..40]), format!("truncated archive\n{no_config}"));
        assert_eq!(
            said(&file[..whole - 3]),
            format!("truncated archive, 3 bytes short\n{no_config}")
        );
    }
}
