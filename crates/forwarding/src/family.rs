//! Differences of route lookup between IPv4 and IPv6.

use arguments::Names;
use arguments::units::FromArg;
use engine::element::Facts;
use packet::Packet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tables::fib::{Prefix, Structure};
use wire::{FlowKey, Prefix4, Prefix6};

/// An IP version whose addresses have `N` bytes.
pub trait Family<const N: usize>: 'static {
    /// An address in the form of the table's keys.
    type Key: Copy;
    /// Dataflow fact: the destination annotation is set.
    const DST: Facts;

    /// Destination annotation of a packet, as a key.
    fn key(packet: &Packet) -> Self::Key;
    /// Sets the destination annotation to a gateway of this version.
    fn set_dst(packet: &mut Packet, gateway: IpAddr);
    /// Looks keys up together; `ids` is as long as `keys`.
    fn lookup_bulk(fib: &impl Structure<N>, keys: &[Self::Key], ids: &mut [u16]);
    /// Function that looks up the destination of a packet.
    fn lookup_fn(fib: &impl Structure<N>) -> impl Fn(&Packet) -> u16;
    /// Function that prefetches the first memory that the look-up of a packet reads.
    fn fetch(fib: &impl Structure<N>) -> impl Fn(&Packet);
    /// Hash of the packet's flow, equal for all its packets and for the ICMP errors that follow the same path.
    fn flow_hash(packet: &Packet, seed: u32) -> u32;

    /// Parses an address and looks it up.
    fn lookup(fib: &impl Structure<N>, address: &str) -> Result<u16, String>;
    /// Parses a prefix.
    fn prefix(text: &str, names: &Names) -> Result<Prefix<N>, String>;
    /// Parses a gateway; `None` for the unspecified address.
    fn gateway(text: &str, names: &Names) -> Result<Option<IpAddr>, String>;
    /// Text form of a prefix.
    fn show(prefix: Prefix<N>) -> String;
}

/// IPv4.
pub struct V4;

impl Family<4> for V4 {
    type Key = u32;
    const DST: Facts = Facts::DST4;

    #[inline]
    fn key(packet: &Packet) -> u32 {
        u32::from_be_bytes(packet.anno().dst4())
    }

    #[inline]
    fn set_dst(packet: &mut Packet, gateway: IpAddr) {
        if let IpAddr::V4(gateway) = gateway {
            packet.anno_mut().set_dst4(gateway.octets());
        }
    }

    #[inline]
    fn lookup_bulk(fib: &impl Structure<4>, keys: &[u32], ids: &mut [u16]) {
        fib.lookup_bulk(keys, ids);
    }

    #[inline]
    fn lookup_fn(fib: &impl Structure<4>) -> impl Fn(&Packet) -> u16 {
        let look = fib.lookup_fn();
        move |packet| look(Self::key(packet))
    }

    #[inline]
    fn fetch(fib: &impl Structure<4>) -> impl Fn(&Packet) {
        let fetch = fib.fetch();
        move |packet| fetch(Self::key(packet))
    }

    #[inline]
    fn flow_hash(packet: &Packet, seed: u32) -> u32 {
        FlowKey::of_ip4_or_quoted(packet.network()).map_or(0, |flow| flow.hash(seed))
    }

    fn lookup(fib: &impl Structure<4>, address: &str) -> Result<u16, String> {
        let address: Ipv4Addr = arguments::units::parse(address)?;
        Ok(fib.lookup(address.to_bits()))
    }

    fn prefix(text: &str, names: &Names) -> Result<Prefix<4>, String> {
        // The numeric form is tried first: tables are long, and few routes contain names.
        if let Ok((address, length)) = Prefix4::parse_host(text) {
            return Ok(Prefix::new(address.octets(), length));
        }
        // A name with both an address and a prefix stands for the address.
        let host = Ipv4Addr::from_arg(text, names).map(|a| Prefix4::new(a, 32));
        host.or_else(|_| Prefix4::from_arg(text, names))
            .map(Prefix::from)
    }

    fn gateway(text: &str, names: &Names) -> Result<Option<IpAddr>, String> {
        let address = Ipv4Addr::from_arg(text, names)?;
        Ok((!address.is_unspecified()).then_some(address.into()))
    }

    fn show(prefix: Prefix<4>) -> String {
        Prefix4::from(prefix).to_string()
    }
}

/// IPv6.
pub struct V6;

impl Family<16> for V6 {
    type Key = [u8; 16];
    const DST: Facts = Facts::DST6;

    #[inline]
    fn key(packet: &Packet) -> [u8; 16] {
        packet.anno().dst6()
    }

    #[inline]
    fn set_dst(packet: &mut Packet, gateway: IpAddr) {
        if let IpAddr::V6(gateway) = gateway {
            packet.anno_mut().set_dst6(gateway.octets());
        }
    }

    #[inline]
    fn lookup_bulk(fib: &impl Structure<16>, keys: &[[u8; 16]], ids: &mut [u16]) {
        fib.lookup_bulk(keys, ids);
    }

    #[inline]
    fn lookup_fn(fib: &impl Structure<16>) -> impl Fn(&Packet) -> u16 {
        let look = fib.lookup_fn();
        move |packet| look(Self::key(packet))
    }

    #[inline]
    fn fetch(fib: &impl Structure<16>) -> impl Fn(&Packet) {
        let fetch = fib.fetch();
        move |packet| fetch(Self::key(packet))
    }

    #[inline]
    fn flow_hash(packet: &Packet, seed: u32) -> u32 {
        FlowKey::of_ip6_or_quoted(packet.network()).map_or(0, |flow| flow.hash(seed))
    }

    fn lookup(fib: &impl Structure<16>, address: &str) -> Result<u16, String> {
        let address: Ipv6Addr = arguments::units::parse(address)?;
        Ok(fib.lookup(address.octets()))
    }

    fn prefix(text: &str, names: &Names) -> Result<Prefix<16>, String> {
        if let Ok((address, length)) = Prefix6::parse_host(text) {
            return Ok(Prefix::new(address.octets(), length));
        }
        let host = Ipv6Addr::from_arg(text, names).map(|a| Prefix6::new(a, 128));
        host.or_else(|_| Prefix6::from_arg(text, names))
            .map(Prefix::from)
    }

    fn gateway(text: &str, names: &Names) -> Result<Option<IpAddr>, String> {
        let address = Ipv6Addr::from_arg(text, names)?;
        Ok((!address.is_unspecified()).then_some(address.into()))
    }

    fn show(prefix: Prefix<16>) -> String {
        Prefix6::from(prefix).to_string()
    }
}
