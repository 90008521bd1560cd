//! New IPv4 headers before packets.

use crate::prelude::*;
use arguments::Names;
use arguments::units::FromArg;
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use wire::{Ipv4, ipv4};

/// Destination address of encapsulated packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// Fixed address for all packets.
    Fixed(Ipv4Addr),
    /// Destination annotation of the packet.
    Anno,
}

impl FromArg for To {
    const KIND: &'static str = "an IPv4 address such as 192.0.2.1, or DST_ANNO";

    fn from_arg(raw: &str, names: &Names) -> Result<To, String> {
        match raw {
            "DST_ANNO" => Ok(To::Anno),
            _ => Ipv4Addr::from_arg(raw, names).map(To::Fixed),
        }
    }

    fn stand_in() -> To {
        To::Anno
    }

    fn unparse(&self) -> String {
        match self {
            To::Anno => "DST_ANNO".to_owned(),
            To::Fixed(ip) => ip.to_string(),
        }
    }
}

/// Fields of the IPv4 header to prepend.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    pub(crate) src: Ipv4Addr,
    pub(crate) dst: To,
    pub(crate) protocol: u8,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) dont_fragment: bool,
}

impl Header {
    /// Header with the default fields of Click's encapsulators.
    pub(crate) fn new(src: Ipv4Addr, dst: To, protocol: u8) -> Header {
        Header {
            src,
            dst,
            protocol,
            tos: 0,
            ttl: 250,
            dont_fragment: false,
        }
    }

    /// Prepends the header and `upper` bytes of unspecified content to a packet, marks the header, and sets the
    /// destination annotation. `None` without headroom, or if the datagram is too long.
    #[inline]
    pub(crate) fn put<'p>(
        &self,
        packet: &'p mut Packet,
        upper: usize,
        ident: u16,
    ) -> Option<Ipv4<&'p mut [u8]>> {
        let dst = match self.dst {
            To::Fixed(ip) => ip,
            To::Anno => Ipv4Addr::from(packet.anno().dst4()),
        };
        let total = u16::try_from(packet.len() + upper + ipv4::MIN_LEN).ok()?;
        packet.push(ipv4::MIN_LEN + upper)?;
        packet.set_network_offset(0);
        packet.set_transport_offset(ipv4::MIN_LEN);
        packet.anno_mut().set_dst4(dst.octets());
        let data = packet.data_mut();
        data[..ipv4::MIN_LEN].fill(0);
        let mut ip = Ipv4::new_unchecked(data);
        ip.set_header_len(ipv4::MIN_LEN);
        ip.set_tos(self.tos);
        ip.set_total_len(total);
        ip.set_ident(ident);
        ip.set_fragment_word(if self.dont_fragment { ipv4::DF } else { 0 });
        ip.set_ttl(self.ttl);
        ip.set_protocol(self.protocol);
        ip.set_src(self.src);
        ip.set_dst(dst);
        ip.fill_checksum();
        Some(ip)
    }
}

/// Sequence of identifications. Each worker starts at another point, to delay repetitions.
pub(crate) struct Idents {
    next: u16,
    /// Permutation of the identifications; `None` for ascending order.
    order: Option<Arc<Order>>,
}

impl Idents {
    /// Identifications of one worker, starting with `first`. They ascend without `order`, and always in Click's mode.
    pub(crate) fn new(first: u16, order: Option<&Arc<Order>>, init: &Init) -> Idents {
        let apart = 0x1_0000 / init.workers.max(1);
        Idents {
            next: first.wrapping_add((init.worker * apart) as u16),
            order: order.filter(|_| !init.as_click()).map(Arc::clone),
        }
    }

    /// Returns the next identification.
    #[inline]
    pub(crate) fn next(&mut self, cx: &mut Cx) -> u16 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        match &self.order {
            None => number,
            Some(order) => order.at(number, cx),
        }
    }
}

/// Secret permutation of all identifications, since an attacker could insert fragments if they were predictable (RFC
/// 7739). Each encapsulator has one, shared by its clones. It is a four-round Feistel network with random round
/// functions on bytes.
#[derive(Default)]
pub(crate) struct Order(OnceLock<Box<[[u8; 256]; 4]>>);

impl Order {
    #[inline]
    fn at(&self, number: u16, cx: &mut Cx) -> u16 {
        let rounds = self.0.get_or_init(|| {
            let mut rounds = Box::new([[0; 256]; 4]);
            let bytes = rounds.iter_mut().flatten();
            bytes.for_each(|byte| *byte = cx.random() as u8);
            rounds
        });
        let [mut left, mut right] = number.to_be_bytes();
        for round in rounds.iter() {
            (left, right) = (right, left ^ round[usize::from(right)]);
        }
        u16::from_be_bytes([left, right])
    }
}

/// An element that prepends a [`Header`].
pub(crate) trait Headed: Element {
    /// Header that the element prepends.
    fn header(&self) -> &Header;

    /// Mutable form of [`header`](Self::header).
    fn header_mut(&mut self) -> &mut Header;
}

/// Read handler `src`.
pub(crate) const fn read_src<E: Headed>() -> Handler<E> {
    Handler::text("src", "see SRC", |e, _| Ok(e.header().src.to_string()))
}

/// Write handler `src`.
pub(crate) const fn write_src<E: Headed>() -> Handler<E> {
    Handler::argument(Handler::set("src", "changes SRC", |e, value, _| {
        assign(&mut e.header_mut().src, value)
    }))
}

/// Read handler `dst`.
pub(crate) const fn read_dst<E: Headed>() -> Handler<E> {
    Handler::text("dst", "see DST", |e, _| Ok(e.header().dst.unparse()))
}

/// Write handler `dst`.
pub(crate) const fn write_dst<E: Headed>() -> Handler<E> {
    Handler::argument(Handler::set("dst", "changes DST", |e, value, _| {
        assign(&mut e.header_mut().dst, value)
    }))
}
