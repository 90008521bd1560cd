//! Sorts packets into buckets by the Toeplitz hash of their flow, as network cards do (RSS).
//!
//! ```click
//! FromDevice(null:64) -> b :: BucketByHash(KEY symmetric, BUCKETS 256) -> Steer(BUCKETS 256) -> Discard;
//! ```
//!
//! Packets are Ethernet frames with up to two VLAN tags. The hash is that of Microsoft's RSS, over source and
//! destination address and over the ports of TCP, UDP, SCTP, DCCP and UDP-Lite. For fragments, and for packets
//! without ports, it is over the addresses alone. The bucket is the hash modulo the number of buckets, so all
//! packets of a flow have one bucket. Packets that are not IP go into bucket 0. Usually `FromDevice(...,
//! CLASSIFY hash)` inserts this element.
//!
//! An ICMP error goes where the packets go that the quoted one answers (RFC 7690): with the symmetric key into the
//! bucket of the flow that it is about.
//!
//! With the symmetric key both directions of a flow share a bucket. NAT needs this, and so does every element
//! that looks at replies. But the symmetric key spreads less well than others: if the addresses of both ends
//! count up together and the ports stay the same, all flows share a bucket. `microsoft` and keys of your own
//! spread such flows, but give the two directions of a flow different buckets.
//!
//! For packets of IPIP, GRE and VXLAN tunnels the hash is over the inner headers; with `INNER false` all
//! packets of a tunnel share a bucket. Elements with the same key and number of buckets share the key: if it
//! changes in one of them, it changes in all.
//!
//! Keyword arguments:
//!
//! - `KEY`: `symmetric`, `microsoft` or 80 hexadecimal digits. Default symmetric.
//! - `BUCKETS`: a power of two up to 4096. Default 256.
//! - `INNER`: true if the inner headers of tunnels are hashed. Default true.
//! - `PORT`: the port from which packets come. If the port hashes with the same key, and `INNER` is false, the
//!   element uses the port's hash.

use super::hashing::Hashing;
use crate::prelude::*;
use engine::port::Port;
use steer::{Sorter, Sorts, SortsOfClass};
use wire::plain_frame::Plain;
use wire::rss::Toeplitz;
use wire::{FlowKey, proto, tunnel};

pub(super) struct Config {
    hashing: Hashing,
    port: Option<String>,
}

impl Config {
    /// Hash and bucket of a flow written as `SRC DST [SRCPORT DSTPORT]`.
    fn of_text(&self, text: &str) -> Result<String, String> {
        let flow = flow_of(text).ok_or("the flow should be `SRC DST [SRCPORT DSTPORT]`")?;
        let hash = self.hashing.key.table.snapshot().hash(&flow);
        Ok(format!("{hash:08x} {}", self.hashing.bucket(hash)))
    }
}

/// Parses `SRC DST [SRCPORT DSTPORT]`.
fn flow_of(text: &str) -> Option<FlowKey> {
    use std::net::IpAddr;
    use wire::flow::Flow;
    let words: Vec<&str> = text.split_whitespace().collect();
    let (src_port, dst_port) = match words.len() {
        2 => (0, 0),
        4 => (words[2].parse().ok()?, words[3].parse().ok()?),
        _ => return None,
    };
    macro_rules! flow {
        ($src:ident $dst:ident) => {
            Flow {
                src: $src,
                dst: $dst,
                src_port,
                dst_port,
                protocol: 0,
            }
        };
    }
    match (words[0].parse().ok()?, words[1].parse().ok()?) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some(FlowKey::V4(flow!(src dst))),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(FlowKey::V6(flow!(src dst))),
        _ => None,
    }
}

pub(super) struct BucketByHash {
    config: Arc<Config>,
    /// Receive port whose hash covers the same headers; `None` if there is none.
    of_port: Option<PortKey>,
    by_port: u64,
    not_ip: u64,
}

/// RSS key of a port, cached.
struct PortKey {
    port: Arc<dyn Port>,
    key: Option<[u8; 40]>,
    /// Value of [`Port::hash_changes`] when the key was read.
    changes: Option<u64>,
}

impl PortKey {
    fn new(port: Arc<dyn Port>) -> PortKey {
        PortKey {
            port,
            key: None,
            changes: None,
        }
    }

    /// True if the port's key is `key`. The cached key is read again only after a change, since reading takes a lock.
    #[inline]
    fn has_key(&mut self, key: &[u8; 40]) -> bool {
        let changes = self.port.hash_changes();
        if changes.is_none() || self.changes != changes {
            (self.key, self.changes) = (self.port.hash_key(), changes);
        }
        self.key.as_ref() == Some(key)
    }
}

impl BucketByHash {
    /// Hash of a packet: the port's if it can be trusted, otherwise computed here.
    #[inline(never)]
    fn hash(&mut self, table: &Toeplitz, packet: &Packet, trusts_port: bool) -> u32 {
        // Ports hash the outer addresses of an ICMP error, not those of the quoted packet.
        let noted = packet
            .rss_hash()
            .filter(|_| trusts_port && !may_be_error(packet.data()));
        self.by_port += u64::from(noted.is_some());
        let plain = || Some(table.hash_of_plain(&Plain::of_ether(packet.data())?));
        let hash = noted.or_else(plain);
        let hash = hash.or_else(|| self.config.hashing.hash(table, packet.data()));
        self.not_ip += u64::from(hash.is_none());
        hash.unwrap_or(0)
    }
}

/// True if a frame may contain an ICMP error. For most frames, the first bytes rule it out.
#[inline]
fn may_be_error(frame: &[u8]) -> bool {
    let protocol = match frame.get(12..14) {
        Some([0x08, 0x00]) => frame.get(23),
        Some([0x86, 0xdd]) => frame.get(20),
        _ => return is_error(frame),
    };
    !matches!(protocol, Some(&(proto::TCP | proto::UDP))) && is_error(frame)
}

#[cold]
fn is_error(frame: &[u8]) -> bool {
    tunnel::ip_of_ether(frame).is_some_and(|packet| FlowKey::quoted(packet).is_some())
}

impl Element for BucketByHash {
    const CONTRACT: Contract = Contract::new("BucketByHash", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .needs(&[Facts::ETHER])
        .extensions(&[&SortsOfClass::of::<Self>()])
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            hashing: Hashing::configure(args),
            port: args.key_maybe("PORT", "the port from which packets come"),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> BucketByHash {
        let port = config.port.as_ref().filter(|_| !config.hashing.inner);
        BucketByHash {
            of_port: port.and_then(|name| Some(PortKey::new(init.ports.get(name)?.port))),
            config: Arc::clone(config),
            by_port: 0,
            not_ip: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        let config = Arc::clone(&self.config);
        let hashing = &config.hashing;
        let table = hashing.key.table.read(cx.reader());
        // The keys are compared for each batch, because both may change.
        let port = self.of_port.as_mut();
        let trusts_port = port.is_some_and(|port| port.has_key(table.key()));
        for packet in batch.iter_mut() {
            let hash = match Plain::of_ether(packet.data()) {
                Some(plain) if !trusts_port => table.hash_of_plain(&plain),
                _ => self.hash(table, packet, trusts_port),
            };
            packet.set_bucket(hashing.bucket(hash));
        }
    }

    const HANDLERS: &'static [Handler<BucketByHash>] = &[
        Handler::shared("key", "the key of the hash", |config: &Config, _| {
            Ok(config.hashing.show_key())
        }),
        Handler::action(
            "key",
            "changes the key of all elements that share it: flows get other buckets at once; refused while an element \
                such as IPRewriter keeps flows by them",
            |config: &Config, value| config.hashing.set_key(value),
        ),
        Handler::shared("buckets", "number of buckets", |config: &Config, _| {
            Ok(config.hashing.buckets.to_string())
        }),
        Handler::shared(
            "hash",
            "hash and bucket of a flow `SRC DST [SRCPORT DSTPORT]`",
            |config: &Config, flow| config.of_text(flow),
        ),
        counter!("by_port", "packets whose hash the port has given", by_port),
        counter!("not_ip", "packets that are not IP, all in bucket 0", not_ip),
    ];
}

impl Sorts for BucketByHash {
    fn sorter(config: &Config) -> Option<Arc<dyn Sorter>> {
        Some(config.hashing.sorter())
    }
}

#[cfg(test)]
mod tests {
    use super::{Arc, PortKey};
    use engine::port::{Port, PortCounter, PortInfo};
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
    use testkit::Bench;
    use testkit::{ip4, ip6};

    /// A port whose key is another one at each request, without a change being counted.
    struct Uncounted(AtomicU8);

    impl Port for Uncounted {
        fn info(&self) -> PortInfo {
            unreachable!("nobody asks")
        }

        fn link_up(&self) -> bool {
            true
        }

        fn hash_key(&self) -> Option<[u8; 40]> {
            Some([self.0.fetch_add(1, Relaxed); 40])
        }

        fn counters(&self) -> Vec<PortCounter> {
            Vec::new()
        }
    }

    #[test]
    fn a_port_that_does_not_count_its_keys_is_asked_each_time() {
        let mut key = PortKey::new(Arc::new(Uncounted(AtomicU8::new(0))));
        assert!(key.has_key(&[0; 40]));
        assert!(!key.has_key(&[0; 40]));
        assert!(key.has_key(&[2; 40]));
    }

    const ENDS: (&str, &str) = ("02:00:00:00:00:01", "02:00:00:00:00:02");

    fn buckets(arguments: &str, frames: &[Vec<u8>]) -> Vec<u16> {
        let text = format!("b :: BucketByHash({arguments}) -> out :: Collect");
        let mut bench = Bench::new(crate::CLASSES, &text);
        bench.push("b", frames);
        let got = bench.take_packets("out");
        got.iter().map(|packet| packet.bucket).collect()
    }

    #[test]
    fn the_bucket_is_the_hash_of_the_verification_suite_modulo_their_number() {
        let frame = |src: &str, dst: &str| ip4().src(src).dst(dst).ether(ENDS.0, ENDS.1);
        let first = frame("66.9.149.187", "161.142.100.80");
        let frames = [
            first.clone().tcp(2794, 1766).bytes(),
            first.clone().proto(253).bytes(),
            first.clone().tcp(2794, 1766).fragment(0, true).bytes(),
            first.clone().tcp(2794, 1766).vlan(7).bytes(),
            ip6()
                .src("3ffe:2501:200:1fff::7")
                .dst("3ffe:2501:200:3::1")
                .ether(ENDS.0, ENDS.1)
                .udp(2794, 1766)
                .bytes(),
            vec![2; 60],
        ];
        let of = |hashes: [u32; 6], n: u32| hashes.map(|hash| (hash % n) as u16).to_vec();
        let l3 = 0x323e_8fc2;
        let hashes = [0x51cc_c178, l3, l3, 0x51cc_c178, 0x4020_7d3d, 0];
        for n in [1, 2, 128, 256, 4096] {
            let got = buckets(&format!("KEY microsoft, BUCKETS {n}"), &frames);
            assert_eq!(got, of(hashes, n), "{n}");
        }
    }

    #[test]
    fn both_directions_of_a_flow_share_a_bucket_by_the_default_key() {
        let mut rng = testkit::Rng::seed(5);
        let mut frames = Vec::new();
        for _ in 0..200 {
            let [a, b] = [0; 2].map(|_: u8| format!("10.{}.{}.1", rng.u8(), rng.u8()));
            let [p, q] = [rng.u16(), rng.u16()];
            for (src, dst, from, to) in [(&a, &b, p, q), (&b, &a, q, p)] {
                let frame = ip4().src(src).dst(dst).udp(from, to);
                frames.push(frame.ether(ENDS.0, ENDS.1).bytes());
            }
        }
        let got = buckets("", &frames);
        assert!(got.chunks(2).all(|pair| pair[0] == pair[1]));
        let mut kinds = got.clone();
        kinds.sort_unstable();
        kinds.dedup();
        assert!(kinds.len() > 80, "{} buckets of 200 flows", kinds.len());
    }

    #[test]
    fn an_icmp_error_shares_the_bucket_of_the_flow_that_goes_its_way() {
        for key in ["symmetric", "microsoft"] {
            let mut frames = Vec::new();
            for n in 0..60u16 {
                // A packet from a client to a server, the server's answer, and a router's error about the answer (RFC
                // 7690).
                let (client, server) = (format!("10.{n}.2.3"), "198.51.100.1");
                let sent = ip4().src(&client).dst(server).tcp(n + 1024, 443);
                let answer = ip4()
                    .src(server)
                    .dst(&client)
                    .df()
                    .tcp(443, n + 1024)
                    .payload_len(1400);
                let error = ip4().src("192.0.2.9").dst(server).icmp(3, 4, 1300);
                frames.push(sent.ether(ENDS.0, ENDS.1).bytes());
                let error = error.payload(&answer.bytes()[..28]);
                frames.push(error.ether(ENDS.0, ENDS.1).bytes());
                let (client, server) = (format!("2001:db8::{n:x}"), "2001:db8:1::1");
                let sent = ip6().src(&client).dst(server).udp(n + 1024, 443);
                let answer = ip6()
                    .src(server)
                    .dst(&client)
                    .udp(443, n + 1024)
                    .payload_len(1400);
                let error = ip6().src("2001:db8:2::9").dst(server).icmp(2, 0, 1300);
                frames.push(sent.vlan(7).ether(ENDS.0, ENDS.1).bytes());
                let error = error.payload(&answer.bytes()[..1232]);
                frames.push(error.vlan(7).ether(ENDS.0, ENDS.1).bytes());
            }
            let got = buckets(&format!("KEY {key}"), &frames);
            assert!(
                got.chunks(2).all(|pair| pair[0] == pair[1]),
                "{key}: {got:?}"
            );
        }
    }

    #[test]
    fn tunnels_are_told_apart_by_what_is_inside_unless_that_is_not_wanted() {
        let inside = |n: u8| ip4().src(format!("10.0.0.{n}")).dst("10.9.9.9").udp(1, 2);
        let tunnel = |n| {
            let outer = ip4().src("1.1.1.1").dst("2.2.2.2").proto(4);
            outer.payload(inside(n).bytes()).ether(ENDS.0, ENDS.1)
        };
        let frames: Vec<Vec<u8>> = (0..8).map(|n| tunnel(n).bytes()).collect();
        let bare: Vec<Vec<u8>> = (0..8)
            .map(|n| inside(n).ether(ENDS.0, ENDS.1).bytes())
            .collect();
        assert_eq!(buckets("", &frames), buckets("", &bare));
        let outer = buckets("INNER false", &frames);
        assert!(outer.iter().all(|bucket| *bucket == outer[0]));
    }

    #[test]
    fn the_key_can_be_asked_and_changed_for_all_that_share_it() {
        let text = "a :: BucketByHash(KEY microsoft) -> out :: Collect;
            b :: BucketByHash(KEY microsoft) -> Discard; c :: BucketByHash(KEY microsoft, BUCKETS 64) -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        let flow = "66.9.149.187 161.142.100.80 2794 1766";
        let asked = bench.try_read("a.hash", flow);
        assert_eq!(asked.as_deref(), Ok("51ccc178 120"));
        assert!(bench.try_read("a.hash", "66.9.149.187").is_err());
        assert!(bench.try_write("a.key", "none").is_err());
        bench.write("a.key", "symmetric");
        assert_eq!(bench.read("b.key"), "symmetric");
        assert_eq!(bench.read("c.key"), "microsoft");
        let back = "161.142.100.80 66.9.149.187 1766 2794";
        assert_eq!(
            bench.try_read("b.hash", flow),
            bench.try_read("a.hash", back)
        );
    }

    #[test]
    fn wrong_numbers_of_buckets_are_refused() {
        for wrong in ["0", "100", "32768"] {
            let text = format!("Idle -> BucketByHash(BUCKETS {wrong}) -> Discard");
            let errors = testkit::errors(crate::CLASSES, &text);
            assert!(errors.contains("a power of two up to 4096"), "{errors}");
        }
    }
}
