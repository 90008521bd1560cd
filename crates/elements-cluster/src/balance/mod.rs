//! The multistage router: a balancer in front of ordinary routers (Bianco et al.).
//!
//! The rules are in the crate `cluster`; these classes move packets by them. BalancePool has the state that the
//! others share.

mod arp_probe;
mod balance_arp;
mod balance_health;
mod balance_in;
mod balance_nd;
mod balance_out;
mod balance_peer;
mod balance_pool;
mod bfd;
mod echo;
mod heads;
mod hops;
mod key;
mod nd_message;
mod outside;
mod ping;
mod port;
mod ranges;
mod shared;
mod stations;
mod udp;
mod version;
mod ways;

use crate::prelude::*;
use engine::element::Class;
use engine::packet::anno::PacketType;
use shared::Shared;
use wire::ether::Words;
use wire::{ether, proto};

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<balance_arp::BalanceArp>(),
    Class::of::<balance_health::BalanceHealth>(),
    Class::of::<balance_in::BalanceIn>(),
    Class::of::<balance_nd::BalanceNd>(),
    Class::of::<balance_out::BalanceOut>(),
    Class::of::<balance_peer::BalancePeer>(),
    Class::of::<balance_pool::BalancePool>(),
];

/// Maximum number of front ports.
const FRONTS_MAX: usize = 64;

/// True for an IPv6 Neighbour Discovery packet. Valid ones contain no fragment header (RFC 6980), so extension headers
/// are not searched.
#[inline]
fn is_discovery(packet: &[u8]) -> bool {
    packet.get(6) == Some(&proto::ICMP6) && matches!(packet.get(40), Some(133..=137))
}

/// The fields of an Ethernet header.
struct Head {
    to: u64,
    from: u64,
    kind: u16,
}

impl Head {
    #[inline]
    fn new(head: &[u8; ether::LEN]) -> Head {
        let Words(first, second) = Words::of(head);
        let second = second.swap_bytes();
        Head {
            to: first.swap_bytes() >> 16,
            from: second >> 16,
            kind: second as u16,
        }
    }

    /// True if the destination is a group address.
    #[inline]
    fn is_for_group(&self) -> bool {
        self.to >> 40 & 1 != 0
    }
}

/// Initialises the annotations of a batch as for received frames, if elements downstream of the output read
/// annotations.
#[inline]
fn arrived(annotates: &[bool], output: usize, batch: &mut Batch, cx: &Cx) {
    if annotates.get(output) == Some(&true) && !cx.watched() {
        let fresh = batch.iter_mut();
        fresh.for_each(|packet| packet.arrived(PacketType::of_frame));
    }
}

/// Reference to another element whose configuration is read.
#[derive(Default)]
struct Peer(Option<String>);

impl Peer {
    /// Parses an argument that names an element of a class. Errors are recorded in `args`.
    fn named(args: &mut Args, name: &str, class: &str) -> Peer {
        let peer = args.peer(name).filter(|peer| peer.class() == class);
        if peer.is_none() && !args.element().is_empty() && !name.is_empty() {
            args.error_in_whole(
                format!("`{name}` is no {class}"),
                format!("name an element of the class {class}"),
            );
        }
        Peer(peer.map(|peer| peer.name().to_owned()))
    }

    /// Parses the first argument, the name of a BalancePool.
    fn pool(args: &mut Args) -> Peer {
        let name: String = args.required("POOL", "the BalancePool that it belongs to");
        Peer::named(args, &name, "BalancePool")
    }

    /// True if the pool moves buckets by load.
    fn is_by_load(&self, args: &Args) -> bool {
        let pool = self.0.as_deref().and_then(|name| args.peer(name));
        pool.is_some_and(|pool| {
            let mut args = pool.args(&["ALGORITHM"]);
            let algorithm: Option<String> = args.key_maybe("ALGORITHM", "how packets are spread");
            algorithm.as_deref() == Some("least-loaded")
        })
    }

    /// Number of traffic classes of the pool.
    fn classes(&self, args: &Args) -> usize {
        let pool = self.0.as_deref().and_then(|name| args.peer(name));
        let classes = pool.and_then(|pool| {
            let mut args = pool.args(&["CLASSES"]);
            args.key_maybe::<String>("CLASSES", "classes of packets and their back ends")
        });
        classes.map_or(0, |text| text.split_whitespace().count())
    }

    fn find<C: Send + Sync + 'static>(&self, init: &Init) -> Option<Arc<C>> {
        init.shared_by(self.0.as_deref()?)
    }

    /// State shared by the elements of a balancer. A plan with an unknown pool is never built.
    fn shared(&self, init: &Init) -> Arc<Shared> {
        self.find(init).unwrap_or_default()
    }
}
