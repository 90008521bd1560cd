//! Packet headers as views over bytes, checksums, addresses and flow keys.
//!
//! The crate is pure: no allocation, no IO, no clock, no `unsafe`; it uses only `core`.
//!
//! # The contract of every view
//!
//! A view is a struct around a buffer, `Ipv4<B>`, that reads and writes fields in place.
//!
//! * `new_checked(bytes)` checks that the buffer holds the whole header, and that the lengths in it stay inside the
//!   buffer. After it no getter panics. A refusal has a [`BadHeader`] as reason.
//! * `new_unchecked(bytes)` trusts the caller, who has checked the same bytes before (for example an element
//!   downstream of `CheckIPHeader`). On a buffer that is too short a getter panics; it never reads outside the
//!   buffer.
//! * Getters need `B: AsRef<[u8]>`, setters also `B: AsMut<[u8]>`. Setting a length field may invalidate what
//!   `new_checked` has checked.
//! * `set_x` writes only the field; `patch_x` also updates the header's checksum (RFC 1624).
//!
//! Numbers are in host order, and lengths and offsets in bytes, whatever the unit on the wire. Functions named
//! `check` check a whole header, as a router must, and return the first fault.
#![no_std]

#[cfg(test)]
extern crate std;

#[macro_use]
mod bytes;

pub mod addr;
pub mod arp;
pub mod checksum;
pub mod dps;
mod error;
pub mod ether;
pub mod ext;
pub mod flow;
pub mod icmp;
pub mod icmp6;
pub mod ipv4;
pub mod ipv6;
pub mod mpls;
pub mod nd;
pub mod netlink;
pub mod plain_frame;
pub mod prefix;
pub mod proto;
pub mod rss;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod tunnel;
pub mod udp;
pub mod vlan;

pub use addr::EtherAddr;
pub use arp::Arp;
pub use error::BadHeader;
pub use ether::Ether;
pub use flow::FlowKey;
pub use icmp::Icmp;
pub use icmp6::Icmp6;
pub use ipv4::{Ipv4, options as ipv4_options};
pub use ipv6::Ipv6;
pub use nd::Nd;
pub use prefix::{Prefix, Prefix4, Prefix6};
pub use tcp::Tcp;
pub use udp::Udp;
pub use vlan::Vlan;
