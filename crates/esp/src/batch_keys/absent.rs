//! Keys of intel-ipsec-mb where it is not installed.

use crate::suite::{Keys, Suite};

/// Empty type: without the library there are no such keys.
pub(crate) enum BatchKeys {}

pub(crate) fn expand_batch_keys(_: Suite, _: &Keys) -> Option<BatchKeys> {
    None
}

impl BatchKeys {
    pub(crate) fn kind(&self) -> usize {
        match *self {}
    }

    pub(crate) fn prefetch(&self) {
        match *self {}
    }
}
