//! Tests with messages of Debian's Linux 6.1 about commands of `ip xfrm` (the seeds of the fuzz target `xfrm`), and the
//! resulting table.

use super::Mirror;
use esp::policy::Action;
use esp::{Database, Direction};
use std::net::IpAddr;
use std::sync::Arc;
use wire::netlink::xfrm::{self, ACQUIRE, EXPIRE, Event, NEWAE};
use wire::netlink::{Message, Writer, messages};

/// `ip xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x1001 reqid 1 mode tunnel replay-window 32 aead
/// 'rfc4106(gcm(aes))' KEY 128 limit packet-soft 100 limit packet-hard 200`
const GCM: &[u8] = include_bytes!("../../../../../fuzz/seeds/xfrm/gcm");
/// `ip xfrm state add src 2001:db8::1 dst 2001:db8::2 proto esp spi 0x1002 reqid 2 mode transport replay-window 128
/// flag esn enc 'cbc(aes)' KEY auth-trunc 'hmac(sha256)' KEY 128`
const CBC6: &[u8] = include_bytes!("../../../../../fuzz/seeds/xfrm/cbc6");
/// Like the first, with SPI 0x1003, `flag nopmtudisc` and `encap espinudp 4500 4501 0.0.0.0`.
const UDP: &[u8] = include_bytes!("../../../../../fuzz/seeds/xfrm/udp");
/// `ip xfrm state delete` of the first.
const GONE: &[u8] = include_bytes!("../../../../../fuzz/seeds/xfrm/del");
/// `ip xfrm state` after these: the third and the second.
const DUMP: &[u8] = include_bytes!("../../../../../fuzz/seeds/xfrm/dumpsa");
/// `ip xfrm policy`: `src 10.1.0.0/24 dst 10.2.0.0/24 proto udp sport 9 dir out priority 7 action block` and `src
/// 10.1.0.0/24 dst 10.2.0.0/24 dir out tmpl src 192.0.2.1 dst 192.0.2.2 proto esp reqid 1 mode tunnel`.
const POLICIES: &[u8] = include_bytes!("../../../../../fuzz/seeds/xfrm/dumppol");
/// The kernel removes an association that was to live for a second.
const EXPIRED: &[u8] = include_bytes!("../../../../../fuzz/seeds/xfrm/expire");
/// `ip xfrm state flush`
const FLUSH: &[u8] = include_bytes!("../../../../../fuzz/seeds/xfrm/flush");

const NOW: u64 = 1_800_000_000_000_000_000;

struct Bed {
    database: Arc<Database>,
    mirror: Mirror,
    own: IpAddr,
    now: u64,
}

impl Bed {
    fn new(own: &str) -> Bed {
        let database = Arc::new(Database::default());
        Bed {
            mirror: Mirror::of(Arc::clone(&database)),
            database,
            own: own.parse().expect("an address"),
            now: NOW,
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        let own = self.own;
        for message in messages(bytes) {
            self.now += 1;
            let message = message.expect("it is whole");
            self.mirror
                .process(&message, &mut |address| address == own, self.now);
        }
    }

    fn dump(&mut self, bytes: &[u8]) {
        let (own, mut made) = (self.own, Vec::new());
        self.now += 1;
        self.mirror.begin_sas();
        for message in messages(bytes) {
            let message = message.expect("it is whole");
            let mut own = |address| address == own;
            self.mirror
                .dumped_sa(&message, &mut made, &mut own, self.now);
        }
        self.mirror.end_sas(&made, self.now);
    }

    fn policies(&mut self, bytes: &[u8]) {
        self.mirror.begin_policies();
        for message in messages(bytes) {
            self.mirror.dumped_policy(&message.expect("it is whole"));
        }
        self.mirror.end_policies();
    }

    fn sa(&self, direction: Direction, spi: u32) -> Option<Arc<esp::Sa>> {
        self.database.snapshot().find(direction, spi).cloned()
    }

    fn out(&self, spi: u32) -> Arc<esp::Sa> {
        self.sa(Direction::Out, spi).expect("it is there")
    }

    /// Reports for the kernel at this time.
    fn told(&mut self) -> Vec<(u16, Vec<u8>)> {
        let mut room = [0; 4096];
        let mut writer = Writer::new(&mut room);
        assert!(self.mirror.report(&mut writer, self.now));
        let each = messages(writer.bytes()).map(|message| message.expect("it is whole"));
        each.map(|message: Message<'_>| (message.kind, message.body.to_vec()))
            .collect()
    }
}

/// The first association with another destination, SPI, `reqid` and key.
fn gcm(dst: [u8; 4], spi: u32, reqid: u32) -> Vec<u8> {
    let mut bytes = GCM.to_vec();
    bytes[72..76].copy_from_slice(&dst);
    bytes[88..92].copy_from_slice(&spi.to_be_bytes());
    bytes[224..228].copy_from_slice(&reqid.to_ne_bytes());
    let name = bytes.windows(7).position(|part| part == b"rfc4106");
    let key = name.expect("it is there") + 72;
    bytes[key..key + 4].copy_from_slice(&dst);
    bytes[key + 4..key + 8].copy_from_slice(&spi.to_be_bytes());
    bytes
}

#[test]
fn a_peer_that_chooses_the_spi_of_another_does_not_take_its_place() {
    let mut bed = Bed::new("192.0.2.1");
    let to = |bed: &Bed, reqid| {
        let tables = bed.database.snapshot();
        let tunnel = tables.outbound(reqid).and_then(|sa| sa.spec().tunnel);
        tunnel.map(|tunnel| tunnel.dst.to_string())
    };
    bed.hear(&gcm([192, 0, 2, 2], 0x1001, 1));
    bed.hear(&gcm([192, 0, 2, 3], 0x1001, 3));
    bed.hear(&gcm([192, 0, 2, 4], 0x1001, 3));
    assert_eq!(to(&bed, 1).as_deref(), Some("192.0.2.2"));
    assert_eq!(to(&bed, 3).as_deref(), Some("192.0.2.3"));
    assert_eq!(bed.database.snapshot().all().len(), 3);
    bed.hear(GONE);
    bed.now += 1_000_000_000;
    bed.told();
    assert_eq!(
        (to(&bed, 1), to(&bed, 3).as_deref()),
        (None, Some("192.0.2.3"))
    );
}

#[test]
fn association_whose_sender_changes_address_leaves_nothing_behind() {
    let mut bed = Bed::new("192.0.2.1");
    let mut said = gcm([192, 0, 2, 2], 0x1001, 1);
    bed.hear(&said);
    // The kernel looks associations up by destination and SPI, so a change of the source leaves the same association.
    said[96..100].copy_from_slice(&[192, 0, 2, 51]);
    bed.own = IpAddr::from([192, 0, 2, 51]);
    bed.hear(&said);
    bed.now += 1_000_000_000;
    bed.told();
    let tables = bed.database.snapshot();
    let sources = tables.all().into_iter().map(|sa| sa.spec().tunnel);
    let sources: Vec<_> = sources.flatten().map(|tunnel| tunnel.src).collect();
    assert_eq!(sources, [bed.own]);
}

#[test]
fn all_busy_associations_are_reported_in_turn() {
    let mut bed = Bed::new("192.0.2.1");
    for n in 1..=40 {
        bed.hear(&gcm([192, 0, 2, 100 + n], 0x2000, n.into()));
    }
    let (mut told, mut calls) = (0, 0);
    loop {
        // Packets continue to be encrypted while the kernel gets its reports.
        for sa in bed.database.snapshot().all() {
            sa.take(1, 100, NOW).expect("it is valid");
        }
        let mut room = [0; 1024];
        let mut writer = Writer::new(&mut room);
        let all = bed.mirror.report(&mut writer, bed.now);
        told += messages(writer.bytes()).count();
        calls += 1;
        if all {
            break;
        }
        assert!(calls < 40, "it does not come to an end");
    }
    assert!(told >= 40);
}

#[test]
fn peers_that_come_and_go_leave_nothing() {
    let mut bed = Bed::new("192.0.2.1");
    for n in 0..600u32 {
        let dst = [10, 9, (n >> 8) as u8, n as u8];
        // Half of the associations have one common `reqid`, the others one each.
        let reqid = if n % 2 == 0 { 7 } else { 1000 + n };
        bed.hear(&gcm(dst, 0x3000 + n, reqid));
        bed.hear(FLUSH);
        bed.policies(POLICIES);
    }
    assert!(bed.mirror.numbers() <= 4, "{}", bed.mirror.numbers());
    // Reused numbers belong to no other association.
    for n in 0..5 {
        bed.hear(&gcm([10, 8, 0, n], 0x4000, 7));
    }
    let tables = bed.database.snapshot();
    let mut numbers: Vec<u32> = tables.all().iter().map(|sa| sa.spec().reqid).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), 5);
}

#[test]
fn last_sequence_number_ends_an_association_without_wrapping() {
    let mut bed = Bed::new("192.0.2.1");
    let bytes = include_bytes!("../../../../../fuzz/seeds/xfrm/sent-most");
    for message in messages(bytes).map_while(Result::ok) {
        // Whatever its destination, it belongs to this router.
        bed.mirror.process(&message, &mut |_| true, NOW);
    }
    for sa in bed.database.snapshot().all() {
        let _ = sa.take(1, 1, NOW);
    }
    bed.told();
}

#[test]
fn associations_are_as_the_kernel_says() {
    let mut bed = Bed::new("192.0.2.1");
    bed.hear(GCM);
    let sa = bed.out(0x1001);
    let spec = sa.spec();
    let tunnel = spec.tunnel.expect("it is a tunnel");
    assert_eq!((spec.reqid, spec.suite.name()), (1, "aes128gcm16"));
    assert_eq!(
        (tunnel.src, tunnel.dst.to_string()),
        (bed.own, "192.0.2.2".into())
    );
    assert_eq!((spec.window, spec.esn, spec.udp), (1024, false, None));
    assert_eq!(
        (spec.lifetime.soft.packets, spec.lifetime.hard.packets),
        (100, 200)
    );
    assert_eq!(
        (spec.lifetime.hard.bytes, spec.lifetime.hard.seconds),
        (0, 0)
    );
    bed.hear(UDP);
    assert_eq!(bed.out(0x1003).spec().udp, Some((4500, 4501)));
    // An association to an address of this router is inbound.
    let mut other = Bed::new("192.0.2.2");
    other.hear(GCM);
    assert!(
        other.sa(Direction::In, 0x1001).is_some() && other.sa(Direction::Out, 0x1001).is_none()
    );
    let mut six = Bed::new("2001:db8::1");
    six.hear(CBC6);
    let sa = six.out(0x1002);
    let spec = sa.spec();
    assert_eq!(
        (spec.suite.name(), spec.tunnel, spec.esn),
        ("aes128-sha256", None, true)
    );
    // Neither end is an address of this router.
    let mut nobody = Bed::new("192.0.2.9");
    nobody.hear(GCM);
    assert!(nobody.mirror.has_unresolved() && nobody.database.snapshot().all().is_empty());
}

#[test]
fn dump_adds_and_removes_associations() {
    let mut bed = Bed::new("192.0.2.1");
    bed.hear(GCM);
    bed.hear(GONE);
    // The association encrypts for a little longer: its successor may not exist yet.
    assert!(bed.sa(Direction::Out, 0x1001).is_some());
    bed.now += 1_000_000_000;
    bed.told();
    assert!(bed.sa(Direction::Out, 0x1001).is_none());
    bed.hear(GCM);
    bed.dump(DUMP);
    assert!(bed.sa(Direction::Out, 0x1003).is_some());
    bed.now += 1_000_000_000;
    bed.told();
    assert!(bed.sa(Direction::Out, 0x1001).is_none());
    let mut other = Bed::new("192.0.2.2");
    other.hear(GCM);
    other.hear(GONE);
    // The association decrypts for a little longer, too: it may be added again with another address.
    assert!(other.sa(Direction::In, 0x1001).is_some());
    other.now += 1_000_000_000;
    other.told();
    assert!(other.sa(Direction::In, 0x1001).is_none());
    let before = bed.out(0x1003);
    bed.dump(DUMP);
    assert!(Arc::ptr_eq(&before, &bed.out(0x1003)), "it stays the same");
    bed.hear(EXPIRED);
    bed.hear(FLUSH);
    assert!(bed.database.snapshot().all().is_empty());
}

#[test]
fn returning_association_continues_its_sequence_numbers() {
    let mut bed = Bed::new("192.0.2.1");
    bed.hear(GCM);
    let first = bed.out(0x1001);
    first.take(50, 5000, NOW).expect("it is valid");
    bed.hear(GONE);
    bed.hear(GCM);
    let again = bed.out(0x1001);
    assert!(!Arc::ptr_eq(&first, &again));
    assert!(again.number() > first.number() && again.counts() == first.counts());
    // Much later, it is a new association.
    bed.hear(GONE);
    bed.now += 10_000_000_000;
    bed.told();
    bed.hear(GCM);
    assert_eq!(
        (bed.out(0x1001).number(), bed.out(0x1001).counts()),
        (0, (0, 0))
    );
}

#[test]
fn kernel_gets_reports_of_traffic_and_reached_limits() {
    let mut bed = Bed::new("192.0.2.1");
    bed.hear(GCM);
    assert_eq!(bed.told(), []);
    let sa = bed.out(0x1001);
    sa.take(99, 9900, NOW).expect("it is valid");
    let told = bed.told();
    assert_eq!(
        told.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(),
        [NEWAE]
    );
    // Lifetime: bytes and packets; then the last sequence number.
    let at = |at: usize| u64::from_ne_bytes(told[0].1[at..at + 8].try_into().expect("eight"));
    assert_eq!((at(52), at(60)), (9900, 99));
    assert_eq!(told[0].1[88..92], 99u32.to_ne_bytes());
    assert_eq!(bed.told(), [], "once");
    sa.take(1, 100, NOW).expect("it is valid");
    let told = bed.told();
    assert_eq!((told.len(), told[1].0), (2, EXPIRE));
    assert_eq!(told[1].1[224], 0);
    sa.take(100, 1, NOW).expect("it is valid");
    assert!(sa.take(1, 1, NOW).is_err());
    let told = bed.told();
    assert_eq!((told.len(), told[1].0, told[1].1[224]), (2, EXPIRE, 1));
    // The kernel gets the same final report: the association has ended.
    let mut room = [0; 512];
    let mut writer = Writer::new(&mut room);
    let dst = "192.0.2.2".parse().expect("an address");
    let id = xfrm::Id {
        dst,
        spi: 0x1001,
        protocol: 50,
    };
    writer.xfrm_expire(&id, true).expect("room");
    let message = messages(writer.bytes())
        .next()
        .expect("one")
        .expect("whole");
    assert_eq!(xfrm::event(&message, false), Ok(Event::SaGone(id)));
}

#[test]
fn policies_are_in_the_kernels_order_and_request_missing_associations() {
    let mut bed = Bed::new("192.0.2.1");
    bed.policies(POLICIES);
    let tables = bed.database.snapshot();
    let list = tables.policies().list();
    let actions: Vec<_> = list.iter().map(|policy| policy.action).collect();
    let bypass = Action::Bypass;
    assert_eq!(
        actions,
        [Action::Protect(1), Action::Discard, bypass, bypass]
    );
    assert_eq!(
        (list[1].src_ports, list[1].protocol),
        (Some((9, 9)), Some(17))
    );
    bed.database.record_miss(1);
    bed.database.record_miss(2);
    let told = bed.told();
    assert_eq!((told.len(), told[0].0), (1, ACQUIRE));
    assert_eq!(told[0].1[..4], [192, 0, 2, 2]);
    bed.database.record_miss(1);
    assert_eq!(bed.told(), [], "not more often than every second");
    bed.now += 1_000_000_000;
    bed.database.record_miss(1);
    assert_eq!(bed.told().len(), 1);
}

/// The association of [`gcm`] in transport mode.
fn transport(dst: [u8; 4], spi: u32, reqid: u32) -> Vec<u8> {
    let mut bytes = gcm(dst, spi, reqid);
    bytes[230] = 0;
    bytes
}

/// `src 192.0.2.1/32 dst DST/LEN dir out tmpl proto esp reqid REQID mode transport`, as the second of [`POLICIES`].
fn transport_policy(dst: [u8; 4], len: u8, reqid: u32) -> Vec<u8> {
    let first = u32::from_ne_bytes([POLICIES[0], POLICIES[1], POLICIES[2], POLICIES[3]]);
    let mut bytes = POLICIES[first as usize..].to_vec();
    let len_of = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    bytes.truncate(len_of as usize);
    bytes[16..20].copy_from_slice(&dst);
    bytes[32..36].copy_from_slice(&[192, 0, 2, 1]);
    (bytes[58], bytes[59]) = (len, 32);
    bytes[232..236].copy_from_slice(&reqid.to_ne_bytes());
    bytes[236] = 0;
    bytes
}

#[test]
fn transport_associations_of_one_reqid_seal_for_their_own_peers() {
    for reqid in [0, 5] {
        let mut bed = Bed::new("192.0.2.1");
        let peers = [[192, 0, 2, 2], [192, 0, 2, 3], [192, 0, 2, 4]];
        let mut policies = Vec::new();
        for (peer, spi) in peers.into_iter().zip(0x5000..) {
            bed.hear(&transport(peer, spi, reqid));
            policies.extend(transport_policy(peer, 32, reqid));
        }
        // A policy for a whole network: one association serves all its hosts.
        policies.extend(transport_policy([192, 0, 2, 0], 24, reqid));
        bed.policies(&policies);
        let tables = bed.database.snapshot();
        let mut spis = Vec::new();
        for policy in tables.policies().list() {
            match policy.action {
                Action::Protect(number) => {
                    let sa = tables.outbound(number).expect("it is there");
                    spis.push((format!("{:?}", policy.dst), sa.spec().spi));
                }
                action => assert!(
                    action == Action::Discard || format!("{:?}", policy.dst).contains("/0"),
                    "{policy:?}"
                ),
            }
        }
        spis.sort();
        let right: Vec<u32> = (0x5000..0x5003).collect();
        let found: Vec<u32> = spis.iter().map(|(_, spi)| *spi).collect();
        assert_eq!(found, right, "{spis:?}");
    }
}

/// The association of [`transport`] for packets to a TCP port.
fn for_port(mut association: Vec<u8>, port: u16) -> Vec<u8> {
    association[16 + 32..][..2].copy_from_slice(&port.to_be_bytes());
    association[16 + 34..][..2].fill(0xff);
    association[16 + 44] = 6;
    association
}

#[test]
fn association_for_other_packets_does_not_seal_in_place_of_one_with_its_reqid() {
    let mut bed = Bed::new("192.0.2.1");
    bed.mirror.all_stale = false;
    let peer = [192, 0, 2, 2];
    let associations = [80, 443].map(|port| {
        let spi = 0x5000 + u32::from(port);
        for_port(transport(peer, spi, 0), port)
    });
    bed.hear(&associations[0]);
    bed.hear(&associations[1]);
    assert!(bed.sa(Direction::Out, 0x5050).is_some());
    assert!(bed.sa(Direction::Out, 0x51bb).is_none());
    // A renegotiated association replaces the old one.
    bed.hear(&for_port(transport(peer, 0x6000, 0), 80));
    assert!(bed.sa(Direction::Out, 0x6000).is_some());
    // Other ports have other numbers.
    bed.hear(&for_port(transport(peer, 0x6001, 7), 443));
    bed.hear(&for_port(transport([192, 0, 2, 3], 0x6002, 0), 443));
    assert!(bed.sa(Direction::Out, 0x6001).is_some());
    assert!(bed.sa(Direction::Out, 0x6002).is_some());
    // When it is removed, the other one is used.
    assert!(!bed.mirror.all_stale);
    bed.hear(FLUSH);
    assert!(bed.mirror.all_stale);
    bed.dump(&associations[1]);
    assert!(bed.sa(Direction::Out, 0x51bb).is_some());
}

#[test]
fn policy_that_cannot_be_read_drops_all() {
    let mut bed = Bed::new("192.0.2.1");
    let mut policies = transport_policy([192, 0, 2, 2], 32, 1);
    // An unknown address family.
    policies[56] = 99;
    bed.policies(&policies);
    let tables = bed.database.snapshot();
    let policies = tables.policies().list();
    assert_eq!(policies.len(), 4);
    assert!(policies.iter().all(|p| p.action == Action::Discard));
    bed.policies(POLICIES);
    let tables = bed.database.snapshot();
    let bypasses = |p: &esp::policy::Policy| p.action == Action::Bypass;
    assert!(tables.policies().list().iter().any(bypasses));
}
