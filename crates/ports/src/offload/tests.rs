use super::*;
use wire::checksum::{is_valid, sum};

/// An Ethernet/IPv4|IPv6/TCP|UDP super-frame with the checksum field as Linux sets it.
fn frame(v6: bool, tcp: bool, flags: u8, payload: usize) -> (Vec<u8>, usize) {
    let mut f = vec![0u8; 12];
    f.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
    let proto = if tcp { 6 } else { 17 };
    if v6 {
        f.extend([0x60, 0, 0, 0, 0, 0, proto, 64]);
        f.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        f.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    } else {
        f.extend([
            0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
    }
    let transport = f.len();
    if tcp {
        f.extend([
            0, 80, 0, 81, 0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x80, flags, 1, 0, 0, 0, 0, 0,
        ]);
        f.extend([1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    } else {
        f.extend([0, 80, 0, 81, 0, 0, 0, 0]);
    }
    f.extend((0..payload).map(|i| (i * 7 + i / 251) as u8));
    (f, transport)
}

fn vnet(kind: u8, segment: u16, transport: usize, offset: usize) -> VnetHeader {
    VnetHeader {
        flags: NEEDS_CSUM,
        kind,
        segment,
        csum_start: transport as u16,
        csum_offset: offset as u16,
    }
}

fn transport_is_valid(data: &[u8], v6: bool, transport: usize, proto: u64) -> bool {
    let addresses = if v6 { &data[22..54] } else { &data[26..34] };
    let t = &data[transport..];
    is_valid(sum(addresses) + proto + t.len() as u64 + sum(t))
}

/// Segments with every given length of the linear part and checks every segment against the definition.
fn check_cut(v6: bool, tcp: bool, payload: usize, size: u16, head_len: usize) {
    let (f, transport) = frame(v6, tcp, 0x99, payload);
    let offset = if tcp { TCP_CSUM } else { UDP_CSUM };
    let kind = match (tcp, v6) {
        (true, false) => GSO_TCPV4,
        (true, true) => GSO_TCPV6,
        (false, _) => GSO_UDP_L4,
    };
    let (head, tail) = f.split_at(head_len.min(f.len()));
    let mut out = Vec::new();
    segment(&vnet(kind, size, transport, offset), head, tail, |p| {
        out.push(p.data().to_vec())
    })
    .unwrap();
    let headers = f.len() - payload;
    let mut bytes: Vec<u8> = Vec::new();
    for (i, d) in out.iter().enumerate() {
        assert!(d.len() - headers <= usize::from(size));
        assert!(transport_is_valid(
            d,
            v6,
            transport,
            if tcp { 6 } else { 17 }
        ));
        if v6 {
            assert_eq!(
                usize::from(u16::from_be_bytes([d[18], d[19]])),
                d.len() - 54
            );
        } else {
            assert!(wire::checksum::verify(&d[14..34]));
            assert_eq!(
                usize::from(u16::from_be_bytes([d[16], d[17]])),
                d.len() - 14
            );
            assert_eq!(
                u16::from_be_bytes([d[18], d[19]]),
                0xffffu16.wrapping_add(i as u16)
            );
        }
        let t = &d[transport..];
        if tcp {
            let seq = u32::from_be_bytes([t[4], t[5], t[6], t[7]]);
            assert_eq!(seq, 0xffff_ff00u32.wrapping_add(bytes.len() as u32));
            let expected =
                0x10 | if i == 0 { 0x80 } else { 0 } | if i + 1 == out.len() { 0x09 } else { 0 };
            assert_eq!(t[13], expected, "flags of segment {i}");
        } else {
            assert_eq!(usize::from(u16::from_be_bytes([t[4], t[5]])), t.len());
        }
        bytes.extend(&d[headers..]);
    }
    assert_eq!(bytes, &f[headers..]);
    assert_eq!(out.len(), payload.div_ceil(usize::from(size)).max(1));
}

#[test]
fn a_super_frame_is_cut_into_segments_that_stand_alone() {
    for v6 in [false, true] {
        for tcp in [false, true] {
            for payload in [0, 1, 1447, 1448, 1449, 30_001, 64_000] {
                for head in [120, 2048, 4000] {
                    check_cut(v6, tcp, payload, 1448, head);
                }
            }
        }
    }
}

#[test]
fn an_unfinished_checksum_is_completed_and_others_are_left_alone() {
    let (mut f, transport) = frame(false, true, 0x18, 333);
    let len = (f.len() - transport) as u64;
    let pseudo = wire::checksum::fold(sum(&f[26..34]) + 6 + len);
    f[transport + 16..transport + 18].copy_from_slice(&pseudo.to_be_bytes());
    let before = f.clone();
    assert!(VnetHeader::default().complete(&mut f));
    assert_eq!(f, before);
    assert!(vnet(GSO_NONE, 0, transport, TCP_CSUM).complete(&mut f));
    assert!(transport_is_valid(&f, false, transport, 6));
}

#[test]
fn headers_that_lie_outside_the_frame_are_refused() {
    let (f, transport) = frame(false, true, 0, 100);
    for len in 0..transport + 32 {
        let r = segment(
            &vnet(GSO_TCPV4, 50, transport, TCP_CSUM),
            &f[..len],
            &[0; 99],
            |_| (),
        );
        assert_eq!(r, Err(CutError::Unknown), "head of {len} bytes");
    }
    for kind in [GSO_TCPV6, 3, 99] {
        let r = segment(&vnet(kind, 50, transport, TCP_CSUM), &f, &[], |_| ());
        assert_eq!(r, Err(CutError::Unknown));
    }
    assert!(segment(&vnet(GSO_TCPV4, 0, transport, TCP_CSUM), &f, &[], |_| ()).is_err());
    for start in 80..200 {
        let h = vnet(GSO_NONE, 0, start, 16);
        assert_eq!(h.complete(&mut f.clone()), start + 18 <= f.len());
    }
}

#[test]
fn vlan_tag_is_inserted_after_the_addresses() {
    let mut p = Packet::from_bytes(&[1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 8, 0, 9, 9]).unwrap();
    assert!(insert_tag(&mut p, 0x8100, 0x2064));
    assert_eq!(
        p.data(),
        [
            1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x81, 0, 0x20, 0x64, 8, 0, 9, 9
        ]
    );
    assert!(!insert_tag(
        &mut Packet::from_bytes(&[0; 13]).unwrap(),
        0x8100,
        1
    ));
}

/// A super-frame that is carried whole leaves with its original header.
#[test]
fn carried_super_frame_is_sent_unchanged() {
    for v6 in [false, true] {
        for (flags, payload, size) in [(0x10, 64_000, 1448), (0x99, 2001, 1000), (0x18, 101, 100)] {
            let (mut f, transport) = frame(v6, true, flags, payload);
            let len = (f.len() - 14 - if v6 { 40 } else { 0 }) as u16;
            f[if v6 { 18..20 } else { 16..18 }].copy_from_slice(&len.to_be_bytes());
            let kind = if v6 { GSO_TCPV6 } else { GSO_TCPV4 };
            let came = vnet(kind, size, transport, TCP_CSUM);
            let head = &f[..120.min(f.len())];
            let shape = super_frame_shape(&came, head, f.len(), 2048).expect("it can be carried");
            let mut packet = Packet::large(f.len()).expect("there is a buffer");
            packet.put(f.len()).expect("it fits").copy_from_slice(&f);
            packet.set_super_frame(&shape, size);
            let mut left = merge::Head::PLAIN;
            let longest = shape.payload + usize::from(size);
            assert!(!left.carry(&packet, longest - 1));
            assert!(left.carry(&packet, longest));
            assert_eq!(left.replaces(), 0);
            let bytes = left.bytes().first_chunk().expect("a header");
            assert_eq!(VnetHeader::parse(bytes), came);
            assert_eq!(bytes[1] & GSO_ECN != 0, flags & 0x80 != 0);
            assert_eq!(
                usize::from(u16::from_ne_bytes([bytes[2], bytes[3]])),
                shape.payload
            );
            // Super-frames that do not match their segments, and frames that are not super-frames.
            let other =
                |vnet: VnetHeader, room| super_frame_shape(&vnet, head, f.len(), room).is_none();
            assert!(other(came, shape.payload + usize::from(size) - 1));
            assert!(other(
                VnetHeader {
                    segment: payload as u16,
                    ..came
                },
                65_535
            ));
            assert!(other(VnetHeader { segment: 0, ..came }, 2048));
            assert!(other(VnetHeader { flags: 0, ..came }, 2048));
            assert!(other(
                VnetHeader {
                    kind: GSO_UDP_L4,
                    ..came
                },
                2048
            ));
            assert!(other(
                VnetHeader {
                    csum_start: came.csum_start + 4,
                    ..came
                },
                2048
            ));
            assert!(super_frame_shape(&came, head, f.len() - 1, 2048).is_none());
            packet.truncate(shape.payload);
            assert!(!left.carry(&packet, longest), "it is no longer sound");
        }
    }
}

/// Checks on random bytes that a super-frame carried whole can be cut.
#[test]
fn any_frame_is_refused_or_can_be_cut() {
    let mut rng = testkit::Rng::seed(11);
    let mut carried = 0;
    for _ in 0..20_000 {
        let v6 = rng.one_in(2);
        let (mut f, transport) = frame(v6, true, 0x10, rng.range(0..4000));
        let len = (f.len() - 14 - if v6 { 40 } else { 0 }) as u16;
        f[if v6 { 18..20 } else { 16..18 }].copy_from_slice(&len.to_be_bytes());
        for _ in 0..rng.below(3) {
            let at = rng.below(f.len().min(80));
            f[at] = rng.below(256) as u8;
        }
        let kind = *rng.pick(&[GSO_TCPV4, GSO_TCPV6]);
        let vnet = vnet(kind, rng.range(1..2000) as u16, transport, TCP_CSUM);
        let head = &f[..rng.range(14..f.len() + 1)];
        let Some(shape) = super_frame_shape(&vnet, head, f.len(), 2048) else {
            continue;
        };
        carried += 1;
        let mut packet = Packet::large(f.len()).expect("there is a buffer");
        packet.put(f.len()).expect("it fits").copy_from_slice(&f);
        packet.set_super_frame(&shape, vnet.segment);
        let mut batch = engine::packet::Batch::from(vec![packet]);
        engine::packet::super_frame::cut_all(&mut batch, |_| panic!("it can be cut"));
        let mut segments = Vec::new();
        segment(&vnet, &f, &[], |segment| {
            segments.push(segment.data().to_vec())
        })
        .expect("as before");
        assert!(
            batch
                .iter()
                .map(Packet::data)
                .eq(segments.iter().map(Vec::as_slice))
        );
    }
    assert!(carried > 2000, "{carried}");
}

/// A tunnel around a super-frame: bytes of its headers, from the outer IP header on, before `inside`, a frame or an
/// IP packet.
fn wrapped(v6: bool, protocol: u8, between: &[u8], inside: &[u8]) -> Vec<u8> {
    let len = between.len() + inside.len();
    let mut f = if v6 {
        let mut ip = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
        ip[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        ip.extend([0xfd; 32]);
        ip
    } else {
        let mut ip = vec![0x45, 0, 0, 0, 0xff, 0xff, 0, 0, 64, protocol, 0, 0];
        ip[2..4].copy_from_slice(&(20 + len as u16).to_be_bytes());
        ip.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        ip
    };
    f.extend(between);
    f.extend(inside);
    f
}

/// The payload of a packet whose lengths and checksums are all correct, and the first bytes of its TCP or UDP header.
fn unwrapped(packet: &[u8]) -> (&[u8], &[u8]) {
    let (pseudo, protocol, payload) = match packet[0] >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            assert!(wire::checksum::verify(&packet[..header]));
            assert_eq!(
                usize::from(u16::from_be_bytes([packet[2], packet[3]])),
                packet.len()
            );
            (sum(&packet[12..20]), packet[9], &packet[header..])
        }
        version => {
            assert_eq!(version, 6);
            assert_eq!(
                usize::from(u16::from_be_bytes([packet[4], packet[5]])),
                packet.len() - 40
            );
            (sum(&packet[8..40]), packet[6], &packet[40..])
        }
    };
    let whole = pseudo + u64::from(protocol) + payload.len() as u64 + sum(payload);
    match protocol {
        4 | 41 => unwrapped(payload),
        6 => {
            assert!(is_valid(whole), "TCP's checksum");
            payload.split_at(usize::from(payload[12] >> 4) * 4)
        }
        47 => {
            let at = if payload[0] & 0x80 != 0 { 8 } else { 4 };
            assert!(at == 4 || wire::checksum::verify(payload), "GRE's checksum");
            match [payload[2], payload[3]] {
                [0x65, 0x58] => unwrapped(&payload[at + 14..]),
                _ => unwrapped(&payload[at..]),
            }
        }
        _ => {
            assert_eq!(protocol, 17);
            assert_eq!(
                usize::from(u16::from_be_bytes([payload[4], payload[5]])),
                payload.len()
            );
            assert!(payload[6..8] == [0, 0] || is_valid(whole), "UDP's checksum");
            match u16::from_be_bytes([payload[2], payload[3]]) {
                4789 => unwrapped(&payload[8 + 8 + 14..]),
                6081 => unwrapped(&payload[8 + 8 + 4 + 14..]),
                5555 => unwrapped(&payload[8..]),
                _ => payload.split_at(8),
            }
        }
    }
}

/// UDP to a port, with a partial checksum or none, followed by the tunnel's header.
fn udp_tunnel(port: u16, checksum: bool, header: &[u8], inside: &[u8]) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    let [len_high, len_low] = ((8 + header.len() + inside.len()) as u16).to_be_bytes();
    let check = if checksum { 0x77 } else { 0 };
    [&[1, 2, high, low, len_high, len_low, check, check], header].concat()
}

#[test]
fn super_frames_in_tunnels_are_cut_with_all_headers_right() {
    const VXLAN: [u8; 8] = [8, 0, 0, 0, 0, 0, 7, 0];
    // One option of four bytes.
    const GENEVE: [u8; 12] = [1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 1, 1, 0];
    let mut cuts = 0;
    for (outer6, inner6, tcp) in [
        (false, false, true),
        (false, true, true),
        (true, false, true),
        (true, true, false),
        (false, false, false),
    ] {
        for payload in [0, 1448, 1449, 30_001] {
            let (mut f, _) = frame(inner6, tcp, 0x99, payload);
            let len = (f.len() - 14 - if inner6 { 40 } else { 0 }) as u16;
            f[if inner6 { 18..20 } else { 16..18 }].copy_from_slice(&len.to_be_bytes());
            let packet = &f[14..];
            let kind = if inner6 { [0x86, 0xdd] } else { [8, 0] };
            let ipip = if inner6 { 41 } else { 4 };
            let gre = |flags: u8, kind: [u8; 2], sum: &[u8]| {
                [&[flags, 0, kind[0], kind[1]], sum].concat()
            };
            let inside_gre = wrapped(outer6, 47, &gre(0, kind, &[]), packet);
            let tunnels = [
                wrapped(outer6, 17, &udp_tunnel(4789, false, &VXLAN, &f), &f),
                wrapped(outer6, 17, &udp_tunnel(4789, true, &VXLAN, &f), &f),
                wrapped(outer6, 17, &udp_tunnel(6081, true, &GENEVE, &f), &f),
                wrapped(outer6, 17, &udp_tunnel(5555, true, &[], packet), packet),
                wrapped(outer6, 47, &gre(0x80, kind, &[0x77; 4]), packet),
                wrapped(outer6, 47, &gre(0, [0x65, 0x58], &[]), &f),
                wrapped(outer6, ipip, &[], packet),
                // A tunnel in a tunnel.
                wrapped(!outer6, if outer6 { 41 } else { 4 }, &[], &inside_gre),
            ];
            for (number, tunnel) in tunnels.iter().enumerate() {
                let mut whole = vec![2; 12];
                whole.extend(if tunnel[0] >> 4 == 6 {
                    [0x86, 0xdd]
                } else {
                    [8, 0]
                });
                whole.extend(tunnel);
                let headers = whole.len() - payload;
                let transport = headers - if tcp { 32 } else { 8 };
                let offset = if tcp { TCP_CSUM } else { UDP_CSUM };
                let kind = match (tcp, inner6) {
                    (true, false) => GSO_TCPV4,
                    (true, true) => GSO_TCPV6,
                    (false, _) => GSO_UDP_L4,
                };
                let (head, tail) = whole.split_at(headers.max(200).min(whole.len()));
                let mut seen: Vec<u8> = Vec::new();
                let came = vnet(kind, 1448, transport, offset);
                assert!(super::super_frame_shape(&came, head, whole.len(), 2048).is_none());
                segment(&came, head, tail, |segment| {
                    let (header, data) = unwrapped(&segment.data()[14..]);
                    if tcp {
                        let seq = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                        assert_eq!(seq, 0xffff_ff00u32.wrapping_add(seen.len() as u32));
                    }
                    assert!(data.len() <= 1448);
                    seen.extend(data);
                    cuts += 1;
                })
                .unwrap_or_else(|e| {
                    panic!("{e:?}: tunnel {number}, {outer6} {inner6} {tcp} {payload}")
                });
                assert!(seen == whole[headers..], "tunnel {number}");
            }
        }
    }
    assert_eq!(cuts, 5 * 8 * (1 + 1 + 2 + 21));
}

#[test]
fn tunnels_that_are_not_known_are_refused() {
    let (mut f, _) = frame(false, true, 0x10, 3000);
    let len = (f.len() - 14) as u16;
    f[16..18].copy_from_slice(&len.to_be_bytes());
    let numbered = wrapped(false, 47, &[0x10, 0, 8, 0, 0, 0, 0, 1], &f[14..]);
    let esp = wrapped(false, 50, &[1; 8], &f[14..]);
    for tunnel in [numbered, esp] {
        let whole = [&[2; 12], &[8, 0][..], &tunnel].concat();
        let came = vnet(GSO_TCPV4, 1448, whole.len() - 3000 - 32, TCP_CSUM);
        assert_eq!(segment(&came, &whole, &[], |_| ()), Err(CutError::Unknown));
    }
}
