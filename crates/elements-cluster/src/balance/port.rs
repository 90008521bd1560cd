//! Arguments of a balancer's port: `ETHER IP/LENGTH...`.

use arguments::units::FromArg;
use arguments::{Arg, Args};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::{EtherAddr, Prefix4, Prefix6};

/// Network of an interface address, for one IP version.
pub(super) trait Network: Copy {
    /// Address type of this version.
    type Address: Copy + PartialEq;
    /// Example of an interface address, for error messages.
    const EXAMPLE: &'static str;

    /// Parses an interface address with its prefix length.
    fn parse(text: &str) -> Option<(Self::Address, Self)>;
    /// True if the address is in the network.
    fn has(self, address: Self::Address) -> bool;
}

impl Network for Prefix4 {
    type Address = Ipv4Addr;
    const EXAMPLE: &'static str = "10.0.1.1/24";

    fn parse(text: &str) -> Option<(Ipv4Addr, Prefix4)> {
        let (address, length) = Prefix4::parse_host(text).ok()?;
        Some((address, Prefix4::new(address, length)))
    }

    fn has(self, address: Ipv4Addr) -> bool {
        self.contains(address)
    }
}

impl Network for Prefix6 {
    type Address = Ipv6Addr;
    const EXAMPLE: &'static str = "fd00:1::1/64";

    fn parse(text: &str) -> Option<(Ipv6Addr, Prefix6)> {
        let (address, length) = Prefix6::parse_host(text).ok()?;
        Some((address, Prefix6::new(address, length)))
    }

    fn has(self, address: Ipv6Addr) -> bool {
        self.contains(address)
    }
}

/// A front port or the back port: its Ethernet address, and the router's addresses with their networks.
pub(super) struct Port<N: Network> {
    pub(super) ether: EtherAddr,
    addresses: Vec<(N::Address, N)>,
}

impl<N: Network> Default for Port<N> {
    fn default() -> Port<N> {
        Port {
            ether: EtherAddr::ZERO,
            addresses: Vec::new(),
        }
    }
}

impl<N: Network> Port<N> {
    /// Parses all remaining arguments as front ports.
    pub(super) fn fronts(args: &mut Args) -> Vec<Port<N>> {
        let fronts = args.rest("FRONT", "ETHER IP/LENGTH...", "a front port");
        let parse = |arg: &Arg| Port::parse(args, "FRONT", &arg.unquoted());
        fronts.iter().map(parse).collect()
    }

    /// Parses the value of the argument `name`. Errors are recorded in `args`.
    pub(super) fn parse(args: &mut Args, name: &'static str, text: &str) -> Port<N> {
        let mut port = Port::default();
        let mut words = text.split_whitespace();
        let ether = words.next().unwrap_or_default();
        match EtherAddr::from_arg(ether, args.names()) {
            Ok(address) => port.ether = address,
            Err(_) if args.names().has_mistake(ether) => {}
            Err(wrong) => args.error_in_whole(
                format!("{name}: {wrong}"),
                "a port begins with its Ethernet address, such as eth0:eth",
            ),
        }
        for word in words {
            match N::parse(word) {
                Some(address) => port.addresses.push(address),
                None => args.error_in_whole(
                    format!("{name}: `{word}` is no address with a prefix length"),
                    format!(
                        "write the router's address and the length of its network, such as {}",
                        N::EXAMPLE
                    ),
                ),
            }
        }
        port
    }

    /// True if the router has the address on this port.
    pub(super) fn has(&self, address: N::Address) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// True if the address is in a network of this port.
    pub(super) fn reaches(&self, address: N::Address) -> bool {
        self.own_for(address).is_some()
    }

    /// Address of the router in the network that contains `address`.
    pub(super) fn own_for(&self, address: N::Address) -> Option<N::Address> {
        let mut all = self.addresses.iter();
        Some(all.find(|(_, net)| net.has(address))?.0)
    }
}
