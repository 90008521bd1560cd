//! Settings of an interface's driver in the kernel (ethtool(8)).

mod sys;

pub(crate) use sys::{channels, gro, kernel_driver, rx_flags, set_gro, set_rx_flags};
