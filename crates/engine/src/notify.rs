//! Notifiers: who may sleep because no packets wait, or because there is no room, and who wakes them.
//!
//! A *packets* notifier ([`Notifies::packets`]) says whether packets may be pulled from an element; a *room* notifier
//! ([`Notifies::room`]) whether it takes more. Each has one bit per worker, set and cleared by its element. A pull
//! input's [`Signal`] is the set of notifiers found by going up pull connections, through elements that do not notify:
//! it is active while one of them is. A push output's signal is found by going down push connections. Where a path ends
//! in an element that says nothing, or whose queue another worker fills or empties, the signal is always active: then
//! one must poll. So it is for the last ports of a graph whose signals together would be larger than anything that a
//! router is for.
//!
//! A notifier that itself pulls (DelayShaper) hears those above it: when they become active, so does it.

use crate::class::Class;

/// Notifiers that tell if packets may wait behind a pull input, or if room may be behind a push output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    /// True if the signal is always active, as an element there has no notifier.
    pub busy: bool,
    /// Elements with notifiers; the signal is active if one of them is.
    pub notifiers: Vec<usize>,
}

/// The bits of one worker's notifiers, by element.
pub(crate) struct Notes {
    pub(crate) packets: Vec<bool>,
    pub(crate) room: Vec<bool>,
}

impl Notes {
    pub(crate) fn new(elements: usize) -> Notes {
        Notes {
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

/// The notifiers of a class: an extension for `Element::EXTENSIONS`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notifies {
    /// True if its elements say when packets may be pulled from them, by `Cx::wake_pullers`, and when
    /// not, by `Cx::note_empty`. At the start there are none.
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

/// Pull outputs of a class that are nothing but a pull input, as pairs of output and input: who pulls the output pulls
/// the input, past the element. So a detour may lead from an element to itself. An extension.
pub struct PullWires(pub &'static [(usize, usize)]);
