//! IP addresses with the lengths of their networks, in files.

use std::net::{IpAddr, Ipv4Addr};
use wire::{Prefix4, Prefix6};

/// Address and length of `ADDRESS/LENGTH`. Host bits may be set.
pub(crate) fn network(text: &str) -> Option<(IpAddr, u8)> {
    text.contains('/').then_some(())?;
    match Prefix4::parse_host(text) {
        Ok((address, length)) => Some((address.into(), length)),
        Err(_) => {
            let (address, length) = Prefix6::parse_host(text).ok()?;
            Some((address.into(), length))
        }
    }
}

/// True if a host of the network may have the address.
pub(crate) fn is_host4(address: Ipv4Addr, length: u8) -> bool {
    let network = Prefix4::new(address, length);
    let ends = length < 31 && (network.addr() == address || network.broadcast() == Some(address));
    !(ends
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_loopback()
        || address.is_broadcast())
}
