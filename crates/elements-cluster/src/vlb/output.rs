//! Common part of VLBOutput and VLBOutput6: packets that have crossed the cluster go to this node's external ports.

use super::{ETHER_LEN, Member, gateways};
use crate::prelude::*;
use arguments::units::FromArg;
use cluster::address::PORT_SELF;
use engine::packet::anno::{Anno, PacketType};
use std::marker::PhantomData;

drops! {
    WRONG_PORT = "wrong_port",
    UNKNOWN_GATEWAY = "unknown_gateway",
    MALFORMED = "malformed",
}

/// Constants and operations of an IP version's class.
pub(crate) trait Family: Sized + 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    const GIVES: &'static [Facts];
    const ETHERTYPE: [u8; 2];

    /// Address type, parsed from configurations.
    type Address: FromArg + Copy + Send + Sync;

    /// Header length and packet length in bytes, and the destination; `None` for packets of other IP versions.
    fn read(packet: &[u8]) -> Option<(usize, usize, Self::Address)>;

    /// Sets the destination annotation.
    fn set_dst(anno: &mut Anno, to: Self::Address);
}

pub(crate) struct Config<F: Family> {
    /// Gateways, by port.
    pub(super) gateways: Vec<Vec<F::Address>>,
}

pub(crate) struct Output<F: Family> {
    config: Arc<Config<F>>,
    /// Number of external ports.
    ports: u8,
    family: PhantomData<F>,
}

impl<F: Family> Element for Output<F> {
    const CONTRACT: Contract = Contract::new(F::CLASS, F::MANUAL)
        .ports(Ports::coded(&["in"], &["port*"], "h/h"))
        .needs(&[Facts::ETHER])
        .gives(F::GIVES)
        .spoils(Facts::ETHER)
        .drops(DROPS);

    type Config = Config<F>;

    fn configure(args: &mut Args) -> Config<F> {
        Member::named(args);
        Config {
            gateways: gateways(args),
        }
    }

    fn new(config: &Arc<Config<F>>, init: &Init) -> Output<F> {
        Output {
            config: Arc::clone(config),
            ports: init.outputs.saturating_sub(1) as u8,
            family: PhantomData,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }
}

impl<F: Family> Fuse for Output<F> {
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let (ports, by_port) = (self.ports, &self.config.gateways);
        #[inline(always)]
        move |packet| {
            let Some((head, inner)) = packet.data().split_first_chunk::<ETHER_LEN>() else {
                return Some(Verdict::drop(MALFORMED));
            };
            let &[_, _, _, port, g0, g1, _, _, _, _, _, _, t0, t1] = head;
            if [t0, t1] != F::ETHERTYPE {
                return Some(Verdict::drop(MALFORMED));
            }
            let output = match port {
                PORT_SELF => ports,
                port if port < ports => port,
                _ => return Some(Verdict::drop(WRONG_PORT)),
            };
            let Some((header, total, own)) = F::read(inner) else {
                return Some(Verdict::drop(MALFORMED));
            };
            if total > inner.len() {
                return Some(Verdict::drop(MALFORMED));
            }
            let number = usize::from(u16::from_be_bytes([g0, g1]));
            let next = match number {
                0 => own,
                _ => match by_port.get(usize::from(port)) {
                    Some(gateways) if number <= gateways.len() => gateways[number - 1],
                    _ => return Some(Verdict::drop(UNKNOWN_GATEWAY)),
                },
            };
            if !packet.pull(ETHER_LEN) {
                return Some(Verdict::drop(MALFORMED));
            }
            // An internal link may have padded the packet.
            packet.truncate(total);
            packet.set_network_offset(0);
            packet.set_transport_offset(header);
            let anno = packet.anno_mut();
            F::set_dst(anno, next);
            // The internal link's port has marked the packet as addressed to another host.
            anno.packet_type = PacketType::Host;
            Some(Verdict::out(output))
        }
    }
}
