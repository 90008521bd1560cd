//! Classes that read packets from files and write them, as packets or as text.

mod file;
mod from_ip_summary_dump;
mod pace;
/// The text format of packets.
mod summary;
mod to_ip_summary_dump;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<from_ip_summary_dump::FromIpSummaryDump>(),
    Class::of::<to_ip_summary_dump::ToIpSummaryDump>(),
];
