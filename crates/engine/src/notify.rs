//! Notifiers: elements sleep while no packets wait, or while there is no room, and other elements wake them.
//!
//! A *packets* notifier ([`Notifies::packets`]) is active while packets may be pulled from an element; a *room*
//! notifier ([`Notifies::room`]) is active while an element takes more packets. Each notifier has one bit per worker,
//! set and cleared by its element. A pull input's [`Signal`] is the set of notifiers found upstream along pull
//! connections, through elements that do not notify. A push output's signal is found downstream along push connections.
//! A signal is active while one of its notifiers is. If a path ends in an element without a notifier, or in one whose
//! queue another worker fills or empties, the signal is always active, so its user must poll. The total size of a
//! graph's signals is bounded; the last ports of a graph that exceeds the bound also get signals that are always
//! active.
//!
//! A notifier whose element itself pulls (DelayShaper) becomes active when a notifier upstream of it does.

use crate::class::Class;

/// Notifiers that tell if packets may wait upstream of a pull input, or if there may be room downstream of a push
/// output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// True if the signal is always active, as an element there has no notifier.
    pub busy: bool,
    /// Elements with notifiers; the signal is active if one of them is.
    pub notifiers: Vec<usize>,
}

/// The bits of one worker's notifiers, by element.
pub(crate) struct NotifierBits {
    pub(crate) packets: Vec<bool>,
    pub(crate) room: Vec<bool>,
}

impl NotifierBits {
    pub(crate) fn new(elements: usize) -> NotifierBits {
        NotifierBits {
            packets: vec![false; elements],
            room: vec![true; elements],
        }
    }
}

impl Signal {
    /// True if a signal with these bits is active; a port without one always is.
    #[inline]
    pub(crate) fn active(this: Option<&Signal>, bits: &[bool]) -> bool {
        this.is_none_or(|signal| signal.busy || signal.notifiers.iter().any(|&n| bits[n]))
    }
}

/// The notifiers of a class: an extension for `Contract::extensions`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notifies {
    /// True if elements of the class report when packets may be pulled from them (`Cx::wake_pullers`) and when not
    /// (`Cx::note_empty`). At the start there are none.
    pub packets: bool,
    /// True if the ports report that they have no more room, by `Cx::note_full`, and that they have room again, by
    /// `Cx::wake_pushers`. At the start they have room.
    pub room: bool,
}

impl Notifies {
    /// Signals packets only.
    pub const PACKETS: Notifies = Notifies {
        packets: true,
        room: false,
    };

    pub(crate) fn of(class: &Class) -> Notifies {
        class.extension().copied().unwrap_or_default()
    }
}

/// Pull outputs of a class that only pass pulls through, as pairs of output and input: a pull at the output becomes a
/// pull at the input, without running the element. So a detour may lead from an element to itself. An extension.
pub struct PullWires(pub &'static [(usize, usize)]);
