//! Limits the rate of each IPv4 host: thousands of customers in one element.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> p :: HostPolicer(10Mbps, 10.1.0.0/16 50Mbps, 10.1.2.3 100Mbps 200000)
//!     -> Discard;
//! ```
//!
//! Each source address has its own token bucket, which all workers share. A packet for which there are not enough
//! tokens leaves by output 1, or is dropped (`over_rate`) if output 1 is not connected. A prefix may have another
//! rate than the rest. The longest prefix that contains an address counts, and each of its addresses has its own
//! bucket of this rate.
//!
//! A host occupies an entry in the table from its first packet until its bucket is full again. If more than CAPACITY
//! hosts send at a time, those without an entry share a few buckets. So forged addresses gain nothing.
//!
//! Rates change while packets pass, and `ashlar save` keeps them:
//!
//! ```text
//! ashlar set p.set "10.1.2.4 20Mbps"
//! ashlar set p.remove 10.1.2.4
//! ashlar show p.rates
//! ashlar show p.hosts
//! ```
//!
//! Arguments:
//!
//! - `RATE`: bandwidth of every host, counted in bytes from the network header on.
//! - `HOST`, any number of: `PREFIX RATE [BURST]`.
//! - `BURST`: bytes at once. Default: what comes in 100 ms, at least 16384.
//! - `DST`: if true, the hosts are those that packets go to. Default false.
//! - `PREFIX`: bits of an address that make a host: 24 gives each network of 256 addresses one bucket. Default 32.
//! - `CAPACITY`: hosts that send at a time. Default 65536.

use super::hosts::Hosts;
use crate::prelude::*;
use arguments::text_file::lines;
use arguments::units::{Bandwidth, Capacity, FromArg};
use engine::publish::{Published, domain};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::marker::PhantomData;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use sync::Lock;
use tables::bucket::Rate;

drops! {
    OVER = "over_rate",
    NO_HEADER = "no_header",
}

/// Difference between IPv4 and IPv6. A host is the first bits of an address, from the highest bit of a word on.
pub(crate) trait Family: Send + Sync + 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    const NEEDS: &'static [Facts];
    /// The bits of an address that a host may have.
    const BITS: u8;
    fn host(header: &[u8], dst: bool) -> Option<u64>;
    fn read(address: &str) -> Option<u64>;
    fn show(host: u64) -> String;
}

pub(crate) struct Four;

impl Family for Four {
    const CLASS: &'static str = "HostPolicer";
    const MANUAL: &'static str = manual!();
    const NEEDS: &'static [Facts] = &[Facts::IP4];
    const BITS: u8 = 32;

    #[inline]
    fn host(header: &[u8], dst: bool) -> Option<u64> {
        let at = if dst { 16 } else { 12 };
        let bytes: &[u8; 4] = header.get(at..)?.first_chunk()?;
        Some(u64::from(u32::from_be_bytes(*bytes)) << 32)
    }

    fn read(address: &str) -> Option<u64> {
        let address: Ipv4Addr = address.parse().ok()?;
        Some(u64::from(address.to_bits()) << 32)
    }

    fn show(host: u64) -> String {
        Ipv4Addr::from_bits((host >> 32) as u32).to_string()
    }
}

/// A bandwidth and the bytes at once, if they are said.
type Allowance = (Bandwidth, Option<u64>);
/// Allowances by prefix: its length and its bits.
type Rates = BTreeMap<(u8, u64), Allowance>;

/// Rates for packets: for each length of prefixes, from the longest on.
struct HostRates {
    default_rate: Rate,
    lengths: Vec<(u64, HashMap<u64, Rate>)>,
}

impl HostRates {
    fn new(rest: Allowance, burst: Option<u64>, rates: &Rates) -> HostRates {
        let mut lengths: Vec<(u64, HashMap<u64, Rate>)> = Vec::new();
        for ((length, prefix), allowance) in rates.iter().rev() {
            let (mask, rate) = (mask(*length), rate(*allowance, burst));
            match lengths.last_mut().filter(|(last, _)| *last == mask) {
                Some((_, same)) => {
                    same.insert(*prefix, rate);
                }
                None => lengths.push((mask, HashMap::from([(*prefix, rate)]))),
            }
        }
        let default_rate = rate(rest, burst);
        HostRates {
            default_rate,
            lengths,
        }
    }

    #[inline]
    fn rate(&self, address: u64) -> &Rate {
        let mut lengths = self.lengths.iter();
        let own = lengths.find_map(|(mask, rates)| rates.get(&(address & mask)));
        own.unwrap_or(&self.default_rate)
    }
}

fn mask(length: u8) -> u64 {
    u64::MAX.checked_shl(64 - u32::from(length)).unwrap_or(0)
}

fn rate((rate, own): Allowance, burst: Option<u64>) -> Rate {
    let usual = || (rate.0 / 10).max(16_384);
    Rate::new(rate.0, own.or(burst).unwrap_or_else(usual))
}

pub(crate) struct Config {
    known: Published<HostRates>,
    rates: Lock<Rates>,
    configured: Rates,
    rest: Allowance,
    burst: Option<u64>,
    dst: bool,
    mask: u64,
    hosts: std::sync::OnceLock<Hosts>,
    capacity: usize,
    /// The time of the last packets.
    now: AtomicU64,
}

impl Config {
    fn hosts(&self) -> &Hosts {
        self.hosts.get_or_init(|| Hosts::new(self.capacity))
    }

    fn rates(&self) -> std::sync::MutexGuard<'_, Rates> {
        self.rates.lock()
    }

    /// Carries out lines, all or none. The error names the line.
    fn change<F: Family>(&self, text: &str) -> Result<String, (usize, String)> {
        let mut rates = self.rates();
        let mut next = rates.clone();
        for (number, line) in lines(text) {
            let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let done = match command {
                "set" => host::<F>(rest).map(|(prefix, rate)| {
                    next.insert(prefix, rate);
                }),
                "remove" => {
                    prefix::<F>(rest.trim()).and_then(|prefix| match next.remove(&prefix) {
                        Some(_) => Ok(()),
                        None => Err(format!("{} has no rate of its own", rest.trim())),
                    })
                }
                _ => Err(format!(
                    "unknown command `{command}`: there are set and remove"
                )),
            };
            done.map_err(|wrong| (number, wrong))?;
        }
        self.known
            .replace(HostRates::new(self.rest, self.burst, &next));
        *rates = next;
        Ok(String::new())
    }

    fn run_command<F: Family>(&self, command: &str, value: &str) -> Result<String, String> {
        let value = value.trim();
        if value.contains('\n') {
            return Err(format!("`{command}` takes one line; `ctrl` takes several"));
        }
        self.change::<F>(&format!("{command} {value}"))
            .map_err(|(_, wrong)| wrong)
    }

    fn changes<F: Family>(&self) -> String {
        let (now, mut text) = (self.rates(), String::new());
        for prefix in self
            .configured
            .keys()
            .filter(|prefix| !now.contains_key(prefix))
        {
            let _ = writeln!(text, "remove {}", shown::<F>(*prefix));
        }
        for (prefix, rate) in now
            .iter()
            .filter(|(p, rate)| self.configured.get(p) != Some(rate))
        {
            let _ = writeln!(text, "set {}", line::<F>(*prefix, *rate));
        }
        text
    }
}

fn shown<F: Family>((length, host): (u8, u64)) -> String {
    match length == F::BITS && length == 32 {
        true => F::show(host),
        false => format!("{}/{length}", F::show(host)),
    }
}

fn line<F: Family>(prefix: (u8, u64), (rate, burst): Allowance) -> String {
    let burst = burst.map(|burst| format!(" {burst}")).unwrap_or_default();
    format!("{} {}{burst}", shown::<F>(prefix), rate.unparse())
}

fn prefix<F: Family>(text: &str) -> Result<(u8, u64), String> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, length.parse().ok()),
        None => (text, Some(F::BITS)),
    };
    let length = length.filter(|length| *length <= F::BITS);
    let (Some(address), Some(length)) = (F::read(address), length) else {
        let example = format!("an address, or a prefix of at most {} bits", F::BITS);
        return Err(format!("`{text}` should be {example}"));
    };
    Ok((length, address & mask(length)))
}

/// Reads `PREFIX RATE [BURST]`.
fn host<F: Family>(text: &str) -> Result<((u8, u64), Allowance), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let ([to, rate] | [to, rate, _]) = words[..] else {
        return Err(format!("`{text}` should be `PREFIX RATE [BURST]`"));
    };
    let names = arguments::names_of_call();
    let burst = words
        .get(2)
        .map(|burst| u64::from_arg(burst, &names).map_err(|e| format!("BURST {e}")));
    let rate = Bandwidth::from_arg(rate, &names).map_err(|wrong| format!("RATE {wrong}"))?;
    Ok((prefix::<F>(to)?, (rate, burst.transpose()?)))
}

pub(crate) struct HostPolicer<F: Family> {
    family: PhantomData<F>,
    config: Arc<Config>,
}

impl<F: Family> Element for HostPolicer<F> {
    const CONTRACT: Contract = Contract::new(F::CLASS, F::MANUAL)
        .ports(Ports::coded(&["in"], &["out", "over?"], "a/ah"))
        .needs(F::NEEDS)
        .drops(DROPS)
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let rest: Bandwidth = args.required("RATE", "bandwidth of every host");
        let burst: Option<u64> = args.key_maybe("BURST", "bytes at once");
        let dst = args.key(
            "DST",
            false,
            "true if the hosts are those that packets go to",
        );
        let bits = "bits of an address that make a host";
        let bits = args.key_in("PREFIX", F::BITS, 1..=F::BITS, bits);
        let capacity = args
            .key("CAPACITY", Capacity(65_536), "hosts that send at a time")
            .0;
        let mut rates = Rates::new();
        for arg in args.rest("HOST", "PREFIX RATE [BURST]", "a rate of its own") {
            match host::<F>(&arg.words().join(" ")) {
                Ok((prefix, rate)) => {
                    rates.insert(prefix, rate);
                }
                Err(wrong) => args.error(&arg, wrong),
            }
        }
        let rest = (rest, None);
        Config {
            known: Published::new(domain(), HostRates::new(rest, burst, &rates)),
            configured: rates.clone(),
            rates: Lock::new(rates),
            rest,
            burst,
            dst,
            mask: mask(bits),
            hosts: std::sync::OnceLock::new(),
            capacity,
            now: AtomicU64::new(0),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> HostPolicer<F> {
        // A configuration that is only planned takes no memory.
        config.hosts();
        HostPolicer {
            family: PhantomData,
            config: Arc::clone(config),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let (config, bytes) = (&*self.config, packet.network());
        let Some(address) = F::host(bytes, config.dst) else {
            return Verdict::drop(NO_HEADER);
        };
        let now = cx.now().0;
        config.now.store(now, Relaxed);
        let rate = config.known.read(cx.reader()).rate(address);
        match config
            .hosts()
            .take(address & config.mask, rate, now, bytes.len() as u64)
        {
            true => Verdict::ON,
            false => Verdict::reject(OVER, 1),
        }
    }

    const HANDLERS: &'static [Handler<HostPolicer<F>>] = &[
        Handler::shared(
            "rates",
            "a line for each prefix with a rate of its own",
            |config: &Config, _| {
                let rates = config.rates();
                Ok(rates
                    .iter()
                    .map(|(p, rate)| line::<F>(*p, *rate) + "\n")
                    .collect())
            },
        ),
        Handler::shared(
            "hosts",
            "hosts that send now: their rate, and packets over it",
            |config: &Config, _| {
                let (rates, rest) = (config.rates(), (config.rest.0, config.burst));
                // Search by prefix length, since there may be thousands of prefixes and hosts.
                let lengths: BTreeSet<u8> = rates.keys().map(|(length, _)| *length).collect();
                let own = |host| {
                    let mut longest = lengths.iter().rev();
                    let own =
                        longest.find_map(|length| rates.get(&(*length, host & mask(*length))));
                    own.copied().unwrap_or(rest)
                };
                let busy = config.hosts().busy(config.now.load(Relaxed)).into_iter();
                let rows = busy.map(|(host, over)| {
                    format!("{} {} {over}\n", F::show(host), own(host).0.unparse())
                });
                Ok(rows.collect())
            },
        ),
        Handler::shared(
            "changes",
            "lines of `ctrl` that make of the configured rates those that there are: `ashlar save` keeps them",
            |config: &Config, _| Ok(config.changes::<F>()),
        ),
        Handler::action(
            "set",
            "`PREFIX RATE [BURST]`: gives hosts a rate of their own",
            |config: &Config, v| config.run_command::<F>("set", v),
        ),
        Handler::action(
            "remove",
            "`PREFIX`: these hosts have the rate of every host again",
            |config: &Config, v| config.run_command::<F>("remove", v),
        ),
        Handler::action(
            "ctrl",
            "set and remove lines: all are carried out, or none",
            |config: &Config, v| {
                config
                    .change::<F>(v)
                    .map_err(|(line, wrong)| format!("line {line}: {wrong}"))
            },
        ),
    ];
}

#[cfg(test)]
mod tests {
    use crate::ip4::tests::ip;
    use testkit::Bench;

    const TEXT: &str =
        "c :: CheckIPHeader -> p :: HostPolicer(8kbps, 10.0.1.0/24 16kbps 2000, BURST 1000)
        -> a :: Collect; p[1] -> b :: Collect";

    /// Packets of 100 bytes.
    fn from(third: u8, last: u8) -> Vec<u8> {
        ip([10, 0, third, last], [2, 2, 2, 2], &[0; 80])
    }

    #[test]
    fn each_host_has_its_own_bucket_at_the_rate_of_its_longest_prefix() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        let flood: Vec<_> = (0..30)
            .flat_map(|_| [from(0, 1), from(0, 2), from(1, 3)])
            .collect();
        bench.push("c", &flood);
        let passed = bench.take("a");
        let of = |packet: &Vec<u8>| passed.iter().filter(|p| *p == packet).count();
        assert_eq!(
            (of(&from(0, 1)), of(&from(0, 2)), of(&from(1, 3))),
            (10, 10, 20)
        );
        assert_eq!(bench.take("b").len(), 50);
        let hosts = bench.read("p.hosts");
        assert_eq!(
            hosts,
            "10.0.0.1 8kbps 20\n10.0.0.2 8kbps 20\n10.0.1.3 16kbps 10\n"
        );
    }

    #[test]
    fn rates_change_while_packets_pass_and_can_be_kept() {
        let mut bench = Bench::new(crate::CLASSES, TEXT);
        assert_eq!(
            (&*bench.read("p.changes"), &*bench.read("p.rates")),
            ("", "10.0.1.0/24 16kbps 2000\n")
        );
        bench.write("p.set", "10.0.0.1 80kbps 3000");
        bench.write("p.remove", "10.0.1.0/24");
        assert_eq!(
            bench.read("p.changes"),
            "remove 10.0.1.0/24\nset 10.0.0.1 80kbps 3000\n"
        );
        bench.push("c", &vec![from(0, 1); 40]);
        assert_eq!(bench.take("a").len(), 30);
        for (value, part) in [
            ("set 10.0.0.1", "should be `PREFIX RATE [BURST]`"),
            ("set 10.0.0.1/33 1Mbps", "prefix of at most 32 bits"),
            ("set 10.0.0.1 fast", "RATE"),
            ("remove 10.9.0.0/16", "has no rate of its own"),
            ("add 10.0.0.1 1Mbps", "unknown command `add`"),
        ] {
            let wrong = bench
                .try_write("p.ctrl", &format!("set 10.7.0.0/16 1Mbps\n{value}"))
                .unwrap_err();
            assert!(
                wrong.starts_with("line 2: ") && wrong.contains(part),
                "{wrong}"
            );
        }
        assert_eq!(bench.read("p.rates"), "10.0.0.1 80kbps 3000\n");
    }

    #[test]
    fn hosts_that_find_no_place_share_what_is_left() {
        let text = "c :: CheckIPHeader -> p :: HostPolicer(8kbps, BURST 1000, CAPACITY 64) -> a :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        let many: Vec<_> = (0..16)
            .flat_map(|third| (0..=255).map(move |last| from(third, last)))
            .collect();
        bench.push("c", &many);
        let passed = bench.take("a").len();
        // One packet of each host with an entry, and ten from each of 16 shared buckets.
        assert!((64..=64 + 160).contains(&passed), "{passed}");
        assert_eq!(bench.drops("p", "over_rate") as usize, many.len() - passed);
    }
}
