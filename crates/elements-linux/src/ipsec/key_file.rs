//! Keys in a separate file, which no other user may read.

use super::syntax;
use esp::{Keys, Suite};
use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bytes at most: two keys in digits are far shorter.
const BYTES_MAX: u64 = 4096;

/// Reads the keys of a suite: lines of hexadecimal digits, first the cipher's key, then the code's, as far as the suite
/// has them. Messages show nothing of the file's content.
pub(super) fn read(path: &Path, suite: Suite) -> Result<Keys, String> {
    let name = path.display();
    let cannot = |e: std::io::Error| format!("cannot read the key file `{name}`: {e}");
    // Opening a named pipe would block until a writer opens it.
    let mut open = OpenOptions::new();
    open.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let mut file = open.open(path).map_err(cannot)?;
    let about = file.metadata().map_err(cannot)?;
    if !about.is_file() {
        return Err(format!("the key file `{name}` is no regular file"));
    }
    if about.mode() & 0o077 != 0 {
        return Err(format!(
            "others may read or change the key file `{name}` (mode {:03o}): `chmod 600 {name}`, and take a new key if \
             it was open for long",
            about.mode() & 0o777
        ));
    }
    let mut text = ZeroedBytes(Vec::with_capacity(BYTES_MAX as usize + 1));
    let whole = Read::by_ref(&mut file)
        .take(BYTES_MAX + 1)
        .read_to_end(&mut text.0);
    whole.map_err(cannot)?;
    if text.0.len() as u64 > BYTES_MAX {
        return Err(format!(
            "the key file `{name}` is longer than {BYTES_MAX} bytes"
        ));
    }
    parse(&text.0, suite).map_err(|wrong| format!("the key file `{name}` {wrong}"))
}

fn parse(text: &[u8], suite: Suite) -> Result<Keys, String> {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut lines = lines.filter(|line| !line.is_empty());
    let mut keys = Keys::default();
    let mut line = |what: &str, len: usize, key: &mut Vec<u8>| {
        if len == 0 {
            return Ok(());
        }
        let name = suite.name();
        let line = lines
            .next()
            .ok_or_else(|| format!("has no line with the {what} key of {name}"))?;
        *key = syntax::key(line).unwrap_or_default();
        match key.len() == len {
            true => Ok(()),
            false => Err(format!(
                "must have {} hexadecimal digits in its line with the {what} key of {name}",
                2 * len
            )),
        }
    };
    line("cipher's", suite.enc_key_len(), &mut keys.enc)?;
    line("code's", suite.auth_key_len(), &mut keys.auth)?;
    match lines.next() {
        None => Ok(keys),
        Some(_) => Err(format!(
            "has more lines than {} has keys, which is {}",
            suite.name(),
            [suite.enc_key_len(), suite.auth_key_len()]
                .iter()
                .filter(|len| **len > 0)
                .count()
        )),
    }
}

/// Bytes that are overwritten with zeros on drop.
struct ZeroedBytes(Vec<u8>);

impl Drop for ZeroedBytes {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_lines_of_a_file_that_only_its_owner_may_read() {
        let path = std::env::temp_dir().join(format!("ashlar-key-{}", std::process::id()));
        let secret = "5a".repeat(20);
        let reads = |text: &str, mode: u32, suite: &str| {
            write(&path, text).expect("temporary files can be made");
            set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
            let read = read(&path, suite.parse().expect("a suite"));
            read.map(|keys| (keys.enc.to_vec(), keys.auth.to_vec()))
        };
        let key = vec![0x5a; 20];
        let (empty, short) = (Vec::new(), vec![0x5a; 16]);
        assert_eq!(
            reads(&format!("\n 0x{secret} \n"), 0o600, "aes128gcm16"),
            Ok((key.clone(), empty.clone()))
        );
        assert_eq!(reads(&secret, 0o400, "null-sha1"), Ok((empty, key.clone())));
        assert_eq!(
            reads(
                &format!("{}\n{secret}\n", &secret[..32]),
                0o600,
                "aes128-sha1"
            ),
            Ok((short, key))
        );
        for (text, mode, suite, why) in [
            (
                secret.clone(),
                0o640,
                "aes128gcm16",
                "(mode 640): `chmod 600",
            ),
            (
                secret.clone(),
                0o604,
                "aes128gcm16",
                "(mode 604): `chmod 600",
            ),
            (
                secret.clone(),
                0o600,
                "aes256gcm16",
                "must have 72 hexadecimal digits",
            ),
            (format!("{secret}z"), 0o600, "aes128gcm16", "must have 40"),
            (
                String::new(),
                0o600,
                "aes128gcm16",
                "no line with the cipher's key",
            ),
            (
                secret[..32].to_owned(),
                0o600,
                "aes128-sha1",
                "no line with the code's key",
            ),
            (
                format!("{secret}\n{secret}"),
                0o600,
                "aes128gcm16",
                "more lines than aes128gcm16 has keys, which is 1",
            ),
            (
                "a".repeat(5000),
                0o600,
                "aes128gcm16",
                "longer than 4096 bytes",
            ),
        ] {
            let wrong = reads(&text, mode, suite).expect_err(why);
            assert!(wrong.contains(why), "{wrong}");
            assert!(!wrong.contains("5a5a"), "{wrong}");
        }
        std::fs::remove_file(&path).expect("it is there");
        let wrong = read(&path, "aes128gcm16".parse().expect("a suite")).expect_err("it is gone");
        assert!(wrong.contains("cannot read the key file"), "{wrong}");
        let folder = read(
            &std::env::temp_dir(),
            "aes128gcm16".parse().expect("a suite"),
        );
        assert!(folder.is_err_and(|wrong| wrong.contains("no regular file")));
    }
}
