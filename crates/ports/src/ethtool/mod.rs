//! What the kernel tells of an interface's driver, and what it lets be set there (ethtool(8)).

mod sys;

pub(crate) use sys::{channels, gro, kernel_driver, rx_flags, set_gro, set_rx_flags};
