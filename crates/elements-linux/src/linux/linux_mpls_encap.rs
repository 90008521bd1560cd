//! Adds labels to IP packets whose route in the kernel has some: the entry to label-switched paths.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader -> rt :: LinuxIPLookup(eth0);
//! rt[0], rt[2] -> Discard;
//! rt[1] -> push :: LinuxMPLSEncap(eth0);
//! push[0] -> Unstrip(14) -> Discard;          // other exceptions: the kernel's business
//! push[1] -> LinuxMPLSEtherEncap(eth0) -> Discard;
//! ```
//!
//! Put it after output 1 of LinuxIPLookup and LinuxIP6Lookup. Packets whose route is by `encap mpls` and by an
//! interface that is listed here get the labels of their next hop (`ip route add 10.2.0.0/16 encap mpls 100/200 via
//! 192.0.2.2`; FRR sets such routes for LDP, segment routing and VPNs). All other packets leave by output 0,
//! unchanged.
//!
//! The packet's time to live is lowered, and with `MODE uniform` the labels get the same; with `pipe` they get `TTL`.
//! Their class is the packet's precedence. The destination annotation becomes the next hop's address.
//!
//! A packet whose time to live is over leaves by output 0, too, and one that is longer than the interface's MTU with
//! its labels: the kernel sends the ICMP error. One without room for labels is dropped (`no_headroom`).
//!
//! Arguments:
//!
//! - `NAME`, any number of: interfaces of the router's namespace. If there is none, they are found as LinuxIPLookup
//!   finds them, by outputs 1, 2 ...
//!
//! Keyword arguments:
//!
//! - `MODE`: `uniform` or `pipe` (RFC 3443). Default uniform, as Linux's `net.mpls.ip_ttl_propagate`.
//! - `TTL`: the time to live of the labels with `pipe`. Default 255.

use crate::mpls::header::Mode;
use crate::mpls::mpls_encap;
use crate::prelude::*;
use elements::route::batch_lookup::Bulk;
use elements::route::lookup::flow_hash;
use forwarding::Interface;
use forwarding::Routes;
use forwarding::family::{Family, V4, V6};
use forwarding::{Kernel, Member, NoMemory};
use std::net::IpAddr;
use wire::mpls::LEN;
use wire::{Ipv4, Ipv6, ipv4, ipv6};

drops! {
    NO_HEADROOM = "no_headroom",
}
const EXCEPTION: Verdict = Verdict::ON;
pub(super) const OUT_FIRST: usize = 1;

pub(crate) struct Config {
    /// IPv4 and IPv6 routes; `None` if memory for them ran out, which fails the build.
    routes: Option<(Arc<Routes<4>>, Arc<Routes<16>>)>,
    interfaces: Vec<Arc<Interface>>,
    mode: Mode,
    ttl: u8,
}

pub(crate) struct LinuxMPLSEncap {
    routes: (Arc<Routes<4>>, Arc<Routes<16>>),
    bulk: (Bulk<V4, 4>, Bulk<V6, 16>),
    labels: Imposer,
    /// Verdicts of the packets in a batch, reused between batches.
    verdicts: Vec<Verdict>,
}

/// Settings for pushing labels.
struct Imposer {
    mode: Mode,
    ttl: u8,
    /// Interface and output by interface number.
    ways: Box<[Option<EncapInterface>]>,
}

/// An interface and the output of its packets.
#[derive(Clone)]
struct EncapInterface {
    interface: Arc<Interface>,
    output: Verdict,
}

impl Imposer {
    /// Pushes a next hop's labels onto a packet. Packets for other interfaces are exceptions.
    fn push_labels(&self, packet: &mut Packet, hop: &Member) -> Verdict {
        let way = self.ways.get(usize::from(hop.port));
        let Some(Some(way)) = way.filter(|_| !hop.labels.is_empty()) else {
            return EXCEPTION;
        };
        let len = packet.network().len() + hop.labels.len() * LEN;
        if len > way.interface.mtu() || !dec_ttl(packet.network_mut()) {
            return EXCEPTION;
        }
        let at_network = packet.pull(packet.network_offset());
        let put = mpls_encap::push_labels(packet, &hop.labels, self.mode, None, self.ttl);
        if !at_network || put.is_err() {
            return Verdict::drop(NO_HEADROOM);
        }
        match hop.gateway {
            Some(IpAddr::V4(gateway)) => packet.anno_mut().set_dst4(gateway.octets()),
            Some(IpAddr::V6(gateway)) => packet.anno_mut().set_via6(gateway.octets()),
            // Without a gateway, the destination annotation already holds the next hop.
            None => {}
        }
        way.output
    }

    /// Repeats the route look-up for the packets of a batch, and pushes the labels of labelled routes. Returns the
    /// verdicts.
    fn step<F: Family<N>, const N: usize>(
        &self,
        routes: &Routes<N>,
        bulk: &mut Bulk<F, N>,
        batch: &mut Batch,
        cx: &Cx,
        verdicts: &mut Vec<Verdict>,
    ) {
        let ids = bulk.look_up(routes.fib(), batch);
        // The groups are read after the look-up: an earlier version might lack the id that the look-up returned.
        let groups = routes.groups().read(cx.reader()).view();
        verdicts.extend(batch.iter_mut().zip(ids).map(|(packet, &id)| {
            // The stored hash selects the same next hop as in LinuxIPLookup.
            match groups.next_hop_with(id, || flow_hash::<F, N>(packet, 0)) {
                // LinuxMPLSEtherEncap accepts IPv6 next hops only as gateways.
                Some(hop) if N == 4 || hop.gateway.is_some() => self.push_labels(packet, hop),
                _ => EXCEPTION,
            }
        }));
    }
}

/// Decrements the TTL of an IP packet. Returns false, without a change, if the TTL has run out.
fn dec_ttl(packet: &mut [u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= ipv4::MIN_LEN => {
            let mut ip = Ipv4::new_unchecked(packet);
            let ttl = ip.ttl();
            if ttl > 1 {
                ip.patch_ttl(ttl - 1);
            }
            ttl > 1
        }
        Some(6) if packet.len() >= ipv6::LEN => {
            let mut ip = Ipv6::new_unchecked(packet);
            let hops = ip.hop_limit();
            if hops > 1 {
                ip.set_hop_limit(hops - 1);
            }
            hops > 1
        }
        _ => false,
    }
}

impl Element for LinuxMPLSEncap {
    const CONTRACT: Contract = Contract::new("LinuxMPLSEncap", manual!())
        .ports(Ports::coded(
            &["in4", "in6?"],
            &["exception", "out*"],
            "h/h",
        ))
        .needs(&[Facts::IP4.and(Facts::DST4), Facts::IP6.and(Facts::DST6)])
        .spoils(Facts::AT_NETWORK)
        .drops(DROPS)
        .extensions(&[&resources::of::<Self>()])
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let mode = args.key("MODE", Mode::Uniform, "time to live: uniform or pipe");
        let ttl = args.key("TTL", 255, "time to live of the labels with MODE pipe");
        if ttl == 0 {
            args.error_in_whole("TTL must not be 0", "leave it out for 255");
        }
        let interfaces = super::interfaces(args, OUT_FIRST);
        let kernel = args.router_wide::<Kernel>();
        let mut refuse = |refused: NoMemory| {
            let help = "let the process have more (`ulimit -v`), or do with fewer routing tables";
            args.error_in_whole(refused.to_string(), help);
        };
        let four = kernel.shared4().cloned().map_err(&mut refuse).ok();
        let six = kernel.shared6().cloned().map_err(&mut refuse).ok();
        Config {
            routes: four.zip(six),
            interfaces,
            mode,
            ttl,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> LinuxMPLSEncap {
        let numbers = config.interfaces.iter().map(|i| usize::from(i.number()));
        let mut ways = vec![None; numbers.max().map_or(0, |max| max + 1)];
        for (at, interface) in config.interfaces.iter().enumerate() {
            let output = Verdict::out((OUT_FIRST + at) as u8);
            ways[usize::from(interface.number())] = Some(EncapInterface {
                interface: Arc::clone(interface),
                output,
            });
        }
        let routes = config.routes.clone();
        LinuxMPLSEncap {
            routes: routes.expect("a plan with mistakes is not built"),
            bulk: Default::default(),
            labels: Imposer {
                mode: config.mode,
                ttl: config.ttl,
                ways: ways.into(),
            },
            verdicts: Vec::new(),
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        let (verdicts, (four, six)) = (&mut self.verdicts, &self.routes);
        verdicts.clear();
        match input {
            0 => (self.labels).step(four, &mut self.bulk.0, batch, cx, verdicts),
            _ => (self.labels).step(six, &mut self.bulk.1, batch, cx, verdicts),
        }
        let mut verdicts = verdicts.iter().copied();
        cx.sort(batch, |_, _| verdicts.next().unwrap_or(EXCEPTION));
    }
}

impl Resources for LinuxMPLSEncap {
    fn port_count(config: &Config) -> (Option<usize>, Option<usize>) {
        (None, Some(OUT_FIRST + config.interfaces.len()))
    }
}

#[cfg(test)]
mod tests {
    use forwarding::{Kernel, Member, Prefix};
    use testkit::{Bench, ip4, ip6, mpls_below};
    use wire::mpls::Labels;

    const TEXT: &str = "c :: CheckIPHeader -> rt :: LinuxIPLookup(eth0, eth1);
        d :: CheckIP6Header -> rt6 :: LinuxIP6Lookup(eth0, eth1);
        rt[1], rt6[1] => push :: LinuxMPLSEncap(eth0, eth1);
        rt[0], rt6[0] -> Discard; rt[2], rt6[2] -> Discard; rt[3], rt6[3] -> plain :: Collect;
        push[0] -> kernel :: Collect; push[1] -> Discard; push[2] -> out :: Collect";

    fn hop(kernel: &Kernel, labels: &[u32], gateway: &str, weight: u16) -> Member {
        Member {
            gateway: Some(gateway.parse().expect("an address")),
            port: kernel.interface("eth1").expect("room").number(),
            labels: Labels::new(labels.iter().copied()).expect("room"),
            weight,
        }
    }

    #[test]
    fn packets_get_the_labels_of_their_routes() {
        let mut bench = Bench::new(crate::with_basics(), TEXT);
        let kernel = bench.router_wide::<Kernel>();
        let four = kernel.routes4().expect("memory");
        let members = [hop(&kernel, &[100, 200], "192.0.2.2", 1)];
        let id = four.add_group(&members).expect("an id");
        let prefix = |n: u8| Prefix::new([10, n, 0, 0], 16);
        let via6 = [hop(&kernel, &[7], "fe80::9", 1)];
        let by6 = four.add_group(&via6).expect("an id");
        let routes = [(prefix(2), Some(id)), (prefix(3), Some(by6))];
        four.apply(&routes).expect("room");
        let six = kernel.routes6().expect("memory");
        let id = six.add_group(&via6).expect("an id");
        let all = Prefix::new([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 32);
        six.apply(&[(all, Some(id))]).expect("room");
        let to = |dst: &str, ttl: u8| ip4().src("10.0.0.9").dst(dst).ttl(ttl).udp(1, 2);
        let to6 = |ttl: u8| ip6().src("2001:db8::9").dst("2001:db8::7").ttl(ttl).bytes();
        let (over, elsewhere) = (to("10.2.0.1", 1).bytes(), to("10.9.0.1", 9).bytes());
        let long = to("10.2.0.1", 9).payload_len(1465).bytes();
        let fits = to("10.2.0.1", 9).payload_len(1464);
        let given = [
            to("10.2.0.1", 9).bytes(),
            over.clone(),
            elsewhere.clone(),
            to("10.3.0.1", 9).bytes(),
            long.clone(),
            to("10.2.0.1", 9).payload_len(1464).bytes(),
        ];
        bench.push("c", &given);
        bench.push("d", &[to6(9), to6(1)]);
        let out = bench.take_packets("out");
        let bytes: Vec<_> = out.iter().map(|packet| packet.bytes.clone()).collect();
        let lower = |dst: &str| to(dst, 8).bytes();
        let expected = [
            mpls_below(&[100, 200], 8, &lower("10.2.0.1")),
            mpls_below(&[7], 8, &lower("10.3.0.1")),
            mpls_below(&[100, 200], 8, &fits.ttl(8).bytes()),
            mpls_below(&[7], 8, &to6(8)),
        ];
        assert_eq!(bytes, expected);
        assert_eq!(out[0].anno.dst4(), [192, 0, 2, 2]);
        assert!(out[1].anno.via6().is_some() && out[3].anno.via6().is_some());
        // The kernel gets the packets that it must answer, unchanged.
        assert_eq!(bench.take("kernel"), [over, elsewhere, long, to6(1)]);
        let shown = bench.try_read("rt.lookup", "10.2.0.1");
        assert_eq!(shown, Ok("192.0.2.2 eth1 MPLS 100/200".to_owned()));
    }

    #[test]
    fn flows_keep_to_next_hops_with_labels_and_to_those_without() {
        let mut bench = Bench::new(crate::with_basics(), TEXT);
        let kernel = bench.router_wide::<Kernel>();
        let four = kernel.routes4().expect("memory");
        let members = [
            hop(&kernel, &[100], "192.0.2.2", 1),
            hop(&kernel, &[], "192.0.2.3", 2),
        ];
        let id = four.add_group(&members).expect("an id");
        four.apply(&[(Prefix::new([0; 4], 0), Some(id))])
            .expect("room");
        let flow = |n: u16| {
            ip4()
                .src("10.0.0.9")
                .dst("20.0.0.1")
                .ttl(9)
                .udp(n, 53)
                .bytes()
        };
        let flows: Vec<_> = (0..1500).map(flow).collect();
        for _ in 0..2 {
            bench.push("c", &flows);
            let (labelled, plain) = (bench.take("out").len(), bench.take("plain").len());
            assert_eq!(labelled + plain, 1500, "the kernel gets none");
            assert!((400..600).contains(&labelled), "{labelled}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let text = "Idle -> CheckIPHeader -> GetIPAddress(16) -> e :: LinuxMPLSEncap(eth0, TTL 0);
            e[0], e[1] -> Discard";
        assert!(testkit::errors(crate::with_basics(), text).contains("TTL must not"));
    }
}
