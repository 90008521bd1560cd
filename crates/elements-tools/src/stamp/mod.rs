//! Classes that set, change, filter by and measure the timestamps of packets.

mod adjust_timestamp;
mod set_timestamp;
mod set_timestamp_delta;
mod store_timestamp;
mod time_filter;
mod time_range;
mod time_sorted_sched;
mod timestamp_accum;

use engine::element::Class;
use engine::packet::Packet;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<adjust_timestamp::AdjustTimestamp>(),
    Class::of::<set_timestamp::SetTimestamp>(),
    Class::of::<set_timestamp_delta::SetTimestampDelta>(),
    Class::of::<store_timestamp::StoreTimestamp>(),
    Class::of::<time_filter::TimeFilter>(),
    Class::of::<time_range::TimeRange>(),
    Class::of::<time_sorted_sched::TimeSortedSched>(),
    Class::of::<timestamp_accum::TimestampAccum>(),
];

/// A packet's timestamp, or its first timestamp, in nanoseconds; 0 = not set.
fn get(packet: &Packet, first: bool) -> i64 {
    let cold = packet.cold();
    let stamp = if first {
        cold.first_timestamp()
    } else {
        cold.timestamp
    };
    stamp as i64
}

/// Sets a packet's timestamp, or its first timestamp, in nanoseconds.
fn set(packet: &mut Packet, first: bool, nanos: i64) {
    let cold = packet.cold_mut();
    if first {
        cold.set_first_timestamp(nanos as u64);
    } else {
        cold.timestamp = nanos as u64;
    }
}

/// Tests of this folder: packets with timestamps in, timestamps out.
#[cfg(test)]
mod testing {
    use engine::packet::{Batch, Packet};
    use testkit::Bench;

    /// Packets with these timestamps, in nanoseconds, for a bench.
    pub(super) fn packets(stamps: &[i64]) -> Batch {
        let made = stamps.iter().enumerate().map(|(i, stamp)| {
            let mut packet = Packet::from_bytes(&[i as u8]).expect("it fits");
            packet.cold_mut().timestamp = *stamp as u64;
            packet
        });
        made.collect()
    }

    /// Sends packets with these timestamps through `path` and gives the timestamps, or first
    /// timestamps, that come out.
    pub(super) fn through(path: &str, field: &str, stamps: &[i64]) -> Vec<String> {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("test").replace("::", "-");
        let name = format!("ashlar-{}-{test}", std::process::id());
        let file = std::env::temp_dir().join(name);
        let text = format!(
            "e :: {path} -> to :: ToIPSummaryDump({}, FIELDS {field}, HEADER false)",
            file.display()
        );
        let mut bench = Bench::strict(crate::with_basics(), &text);
        // Elements are started with the first turn.
        bench.run();
        bench.push_packets("e", 0, packets(stamps));
        drop(bench);
        let text = std::fs::read_to_string(&file).expect("the dump was written");
        let _ = std::fs::remove_file(file);
        text.lines().map(str::to_owned).collect()
    }
}
