//! Classes that read packets from files and write them, as packets or as text, and print lines about them.

mod arp_print;
mod contents;
pub(crate) mod file;
mod from_dump;
mod from_ip_summary_dump;
mod ip_print;
mod line_writer;
mod playback;
mod playback_times;
mod print;
mod printer;
mod sink;
mod to_dump;
mod to_ip_summary_dump;

use engine::element::Class;
use printer::Printer;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<Printer<arp_print::ArpPrint>>(),
    Class::of::<from_dump::FromDump>(),
    Class::of::<from_ip_summary_dump::FromIpSummaryDump>(),
    Class::of::<Printer<ip_print::IpPrint>>(),
    Class::of::<Printer<print::Print>>(),
    Class::of::<to_dump::ToDump>(),
    Class::of::<to_ip_summary_dump::ToIpSummaryDump>(),
];
