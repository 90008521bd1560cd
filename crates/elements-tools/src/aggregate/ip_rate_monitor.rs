//! Measures traffic from and to IPv4 prefixes, in more detail where there is more traffic.
//!
//! ```click
//! FromDevice(eth0, CORES 0) -> Strip(14) -> CheckIPHeader
//!     -> rates :: IPRateMonitor(PACKETS, 1, 256, 600) -> Discard;
//! ```
//!
//! Packets of input 0 count for their source, those of input 1 for their destination; they leave by the output of the
//! same number. At first there is a pair of rates for each of the 256 networks of prefix length
//! 8. A network with more than `THRESH` a second, in either direction, gets a pair of rates for each of its 256
//! subnets of length 16, and these in turn for length 24 and 32, as far as `MEMORY` allows. When the memory is used up,
//! no network is split any further until `reset`; the handler `unsplit` counts packets for which one would have been.
//!
//! Arguments:
//!
//! - `TYPE`: `PACKETS` or `BYTES`.
//! - `RATIO`: share of the packets that are sampled, from 0 to 1. Each sampled packet also counts for the others:
//!   less work, but less exact.
//! - `THRESH`: rate above which a network is split into its subnets.
//! - `MEMORY`: maximum memory in KiB, at least 100; 0 is without limit. Default 65536, that is 64 MiB; with `ashlar
//!   click` 0, as in Click.
//! - `ANNO`: true if packets get the rates of the smallest measured network around their address, as
//!   annotations FWD_RATE and REV_RATE. Default true.
//!
//! There is one copy, which gets the traffic of all workers.

use crate::prelude::*;
use elements::basic::rate::Rate;
use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

drops! {
    NOT_IP = "not_ip",
}
/// Number of subnets into which a network is split.
const FAN: usize = 256;
/// Maximum depth: networks of length 32 have no subnets.
const DEEPEST: u32 = 3;
const KIB: usize = 1024;
/// Default memory limit, in KiB.
const MEMORY: u32 = 64 << 10;

pub(super) struct Config {
    bytes: bool,
    ratio: f64,
    thresh: u64,
    /// Memory limit in KiB; `None` for the default.
    memory: Option<u32>,
    anno: bool,
}

/// Rates of a network, and the block of its subnets.
#[derive(Clone, Copy, Default)]
struct Network {
    /// Rates to and from the network: input 0 counts sources (forward), input 1 destinations (reverse).
    rates: [Rate; 2],
    /// Index of the block of subnets; 0 for none, since block 0 is the whole address space.
    subnets: u32,
}

impl Network {
    fn per_second(&self, now: Time) -> [u64; 2] {
        self.rates.map(|rate| rate.per_second(now).round() as u64)
    }

    fn has_rate(&self, now: Time) -> bool {
        self.subnets != 0 || self.per_second(now) != [0, 0]
    }
}

/// Prefix whose networks are not split before a certain time.
struct Level {
    prefix: u32,
    level: u32,
    until: Time,
}

/// Measured rates, shared with handlers that need the current time.
struct Measured {
    /// Blocks of 256 networks; the first block is the whole address space.
    blocks: Vec<[Network; FAN]>,
    /// Maximum number of blocks.
    blocks_max: usize,
    /// Number of packets in networks that were not split for lack of memory.
    unsplit: u64,
    levels: Vec<Level>,
    since: Time,
}

impl Measured {
    fn new(memory: u32) -> Measured {
        Measured {
            blocks: vec![[Network::default(); FAN]],
            blocks_max: match memory {
                0 => u32::MAX as usize,
                kib => kib.max(100) as usize * KIB / size_of::<[Network; FAN]>(),
            },
            unsplit: 0,
            levels: Vec::new(),
            since: Time(0),
        }
    }

    /// True if the network of `level` around an address may be split.
    fn may_expand(&mut self, address: u32, level: u32, now: Time) -> bool {
        if level >= DEEPEST {
            return false;
        }
        self.levels.retain(|l| l.until > now);
        let within =
            |l: &Level| l.level <= level && (l.prefix ^ address) >> (24 - 8 * l.level) == 0;
        let wanted = !self.levels.iter().any(within);
        let fits = self.blocks.len() < self.blocks_max;
        self.unsplit += u64::from(wanted && !fits);
        wanted && fits
    }

    /// Counts an event for an address. Returns both rates of the most specific network.
    fn count(
        &mut self,
        config: &Config,
        address: u32,
        (direction, amount): (usize, u64),
        now: Time,
    ) -> [u64; 2] {
        let (mut block, mut level) = (0usize, 0u32);
        loop {
            let subnet = (address >> (24 - 8 * level)) as usize % FAN;
            let network = &mut self.blocks[block][subnet];
            network.rates[direction].add(amount, now);
            if network.subnets != 0 {
                (block, level) = (network.subnets as usize, level + 1);
                continue;
            }
            let rates = network.per_second(now);
            let busy = rates.iter().any(|&r| r > config.thresh);
            if busy && self.may_expand(address, level, now) {
                self.blocks[block][subnet].subnets = self.blocks.len() as u32;
                self.blocks.push([Network::default(); FAN]);
            }
            return rates;
        }
    }

    fn reset(&mut self, now: Time) {
        self.blocks = vec![[Network::default(); FAN]];
        (self.since, self.unsplit) = (now, 0);
    }

    /// Text form of the networks with a rate, one per line: prefix, rate to it, rate from it.
    fn rates_text(&self, now: Time) -> String {
        let hundredths = now.since(self.since).as_millis() / 10;
        let mut text = format!("{hundredths}\n");
        self.look_into(0, 0, 0, now, &mut text);
        text
    }

    fn look_into(&self, block: usize, prefix: u32, level: u32, now: Time, text: &mut String) {
        for (i, network) in self.blocks[block].iter().enumerate() {
            if !network.has_rate(now) {
                continue;
            }
            let here = prefix | (i as u32) << (24 - 8 * level);
            let octets = here.to_be_bytes().map(|o| o.to_string());
            let name = octets[..=level as usize].join(".");
            let [from, to] = network.per_second(now);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}\t{to}\t{from}");
            if network.subnets != 0 {
                self.look_into(network.subnets as usize, here, level + 1, now, text);
            }
        }
    }

    /// Parses `ADDRESS LEVEL SECONDS`, and prevents splits in that network for this time.
    fn hold(&mut self, text: &str, now: Time) -> Result<(), String> {
        let wrong = || "write ADDRESS LEVEL SECONDS, with LEVEL from 0 to 3".to_owned();
        let words: Vec<&str> = text.split_whitespace().collect();
        let [address, level, seconds] = words[..] else {
            return Err(wrong());
        };
        let address: std::net::Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let level = level.parse().ok().filter(|l| *l <= DEEPEST);
        let level = level.ok_or_else(wrong)?;
        let seconds: u32 = seconds.parse().map_err(|_| wrong())?;
        self.levels.push(Level {
            prefix: address.to_bits(),
            level,
            until: now + std::time::Duration::from_secs(seconds.into()),
        });
        Ok(())
    }
}

pub(super) struct IPRateMonitor {
    config: Arc<Config>,
    measured: Rc<RefCell<Measured>>,
}

impl Element for IPRateMonitor {
    const CONTRACT: Contract = Contract::new("IPRateMonitor", manual!())
        .ports(Ports::coded(&["from", "to?"], &["from", "to?"], "h/h"))
        .needs(&[Facts::IP4])
        .drops(DROPS)
        .copies(Copies::One);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let kind: String = args.required("TYPE", "PACKETS or BYTES");
        let kind = kind.to_ascii_uppercase();
        let ratio: f64 = args.required("RATIO", "share of the packets that are counted");
        let thresh = args.required("THRESH", "rate above which a network is split");
        let memory = args.maybe("MEMORY", "most memory, in KiB; 0 is without limit");
        let anno = args.optional("ANNO", true, "true if packets carry the rates");
        if !matches!(kind.as_str(), "PACKETS" | "BYTES" | "") {
            args.error_in_whole(
                format!("TYPE must be PACKETS or BYTES, not `{kind}`"),
                "it says what is counted",
            );
        }
        let sound = ratio > 0.0 && ratio <= 1.0;
        if !(sound || kind.is_empty()) {
            args.error_in_whole(
                format!("RATIO must be above 0 and at most 1, not {ratio}"),
                "1 counts every packet",
            );
        }
        Config {
            bytes: kind == "BYTES",
            ratio,
            thresh,
            memory,
            anno,
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> IPRateMonitor {
        let usual = if init.as_click() { 0 } else { MEMORY };
        let measured = Measured::new(config.memory.unwrap_or(usual));
        IPRateMonitor {
            config: Arc::clone(config),
            measured: Rc::new(RefCell::new(measured)),
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        self.measured.borrow_mut().since = cx.now();
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        let config = &*self.config;
        let mut measured = self.measured.borrow_mut();
        batch.split(
            cx,
            |packet, cx| {
                let Ok(ip) = wire::Ipv4::new_checked(packet.network()) else {
                    return Verdict::drop(NOT_IP);
                };
                let address = if input == 0 { ip.src() } else { ip.dst() };
                let amount = if config.bytes {
                    ip.total_len() as u64
                } else {
                    1
                };
                let out = Verdict::out(input as u8); // 0 or 1
                if config.ratio < 1.0
                    && f64::from(cx.random()) >= config.ratio * f64::from(u32::MAX)
                {
                    return out;
                }
                let amount = (amount as f64 / config.ratio).round() as u64;
                let rates = measured.count(config, address.to_bits(), (input, amount), cx.now());
                if config.anno {
                    let rates = rates.map(|r| u32::try_from(r).unwrap_or(u32::MAX));
                    packet.cold_mut().set_rates(rates);
                }
                out
            },
            |packet, verdict, cx| cx.send(packet, verdict),
        );
    }

    fn take(&mut self, old: IPRateMonitor) {
        let most = self.measured.borrow().blocks_max;
        self.measured = old.measured;
        self.measured.borrow_mut().blocks_max = most;
    }

    const HANDLERS: &'static [Handler<IPRateMonitor>] = &[
        Handler::ask(
            "look",
            "1/100 s since the reset; then PREFIX, rate to it, rate from it",
            |e, _| {
                let measured = Rc::clone(&e.measured);
                Box::new(move |cx| Ok(measured.borrow().rates_text(cx.now())))
            },
        ),
        Handler::shared(
            "thresh",
            "rate above which a network is split",
            |c: &Config, _| Ok(c.thresh.to_string()),
        ),
        Handler::sum(
            "unsplit",
            "packets of networks that memory did not allow to split",
            |e| e.measured.borrow().unsplit,
        ),
        Handler::set("reset", "forgets all rates", |e, _, cx| {
            e.measured.borrow_mut().reset(cx.now());
            Ok(())
        }),
        Handler::set(
            "anno_level",
            "ADDRESS LEVEL SECONDS: measures nothing below that level around it for so long",
            |e, text, cx| e.measured.borrow_mut().hold(text, cx.now()),
        ),
    ];
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;
    use testkit::ip4;

    const TEXT: &str = "c :: CheckIPHeader -> m :: IPRateMonitor(packets, 1, 50) -> Discard;
        d :: CheckIPHeader -> [1] m; m[1] -> Collect";

    /// A hundred packets a second for two seconds, from each address.
    fn feed(bench: &mut Bench, input: &str, from: &[&str]) {
        for _ in 0..200 {
            bench.advance(Duration::from_millis(10));
            let packets: Vec<_> = from.iter().map(|a| ip4().src(a).dst("192.0.2.1")).collect();
            let packets: Vec<_> = packets.into_iter().map(|p| p.udp(1, 2).bytes()).collect();
            bench.push(input, &packets);
        }
    }

    #[test]
    fn busy_networks_are_looked_into_down_to_hosts() {
        let mut bench = Bench::new(crate::with_basics(), TEXT);
        feed(&mut bench, "c", &["10.1.2.3"]);
        let look = bench.read("m.look");
        let names: Vec<_> = look.lines().skip(1).map(|l| l.split('\t').next()).collect();
        let all = ["10", "10.1", "10.1.2", "10.1.2.3"].map(Some);
        assert_eq!(names, all, "{look}");
        let last: Vec<_> = look
            .lines()
            .last()
            .unwrap_or_default()
            .split('\t')
            .collect();
        let rate: u64 = last[2].parse().expect("a rate");
        assert!((80..=120).contains(&rate), "{look}");
        assert_eq!(last[1], "0", "nothing went there");
        bench.write("m.reset", "");
        assert_eq!(bench.read("m.look").lines().count(), 1);
    }

    #[test]
    fn quiet_networks_are_not_looked_into_and_destinations_count_apart() {
        let mut bench = Bench::new(crate::with_basics(), &TEXT.replace("50", "500"));
        feed(&mut bench, "d", &["10.1.2.3"]);
        let look = bench.read("m.look");
        let line = look.lines().nth(1).unwrap_or_default();
        assert!(line.starts_with("192\t") && line.ends_with("\t0"), "{look}");
        assert_eq!(look.lines().count(), 2, "{look}");
    }

    #[test]
    fn memory_and_levels_bound_what_is_looked_into() {
        let text = TEXT.replace("50", "50, 100");
        let mut bench = Bench::new(crate::with_basics(), &text);
        let many: Vec<String> = (1..40).map(|i| format!("{i}.1.1.1")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        feed(&mut bench, "c", &many);
        // 100 KiB have room for a few blocks, so most stay at length 8.
        let deep = bench
            .read("m.look")
            .lines()
            .filter(|l| l.contains('.'))
            .count();
        assert!((1..8).contains(&deep), "{deep}");

        let mut bench = Bench::new(crate::with_basics(), TEXT);
        bench.write("m.anno_level", "10.1.0.0 1 100");
        feed(&mut bench, "c", &["10.1.2.3"]);
        let look = bench.read("m.look");
        assert!(
            look.contains("\n10.1\t") && !look.contains("10.1.2"),
            "{look}"
        );
    }

    #[test]
    fn networks_that_memory_does_not_allow_to_split_are_counted() {
        let mut bench = Bench::new(crate::with_basics(), &TEXT.replace("50)", "50, 100)"));
        feed(
            &mut bench,
            "c",
            &["10.1.2.3", "11.1.2.3", "12.1.2.3", "13.1.2.3"],
        );
        assert_ne!(bench.read("m.unsplit"), "0");
        bench.write("m.reset", "");
        assert_eq!(bench.read("m.unsplit"), "0");
        let mut bench = Bench::new(crate::with_basics(), TEXT);
        feed(
            &mut bench,
            "c",
            &["10.1.2.3", "11.1.2.3", "12.1.2.3", "13.1.2.3"],
        );
        assert_eq!(bench.read("m.unsplit"), "0");
    }
}
