//! Back ends as a pool knows them, and which of them may own buckets.

use super::message::Setting;
use super::rendezvous::{Candidate, key};

/// Description of a back end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name; the back end's buckets are computed from it.
    pub name: String,
    /// Weight relative to those of other back ends.
    pub weight: u16,
}

/// A class: packets that only some back ends get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The back ends by number.
    pub members: Vec<u16>,
}

/// Administrative state of a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// The back end takes its share.
    Used,
    /// The back end gets no further buckets, and its buckets leave when they are idle.
    Drained,
}

/// Present state of a back end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Description, with the present weight.
    pub member: Member,
    /// Administrative state.
    pub intent: Intent,
    /// True if the back end forwards packets, as far as the balancer knows.
    pub up: bool,
    /// Time of the last change of `up`, in nanoseconds.
    pub since: u64,
    /// Number of buckets that the back end owns in the first table, and number of these that are moving away.
    pub buckets: (usize, usize),
}

/// A back end of a pool.
pub(super) struct BackEnd {
    pub(super) member: Member,
    pub(super) intent: Intent,
    /// Number of changes by an operator so far.
    pub(super) stamp: u32,
    /// Time in nanoseconds that the last of them left to buckets.
    pub(super) within: Option<u64>,
    pub(super) up: bool,
    pub(super) since: u64,
}

impl BackEnd {
    pub(super) fn setting(&self) -> Setting {
        let ms = |within: u64| u32::try_from(within / 1_000_000).unwrap_or(u32::MAX - 1);
        Setting {
            stamp: self.stamp,
            is_drained: self.intent == Intent::Drained,
            weight: self.member.weight,
            within_ms: self.within.map(ms),
        }
    }
}

/// True unless the back end is up.
pub(super) fn is_down(members: &[BackEnd], backend: u16) -> bool {
    !members.get(usize::from(backend)).is_some_and(|one| one.up)
}

/// Back ends that may own buckets of a class: its used back ends that are up. If there are none, all used ones that are
/// up; if there are none, all that are up. `None` if all are down: earlier decisions stay, because packets to a back
/// end that seems to be down may still arrive. Probes of all back ends are late at once if the balancer's machine or
/// its network is busy.
pub(super) fn candidates(
    members: &[BackEnd],
    class: Option<&Class>,
) -> Option<Vec<Option<Candidate>>> {
    let found = |fits: &dyn Fn(u16, &BackEnd) -> bool| -> Option<Vec<Option<Candidate>>> {
        let each = (0..).zip(members);
        let all: Vec<Option<Candidate>> = each
            .map(|(at, one)| {
                fits(at, one).then(|| Candidate {
                    key: key(&one.member.name),
                    weight: one.member.weight,
                })
            })
            .collect();
        all.iter().any(Option::is_some).then_some(all)
    };
    let used = |one: &BackEnd| one.up && one.intent == Intent::Used;
    let in_class = |at: u16| class.is_none_or(|class| class.members.contains(&at));
    found(&|at, one| used(one) && in_class(at))
        .or_else(|| found(&|_, one| used(one)))
        .or_else(|| found(&|_, one| one.up))
}
