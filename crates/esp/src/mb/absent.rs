//! In the place of intel-ipsec-mb where it is not installed.

use crate::cipher::Cipher;
use crate::job::Job;
use crate::{Keys, Suite};

pub(crate) const LEN_MAX: usize = 0;
pub(crate) const BURST: usize = 1;

pub(crate) fn is_there() -> bool {
    false
}

pub(crate) fn cipher(_: Suite, _: &Keys) -> Option<Box<dyn Cipher>> {
    None
}

pub(crate) fn together(_: Suite, _: &Keys) -> Option<Together> {
    None
}

/// Never exists, without the library.
pub(crate) enum Together {}

impl Together {
    pub(crate) fn kind(&self) -> usize {
        match *self {}
    }

    pub(crate) fn prefetch(&self) {
        match *self {}
    }
}

/// Never exists, without the library.
pub(crate) enum Manager {}

impl Manager {
    pub(crate) fn new() -> Option<Manager> {
        None
    }

    pub(crate) fn seal(&mut self, _: usize, _: &mut [Job<'_>]) {
        match *self {}
    }

    pub(crate) fn open(&mut self, _: usize, _: &mut [Job<'_>]) {
        match *self {}
    }
}
