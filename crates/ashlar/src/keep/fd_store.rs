//! The manager's side of the protocol: the program's messages, and the descriptors stored for it.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt::set_socket_passcred,
};
use rustix::process::Pid;
use rustix::rand::{GetRandomFlags, getrandom};
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum number of stored descriptors of all names, which is also the maximum in one message.
const DESCRIPTORS_MAX: usize = 253;
/// Maximum number of messages that are read between two checks of signals and of the program.
const MESSAGES_MAX: usize = 64;

/// A socket for messages, and the descriptors stored by them.
pub(super) struct Store {
    path: PathBuf,
    /// Folder of the socket, removed together with it.
    folder: Option<PathBuf>,
    socket: UnixDatagram,
    /// Process whose messages are accepted. Messages of other processes are ignored.
    program: Option<Pid>,
    stored: StoredState,
}

/// Descriptors and state from a program's messages.
#[derive(Default)]
struct StoredState {
    descriptors: Vec<(String, OwnedFd)>,
    ready: bool,
    /// True if the program has sent a keep-alive message.
    sent_keep_alive: bool,
}

impl Store {
    /// Listens at a new path. The error is a sentence.
    pub(super) fn new() -> Result<Store, String> {
        let is_root = rustix::process::geteuid().is_root();
        let (folder, temporary) = match folder(is_root, |name| std::env::var_os(name)) {
            Some(folder) => (folder, None),
            None => {
                let made = make_temp_folder(&std::env::temp_dir())?;
                (made.clone(), Some(made))
            }
        };
        let path = folder.join(format!("ashlar-keep-{}", std::process::id()));
        let failed = |e: std::io::Error| format!("cannot listen at {}: {e}", path.display());
        // Remove the socket of an earlier process with the same process id.
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        // The program may run as another user. As with systemd's own socket, any user may write; the kernel names the
        // sender of each message.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
        set_socket_passcred(&socket, true).map_err(|e| failed(e.into()))?;
        let (program, held) = (None, StoredState::default());
        Ok(Store {
            path,
            folder: temporary,
            socket,
            program,
            stored: held,
        })
    }

    /// Socket for messages.
    pub(super) fn socket(&self) -> &UnixDatagram {
        &self.socket
    }

    /// Passes the socket and the inherited descriptors to a program, in its environment.
    pub(super) fn pass_to(&self, program: &mut Command) {
        let names: Vec<&str> = self
            .stored
            .descriptors
            .iter()
            .map(|(name, _)| &**name)
            .collect();
        program.env("NOTIFY_SOCKET", &self.path);
        if names.is_empty() {
            program
                .env_remove("LISTEN_FDS")
                .env_remove("LISTEN_FDNAMES");
        } else {
            program.env("LISTEN_FDS", names.len().to_string());
            program.env("LISTEN_FDNAMES", names.join(":"));
        }
    }

    /// Descriptors in the order of the announced names.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let held = &self.stored.descriptors;
        held.iter().map(|(_, fd)| fd.as_fd()).collect()
    }

    /// Accepts messages of this process only, from now on.
    pub(super) fn listen_to(&mut self, program: Pid) {
        self.program = Some(program);
        self.stored.ready = false;
    }

    /// True if the program has reported that it is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.stored.ready
    }

    /// Receives pending messages, at most `MESSAGES_MAX` per call, because any user may send without end. Returns true
    /// if one of them is a keep-alive message of the program.
    pub(super) fn receive(&mut self) -> bool {
        let mut text = [0; 4096];
        let mut space = [MaybeUninit::uninit();
            rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX), ScmCredentials(1))];
        for _ in 0..MESSAGES_MAX {
            let mut more = RecvAncillaryBuffer::new(&mut space);
            let mut into = [IoSliceMut::new(&mut text)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let Ok(message) = recvmsg(&self.socket, &mut into, &mut more, flags) else {
                break;
            };
            let (mut descriptors, mut from) = (Vec::new(), None);
            for part in more.drain() {
                match part {
                    RecvAncillaryMessage::ScmRights(list) => descriptors.extend(list),
                    RecvAncillaryMessage::ScmCredentials(who) => from = Some(who.pid),
                    _ => {}
                }
            }
            if from.is_some() && from == self.program {
                let text = String::from_utf8_lossy(&text[..message.bytes]);
                self.stored.apply_message(&text, descriptors);
            }
        }
        std::mem::take(&mut self.stored.sent_keep_alive)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // The socket may be removed already.
        let _ = std::fs::remove_file(&self.path);
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// A folder where only this user can create files; `None` if the system has none.
fn folder(is_root: bool, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let of = |name: &str| variable(name).filter(|value| !value.is_empty());
    // A service may have several folders, with colons between them.
    let service = of("RUNTIME_DIRECTORY").and_then(|all| {
        let first = all.as_bytes().split(|byte| *byte == b':').next()?;
        Some(PathBuf::from(OsStr::from_bytes(first)))
    });
    let user = || match is_root {
        true => Some(PathBuf::from("/run")),
        false => of("XDG_RUNTIME_DIR").map(PathBuf::from),
    };
    service.or_else(user).filter(|folder| folder.is_absolute())
}

/// Creates a folder of this user with an unpredictable name, in which all users may create files: the program may run
/// as another user.
///
/// # Errors
/// The kernel has no random number, or the folder cannot be made; a sentence.
fn make_temp_folder(within: &Path) -> Result<PathBuf, String> {
    let mut random = [0; 16];
    getrandom(&mut random, GetRandomFlags::empty())
        .map_err(|e| format!("the kernel has no random number: {e}"))?;
    let folder = within.join(format!("ashlar-keep-{:032x}", u128::from_ne_bytes(random)));
    let made = DirBuilder::new().mode(0o711).create(&folder);
    made.map_err(|e| format!("cannot make the folder {}: {e}", folder.display()))?;
    Ok(folder)
}

impl StoredState {
    /// Applies a message, which has one assignment per line.
    fn apply_message(&mut self, message: &str, descriptors: Vec<OwnedFd>) {
        let says = |word: &str| message.lines().any(|line| line == word);
        let name = message
            .lines()
            .find_map(|line| line.strip_prefix("FDNAME="));
        let name = name.filter(|n| is_name(n)).unwrap_or("stored");
        self.ready |= says("READY=1");
        // A program that ends sends no more messages, and has the same time to end.
        self.sent_keep_alive |= ["READY=1", "WATCHDOG=1", "STOPPING=1"]
            .into_iter()
            .any(says);
        if says("FDSTOREREMOVE=1") {
            self.descriptors.retain(|(held, _)| held != name);
        }
        if says("FDSTORE=1") {
            let room = DESCRIPTORS_MAX.saturating_sub(self.descriptors.len());
            let named = descriptors.into_iter().map(|fd| (name.to_owned(), fd));
            self.descriptors.extend(named.take(room));
        }
    }
}

/// True if the name is valid for systemd (sd_pid_notify_with_fds(3)). Names reach a program by its environment, so a
/// zero byte in one would keep it from starting.
fn is_name(name: &str) -> bool {
    let fits = |b: u8| (b' '..=b'~').contains(&b) && b != b':';
    !name.is_empty() && name.len() <= 255 && name.bytes().all(fits)
}

/// State after these messages, each with a number of descriptors: the names of stored descriptors, and true if the
/// program was ready.
pub fn held_after<'m>(
    messages: impl IntoIterator<Item = (&'m [u8], usize)>,
) -> (Vec<String>, bool) {
    let mut held = StoredState::default();
    for (message, count) in messages {
        let open = |_| UnixDatagram::unbound().map(OwnedFd::from);
        let descriptors = (0..count.min(DESCRIPTORS_MAX)).map_while(|n| open(n).ok());
        held.apply_message(&String::from_utf8_lossy(message), descriptors.collect());
    }
    let names = held.descriptors.into_iter().map(|(name, _)| name);
    (names.collect(), held.ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptors(count: usize) -> Vec<OwnedFd> {
        let open = || UnixDatagram::unbound().expect("a socket").into();
        (0..count).map(|_| open()).collect()
    }

    fn names(held: &StoredState) -> Vec<&str> {
        held.descriptors.iter().map(|(name, _)| &**name).collect()
    }

    #[test]
    fn socket_is_in_a_folder_that_only_its_user_can_write() {
        let found = |is_root, variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let mut all = variables.iter();
                all.find(|(n, _)| *n == name)
                    .map(|(_, value)| OsString::from(value))
            };
            folder(is_root, variable).map(|folder| folder.display().to_string())
        };
        let (service, user) = (
            ("RUNTIME_DIRECTORY", "/run/a:/run/b"),
            ("XDG_RUNTIME_DIR", "/run/user/7"),
        );
        assert_eq!(found(true, &[service, user]).as_deref(), Some("/run/a"));
        assert_eq!(found(true, &[user]).as_deref(), Some("/run"));
        assert_eq!(found(false, &[user]).as_deref(), Some("/run/user/7"));
        for nothing in ["", "here"] {
            assert_eq!(found(false, &[("XDG_RUNTIME_DIR", nothing)]), None);
        }
        // Without such a folder, the name is unpredictable.
        let within = std::env::temp_dir();
        let [one, other] = [(); 2].map(|()| make_temp_folder(&within).expect("room"));
        assert_ne!(one, other);
        for folder in [one, other] {
            let mode = std::fs::metadata(&folder)
                .expect("it is there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o711);
            std::fs::remove_dir(folder).expect("it is empty");
        }
    }

    #[test]
    fn descriptors_are_held_by_name_until_they_are_taken_away() {
        let mut held = StoredState::default();
        held.apply_message("FDSTORE=1\nFDNAME=eth0\n", descriptors(2));
        held.apply_message("FDSTORE=1\nFDNAME=eth1\n", descriptors(1));
        assert_eq!(names(&held), ["eth0", "eth0", "eth1"]);
        assert!(!held.ready && !held.sent_keep_alive);
        held.apply_message("READY=1\n", Vec::new());
        assert!(held.ready && held.sent_keep_alive);
        held.sent_keep_alive = false;
        held.apply_message("WATCHDOG=1\n", Vec::new());
        assert!(held.sent_keep_alive);
        held.apply_message("FDSTOREREMOVE=1\nFDNAME=eth0\n", Vec::new());
        assert_eq!(names(&held), ["eth1"]);
    }

    #[test]
    fn descriptors_of_other_messages_and_too_many_are_closed() {
        let mut held = StoredState::default();
        held.apply_message("STATUS=FDSTORE=1\n", descriptors(1));
        assert!(names(&held).is_empty());
        for _ in 0..DESCRIPTORS_MAX {
            held.apply_message("FDSTORE=1\nFDNAME=a:b\n", descriptors(2));
        }
        assert_eq!(names(&held), ["stored"; DESCRIPTORS_MAX]);
    }

    #[test]
    fn descriptor_name_with_invalid_characters_is_ignored() {
        let mut held = StoredState::default();
        for name in [
            "a\0b",
            "",
            "\u{e9}",
            "\u{1b}[2J",
            &"x".repeat(256),
            "eth0 #1",
        ] {
            held.apply_message(&format!("FDSTORE=1\nFDNAME={name}\n"), descriptors(1));
        }
        assert_eq!(
            names(&held),
            ["stored", "stored", "stored", "stored", "stored", "eth0 #1"]
        );
    }
}
