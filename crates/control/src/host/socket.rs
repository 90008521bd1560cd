//! UNIX sockets of routers: their paths, and the guarantee that one router listens at a path.

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Maximum number of connections that wait to be accepted.
const WAITING: i32 = 128;

/// The folder for sockets: `/run/ashlar` for root, else in `$XDG_RUNTIME_DIR`, else
/// `/tmp/ashlar-UID`.
pub fn folder() -> PathBuf {
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return PathBuf::from("/run/ashlar");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir).join("ashlar"),
        _ => PathBuf::from(format!("/tmp/ashlar-{}", uid.as_raw())),
    }
}

/// The socket of the router `name`.
pub fn path_of(name: &str) -> PathBuf {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let name: String = name
        .chars()
        .map(|c| if safe(c) { c } else { '_' })
        .collect();
    folder().join(format!("{name}.sock"))
}

/// A listening socket; its file is removed on drop.
pub struct Socket {
    /// Path of the socket.
    pub path: PathBuf,
    listener: UnixListener,
}

impl Socket {
    /// Listens at `path`. A file left behind by a router that is gone is replaced; a router that
    /// answers is not. Only the user may connect. The error is a sentence.
    pub fn bind(path: &Path) -> Result<Socket, String> {
        if let Some(parent) = path.parent() {
            make_folder(parent)?;
        }
        let failed = |e: std::io::Error| format!("cannot listen at {}: {e}", path.display());
        let listener = match listen(path) {
            Err(e) if e.kind() == ErrorKind::AddrInUse => {
                refuse_if_alive(path)?;
                std::fs::remove_file(path).map_err(failed)?;
                listen(path).map_err(failed)?
            }
            other => other.map_err(failed)?,
        };
        Ok(Socket {
            path: path.to_owned(),
            listener,
        })
    }

    pub(crate) fn listener(&self) -> std::io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The socket may be removed already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listens at a path where no file exists. Linux creates the file with the mode of the socket,
/// which is set first, so that no other user can access the file at any time.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, WAITING)?;
    Ok(UnixListener::from(socket))
}

fn refuse_if_alive(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if !is_socket {
        return Err(format!(
            "{shown} is there and is no socket: name another one with --socket"
        ));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(format!(
            "a router listens at {shown} already: stop it with `ashlar stop --socket {shown}`, or \
             give this one another --name"
        )),
        Err(_) => Ok(()),
    }
}

/// Makes the folder, open to this user alone. The default folder must belong to this user, as all may write to its
/// parent.
fn make_folder(folder: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("cannot make the folder {}: {e}", folder.display());
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    if !folder.exists() {
        let mut builder = std::fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
    }
    let about = std::fs::symlink_metadata(folder).map_err(failed)?;
    let ours = about.uid() == rustix::process::geteuid().as_raw();
    if folder == self::folder() && !(ours && about.is_dir()) {
        return Err(format!(
            "{} belongs to another user: give --socket",
            folder.display()
        ));
    }
    Ok(())
}

/// The socket that a subcommand uses: the named one (a path, or a router's name), otherwise `$ASHLAR_SOCKET`, otherwise
/// the only one that exists.
///
/// # Errors
/// No socket is named, and there is none or more than one; a sentence.
pub fn find(wanted: Option<&str>) -> Result<PathBuf, String> {
    let usual = std::env::var("ASHLAR_SOCKET").ok();
    match wanted.or(usual.as_deref().filter(|usual| !usual.is_empty())) {
        Some(path) if path.contains('/') => Ok(PathBuf::from(path)),
        Some(name) => {
            let here = PathBuf::from(name);
            Ok(if here.exists() {
                here
            } else {
                path_of(name.trim_end_matches(".sock"))
            })
        }
        None => only_one(&folder()),
    }
}

fn only_one(folder: &Path) -> Result<PathBuf, String> {
    let mut sockets: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "sock"))
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect();
    sockets.sort();
    match sockets.len() {
        1 => Ok(sockets.remove(0)),
        0 => Err(format!(
            "no router runs (no socket in {}): start one with `ashlar run`, or name its --socket",
            folder.display()
        )),
        n => {
            let list: Vec<String> = sockets
                .iter()
                .map(|s| format!("  {}\n", s.display()))
                .collect();
            Err(format!(
                "{n} routers run; say which with --socket:\n{}",
                list.concat().trim_end()
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("ashlar-socket-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("the temporary folder takes folders");
        dir
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = scratch("stale");
        let path = dir.join("a.sock");
        drop(UnixListener::bind(&path).expect("binds"));
        let first = Socket::bind(&path).expect("nobody listens at the stale one");
        let refused = Socket::bind(&path).err().expect("the first one listens");
        assert!(refused.contains("listens at"), "{refused}");
        drop(first);
        assert!(!path.exists());
        let _ = std::fs::remove_dir_all(dir);
    }

    #[test]
    fn other_users_can_never_connect() {
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        let dir = scratch("mode");
        let path = dir.join("a.sock");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let seen = scope.spawn(|| {
                let mut seen = std::collections::BTreeSet::new();
                while !over.load(Relaxed) {
                    seen.extend(path.metadata().ok().map(|about| about.mode() & 0o777));
                }
                seen
            });
            for _ in 0..2000 {
                drop(Socket::bind(&path).expect("binds"));
            }
            let last = Socket::bind(&path).expect("binds");
            assert_eq!(path.metadata().expect("is there").mode() & 0o777, 0o600);
            over.store(true, Relaxed);
            assert!(
                seen.join()
                    .expect("no panic")
                    .iter()
                    .all(|mode| *mode == 0o600)
            );
            drop(last);
        });
        let _ = std::fs::remove_dir_all(dir);
    }

    #[test]
    fn file_that_is_no_socket_is_not_removed() {
        let dir = scratch("file");
        let path = dir.join("a.sock");
        std::fs::write(&path, "precious").expect("writes");
        assert!(Socket::bind(&path).is_err());
        assert_eq!(std::fs::read(&path).expect("is there"), b"precious");
        let _ = std::fs::remove_dir_all(dir);
    }

    #[test]
    fn without_a_name_the_only_live_socket_is_meant() {
        let dir = scratch("only");
        assert!(only_one(&dir).is_err());
        let a = Socket::bind(&dir.join("a.sock")).expect("binds");
        drop(UnixListener::bind(dir.join("stale.sock")).expect("binds"));
        assert_eq!(only_one(&dir), Ok(a.path.clone()));
        let b = Socket::bind(&dir.join("b.sock")).expect("binds");
        let said = only_one(&dir).expect_err("there are two");
        assert!(said.contains("a.sock") && said.contains("b.sock"), "{said}");
        drop((a, b));
        let _ = std::fs::remove_dir_all(dir);
    }
}
