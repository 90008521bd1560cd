//! The ports of the router: where packets come from and go to.
//!
//! [`Directory`] opens them by name:
//!
//! | name | port |
//! |---|---|
//! | `eth0` | a Linux interface, by AF_XDP where that works, else by AF_PACKET |
//! | `af_packet:eth0`, `af_xdp:eth0` | a Linux interface in the named way |
//! | `0000:01:00.0`, `net_null0,size=64`, `dpdk:ARGS` | a DPDK device: PCI address, virtual device |
//! | `memif:role=client,socket=PATH` | shared memory with another program (DPDK's net_memif) |
//! | `pcap:FILE`, `pcap:IN,OUT` | capture files |
//! | `null:`, `null:64` | discards; receives nothing, or endless frames of 64 bytes |
//! | `mem:NAME` | the far end is in the hands of a test: [`Directory::memory`] |
//!
//! A port opens all its queues at once; each is a value that one worker owns (`engine::port`).
//! Whatever a port drops has a name in its counters. What happens to a port while it is open (its
//! link, its interface, its file) is said once, by [`Directory::events`].

mod af_packet;
mod counts;
mod directory;
mod dpdk;
pub mod memory;
mod null;
mod offload;
pub mod pcap;

mod sys;
pub mod waiter;

pub use directory::Directory;
pub use dpdk::DpdkSizes;
pub use sys::is_root;

use engine::anno::PacketType;

/// Click's packet type of a frame that a port received without being told: by its destination.
fn link_type(frame: &[u8]) -> PacketType {
    match frame {
        [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => PacketType::Broadcast,
        [first, ..] if first & 1 == 1 => PacketType::Multicast,
        _ => PacketType::Host,
    }
}

#[cfg(test)]
mod tests;
