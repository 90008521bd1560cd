//! Limits the rates of packets that go to the kernel, so that no flood starves the routing daemons.
//!
//! ```click
//! FromDevice(null:64) -> in :: LinuxInput(eth0, null:64) -> Discard;
//! in[1] -> ControlPlanePolicer(BGP 20000 4000, ICMP 100) -> ToDevice(null:);
//! ```
//!
//! Input 0 takes frames for the router itself, input 1 exceptions: packets that the kernel is to forward or to answer
//! with an error. Each frame has a class, and each class its own rate. Frames above the rate are dropped under the
//! class's name:
//!
//! - `arp_request`, `arp_reply`: ARP;
//! - `nd`, `nd_reply`: solicitations of Neighbour Discovery, and its other messages;
//! - `bfd`: UDP to port 3784, 3785 or 4784;
//! - `ospf`: IP protocol 89;
//! - `bgp`: TCP from or to port 179, except
//! - `syn`: TCP segments that open a connection, to any port;
//! - `icmp`: other ICMP and ICMPv6;
//! - `tunnel`: packets of tunnels that end in the kernel: IP in IP, GRE, ESP, AH, L2TP, and UDP to port 1701, 4500,
//!   4789, 6081, 8472 or 51820; and frames of input 1 that the kernel forwards by an interface that is no port, such as
//!   a tunnel's;
//! - `exception`: other frames of input 1;
//! - `other`: all other frames, such as ssh, LLDP, VRRP.
//!
//! Within a class, a source (the IP source address, else the Ethernet one) may use the part of the rate that others
//! do not use. But half of the burst is reserved for sources that use at most an eighth of the rate. So a source that
//! floods does not keep the others out. Limits are for the element as a whole, however many workers run it.
//!
//! Keyword arguments, each a rate in frames per second (0: none pass), optionally followed by the burst, in
//! frames (default: a fifth of the rate):
//!
//! - `ARP_REQUEST`: default 1000 200.
//! - `ARP_REPLY`: default 2000 400.
//! - `ND`: default 1000 200.
//! - `ND_REPLY`: default 2000 400.
//! - `BFD`: default 10000 2000.
//! - `OSPF`: default 10000 2000.
//! - `BGP`: default 50000 10000, a full table in a few seconds.
//! - `SYN`: default 500 100.
//! - `ICMP`: default 1000 200.
//! - `TUNNEL`: default 50000 10000, some 500 Mbit/s of long packets.
//! - `EXCEPTION`: default 1000 200.
//! - `OTHER`: default 5000 1000.

use super::policer_class::{self, Class, NAMES};
use crate::prelude::*;
use arguments::Names;
use arguments::units::FromArg;
use elements::secret;
use engine::publish::{Published, domain};
use tables::bucket::{FairBucket, FairRate};

const CLASSES: usize = NAMES.len();
const EXCEPTIONS: usize = 1;

/// Keyword and default limit of each class, in the order of the classes.
const DEFAULTS: [(&str, Allowance); CLASSES] = [
    ("ARP_REQUEST", Allowance(1000, 200)),
    ("ARP_REPLY", Allowance(2000, 400)),
    ("ND", Allowance(1000, 200)),
    ("ND_REPLY", Allowance(2000, 400)),
    ("BFD", Allowance(10_000, 2000)),
    ("OSPF", Allowance(10_000, 2000)),
    ("BGP", Allowance(50_000, 10_000)),
    ("SYN", Allowance(500, 100)),
    ("ICMP", Allowance(1000, 200)),
    ("TUNNEL", Allowance(50_000, 10_000)),
    ("EXCEPTION", Allowance(1000, 200)),
    ("OTHER", Allowance(5000, 1000)),
];

/// Rate in frames per second, and burst in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Allowance(u64, u64);

impl FromArg for Allowance {
    const KIND: &'static str = "frames per second, and at once if wanted";

    fn from_arg(raw: &str, names: &Names) -> Result<Allowance, String> {
        match *raw.split_whitespace().collect::<Vec<_>>() {
            [rate] => {
                let rate = u64::from_arg(rate, names)?;
                Ok(Allowance(rate, (rate / 5).max(1)))
            }
            [rate, burst] => Ok(Allowance(
                u64::from_arg(rate, names)?,
                u64::from_arg(burst, names)?,
            )),
            _ => Err(format!("must be {}", Self::KIND)),
        }
    }

    fn stand_in() -> Allowance {
        Allowance(0, 0)
    }

    fn unparse(&self) -> String {
        format!("{} {}", self.0, self.1)
    }
}

/// A limit's token-bucket parameters. Half of the burst is kept for sources with low rates.
struct Setting {
    allowance: Allowance,
    rate: FairRate,
}

impl Setting {
    fn new(allowance: Allowance) -> Setting {
        let Allowance(rate, burst) = allowance;
        Setting {
            allowance,
            rate: FairRate::new(rate, burst.div_ceil(2), burst / 2),
        }
    }
}

/// Limit of one class, shared by all workers.
struct Limit {
    configured: Allowance,
    setting: Published<Setting>,
    bucket: FairBucket,
}

impl Limit {
    fn new(allowance: Allowance) -> Limit {
        let setting = Setting::new(allowance);
        Limit {
            configured: allowance,
            bucket: FairBucket::new(&setting.rate, secret(cfg!(test))),
            setting: Published::new(domain(), setting),
        }
    }

    /// True if a frame from `source` is within the limit.
    #[inline]
    fn admit(&self, source: u64, cx: &Cx) -> bool {
        let setting = self.setting.read(cx.reader());
        self.bucket.take_at(source, &setting.rate, cx.now().0)
    }
}

pub(super) struct Config {
    limits: [Arc<Limit>; CLASSES],
}

impl Config {
    fn change(&self, rates: &[(usize, Allowance)]) -> Result<String, String> {
        for (class, allowance) in rates {
            let setting = Setting::new(*allowance);
            self.limits[*class].setting.replace(setting);
        }
        Ok(String::new())
    }

    fn changes(&self) -> String {
        let all = NAMES.iter().zip(&self.limits);
        let changed = all.filter_map(|(name, limit)| {
            let now = limit.setting.snapshot().allowance;
            (now != limit.configured).then(|| format!("{name} {}\n", now.unparse()))
        });
        changed.collect()
    }
}

/// Parses `CLASS RATE [BURST]`.
fn rate(line: &str) -> Result<(usize, Allowance), String> {
    let line = line.trim();
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let class = NAMES.iter().position(|class| *class == name);
    let class =
        class.ok_or_else(|| format!("`{name}` is no class; they are {}", NAMES.join(", ")))?;
    Ok((class, arguments::units::parse(rest)?))
}

pub(super) struct ControlPlanePolicer {
    config: Arc<Config>,
    passed: [u64; CLASSES],
}

impl ControlPlanePolicer {
    #[inline]
    fn verdict(&mut self, packet: &Packet, input: usize, cx: &Cx) -> Verdict {
        let (class, source) = policer_class::of(packet.data());
        let class = match input {
            EXCEPTIONS if packet.anno().kernel_forwards() => Class::Tunnel,
            EXCEPTIONS => Class::Exception,
            _ => class,
        } as usize;
        if self.config.limits[class].admit(source, cx) {
            self.passed[class] += 1;
            Verdict::ON
        } else {
            Verdict::drop(class as u8)
        }
    }
}

macro_rules! counts {
    ($($class:ident $name:literal),+) => {
        [$(Handler::sum($name, "frames of this class that passed", |e: &ControlPlanePolicer| {
            e.passed[Class::$class as usize]
        })),+]
    };
}

impl Element for ControlPlanePolicer {
    const CONTRACT: Contract = Contract::new("ControlPlanePolicer", manual!())
        .ports(Ports::coded(&["in", "exceptions?"], &["out"], "h/h"))
        .needs(&[Facts::ETHER])
        .drops(&NAMES);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let doc = "frames per second, and at once";
        Config {
            limits: DEFAULTS
                .map(|(name, default)| Arc::new(Limit::new(args.key(name, default, doc)))),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> ControlPlanePolicer {
        ControlPlanePolicer {
            config: Arc::clone(config),
            passed: [0; CLASSES],
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        cx.sort(batch, |packet, cx| self.verdict(packet, input, cx));
    }

    fn inherit(config: &mut Config, old: &Config) {
        for (limit, old) in config.limits.iter_mut().zip(&old.limits) {
            // Token counts and rates changed at run time survive a reload.
            if limit.configured == old.configured {
                *limit = Arc::clone(old);
            }
        }
    }

    fn take(&mut self, old: ControlPlanePolicer) {
        self.passed = old.passed;
    }

    const HANDLERS: &'static [Handler<ControlPlanePolicer>] = {
        const COUNTS: [Handler<ControlPlanePolicer>; CLASSES] = counts!(
            ArpRequest "arp_request", ArpReply "arp_reply", Nd "nd", NdReply "nd_reply", Bfd "bfd",
            Ospf "ospf", Bgp "bgp", Syn "syn", Icmp "icmp", Tunnel "tunnel", Exception "exception", Other "other"
        );
        let [a, b, c, d, e, f, g, h, i, j, k, l] = COUNTS;
        &[
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            j,
            k,
            l,
            Handler::shared(
                "rates",
                "a class per line: name, frames per second and at once",
                |config: &Config, _| {
                    let all = NAMES.iter().zip(&config.limits);
                    let line = |(name, limit): (&&str, &Arc<Limit>)| {
                        format!("{name} {}\n", limit.setting.snapshot().allowance.unparse())
                    };
                    Ok(all.map(line).collect())
                },
            ),
            Handler::action(
                "rate",
                "`CLASS RATE [BURST]`: changes a class's rate",
                |config: &Config, value| config.change(&[rate(value)?]),
            ),
            Handler::shared(
                "changes",
                "lines of `ctrl` that make of the configured rates those that there are: `ashlar save` keeps them",
                |config: &Config, _| Ok(config.changes()),
            ),
            Handler::action(
                "ctrl",
                "a class per line, as `rate` takes it: all are changed, or none",
                |config: &Config, value| {
                    let each = value.lines().filter(|line| !line.trim().is_empty());
                    config.change(&each.map(rate).collect::<Result<Vec<_>, _>>()?)
                },
            ),
        ]
    };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::{Bench, arp_request, ip4};

    const MAC: &str = "02:00:00:00:00:0a";

    fn bench(config: &str) -> Bench {
        let text = format!("p :: ControlPlanePolicer({config}) -> out :: Collect");
        Bench::new(crate::with_basics(), &text)
    }

    fn pings(from: &str, n: usize) -> Vec<Vec<u8>> {
        vec![ip4().src(from).icmp_echo(1, 1).ether(MAC, MAC).bytes(); n]
    }

    #[test]
    fn each_class_has_a_rate_of_its_own() {
        let mut bench = bench("ICMP 100 20, SYN 0");
        bench.push("p", &pings("10.0.0.1", 100));
        bench.push("p", &[arp_request(MAC, "10.0.0.9", "10.0.0.1")]);
        let mut syn = ip4().tcp(9, 22).ether(MAC, MAC).bytes();
        syn[14 + 20 + 13] = 2;
        bench.push("p", &[syn]);
        let (icmp, arp) = (bench.read("p.icmp"), bench.read("p.arp_request"));
        // Half of the burst is for all sources; of the rest a source has an eighth of the burst.
        assert_eq!((&*icmp, &*arp), ("12", "1"));
        assert_eq!(bench.take("out").len(), 13);
        assert_eq!((bench.drops("p", "icmp"), bench.drops("p", "syn")), (88, 1));
    }

    #[test]
    fn one_source_gets_the_whole_rate_if_nobody_else_wants_it() {
        let mut bench = bench("ICMP 1000 100");
        for _ in 0..200 {
            bench.push("p", &pings("10.0.0.1", 50));
            bench.advance(Duration::from_millis(10));
        }
        let passed = bench.take("out").len();
        assert!((2000..2100).contains(&passed), "{passed} in two seconds");
    }

    #[test]
    fn a_flood_does_not_keep_other_sources_out() {
        let mut bench = bench("ICMP 1000 100");
        let mut lost = 0;
        for turn in 0..200 {
            bench.push("p", &pings("10.0.0.1", 50));
            bench.take("out");
            if turn % 2 == 0 {
                // Fifty a second, less than an eighth.
                bench.push("p", &pings("10.0.0.2", 1));
                lost += usize::from(bench.take("out").is_empty());
            }
            bench.advance(Duration::from_millis(10));
        }
        assert_eq!(lost, 0);
    }

    #[test]
    fn exceptions_come_by_input_1_whatever_they_are() {
        let mut bench = Bench::new(
            crate::with_basics(),
            "Idle -> p :: ControlPlanePolicer(EXCEPTION 10 4, ICMP 0) -> out :: Collect; Idle -> [1] p",
        );
        bench.push_at("p", 1, &pings("10.0.0.1", 10));
        assert_eq!(bench.take("out").len(), 3);
        assert_eq!(bench.drops("p", "exception"), 7);
    }

    #[test]
    fn tunnels_have_a_rate_of_their_own_both_ways() {
        let text = "in :: Null -> p :: ControlPlanePolicer(TUNNEL 10 4, OTHER 0, EXCEPTION 0) -> out :: Collect;
            c :: CheckIPHeader -> rt :: LinuxIPLookup(eth0); rt[0], rt[2] -> Discard;
            rt[1] -> EtherEncap(0x0800, 02:00:00:00:00:0a, 02:00:00:00:00:0b) -> [1] p";
        let mut bench = Bench::new(crate::with_basics(), text);
        let kernel = bench.router_wide::<forwarding::Kernel>();
        let routes = kernel.routes4().expect("memory");
        let hop = forwarding::Member {
            gateway: None,
            port: forwarding::FORWARDED,
            labels: wire::mpls::Labels::NONE,
            weight: 1,
        };
        let group = routes.add_group(&[hop]).expect("an id");
        let prefix = forwarding::Prefix::new([10, 7, 0, 0], 16);
        routes.apply(&[(prefix, Some(group))]).expect("room");
        // Packets that the kernel is to forward by the tunnel; those without a route belong to no tunnel.
        let to = |dst| ip4().dst(dst).udp(1, 2).bytes();
        bench.push("c", &[to("10.7.0.1"), to("10.8.0.1")]);
        assert_eq!(
            (bench.take("out").len(), bench.drops("p", "exception")),
            (1, 1)
        );
        // Packets that come through tunnels.
        bench.push("in", &[ip4().proto(47).ether(MAC, MAC).bytes()]);
        bench.push(
            "in",
            &[
                ip4().udp(9, 4789).ether(MAC, MAC).bytes(),
                ip4().udp(9, 53).ether(MAC, MAC).bytes(),
            ],
        );
        assert_eq!(
            (bench.read("p.tunnel"), bench.drops("p", "other")),
            ("3".to_owned(), 1)
        );
    }

    #[test]
    fn rates_can_be_changed_and_a_reload_keeps_them() {
        let mut bench = bench("");
        assert!(bench.read("p.rates").contains("\nbgp 50000 10000\n"));
        assert_eq!(bench.read("p.changes"), "");
        bench.write("p.rate", "icmp 10");
        assert!(bench.read("p.rates").contains("\nicmp 10 2\n"));
        assert_eq!(bench.read("p.changes"), "icmp 10 2\n");
        bench.write("p.ctrl", "icmp 1000 200\ntunnel 7");
        assert_eq!(bench.read("p.changes"), "tunnel 7 1\n");
        assert!(bench.try_write("p.ctrl", "bgp 1\npng 1").is_err());
        assert_eq!(bench.read("p.changes"), "tunnel 7 1\n");
        bench.write("p.ctrl", "icmp 10 2\ntunnel 50000 10000");
        bench
            .reload("p :: ControlPlanePolicer(BGP 7) -> out :: Collect")
            .expect("sound");
        let rates = bench.read("p.rates");
        assert!(
            rates.contains("\nicmp 10 2\n") && rates.contains("\nbgp 7 1\n"),
            "{rates}"
        );
        let wrong = bench.try_write("p.rate", "ping 7").expect_err("no class");
        assert!(wrong.contains("arp_request, "), "{wrong}");
    }

    #[test]
    fn a_wrong_rate_is_refused() {
        let errors = testkit::errors(
            crate::with_basics(),
            "p :: ControlPlanePolicer(ICMP x) -> Discard",
        );
        assert!(errors.contains("ICMP"), "{errors}");
    }
}
