//! Header views: on any bytes, all that can be read, checked or changed; and the relation between a changed field and
//! the checksums that cover it.

use wire::{Arp, Ether, FlowKey, Icmp, Icmp6, Ipv4, Ipv6, Nd, Tcp, Udp, Vlan};
use wire::{checksum, ether, ext, ipv4, ipv4_options, ipv6, vlan};

/// Reads bytes as every header, as a frame, and by the frame's types.
pub fn run(data: &[u8]) {
    let data = &data[..data.len().min(4 << 10)];
    frame(data);
    network4(data);
    network6(data);
    upper(data, 0);
    let copy = || data.to_vec();
    if let Ok(arp) = Arp::new_checked(data) {
        let _ = (arp.op(), arp.sender_ether(), arp.sender_ip());
        let _ = (arp.target_ether(), arp.target_ip());
        let mut bytes = copy();
        Arp::new_unchecked(&mut bytes).answer(arp.target_ether());
        assert!(Arp::new_checked(&bytes).is_ok(), "the answer is ARP too");
    }
    let text = String::from_utf8_lossy(data);
    let _ = text.parse::<wire::EtherAddr>();
    if let Ok(prefix) = text.parse::<wire::Prefix4>() {
        assert_eq!(prefix.to_string().parse(), Ok(prefix));
    }
    if let Ok(prefix) = text.parse::<wire::Prefix6>() {
        assert_eq!(prefix.to_string().parse(), Ok(prefix));
    }
}

fn frame(data: &[u8]) {
    if let Ok(ether) = Ether::new_checked(data) {
        let _ = (ether.dst(), ether.src(), ether.ethertype(), ether.payload());
    }
    if let Ok(tag) = Vlan::new_checked(data) {
        let _ = (tag.id(), tag.priority());
        let _ = (tag.ethertype(), tag.payload());
    }
    let mut bytes = data.to_vec();
    if let Some(tci) = vlan::pop(&mut bytes) {
        assert_eq!(bytes[4..16], [&data[..12]].concat());
        assert!(vlan::push(&mut bytes, ether::VLAN, tci));
    }
    if let Some((kind, at)) = ether::network(data) {
        let network = &data[at..];
        match kind {
            ether::IPV4 => network4(network),
            ether::IPV6 => network6(network),
            _ => {}
        }
    }
}

fn network4(packet: &[u8]) {
    if let Some(key) = FlowKey::of_ip(packet) {
        assert_eq!(key.reversed().reversed(), key);
        let _ = (key.src(), key.dst(), key.hash(7));
    }
    let checked = ipv4::check(packet);
    let unsummed = ipv4::check_unsummed(packet);
    assert!(checked.is_err() || unsummed.is_ok());
    let Ok(ip) = Ipv4::new_checked(packet) else {
        return;
    };
    assert!(ip.header_len() <= ip.total_len() && ip.total_len() <= packet.len());
    let _ = (ip.dscp(), ip.ecn(), ip.ident(), ip.dont_fragment());
    let header = ip.header();
    for item in ip.options().flatten() {
        assert_eq!(header[item.at..][..item.bytes.len()], *item.bytes);
    }
    let mut out = [0; ipv4::MAX_LEN - ipv4::MIN_LEN];
    let kept = ipv4_options::copied(header, &mut out);
    assert!(kept.is_multiple_of(4) && kept <= header.len() - ipv4::MIN_LEN);
    patches4(packet);
    upper(ip.payload(), ip.pseudo(ip.payload().len()));
}

/// A patched field leaves the checksum as correct or wrong as it was.
fn patches4(packet: &[u8]) {
    let patches: [fn(&mut Ipv4<&mut [u8]>); 5] = [
        |ip| {
            if ip.ttl() > 0 {
                ip.dec_ttl();
            }
        },
        |ip| ip.patch_tos(!ip.tos()),
        |ip| ip.patch16(6, ip.fragment_word() ^ 0x2001),
        |ip| ip.patch_src(ip.dst()),
        |ip| ip.patch_dst(ip.src()),
    ];
    let right = Ipv4::new_unchecked(packet).verify_checksum();
    for patch in patches {
        let mut bytes = packet.to_vec();
        let mut ip = Ipv4::new_unchecked(&mut bytes[..]);
        patch(&mut ip);
        assert_eq!(ip.verify_checksum(), right);
        ip.fill_checksum();
        assert!(ip.verify_checksum());
    }
}

fn network6(packet: &[u8]) {
    let checked = ipv6::check(packet);
    let Ok(ip) = Ipv6::new_checked(packet) else {
        return assert!(checked.is_err());
    };
    let _ = (ip.traffic_class(), ip.flow_label(), ip.hop_limit());
    let packet = ip.packet();
    assert_eq!(packet.len(), ip.total_len());
    let Ok(walk) = ext::walk(packet) else {
        return;
    };
    assert!(walk.offset <= packet.len() && walk.per_fragment_len <= walk.offset);
    assert!(walk.per_fragment_next_at < walk.per_fragment_len);
    for at in [walk.hop_by_hop, walk.dest_opts].into_iter().flatten() {
        let _ = ext::check_hop_by_hop(packet, at);
        for item in ext::Options::new(packet, at).flatten() {
            assert_eq!(packet[item.at + 2..][..item.data.len()], *item.data);
        }
    }
    let payload = &packet[walk.offset..];
    upper(payload, ip.pseudo(walk.protocol, payload.len()));
    if let Ok(nd) = Nd::new_checked(payload) {
        let _ = nd.check_received(ip.src(), ip.dst(), ip.hop_limit());
    }
}

fn upper(data: &[u8], pseudo: u64) {
    if let Ok(udp) = Udp::new_checked(data) {
        assert!(udp.payload().len() + 8 == udp.len() && udp.len() <= data.len());
        let mut bytes = data.to_vec();
        let mut udp = Udp::new_unchecked(&mut bytes[..]);
        udp.fill_checksum(pseudo);
        assert!(udp.verify_checksum(pseudo));
    }
    if let Ok(tcp) = Tcp::new_checked(data) {
        let _ = (tcp.flags(), tcp.options(), tcp.payload(), tcp.mss());
        let mut bytes = data.to_vec();
        let mut tcp = Tcp::new_unchecked(&mut bytes[..]);
        tcp.fill_checksum(pseudo);
        assert!(tcp.verify_checksum(pseudo));
    }
    if let Ok(icmp) = Icmp::new_checked(data) {
        let _ = (icmp.kind(), icmp.code(), icmp.mtu(), icmp.pointer());
        let right = icmp.verify_checksum();
        if icmp.kind() == wire::icmp::ECHO {
            let mut bytes = data.to_vec();
            Icmp::new_unchecked(&mut bytes[..]).answer_echo();
            assert_eq!(Icmp::new_unchecked(&bytes[..]).verify_checksum(), right);
        }
    }
    if let Ok(icmp) = Icmp6::new_checked(data) {
        let _ = (icmp.kind(), icmp.code(), icmp.rest(), icmp.payload());
        let _ = icmp.verify_checksum(pseudo);
    }
    if let Ok(nd) = Nd::new_checked(data) {
        let _ = (nd.kind(), nd.target(), nd.options().count());
        let _ = (nd.source_ether(), nd.target_ether());
        if nd.kind() == wire::nd::ROUTER_ADVERT {
            let _ = (nd.hop_limit(), nd.router_lifetime_secs());
        }
    }
    assert_eq!(checksum::verify(data), checksum::checksum(data) == 0);
}
