//! Learns the maximum length of encrypted packets on the paths of IPsec's tunnels.
//!
//! ```click
//! ipsec :: IPsecTable(policy out src 0.0.0.0/0 dst 0.0.0.0/0 bypass);
//! // Packets to this router: what other routers say of sealed packets that they could not forward.
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> IPsecMTU(TABLE ipsec) -> Discard;
//! // What was sealed and leaves by a link that is too narrow for it.
//! Idle -> Strip(14) -> CheckIPHeader -> size :: IPFragmenter(eth0:mtu) -> ToDevice(eth0);
//! size[1] -> IPsecMTU(TABLE ipsec, LINK eth0:mtu) -> Discard;
//! ```
//!
//! Without LINK or INTERFACE it looks for ICMP errors (`needfrag`; of IPv6 `packettoobig`) about packets of outbound
//! associations of the table, ESP or ESP in UDP, and notes their MTU at the association (RFC 4301, 8.2.1). Nobody
//! vouches for such an error, so it must quote source, destination and SPI of an association, and less than 552 bytes
//! are not believed (1280 for IPv6). All packets pass.
//!
//! With LINK or INTERFACE the input takes packets that are too long for that link. Encrypted packets of the table's
//! associations are dropped (`too_long`) after the link's MTU is recorded; others pass. From then on IPsecEncap makes
//! no longer packets.
//!
//! A learnt MTU is forgotten after ten minutes, as the path may have become wider.
//!
//! Keyword arguments:
//!
//! - `TABLE`: the IPsecTable with the associations.
//! - `LINK`: maximum length of packets on the link in bytes, or `eth0:mtu`.
//! - `INTERFACE`: in place of that, an interface of the kernel (see LinuxInput), whose MTU counts.

use super::Table;
use crate::prelude::*;
use esp::{Database, Direction, Sa, Tables};
use forwarding::Interface;
use std::net::IpAddr;
use wire::{FlowKey, ext, icmp, icmp6, ipv6, proto, udp};

drops! {
    TOO_LONG = "too_long",
}

pub(super) struct Config {
    table: Table,
    link: Option<usize>,
    interface: Option<Arc<Interface>>,
}

pub(super) struct IPsecMTU {
    database: Arc<Database>,
    config: Arc<Config>,
    learnt: u64,
}

impl Element for IPsecMTU {
    const CONTRACT: Contract = Contract::new("IPsecMTU", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .drops(DROPS);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let table = Table::named(args);
        let link: Option<Mtu> = args.key_maybe("LINK", "bytes of the longest packet on the link");
        let interface: Option<String> = args.key_maybe("INTERFACE", "interface whose MTU counts");
        Config {
            table,
            link: link.map(|mtu| mtu.bytes),
            interface: interface.map(|name| forwarding::args::interface(args, &name)),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> IPsecMTU {
        IPsecMTU {
            database: config.table.database(init),
            config: Arc::clone(config),
            learnt: 0,
        }
    }

    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let interface = self.config.interface.as_ref();
        let link = interface
            .map(|interface| interface.mtu())
            .or(self.config.link);
        let bytes = packet.network();
        let (sealed, mtu) = match link {
            Some(mtu) => (bytes, mtu),
            None => match quoted_packet_and_mtu(bytes) {
                Some(told) => told,
                None => return Verdict::ON,
            },
        };
        let tables = self.database.read(cx.reader());
        let Some(sa) = outbound(tables, sealed) else {
            return Verdict::ON;
        };
        sa.learn_path_mtu(mtu, cx.timestamp());
        self.learnt += 1;
        match link {
            Some(_) => Verdict::drop(TOO_LONG),
            None => Verdict::ON,
        }
    }

    const HANDLERS: &'static [Handler<IPsecMTU>] = &[counter!(
        "count",
        "packets that an MTU was learnt from",
        learnt
    )];
}

/// The packet that an ICMP error quotes, and the MTU that it was too long for.
fn quoted_packet_and_mtu(packet: &[u8]) -> Option<(&[u8], usize)> {
    let (message, wanted, mtu_at) = match packet.first()? >> 4 {
        4 => {
            let ip = wire::Ipv4::new_checked(packet).ok()?;
            let is_whole = ip.protocol() == proto::ICMP && !ip.is_fragment();
            let message = is_whole.then(|| packet.get(ip.header_len()..))??;
            (
                message,
                [icmp::UNREACHABLE, icmp::unreachable::FRAG_NEEDED],
                6,
            )
        }
        6 => {
            let walk = ext::walk(packet).ok()?;
            let is_whole = walk.protocol == proto::ICMP6 && walk.fragment.is_none();
            let message = is_whole.then(|| packet.get(walk.offset..))??;
            (message, [icmp6::PACKET_TOO_BIG, 0], 4)
        }
        _ => return None,
    };
    let quoted = message
        .get(icmp::LEN..)
        .filter(|_| message.starts_with(&wanted))?;
    let mtu = message.get(mtu_at..icmp::LEN)?;
    let mtu = mtu
        .iter()
        .fold(0, |mtu, byte| mtu << 8 | usize::from(*byte));
    // Routers before RFC 1191 do not report it.
    (mtu > 0).then_some((quoted, mtu))
}

/// Association that has sealed a packet, by the packet's first bytes.
fn outbound<'t>(tables: &'t Tables, sealed: &[u8]) -> Option<&'t Arc<Sa>> {
    let flow = FlowKey::of_ip(sealed)?;
    let header = match sealed.first()? >> 4 {
        4 => usize::from(sealed[0] & 0xf) * 4,
        _ => ipv6::LEN,
    };
    let protocol = match flow {
        FlowKey::V4(flow) => flow.protocol,
        FlowKey::V6(flow) => flow.protocol,
    };
    let at = match protocol {
        proto::ESP => header,
        proto::UDP => header + udp::LEN,
        _ => return None,
    };
    let spi = sealed
        .get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_be_bytes);
    // At least eight bytes of UDP are quoted, which do not include the SPI: the ports identify the association.
    let ends = |sa: &Sa| {
        let tunnel = sa.outer().tunnel();
        tunnel.is_none_or(|tunnel: &esp::outer::Tunnel| (tunnel.src, tunnel.dst) == ends_of(&flow))
    };
    tables.find(Direction::Out, spi?).filter(|sa| ends(sa))
}

fn ends_of(flow: &FlowKey) -> (IpAddr, IpAddr) {
    (flow.src(), flow.dst())
}
