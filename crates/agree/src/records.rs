//! Values in the store, as JSON, and their keys.

use crate::store::Change;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Key of the epoch: a number that each new leader raises.
pub const EPOCH: &str = "epoch";
/// Key of the [`Leader`], who holds it by lease.
pub const LEADER: &str = "leader";
/// Key of the [`Wanted`] description, which only the leader writes.
pub const WANTED: &str = "wanted";
/// Key of the latest [`Proposal`].
pub const PROPOSED: &str = "proposed";
/// Key of the [`Verdict`] on a proposal that does not become the wanted description.
pub const VERDICT: &str = "verdict";
/// Beginning of the key of each [`Member`].
pub const MEMBER: &str = "member/";
/// Prefix of the key that a running server holds by its lease.
pub const ALIVE: &str = "alive/";
/// Prefix of the key in which the leader records since when a member is away, in milliseconds since 1970.
pub const AWAY: &str = "away/";
/// Beginning of the key of each server's [`State`].
pub const STATE: &str = "state/";
/// Key of the leader's account of [`Routes`].
pub const ROUTES: &str = "routes";

/// Leader of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// Name of the server.
    pub name: String,
    /// The epoch.
    pub epoch: u64,
    /// Address and port at which it serves its routes.
    #[serde(default)]
    pub at: Option<String>,
}

/// Description that all servers are to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Version: each new description has a higher one.
    pub version: u64,
    /// Epoch of the leader that wrote this record.
    pub epoch: u64,
    /// Name of that leader.
    pub leader: String,
    /// Proposal that brought this version.
    pub proposal: String,
    /// Operator and machine that proposed this description.
    pub by: String,
    /// Time of the proposal, in milliseconds since 1970.
    pub at: u64,
    /// Contents of the cluster's file.
    pub text: String,
}

/// Description that an operator wants the servers to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Identifier, chosen at random.
    pub id: String,
    /// Version that was wanted when the proposal was made.
    pub base: u64,
    /// True if the servers only check whether they could run the description.
    pub dry_run: bool,
    /// Operator and machine.
    pub by: String,
    /// Time of the proposal, in milliseconds since 1970.
    pub at: u64,
    /// Contents of the cluster's file.
    pub text: String,
}

/// The leader's decision not to make a proposal the wanted description.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Identifier of the proposal.
    pub proposal: String,
    /// Reason of a refusal; `None` after a dry run that all servers passed.
    pub error: Option<String>,
}

/// Membership of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Identifier of the membership; a server that joins again gets a new one.
    pub identity: String,
    /// True if the server has left.
    #[serde(default)]
    pub left: bool,
}

/// State that a server reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Highest epoch that the server has seen.
    pub epoch: u64,
    /// Version of the cluster's file that the server runs.
    pub version: u64,
    /// Time at which the server took that version, in milliseconds since 1970.
    pub since: u64,
    /// Version of the server's program, and the number of its build.
    pub program: String,
    /// Last proposal that the server has checked.
    pub checked: Option<Checked>,
    /// Reason why the server does not run the wanted version.
    pub error: Option<String>,
    /// The server's links to other servers; `None` if the server has not checked them yet.
    #[serde(default)]
    pub links: Option<Links>,
    /// Address and port at which the server answers members of the cluster; `None` for programs that do not.
    #[serde(default)]
    pub at: Option<String>,
}

/// A server's links to other servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    /// Number of links.
    pub all: usize,
    /// Servers at the other ends of unused links.
    pub down: Vec<String>,
}

/// The leader's account of its routes, and of the servers that have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Routes {
    /// Epoch of the leader.
    pub epoch: u64,
    /// Version of its routes.
    pub version: u64,
    /// Number of its routes.
    pub routes: u64,
    /// Reason why the leader does not serve its routes; servers keep those that they have.
    pub error: Option<String>,
    /// Number of the kernel's routes that no server can have.
    pub left_out: u64,
    /// Number of routes that are the former leader's, and stay for a while.
    #[serde(default)]
    pub held: u64,
    /// Some of the routes that are left out, each with the reason.
    pub examples: Vec<String>,
    /// Reason why interfaces for routing daemons are missing at the leader.
    #[serde(default)]
    pub interfaces: Option<String>,
    /// Milliseconds that the latest version took to the last server.
    pub took_ms: Option<u64>,
    /// Members by name.
    pub servers: BTreeMap<String, RouteState>,
}

/// A server's routes, as the leader knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteState {
    /// Version that the server has acknowledged; 0 if it has none of this epoch.
    pub version: u64,
    /// Number of its routes.
    pub routes: u64,
    /// Number of these that are not in its tables: its description has no such gateway, or a table is full.
    pub missing: u64,
    /// Reason why the server is named.
    pub behind: Option<Behind>,
    /// Time since which it is behind, in milliseconds since 1970.
    pub since: u64,
}

/// Reason why a server is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Behind {
    /// Version not acknowledged for too long.
    Late,
    /// No sign of life for too long.
    Silent,
}

/// A server's opinion on a proposal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Identifier of the proposal.
    pub proposal: String,
    /// Reason why the server cannot run the proposed description.
    pub error: Option<String>,
}

/// Change that sets a key to a record.
pub fn put<T: Serialize>(key: impl Into<String>, record: &T) -> Change {
    Change {
        key: key.into(),
        // Records have string keys and no map that could fail.
        value: serde_json::to_string(record).ok(),
        lease: None,
    }
}

/// Change that deletes a key.
pub fn delete(key: impl Into<String>) -> Change {
    Change {
        key: key.into(),
        value: None,
        lease: None,
    }
}
