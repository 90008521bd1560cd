//! Interface of the store on which servers agree.

/// Number of a change of the store. Later changes have higher numbers; 0 stands for a key that does not exist.
pub type Revision = u64;

/// Number of a lease: values written with it are deleted if the lease is not renewed in time.
pub type Lease = u64;

/// A linearizable store of small values with revisions.
///
/// A request is begun by `ask` and answered by an event with its number, or by none if the network lost it. So a caller
/// must expect a late answer, and a write that was done although its answer says otherwise.
pub trait Store {
    /// Begins a request. The caller chooses `number`, which its answer will carry.
    fn ask(&mut self, number: u64, request: Request);

    /// Takes the next event; `None` if there is none at present.
    fn next(&mut self) -> Option<Event>;
}

/// A request to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads all values.
    Read,
    /// Writes if all conditions hold.
    Write(Write),
    /// Makes a lease of this many seconds.
    Grant(u64),
    /// Renews a lease for its full time.
    Renew(Lease),
    /// Reports all changes after this revision, in order, until [`Event::Unwatched`]. The request has no answer, and
    /// replaces the earlier watch.
    Watch(Revision),
}

/// Changes that are made together, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    /// Guard: the cluster's epoch must be this one; `None` = any.
    pub epoch: Option<u64>,
    /// Keys that must not have changed since these revisions.
    pub unchanged: Vec<(String, Revision)>,
    /// Changes, each of another key.
    pub changes: Vec<Change>,
}

/// Change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: String,
    /// Its new value; `None` deletes the key.
    pub value: Option<String>,
    /// Lease at whose end the value is deleted.
    pub lease: Option<Lease>,
}

impl Change {
    /// The key's value after this change, which the store has made at a revision.
    pub fn at(self, revision: Revision) -> Entry {
        Entry {
            key: self.key,
            value: self.value,
            revision,
            lease: self.lease,
        }
    }
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// All values at a revision.
    All(Revision, Vec<Entry>),
    /// The write was done and has this revision.
    Written(Revision),
    /// A condition of the write does not hold: nothing was changed.
    Refused,
    /// A new lease.
    Granted(Lease),
    /// The lease was renewed for its full time.
    Renewed,
    /// There is no such lease any more.
    Expired,
}

/// A key's value as of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value; `None` = deleted.
    pub value: Option<String>,
    /// Revision of the key's last change.
    pub revision: Revision,
    /// Lease of the value.
    pub lease: Option<Lease>,
}

/// News from the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Answer to the request with this number. The error is a sentence; the request may have been done nevertheless.
    Answered(u64, Result<Answer, String>),
    /// All changes up to a revision, since the last such event of the watch with this number.
    Changed(u64, Revision, Vec<Entry>),
    /// The watch with this number reports no more changes.
    Unwatched(u64, Unwatched),
}

/// Reason for the end of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwatched {
    /// The store has forgotten changes after the watch's revision: read all values again.
    Compacted,
    /// The store was not reached for too long.
    Lost,
}
