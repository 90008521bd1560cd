//! Memory that this program shares with another, or with the kernel; either may write anywhere in it at any time.

mod sys;

pub(crate) use sys::Region;
