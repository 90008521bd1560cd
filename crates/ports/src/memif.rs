//! Who may be at the other end of a memif, shared memory with another program.
//!
//! DPDK's net_memif believes its peer. A descriptor that the peer writes may name any region, place and length, and the
//! driver copies from or to there; a region that the peer shrinks ends this process by SIGBUS, and so does a connection that
//! ends while it is accepted, by a callback that was freed. Nothing outside of the driver can check this first, because
//! the peer may write a descriptor anew after the check. So a peer may do all that this process may, and only
//! somebody who has its rights anyway is let in: the socket has a place in the file system, its owner alone may
//! connect, and nobody else can put another one there.

use crate::sys;
use rustix::process::geteuid;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

/// What net_memif takes if no path is given.
const USUAL_SOCKET: &str = "/run/memif.sock";
const ABSTRACT: &str = "socket-abstract";

/// A device of net_memif.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Memif {
    is_server: bool,
    is_abstract: bool,
    socket: PathBuf,
}

/// What DPDK is told for `memif:WORDS`: its socket has a path unless the words say otherwise.
pub(crate) fn words(words: &str) -> String {
    let says = words.split(',').any(|word| key(word).0 == ABSTRACT);
    match says {
        true => words.to_owned(),
        false => format!("{words},{ABSTRACT}=no"),
    }
}

fn key(word: &str) -> (&str, &str) {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    (key.trim(), value.trim())
}

impl Memif {
    /// What a device of DPDK is, `NAME,WORD=VALUE,...`, if net_memif drives it.
    pub(crate) fn of(devargs: &str) -> Option<Memif> {
        let mut words = devargs.split(',').map(key);
        let (name, _) = words.next()?;
        if !name.starts_with("net_memif") && !name.starts_with("eth_memif") {
            return None;
        }
        // As the driver has it by itself.
        let mut memif = Memif {
            is_server: false,
            is_abstract: true,
            socket: USUAL_SOCKET.into(),
        };
        for (key, value) in words {
            match key {
                "role" => memif.is_server = matches!(value, "server" | "master"),
                "socket" => memif.socket = value.into(),
                ABSTRACT => memif.is_abstract = value != "no",
                _ => {}
            }
        }
        Some(memif)
    }

    /// Says that nobody but this user and root can be at the other end.
    ///
    /// # Errors
    /// A sentence: who else can.
    pub(crate) fn check(&self) -> Result<(), String> {
        const WHY: &str = "and whoever connects can write anywhere in this program's memory, because DPDK's memif \
                           believes what its peer writes";
        let path = self.socket.display();
        if self.is_abstract {
            return Err(format!(
                "everybody in this network namespace could connect to its socket, {WHY}: say {ABSTRACT}=no, and \
                 socket=PATH with a folder in which only this user writes"
            ));
        }
        let folder = match self.socket.parent() {
            Some(folder) if self.socket.is_absolute() => folder,
            _ => return Err(format!("socket={path} must be an absolute path")),
        };
        let seen = folder.metadata().map_err(|e| {
            let folder = folder.display();
            format!("the folder of its socket, {folder}, cannot be read: {e}")
        })?;
        if let Some(who) = stranger(&seen) {
            let folder = folder.display();
            return Err(format!(
                "{who} may put another socket at {path}, {WHY}: choose a folder in which only this user writes, or \
                 `chmod go-w {folder}`"
            ));
        }
        if self.is_server {
            return Ok(());
        }
        match self.socket.symlink_metadata() {
            Ok(seen) if !seen.file_type().is_socket() => Err(format!("{path} is no socket")),
            Ok(seen) if !is_trusted(seen.uid()) => Err(format!(
                "{path} is of user {}, {WHY}: memif is for programs of one user",
                seen.uid()
            )),
            Ok(_) => Ok(()),
            Err(e) => Err(format!(
                "{path}: {e}; start the server of this memif first, since a client connects once"
            )),
        }
    }

    /// Makes the device; only this user and root may connect to the socket of a server.
    ///
    /// # Errors
    /// As `probe`; a sentence.
    pub(crate) fn probe<T: Send>(
        &self,
        probe: impl FnOnce() -> Result<T, String> + Send,
    ) -> Result<T, String> {
        if !self.is_server {
            return probe();
        }
        sys::privately(probe).map_err(|e| format!("its socket cannot be kept to this user: {e}"))?
    }
}

fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

/// Who else may replace the files of a folder.
fn stranger(folder: &Metadata) -> Option<String> {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    if !is_trusted(folder.uid()) {
        return Some(format!("user {}", folder.uid()));
    }
    let open = folder.mode() & OTHERS_WRITE != 0 && folder.mode() & STICKY == 0;
    open.then(|| "somebody else".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir, remove_dir_all, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    fn refused(devargs: &str) -> String {
        let memif = Memif::of(devargs).expect("it is a memif");
        memif.check().err().unwrap_or_default()
    }

    #[test]
    fn what_else_dpdk_drives_is_no_memif() {
        assert_eq!(Memif::of("net_null0,size=64"), None);
        assert_eq!(Memif::of("0000:01:00.0"), None);
        assert!(Memif::of("net_memif").is_some());
    }

    #[test]
    fn a_memif_has_a_socket_with_a_path() {
        assert_eq!(
            words("role=server,id=0"),
            "role=server,id=0,socket-abstract=no"
        );
        assert_eq!(words("socket-abstract=no,id=0"), "socket-abstract=no,id=0");
        // Also where somebody says it otherwise, or by the driver's own name.
        for all in [
            words("id=0,socket-abstract=yes"),
            "id=0".into(),
            "id=0, socket-abstract = yes".into(),
        ] {
            let said = refused(&format!("net_memif0,{all}"));
            assert!(said.contains("network namespace could connect"), "{said}");
        }
        let said = refused("net_memif0,socket=a.sock,socket-abstract=no");
        assert!(said.contains("absolute"), "{said}");
    }

    #[test]
    fn only_this_user_and_root_can_be_at_the_other_end() {
        let folder = std::env::temp_dir().join(format!("ashlar-memif-{}", std::process::id()));
        let _ = remove_dir_all(&folder);
        create_dir(&folder).expect("temporary files can be made");
        let mode =
            |mode| set_permissions(&folder, Permissions::from_mode(mode)).expect("it is ours");
        let socket = folder.join("m.sock");
        let device = |role: &str| {
            format!(
                "net_memif0,role={role},socket={},socket-abstract=no",
                socket.display()
            )
        };
        for (bits, ok) in [
            (0o700, true),
            (0o755, true),
            (0o775, false),
            (0o777, false),
            (0o1777, true),
        ] {
            mode(bits);
            let said = refused(&device("server"));
            assert_eq!(said.is_empty(), ok, "{bits:o}: {said}");
        }
        let said = refused(&device("client"));
        assert!(said.contains("start the server"), "{said}");
        std::fs::write(&socket, "").expect("the folder is ours");
        assert!(refused(&device("client")).contains("is no socket"));
        std::fs::remove_file(&socket).expect("it is there");

        // What a server makes is for its user alone, whatever else this process makes meanwhile.
        let memif = Memif::of(&device("server")).expect("it is a memif");
        let path = socket.clone();
        let bind = move || UnixListener::bind(path).map_err(|e| e.to_string());
        let _listener = memif.probe(bind).expect("the folder is ours");
        let seen = socket.metadata().expect("it is there");
        assert_eq!(seen.mode() & 0o077, 0);
        std::fs::write(folder.join("usual"), "").expect("the folder is ours");
        assert_eq!(refused(&device("client")), "");
        remove_dir_all(&folder).expect("it is ours");
    }
}
