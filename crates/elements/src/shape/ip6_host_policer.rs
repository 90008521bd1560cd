//! Limits the rate of each IPv6 network of hosts: thousands of customers in one element.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header
//!     -> p :: IP6HostPolicer(10Mbps, 2001:db8:1::/48 50Mbps)
//!     -> Discard;
//! ```
//!
//! Works like HostPolicer, for IPv6. A host may use all addresses of its network, so each network of 64 bits, or
//! fewer, has one bucket.
//!
//! Arguments:
//!
//! - `RATE`: bandwidth of every host, counted in bytes from the network header on.
//! - `HOST`, any number of: `PREFIX RATE [BURST]`; the prefix has at most 64 bits.
//! - `BURST`: bytes at once. Default: what comes in 100 ms, at least 16384.
//! - `DST`: if true, the hosts are those that packets go to. Default false.
//! - `PREFIX`: bits of an address that make a host, 1 to 64. Default 64.
//! - `CAPACITY`: hosts that send at a time. Default 65536.

use super::host_policer::Family;
use crate::prelude::*;
use std::net::Ipv6Addr;

pub(crate) struct Six;

impl Family for Six {
    const CLASS: &'static str = "IP6HostPolicer";
    const MANUAL: &'static str = manual!();
    const NEEDS: &'static [Facts] = &[Facts::IP6];
    const BITS: u8 = 64;

    #[inline]
    fn host(header: &[u8], dst: bool) -> Option<u64> {
        let at = if dst { 24 } else { 8 };
        let bytes = header.get(at..)?.first_chunk()?;
        Some(u64::from_be_bytes(*bytes))
    }

    fn read(address: &str) -> Option<u64> {
        let address: Ipv6Addr = address.parse().ok()?;
        u64::try_from(address.to_bits() >> 64).ok()
    }

    fn show(host: u64) -> String {
        Ipv6Addr::from_bits(u128::from(host) << 64).to_string()
    }
}
