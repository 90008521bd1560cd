//! Folder of a server: its identity, certificates, copy of the description, and stored state of the agreement.

use super::private;
use agree::Kept;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Contents of `server.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the server in the cluster's file.
    pub server: String,
    /// Address of the server for the others.
    pub address: IpAddr,
    /// Identity of this membership, chosen at random when the server joined.
    pub identity: String,
    /// Servers that run a member of etcd, with the address of each.
    pub etcd: BTreeMap<String, IpAddr>,
}

impl About {
    /// Refuses an address that this machine does not have: the server must listen there. The error is a sentence.
    pub(super) fn check_address(&self) -> Result<(), String> {
        match UdpSocket::bind((self.address, 0)) {
            Err(e) if e.kind() == ErrorKind::AddrNotAvailable => Err(format!(
                "{} is the address of server {}, and this machine does not have it",
                self.address, self.server
            )),
            _ => Ok(()),
        }
    }
}

/// Folder of a server.
#[derive(Clone, Debug)]
pub struct Home {
    /// Path of the folder.
    pub folder: PathBuf,
    /// The server's identity.
    pub about: About,
}

/// Ports of etcd's members, for clients and for each other.
const ETCD_CLIENTS: u16 = 2379;
const ETCD_PEERS: u16 = 2380;
/// Names of the files.
const ETCD: &str = "etcd.yaml";
const ABOUT: &str = "server.json";
const KEPT: &str = "kept.json";
const SERVERS: &str = "servers.json";
/// Port at which a server answers members of the cluster.
const MEMBERS: u16 = 2383;
/// Certificate of the cluster's authority, which all servers have.
pub(super) const AUTHORITY: &str = "ca.pem";
/// Key of the authority, only on the server that made the cluster.
pub(super) const AUTHORITY_KEY: &str = "ca.key";
/// Certificate of the server.
pub(super) const CERTIFICATE: &str = "server.pem";
/// Key of the server.
pub(super) const KEY: &str = "server.key";
/// The server's copy of the description.
pub const DESCRIPTION: &str = "cluster.toml";

impl Home {
    /// Opens the folder of a server that has joined.
    ///
    /// # Errors
    ///
    /// The folder has no server's files, or they cannot be read; a sentence.
    pub fn open(folder: &Path) -> Result<Home, String> {
        let path = folder.join(ABOUT);
        let bytes = std::fs::read(&path).map_err(|e| match e.kind() {
            ErrorKind::PermissionDenied => format!(
                "cannot read {}: run this as root, or as the user of the folder",
                path.display()
            ),
            _ => format!(
                "{} holds no server of a cluster ({ABOUT}: {e}): name its folder, or run `ashlar cluster init` for the \
                 first server of a cluster, or `ashlar cluster join` with a token from it",
                folder.display()
            ),
        })?;
        let about: About = serde_json::from_slice(&bytes)
            .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        if about.etcd.is_empty() {
            return Err(format!("{} names no member of etcd", path.display()));
        }
        Ok(Home {
            folder: folder.to_owned(),
            about,
        })
    }

    /// True if the folder belongs to a server.
    pub fn is_there(folder: &Path) -> bool {
        folder.join(ABOUT).exists()
    }

    /// Makes the folder of a new server.
    ///
    /// # Errors
    ///
    /// The folder belongs to a server already, or cannot be written; a sentence.
    pub fn create(folder: &Path, about: &About, files: &[(&str, &str)]) -> Result<Home, String> {
        if Home::is_there(folder) {
            return Err(format!(
                "{} belongs to a server already: run `ashlar cluster leave` first, or choose another folder by --home",
                folder.display()
            ));
        }
        private::folder(folder)?;
        let home = Home {
            folder: folder.to_owned(),
            about: about.clone(),
        };
        // State of another membership in this folder is not this membership's state.
        home.keep(&Kept::default())?;
        home.keep_servers(&BTreeMap::new())?;
        for (name, text) in files {
            home.write(name, text)?;
        }
        let text = serde_json::to_string_pretty(about).map_err(|e| e.to_string())?;
        // Written last: a folder without this file is no server.
        home.write(ABOUT, &text)?;
        Ok(home)
    }

    /// Addresses of etcd's members for clients.
    pub fn members(&self) -> Vec<String> {
        let members = self.about.etcd.values();
        members
            .map(|address| SocketAddr::new(*address, ETCD_CLIENTS).to_string())
            .collect()
    }

    /// Address at which this server answers members of the cluster.
    pub fn asked_at(&self) -> SocketAddr {
        SocketAddr::new(self.about.address, MEMBERS)
    }

    /// Writes the configuration of this server's member of etcd, if it has one; returns its path. The error is a
    /// sentence.
    pub fn write_etcd(&self) -> Result<Option<PathBuf>, String> {
        let About {
            cluster,
            server,
            etcd,
            ..
        } = &self.about;
        let Some(own) = etcd.get(server) else {
            return Ok(None);
        };
        let url = |address: &IpAddr, port| format!("https://{}", SocketAddr::new(*address, port));
        let each = etcd
            .iter()
            .map(|(name, at)| format!("{name}={}", url(at, ETCD_PEERS)));
        let security = json!({
            "cert-file": self.path(CERTIFICATE), "key-file": self.path(KEY),
            "client-cert-auth": true, "trusted-ca-file": self.path(AUTHORITY),
        });
        let configuration = json!({
            "name": server,
            "data-dir": self.path("etcd"),
            "listen-client-urls": url(own, ETCD_CLIENTS),
            "advertise-client-urls": url(own, ETCD_CLIENTS),
            "listen-peer-urls": url(own, ETCD_PEERS),
            "initial-advertise-peer-urls": url(own, ETCD_PEERS),
            "initial-cluster": each.collect::<Vec<_>>().join(","),
            "initial-cluster-token": cluster,
            // With a file of settings etcd leaves its JSON interface out otherwise.
            "enable-grpc-gateway": true,
            "client-transport-security": security,
            "peer-transport-security": security,
            "auto-compaction-mode": "revision",
            "auto-compaction-retention": "1000",
        });
        // JSON is YAML, too.
        let text = serde_json::to_string_pretty(&configuration).map_err(|e| e.to_string())?;
        self.write(ETCD, &text)?;
        Ok(Some(self.path(ETCD)))
    }

    /// Path of a file of the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Text of a file of the folder. The error is a sentence.
    pub fn read(&self, name: &str) -> Result<Zeroizing<String>, String> {
        let path = self.path(name);
        let text = std::fs::read_to_string(&path);
        text.map(Zeroizing::new)
            .map_err(|e| format!("cannot read {}: {e}", path.display()))
    }

    /// Replaces a file of the folder as a whole. The error is a sentence.
    pub fn write(&self, name: &str, text: &str) -> Result<(), String> {
        private::write(&self.path(name), text.as_bytes())
    }

    /// State that the server keeps. The error is a sentence: a server that has lost it must not act.
    pub fn kept(&self) -> Result<Kept, String> {
        let text = self.read(KEPT)?;
        let path = self.path(KEPT);
        serde_json::from_str(&text).map_err(|e| format!("cannot read {}: {e}", path.display()))
    }

    /// Keeps state. The error is a sentence.
    pub fn keep(&self, kept: &Kept) -> Result<(), String> {
        self.write(
            KEPT,
            &serde_json::to_string(kept).map_err(|e| e.to_string())?,
        )
    }

    /// Addresses at which servers answer members, by name, as etcd had them last; none if the server has not learned
    /// any. The error is a sentence.
    pub fn servers(&self) -> Result<BTreeMap<String, String>, String> {
        let path = self.path(SERVERS);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|e| format!("cannot read {}: {e}", path.display())),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(e) => Err(format!("cannot read {}: {e}", path.display())),
        }
    }

    /// Keeps these addresses for the time when etcd does not answer. The error is a sentence.
    pub fn keep_servers(&self, servers: &BTreeMap<String, String>) -> Result<(), String> {
        self.write(
            SERVERS,
            &serde_json::to_string(servers).map_err(|e| e.to_string())?,
        )
    }

    /// Removes the identity and the keys of a server that has left. Its copy of the description stays.
    pub fn forget(&self) -> Result<(), String> {
        for name in [ABOUT, KEY, CERTIFICATE] {
            let path = self.path(name);
            match std::fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(format!("cannot remove {}: {e}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
