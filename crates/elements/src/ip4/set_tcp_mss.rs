//! Lowers the maximum segment size of TCP connections to the size that a narrower link carries.
//!
//! ```click
//! FromDevice(eth0) -> Strip(14) -> CheckIPHeader -> mss :: SetTCPMSS(1400) -> Discard;
//! Idle -> Strip(14) -> CheckIP6Header -> [1] mss; mss[1] -> Discard;
//! ```
//!
//! Each end announces in its SYN the longest segment that it accepts (RFC 9293, 3.7.1). Hosts learn of a narrower
//! link, such as a tunnel or PPPoE, only by ICMP errors, which some firewall may drop. So put SetTCPMSS on the path
//! to that link and on the path from it. It lowers the size in a SYN to at most the MTU less 40 bytes, or less 60 for
//! IPv6. A SYN with a smaller size, or without one, stays unchanged. The TCP checksum is updated.
//!
//! Packets of IPv4 use input 0 and output 0, those of IPv6 input and output 1.
//!
//! Arguments:
//!
//! - `MTU`: maximum length of packets on the narrow link in bytes, at least 88; or `eth0:mtu`, the MTU of the port
//!   eth0, also after a change.

use crate::prelude::*;
use wire::{Ipv4, Tcp, checksum, ext, ipv4, ipv6, proto, tcp};

/// SYN flag, and offsets of the flags and the checksum in a TCP header.
const SYN: u8 = 0x02;
const FLAGS_AT: usize = 13;
const CHECKSUM_AT: usize = 16;
/// Minimum MTU in bytes. RFC 791 requires 68, which leaves no room for headers.
const MTU_MIN: usize = 88;

pub(super) struct SetTCPMSS {
    mtu: usize,
    lowered: u64,
}

impl SetTCPMSS {
    fn lower(&mut self, packet: &mut Packet, input: usize) -> Option<()> {
        let bytes = packet.network();
        let (at, headers) = match input {
            0 => {
                let ip = Ipv4::new_checked(bytes).ok()?;
                let has_header = ip.protocol() == proto::TCP && ip.fragment_offset() == 0;
                (has_header.then_some(ip.header_len())?, ipv4::MIN_LEN)
            }
            _ => {
                let walk = ext::walk(bytes).ok()?;
                let has_header = walk.protocol == proto::TCP && walk.has_upper_header();
                (has_header.then_some(walk.offset)?, ipv6::LEN)
            }
        };
        let flags = bytes.get(at + FLAGS_AT)?;
        if flags & SYN == 0 {
            return None;
        }
        let header = Tcp::new_checked(bytes.get(at..)?).ok()?;
        let most = self.mtu - headers - tcp::MIN_LEN;
        let most = u16::try_from(most).unwrap_or(u16::MAX);
        let option = header.mss_at().filter(|_| header.mss() > Some(most))?;
        // The checksum covers 16-bit words, and an option may begin at an odd offset.
        let words = option & !1..(option + 3) & !1;
        let segment = packet.network_mut().get_mut(at..)?;
        let mut old = [0; 4];
        old[..words.len()].copy_from_slice(segment.get(words.clone())?);
        segment[option..option + 2].copy_from_slice(&most.to_be_bytes());
        let sum = u16::from_be_bytes([segment[CHECKSUM_AT], segment[CHECKSUM_AT + 1]]);
        let sum = checksum::update(sum, &old[..words.len()], &segment[words]);
        segment[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&sum.to_be_bytes());
        self.lowered += 1;
        Some(())
    }
}

impl Element for SetTCPMSS {
    const CONTRACT: Contract = Contract::new("SetTCPMSS", manual!())
        .ports(Ports::new(&["in4", "in6?"], &["out4", "out6?"]))
        .needs(&[Facts::IP4, Facts::IP6])
        .carries_super_frames()
        .ignores_annotations();

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        let doc = "bytes of the longest packet on the narrow link";
        args.required_in("MTU", Mtu::of(MTU_MIN)..=Mtu::of(SIZE_MAX), doc)
            .bytes
    }

    fn new(mtu: &Arc<usize>, _: &Init) -> SetTCPMSS {
        SetTCPMSS {
            mtu: **mtu,
            lowered: 0,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.iter_mut() {
            self.lower(packet, input);
        }
        if input == 1 {
            cx.emit_batch(1, batch);
        }
    }

    const HANDLERS: &'static [Handler<SetTCPMSS>] = &[
        counter!("count", "segments whose MSS was lowered", lowered),
        Handler::show("mtu", "see MTU", |e| &e.mtu),
        Handler::set("mtu", "changes MTU, 88 to 65535", |e, value, _| {
            e.mtu = arguments::units::parse_in(value, MTU_MIN..=65535)?;
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4, ip6};
    use wire::{Ipv4, Ipv6, Tcp};

    const SYN: u8 = 2;
    const ACK: u8 = 16;

    /// Options with an MSS after `before` bytes.
    fn options(before: usize, mss: u16) -> Vec<u8> {
        let mut options = vec![1; before];
        options.extend([2, 4]);
        options.extend(mss.to_be_bytes());
        options.resize(options.len().next_multiple_of(4), 0);
        options
    }

    /// The MSS of a segment whose checksum holds.
    fn mss(packet: &[u8]) -> Option<u16> {
        match packet[0] >> 4 {
            4 => {
                let ip = Ipv4::new_checked(packet).expect("sound");
                let tcp = Tcp::new_checked(ip.payload()).expect("sound");
                assert!(tcp.verify_checksum(ip.pseudo(ip.payload().len())));
                tcp.mss()
            }
            _ => {
                let ip = Ipv6::new_checked(packet).expect("sound");
                let segment = &packet[wire::ipv6::LEN..];
                let tcp = Tcp::new_checked(segment).expect("sound");
                let pseudo = wire::checksum::pseudo6(ip.src(), ip.dst(), 6, segment.len());
                assert!(tcp.verify_checksum(pseudo));
                tcp.mss()
            }
        }
    }

    #[test]
    fn connections_agree_on_what_the_link_carries() {
        let text = "c :: CheckIPHeader -> m :: SetTCPMSS(1400) -> a :: Collect;
            d :: CheckIP6Header -> [1] m; m[1] -> b :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        for before in 0..4 {
            let four = |flags, mss| {
                ip4()
                    .tcp(1, 80)
                    .tcp_flags(flags)
                    .tcp_options(&options(before, mss))
                    .bytes()
            };
            let six = |flags, mss| {
                ip6()
                    .tcp(1, 80)
                    .tcp_flags(flags)
                    .tcp_options(&options(before, mss))
                    .bytes()
            };
            // RFC 9293, 3.7.1: the MTU less the headers without options.
            for (flags, said, four_says, six_says) in [
                (SYN, 1460, 1360, 1340),
                (SYN | ACK, 65535, 1360, 1340),
                (SYN, 1361, 1360, 1340),
                (SYN, 1350, 1350, 1340),
                (SYN, 536, 536, 536),
                // No SYN: its value is not an offer.
                (ACK, 1460, 1460, 1460),
            ] {
                bench.push("c", &[four(flags, said)]);
                bench.push("d", &[six(flags, said)]);
                assert_eq!(
                    mss(&bench.take("a")[0]),
                    Some(four_says),
                    "{before}: {said}"
                );
                assert_eq!(mss(&bench.take("b")[0]), Some(six_says), "{before}: {said}");
            }
        }
        assert_eq!(bench.read("m.count"), "28");
        // Without the option, of other protocols, and in later fragments nothing changes.
        let mut others = vec![
            ip4().tcp(1, 80).tcp_flags(SYN).bytes(),
            ip4().udp(1, 80).payload([2; 40]).bytes(),
        ];
        let long = ip4()
            .tcp(1, 80)
            .tcp_flags(SYN)
            .tcp_options(&options(0, 1460))
            .payload([2; 100]);
        others.extend(long.fragments(76).split_off(1));
        bench.push("c", &others);
        assert_eq!(bench.take("a"), others);
        bench.write("m.mtu", "1300");
        bench.push(
            "c",
            &[ip4()
                .tcp(1, 80)
                .tcp_flags(SYN)
                .tcp_options(&options(0, 1460))
                .bytes()],
        );
        assert_eq!(mss(&bench.take("a")[0]), Some(1260));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "c :: MarkIPHeader -> m :: SetTCPMSS(1400) -> a :: Collect; d :: MarkIP6Header -> [1] m; m[1] -> b :: \
                Collect",
        );
        let mut rng = testkit::Rng::seed(3);
        for packet in [
            ip4()
                .tcp(1, 80)
                .tcp_flags(SYN)
                .tcp_options(&options(1, 1460))
                .bytes(),
            ip6()
                .tcp(1, 80)
                .tcp_flags(SYN)
                .tcp_options(&options(3, 1460))
                .bytes(),
        ] {
            let input = if packet[0] >> 4 == 4 { "c" } else { "d" };
            for _ in 0..3000 {
                let mut bytes = packet[..rng.range(1..packet.len() + 1)].to_vec();
                let at = rng.below(bytes.len());
                bytes[at] = rng.u8();
                bench.push(input, &[bytes]);
            }
        }
        bench.take("a");
        bench.take("b");
    }
}
