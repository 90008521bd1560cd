//! Packets for IPsecDecap, whose key is known: any bytes, and any bytes encrypted with the key, so that the code
//! after the authentication check is reached, too. Also lines for IPsecTable.
//!
//! A record is a byte of flags, the byte of the inner protocol, a length and the bytes.

use super::Choices;
use crate::whole::Whole;
use engine::graph::Walker;
use engine::packet::{Batch, Packet, pool};
use esp::{Ciphers, Direction, Keys, Lifetime, Sa, Spec, Suite};
use testkit::{ip4, ip6};

const ROUTER: &str = "
    t :: IPsecTable(
        sa in spi 0x1001 reqid 1 suite aes128gcm16 esn tunnel 192.0.2.1 192.0.2.2 \
            ENC_KEY 0000000000000000000000000000000000000000,
        sa in spi 0x1002 reqid 1 suite null-sha1 udp 1 2 AUTH_KEY 0000000000000000000000000000000000000000,
        sa out spi 0x1003 reqid 1 suite aes128-sha256 udp 1 2
            ENC_KEY 00000000000000000000000000000000
            AUTH_KEY 0000000000000000000000000000000000000000000000000000000000000000,
        policy in src 0.0.0.0/0 dst 0.0.0.0/0 protect 1, policy in src ::/0 dst ::/0 dport 1-9 protect 1,
        policy out src 0.0.0.0/0 dst 0.0.0.0/0 protect 1, policy out src ::/0 dst ::/0 sport 0-99 protect 1);
    in4 :: CheckIPHeader -> d :: IPsecDecap(TABLE t) -> e :: IPsecEncap(TABLE t) -> out :: Collect;
    in6 :: CheckIP6Header -> [1] d; d[1] -> [1] e; e[1], d[2], d[3] -> out;
";

/// The packet is IPv6.
const SIX: u8 = 1;
/// Flag: the packet is encrypted with the key.
const SEALED: u8 = 2;
/// Flag: the packet is in UDP.
const IN_UDP: u8 = 4;
/// The bytes are a line for the table.
const LINE: u8 = 8;

/// The other end of an association.
fn peer(spi: u32, suite: &str) -> Option<Sa> {
    let suite: Suite = suite.parse().ok()?;
    let spec = Spec {
        direction: Direction::Out,
        spi,
        reqid: 1,
        suite,
        tunnel: None,
        udp: None,
        esn: spi == 0x1001,
        window: 64,
        pad: 0,
        lifetime: Lifetime::default(),
    };
    let keys = Keys {
        enc: vec![0; suite.enc_key_len()].into(),
        auth: vec![0; suite.auth_key_len()].into(),
    };
    Sa::new(spec, &keys, 0).ok()
}

/// Feeds a router.
pub fn run(data: &[u8]) {
    let before = pool::balance();
    let mut choices = Choices(&data[..data.len().min(4 << 10)]);
    let mut router = Whole::new(ROUTER, &[], Walker::Sweep);
    let peers = [peer(0x1001, "aes128gcm16"), peer(0x1002, "null-sha1")]
        .map(|p| p.expect("it can be made"));
    let mut ciphers = Ciphers::default();
    while !choices.is_empty() {
        let (flags, next, len) = (choices.byte(), choices.byte(), choices.byte());
        let bytes = choices.bytes(usize::from(len));
        if flags & LINE != 0 {
            let text = String::from_utf8_lossy(bytes);
            for handler in ["t.add", "t.policies", "t.remove"] {
                let _ = router.graph().job(|cx| cx.write(handler, &text));
            }
            let _ = router.handler("t.sas", "") + &router.handler("t.policies", "");
            continue;
        }
        let mut esp = bytes.to_vec();
        if flags & SEALED != 0 {
            let sa = &peers[usize::from(flags & IN_UDP != 0)];
            let (head, tail) = (sa.head(), sa.trailer_len(bytes.len()));
            esp = [&vec![0; head][..], bytes, &vec![0; tail]].concat();
            let number = sa.take(1, 0, 0).expect("there is no limit");
            let mut jobs = ciphers.jobs();
            sa.frame(&mut esp, bytes.len(), next, number, &mut jobs);
            ciphers.encrypt(jobs);
        }
        let (port, packet) = match (flags & SIX != 0, flags & IN_UDP != 0) {
            (false, false) => ("in4", ip4().proto(50).payload(&esp).bytes()),
            (false, true) => ("in4", ip4().udp(4500, 4500).payload(&esp).bytes()),
            (true, false) => ("in6", ip6().proto(50).payload(&esp).bytes()),
            (true, true) => ("in6", ip6().udp(4500, 4500).payload(&esp).bytes()),
        };
        let batch: Batch = Packet::from_bytes(&packet).into_iter().collect();
        router.push(port, batch);
        router.settle();
        testkit::collected(router.graph().plan(), "out");
    }
    router.books().check();
    drop(router);
    assert_eq!(pool::balance(), before, "a packet was lost or freed twice");
}
