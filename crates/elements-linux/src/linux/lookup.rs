//! Lookup in the kernel's routes: the element of both classes.

use super::route_text;
use crate::prelude::*;
use elements::route::batch_lookup::Bulk;
use elements::route::lookup::flow_hash;
use elements::secret;
use forwarding::Interface;
use forwarding::Routes;
use forwarding::family::Family;
use forwarding::{BLACKHOLE, EXCEPTION, Kernel, LOCAL};
use std::net::IpAddr;
use tables::fib::NoMemory;

const DROPPED: u8 = 0;
/// Outputs: packets for the router itself, packets for the kernel, and packets for the first interface.
const OUT_LOCAL: u8 = 0;
const OUT_EXCEPTION: u8 = 1;
pub(super) const OUT_FIRST: usize = 2;
const TO_KERNEL: Verdict = Verdict::out(OUT_EXCEPTION);

/// Constants of a class of lookup.
pub(crate) trait Kind<const N: usize>: 'static {
    /// Name of the class.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// Address family.
    type Family: Family<N>;

    /// Mirror of the kernel's routes of this address family.
    fn routes(kernel: &Kernel) -> Result<&Arc<Routes<N>>, NoMemory>;
}

pub(crate) struct Config<const N: usize> {
    /// Mirror of the kernel's routes; `None` if memory for it ran out, which fails the build.
    routes: Option<Arc<Routes<N>>>,
    interfaces: Vec<Arc<Interface>>,
    /// Mirror of the kernel, for interface names in handlers.
    kernel: Arc<Kernel>,
    /// Random hash seed that differs between routers. With equal seeds, one router would polarise the flows of the
    /// next.
    seed: u32,
}

impl<const N: usize> Config<N> {
    fn routes(&self) -> Result<&Routes<N>, String> {
        let routes = self.routes.as_deref();
        routes.ok_or_else(|| "there was no memory for it".to_owned())
    }

    /// Verdict for each port of a next hop.
    fn verdicts(&self) -> Vec<Verdict> {
        let numbers = self.interfaces.iter().map(|i| usize::from(i.number()));
        let mut all = vec![Verdict::out(OUT_EXCEPTION); numbers.max().map_or(3, |max| max + 1)];
        all[usize::from(LOCAL)] = Verdict::out(OUT_LOCAL);
        all[usize::from(EXCEPTION)] = Verdict::out(OUT_EXCEPTION);
        all[usize::from(BLACKHOLE)] = Verdict::drop(DROPPED);
        for (at, interface) in self.interfaces.iter().enumerate() {
            all[usize::from(interface.number())] = Verdict::out((OUT_FIRST + at) as u8);
        }
        all
    }
}

pub(crate) struct Lookup<K: Kind<N>, const N: usize> {
    routes: Arc<Routes<N>>,
    verdicts: Box<[Verdict]>,
    seed: u32,
    bulk: Bulk<K::Family, N>,
}

impl<K: Kind<N>, const N: usize> Element for Lookup<K, N> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(
            &["in"],
            &["local", "exception", "out*"],
            "h/h",
        ))
        .needs(&[<K::Family as Family<N>>::DST])
        .gives(&[<K::Family as Family<N>>::DST])
        .drops(&["blackhole"])
        .extensions(&[&resources::of::<Self>()])
        .carries_super_frames();

    type Config = Config<N>;

    fn configure(args: &mut Args) -> Config<N> {
        let interfaces = super::interfaces(args, OUT_FIRST);
        let kernel = args.router_wide::<Kernel>();
        let routes = forwarding::args::with_memory(args, K::routes(&kernel));
        Config {
            routes,
            interfaces,
            kernel,
            seed: secret(cfg!(test)) as u32,
        }
    }

    fn new(config: &Arc<Config<N>>, _: &Init) -> Self {
        let routes = config.routes.clone();
        Lookup {
            routes: routes.expect("a plan with mistakes is not built"),
            verdicts: config.verdicts().into(),
            seed: config.seed,
            bulk: Bulk::default(),
        }
    }

    #[inline]
    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        fused::process(self, batch, cx);
    }

    fn inherit(config: &mut Config<N>, old: &Config<N>) {
        config.seed = old.seed; // flows stay on their next hops
    }

    const HANDLERS: &'static [Handler<Self>] = &[
        Handler::shared("table", "a route per line", |config: &Config<N>, _| {
            Ok(route_text::table::<K::Family, N>(
                config.routes()?,
                &config.kernel,
            ))
        }),
        Handler::shared(
            "lookup",
            "`ADDRESS`: gateway and interface of its next hops; -1 without route",
            |config: &Config<N>, address| {
                route_text::lookup::<K::Family, N>(config.routes()?, &config.kernel, address)
            },
        ),
        Handler::shared("length", "number of routes", |config: &Config<N>, _| {
            Ok(config.routes()?.len().to_string())
        }),
        Handler::shared(
            "groups",
            "a group of next hops per line: id, routes, and each next hop",
            |config: &Config<N>, _| Ok(route_text::groups(config.routes()?, &config.kernel)),
        ),
    ];
}

impl<K: Kind<N>, const N: usize> Resources for Lookup<K, N> {
    fn memory(config: &Config<N>) -> usize {
        config.routes.as_ref().map_or(0, |routes| routes.memory())
    }

    fn port_count(config: &Config<N>) -> (Option<usize>, Option<usize>) {
        (None, Some(OUT_FIRST + config.interfaces.len()))
    }
}

impl<K: Kind<N>, const N: usize> Fuse for Lookup<K, N> {
    const STEPS_BATCH: bool = true;

    fn step_batch(&mut self, batch: &mut Batch, verdicts: &mut Vec<Verdict>, cx: &mut Cx) {
        let ids = self.bulk.look_up(self.routes.fib(), batch);
        // The groups are read after the look-up: an earlier version might lack the id that the look-up returned.
        let groups = self.routes.groups().read(cx.reader()).view();
        let packets = batch.iter_of_same_length().zip(ids);
        verdicts.extend(packets.map(|(packet, &id)| {
            let brief = groups.compact(id);
            if let Some(&verdict) = self.verdicts.get(usize::from(brief.port)) {
                if let Some(gateway) = brief.gateway() {
                    K::Family::set_dst(packet, gateway.into());
                }
                if verdict == TO_KERNEL && brief.port != EXCEPTION {
                    packet.anno_mut().set_kernel_forwards();
                }
                return verdict;
            }
            let next_hop =
                groups.next_hop_with(id, || flow_hash::<K::Family, N>(packet, self.seed));
            // Packets that need labels are exceptions: LinuxMPLSEncap or the kernel adds the labels.
            let Some(hop) = next_hop.filter(|hop| hop.labels.is_empty()) else {
                return Verdict::out(OUT_EXCEPTION);
            };
            match hop.gateway {
                Some(IpAddr::V6(gateway)) if N == 4 => packet.anno_mut().set_via6(gateway.octets()),
                Some(gateway) => K::Family::set_dst(packet, gateway),
                None => {}
            }
            let verdict = self.verdicts.get(usize::from(hop.port));
            // Other elements have named the interfaces beyond the end of the list.
            let verdict = verdict.copied().unwrap_or(TO_KERNEL);
            if verdict == TO_KERNEL && hop.port != EXCEPTION {
                packet.anno_mut().set_kernel_forwards();
            }
            verdict
        }));
    }

    #[inline]
    fn prefetch(&self) -> impl Fn(&Packet) {
        K::Family::fetch(self.routes.fib())
    }
}

#[cfg(test)]
mod tests {
    use forwarding::{BLACKHOLE, EXCEPTION, Kernel, LOCAL, Member, Prefix};
    use std::net::IpAddr;
    use std::sync::Arc;
    use testkit::{Bench, ip4, ip6};

    const FOUR: &str = "c :: CheckIPHeader -> rt :: LinuxIPLookup(eth0, eth1);
        rt[0] -> local :: Collect; rt[1] -> kernel :: Collect;
        rt[2] -> eth0 :: Collect; rt[3] -> eth1 :: Collect";

    fn hop(gateway: Option<&str>, port: u16, weight: u16) -> Member {
        Member {
            gateway: gateway.map(|text| text.parse().expect("an address")),
            port,
            labels: wire::mpls::Labels::NONE,
            weight,
        }
    }

    /// Sets a route with these next hops.
    fn route(kernel: &Kernel, prefix: ([u8; 4], u8), hops: &[Member]) {
        let routes = kernel.routes4().expect("memory");
        let group = routes.add_group(hops).expect("an id");
        let prefix = Prefix::new(prefix.0, prefix.1);
        routes.apply(&[(prefix, Some(group))]).expect("room");
    }

    fn to(dst: &str) -> Vec<u8> {
        ip4().src("10.0.0.9").dst(dst).udp(1, 2).bytes()
    }

    fn bench() -> (Bench, Arc<Kernel>) {
        let mut bench = Bench::new(crate::with_basics(), FOUR);
        let kernel = bench.router_wide::<Kernel>();
        (bench, kernel)
    }

    #[test]
    fn packets_go_where_the_kernels_routes_say() {
        let (mut bench, kernel) = bench();
        let eth1 = kernel.interface("eth1").expect("room").number();
        let tunnel = kernel.interface("tunnel").expect("room").number();
        route(&kernel, ([10, 0, 1, 0], 24), &[hop(None, eth1, 1)]);
        route(&kernel, ([10, 0, 1, 1], 32), &[hop(None, LOCAL, 1)]);
        route(
            &kernel,
            ([20, 0, 0, 0], 8),
            &[hop(Some("10.0.1.254"), eth1, 1)],
        );
        route(&kernel, ([30, 0, 0, 0], 8), &[hop(None, BLACKHOLE, 1)]);
        route(&kernel, ([40, 0, 0, 0], 8), &[hop(None, EXCEPTION, 1)]);
        route(&kernel, ([50, 0, 0, 0], 8), &[hop(None, tunnel, 1)]);
        let all = [
            "10.0.1.9",
            "10.0.1.1",
            "20.1.1.1",
            "30.1.1.1",
            "40.1.1.1",
            "50.1.1.1",
            "60.1.1.1",
            "224.0.0.5",
        ];
        bench.push("c", &all.map(to));
        assert_eq!(bench.take("local"), [to("10.0.1.1"), to("224.0.0.5")]);
        assert_eq!(
            bench.take("kernel"),
            ["40.1.1.1", "50.1.1.1", "60.1.1.1"].map(to)
        );
        let out = bench.take_packets("eth1");
        let next: Vec<[u8; 4]> = out.iter().map(|packet| packet.anno.dst4()).collect();
        assert_eq!(next, [[10, 0, 1, 9], [10, 0, 1, 254]]);
        assert_eq!(bench.drops("rt", "blackhole"), 1);
        assert!(bench.take("eth0").is_empty());
    }

    #[test]
    fn flows_are_shared_by_weight_and_stay_on_their_next_hops() {
        let (mut bench, kernel) = bench();
        let number = |name| kernel.interface(name).expect("room").number();
        let hops = [
            hop(Some("10.0.0.1"), number("eth0"), 3),
            hop(Some("10.0.1.1"), number("eth1"), 1),
        ];
        route(&kernel, ([0; 4], 0), &hops);
        let flow = |n: u16| ip4().src("10.0.0.9").dst("20.0.0.1").udp(n, 53).bytes();
        let flows: Vec<_> = (0..2000).map(flow).collect();
        bench.push("c", &flows);
        let (first, second) = (bench.take("eth0"), bench.take("eth1"));
        assert!((1400..1600).contains(&first.len()), "{}", first.len());
        assert_eq!(first.len() + second.len(), 2000);
        bench.push("c", &flows);
        assert_eq!((bench.take("eth0"), bench.take("eth1")), (first, second));
    }

    #[test]
    fn ip6_is_looked_up_alike() {
        let text = "c :: CheckIP6Header -> rt :: LinuxIP6Lookup(eth0);
            rt[0] -> local :: Collect; rt[1] -> kernel :: Collect; rt[2] -> eth0 :: Collect";
        let mut bench = Bench::new(crate::with_basics(), text);
        let kernel = bench.router_wide::<Kernel>();
        let routes = kernel.routes6().expect("memory");
        let eth0 = kernel.interface("eth0").expect("room").number();
        let group = routes
            .add_group(&[hop(Some("fe80::9"), eth0, 1)])
            .expect("an id");
        let prefix = Prefix::new([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 32);
        routes.apply(&[(prefix, Some(group))]).expect("room");
        let to = |dst: &str| ip6().src("2001:db8::9").dst(dst).udp(1, 2).bytes();
        bench.push(
            "c",
            &["2001:db8::7", "2002::1", "fe80::1", "ff02::5"].map(to),
        );
        assert_eq!(bench.take("local"), [to("fe80::1"), to("ff02::5")]);
        assert_eq!(bench.take("kernel"), [to("2002::1")]);
        let out = bench.take_packets("eth0");
        let next: Vec<IpAddr> = out.iter().map(|p| IpAddr::from(p.anno.dst6())).collect();
        assert_eq!(next, ["fe80::9".parse::<IpAddr>().expect("an address")]);
    }

    #[test]
    fn handlers_name_interfaces() {
        let (mut bench, kernel) = bench();
        let number = |name| kernel.interface(name).expect("room").number();
        let hops = [
            hop(Some("10.0.0.1"), number("eth0"), 1),
            hop(Some("10.0.1.1"), number("eth1"), 2),
        ];
        route(&kernel, ([20, 0, 0, 0], 8), &hops);
        route(&kernel, ([10, 0, 0, 1], 32), &[hop(None, LOCAL, 1)]);
        assert_eq!(bench.read("rt.length"), "2");
        assert_eq!(
            bench.read("rt.table"),
            "10.0.0.1/32\t\t-\t\tlocal\n20.0.0.0/8\t\t10.0.0.1\teth0 | 10.0.1.1 eth1 WEIGHT 2\n"
        );
        assert_eq!(
            bench.try_read("rt.lookup", "20.1.1.1").expect("an answer"),
            "10.0.0.1 eth0 | 10.0.1.1 eth1 WEIGHT 2"
        );
        assert_eq!(
            bench.try_read("rt.lookup", "10.0.0.1").expect("an answer"),
            "- local"
        );
        assert_eq!(
            bench.try_read("rt.lookup", "30.0.0.1").expect("an answer"),
            "-1"
        );
        let groups = bench.read("rt.groups");
        assert!(
            groups.contains(" 1 10.0.0.1 eth0 | 10.0.1.1 eth1 WEIGHT 2\n"),
            "{groups}"
        );
    }

    #[test]
    fn mistakes_are_refused_with_the_remedy() {
        let errors = |text: &str| testkit::errors(crate::with_basics(), text);
        let text = "Idle -> CheckIPHeader -> rt :: LinuxIPLookup(eth0, eth0); rt[0], rt[1], rt[2], rt[3] -> Discard";
        assert!(
            errors(text).contains("`eth0` is named twice"),
            "{}",
            errors(text)
        );
        let text =
            "Idle -> CheckIPHeader -> rt :: LinuxIPLookup(a/b); rt[0], rt[1], rt[2] -> Discard";
        assert!(
            errors(text).contains("cannot be an interface"),
            "{}",
            errors(text)
        );
        let text = "Idle -> CheckIPHeader -> rt :: LinuxIPLookup(eth0); rt[0], rt[1] -> Discard";
        assert!(!errors(text).is_empty(), "eth0's output is missing");
    }
}
