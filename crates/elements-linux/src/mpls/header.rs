//! Exchange between labels and the IP header below them: time to live and traffic class (RFC 3443, RFC 3270).

use arguments::Names;
use arguments::units::FromArg;
use wire::{Ipv4, Ipv6, ipv4, ipv6};

/// Relation of the labels' fields to those of the packet below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Each router on the labelled path decrements the packet's time to live, and the class is that of the packet.
    Uniform,
    /// Pipe model (RFC 3443): the labels' path counts as one hop, and the packet keeps its class.
    Pipe,
}

impl FromArg for Mode {
    const KIND: &'static str = "`uniform` or `pipe`";

    fn from_arg(raw: &str, _: &Names) -> Result<Mode, String> {
        match raw {
            "uniform" => Ok(Mode::Uniform),
            "pipe" => Ok(Mode::Pipe),
            _ => Err(format!("must be {}, not `{raw}`", Self::KIND)),
        }
    }

    fn stand_in() -> Mode {
        Mode::Uniform
    }

    fn unparse(&self) -> String {
        match self {
            Mode::Uniform => "uniform".to_owned(),
            Mode::Pipe => "pipe".to_owned(),
        }
    }
}

/// Time to live and traffic class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) ttl: u8,
    pub(crate) exp: u8,
}

impl Life {
    /// Values of an IP packet; `None` if it is none.
    #[inline]
    pub(crate) fn of_ip(packet: &[u8]) -> Option<Life> {
        match packet.first()? >> 4 {
            4 => {
                let ip = Ipv4::new_unchecked(packet.first_chunk::<{ ipv4::MIN_LEN }>()?);
                Some(Life {
                    ttl: ip.ttl(),
                    exp: ip.dscp() >> 3,
                })
            }
            6 => {
                let ip = Ipv6::new_unchecked(packet.first_chunk::<{ ipv6::LEN }>()?);
                Some(Life {
                    ttl: ip.hop_limit(),
                    exp: ip.dscp() >> 3,
                })
            }
            _ => None,
        }
    }

    /// Sets the TTL of an IP packet, but never raises it, and sets the class selector of the traffic class unless the
    /// packet has that class. Packets other than IP stay unchanged.
    #[inline]
    pub(crate) fn into_ip(self, packet: &mut [u8]) {
        let Some(own) = Life::of_ip(packet) else {
            return;
        };
        let ttl = self.ttl.min(own.ttl);
        let class = |dscp_and_ecn: u8| match self.exp == own.exp {
            true => dscp_and_ecn,
            false => self.exp << 5 | dscp_and_ecn & 3,
        };
        if let Some(4) = packet.first().map(|first| first >> 4) {
            if let Some(header) = packet.first_chunk_mut::<{ ipv4::MIN_LEN }>() {
                let mut ip = Ipv4::new_unchecked(&mut header[..]);
                ip.patch_tos(class(ip.tos()));
                ip.patch_ttl(ttl);
            }
        } else if let Some(header) = packet.first_chunk_mut::<{ ipv6::LEN }>() {
            let mut ip = Ipv6::new_unchecked(&mut header[..]);
            ip.set_traffic_class(class(ip.traffic_class()));
            ip.set_hop_limit(ttl);
        }
    }
}
