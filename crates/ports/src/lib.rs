//! The ports of the router: where packets come from and go to.
//!
//! [`Directory`] opens them by name. A kind of port is a [`Scheme`](scheme::Scheme), and only the kind's own file knows
//! its names. A program may [add](scheme::add) kinds of its own. The crate's own kinds:
//!
//! | name | port |
//! |---|---|
//! | `eth0` | a Linux interface, by AF_XDP or AF_PACKET |
//! | `af_packet:eth0`, `af_xdp:eth0` | the same, by this one |
//! | `0000:01:00.0`, `net_null0,size=64`, `dpdk:ARGS` | a DPDK device: PCI address, virtual device |
//! | `memif:role=client,socket=PATH` | shared memory with another program, which need not be trusted |
//! | `vhost:/run/vm.sock`, `vhost:SOCKET,queues=2` | a virtual machine's virtio card (vhost-user, DPDK's net_vhost) |
//! | `pcap:FILE`, `pcap:IN,OUT` | capture files |
//! | `null:`, `null:64` | discards; receives nothing, or endless frames of 64 bytes |
//! | `ring:NAME` | what is sent to it is received from it |
//! | `shares:NAME` | all routers' shares of a shared port, in the graph of the port's own router: [`shared_port`] |
//! | `tap:NAME` | a TAP interface, in the router's namespace: [`Directory::in_namespace`] |
//! | `tun:ip,addr=10.0.0.1/8` | a TUN interface (`ether`: TAP), made and set up for the port; see KernelTun |
//! | `punt:NAME` | the other end is this program: [`Directory::punt`] |
//! | `mem:NAME` | the other end is a test: [`Directory::memory`] |
//! | `fault:loss=0.01,dup=0,corrupt=0,seed=7/PORT` | PORT, losing, doubling and damaging frames |
//! | `record:FILE.pcap/PORT` | PORT, with a recording of what crosses it |
//! | `pace:100k/PORT` | PORT, receiving no more than that many packets per second and queue |
//!
//! A bare interface name means AF_XDP where that is safe and fast: the driver runs XDP programs, the kernel has no
//! address on the interface (a router with the same address would not see its packets) and no other interface on top of
//! it, and the interface has as many queues as are asked for. A veth is opened by AF_PACKET, since its peer may hand
//! over frames with unfinished checksums, which AF_XDP cannot tell (with `ethtool -K PEER tx off` it does not). The
//! port's remarks name the chosen method and the reason.
//!
//! Names with commas stand in quotes in a configuration: `FromDevice("memif:role=server,id=0")`.
//!
//! A port opens all its queues at once; each is a value that one worker owns (`engine::port`). Each drop of a port is
//! counted under a name. Events of an open port (of its link, its interface, its file) are reported once, by
//! [`Directory::events`].

mod af_packet;
mod af_xdp;
mod claim;
mod counts;
mod directory;
mod dpdk;
mod ethtool;
mod events;
mod interface;
mod interface_properties;
mod memif;
pub mod memory;
mod napi;
pub mod netns;
mod null;
mod offload;
mod ring_handover;
pub mod shared_port;
pub use offload::{merge_frames, segment_frame};
pub mod pcap;
mod punt;
mod region;
mod ring;
pub mod scheme;
mod sys;
mod tap;
mod tap_setup;
mod tun;
mod unix_diag;
pub mod waiter;
mod watch;
mod wrap;

pub use claim::user_of;
pub use directory::{Directory, Queues};
pub use dpdk::DpdkSizes;
pub use events::Events;
pub use netns::{Named, Namespace};
pub use punt::Punt;
pub use scheme::Resource;
pub use tap::Tap;
pub use tap_setup::TapSetup;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Number of bytes of a frame's checksum.
const CRC_BYTES: usize = 4;
/// Default number of bytes of a frame that a buffer holds.
const FRAME_BYTES_DEFAULT: usize = 2048;

/// Makes packet buffers large enough for frames of `bytes` bytes, checksums included. Call it before a port is probed
/// or opened.
pub fn carry_frames(bytes: usize) {
    if bytes > FRAME_BYTES_DEFAULT {
        FRAME_LEN_MAX.store(bytes, Relaxed);
        // Cards write a frame into several buffers if it is longer than the power of two below a buffer's size
        // (net_e1000_em), but a packet is one buffer. Some drivers report a buffer as one byte shorter than it is.
        engine::packet::pool::configure(
            (bytes - CRC_BYTES + 1).next_power_of_two(),
            HEAP_BUFFERS_MAX,
        );
    }
}

/// Longest requested frame, in bytes.
static FRAME_LEN_MAX: AtomicUsize = AtomicUsize::new(FRAME_BYTES_DEFAULT);

/// MTU that links need for the longest requested frame; `None` to leave MTUs unchanged.
fn mtu() -> Option<usize> {
    (FRAME_LEN_MAX.load(Relaxed) > FRAME_BYTES_DEFAULT).then(longest_mtu)
}

/// The largest MTU for which buffers hold all frames.
fn longest_mtu() -> usize {
    FRAME_LEN_MAX.load(Relaxed) - CRC_BYTES - wire::ether::LEN
}

/// Largest MTU whose frames fit in a heap buffer.
fn buffer_mtu() -> usize {
    engine::packet::pool::data_bytes() - wire::ether::LEN
}

/// Maximum number of heap buffers, the same as without [`carry_frames`].
const HEAP_BUFFERS_MAX: usize = 256 * 1024;

#[cfg(test)]
mod tests;
