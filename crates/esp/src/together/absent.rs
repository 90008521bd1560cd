//! Keys of intel-ipsec-mb where it is not installed.

use crate::suite::{Keys, Suite};

/// Empty type: without the library there are no such keys.
pub(crate) enum Together {}

pub(crate) fn together(_: Suite, _: &Keys) -> Option<Together> {
    None
}

impl Together {
    pub(crate) fn kind(&self) -> usize {
        match *self {}
    }

    pub(crate) fn prefetch(&self) {
        match *self {}
    }
}
