//! Folders of servers for tests.

use super::home::{About, Home};
use std::path::PathBuf;

/// Folder of a cluster's first server, removed on drop.
pub(crate) struct Folder {
    path: PathBuf,
    pub(crate) home: Home,
}

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ashlar-{name}-{}", std::process::id()));
        let local = [127, 0, 0, 1].into();
        let about = About {
            cluster: "t".to_owned(),
            server: "a".to_owned(),
            address: local,
            identity: "1".to_owned(),
            etcd: [("a".to_owned(), local)].into(),
        };
        let home = super::found(&path.join("a"), &about, "text").unwrap();
        Folder { path, home }
    }

    /// Path of another server's folder.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
