//! Sends router advertisements, from which the hosts of a link learn their router and prefixes.
//!
//! ```click
//! ra :: IP6RouterAdvertiser(fe80::1, 02:00:00:00:00:01, 2001:db8:1::/64)
//!   -> Queue -> ToDevice(null:64);
//! FromDevice(null:64) -> Strip(14) -> CheckIP6Header -> ra;
//! ```
//!
//! Router advertisements leave as Ethernet frames to all nodes, at random times between a third of `INTERVAL`
//! and all of it, the first three at most 16 seconds apart (RFC 4861, 6.2.4). Input 0, which may stay
//! unconnected, takes router solicitations as IPv6 packets. After a valid solicitation the next advertisement
//! is sent within half a second, but never less than three seconds after the last one (6.2.6). The solicitation
//! leaves by output 1, for IP6NDSolicitor to learn from, or ends here (`answered`).
//!
//! All workers share the schedule; one of them sends. From prefixes of 64 bits hosts make addresses of their
//! own (RFC 4862).
//!
//! Arguments:
//!
//! - `IP6`: the router's link-local address on the link.
//! - `ETHER`: its Ethernet address.
//! - `PREFIX`: prefixes of the link; any number of them.
//!
//! Keyword arguments:
//!
//! - `INTERVAL`: maximum time between advertisements, 4s to 1800s. Default 600s.
//! - `LIFETIME`: time for which hosts use this router as a default router; 0, or INTERVAL to 9000s. Default
//!   1800s.
//! - `HOPS`: hop limit for hosts; 0 = not sent. Default 64.
//! - `MTU`: MTU of the link; 0 = not sent. Default 0.
//! - `VALID`: time for which prefixes are valid. Default 30 days.
//! - `PREFERRED`: time for which addresses made from them are preferred. Default 7 days.
//! - `MANAGED`: true if DHCPv6 gives addresses. Default false.
//! - `OTHER`: true if DHCPv6 gives other information. Default false.

use super::nd;
use crate::prelude::*;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use wire::{EtherAddr, Prefix6, addr};

drops! {
    ANSWERED = "answered",
    BAD_MESSAGE = "bad_message",
}

/// MIN_DELAY_BETWEEN_RAS, MAX_RA_DELAY_TIME, MAX_INITIAL_RTR_ADVERT_INTERVAL and
/// MAX_INITIAL_RTR_ADVERTISEMENTS of RFC 4861, 10.
const MIN_BETWEEN: Duration = Duration::from_secs(3);
const MAX_DELAY: Duration = Duration::from_millis(500);
const INITIAL_INTERVAL: Duration = Duration::from_secs(16);
const INITIAL: u64 = 3;
const DAY: Duration = Duration::from_secs(86_400);

pub(super) struct Config {
    ip: Ipv6Addr,
    ether: EtherAddr,
    interval: Duration,
    message: Vec<u8>,
    schedule: Arc<Schedule>,
}

/// Times of sending, shared by all cores.
#[derive(Default)]
struct Schedule {
    /// Time of the next advertisement.
    next: AtomicU64,
    /// Earliest permitted time of the next advertisement: `MIN_BETWEEN` after the last one.
    open: AtomicU64,
    sent: AtomicU64,
}

pub(super) struct IP6RouterAdvertiser {
    config: Arc<Config>,
    started: bool,
    count: u64,
}

/// A time up to `limit`.
fn some_of(limit: Duration, cx: &mut Cx) -> Duration {
    limit.mul_f64(f64::from(cx.random()) / f64::from(u32::MAX))
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// The fixed part of the message, the sender's address and the MTU (RFC 4861, 4.2 and 4.6).
fn header(args: &mut Args, ether: EtherAddr, lifetime: Duration) -> Vec<u8> {
    let hops: u8 = args.key("HOPS", 64, "hop limit for hosts; 0 = not sent");
    let managed = args.key("MANAGED", false, "true if DHCPv6 gives addresses");
    let other = args.key("OTHER", false, "true if DHCPv6 gives other information");
    let mtu: u32 = args.key("MTU", 0, "MTU of the link; 0 = not sent");
    let flags = u8::from(managed) << 7 | u8::from(other) << 6;
    let mut all = vec![wire::nd::ROUTER_ADVERT, 0, 0, 0, hops, flags];
    all.extend((seconds(lifetime) as u16).to_be_bytes());
    all.extend([0; 8]);
    all.extend([wire::nd::OPT_SOURCE, 1]);
    all.extend(ether.0);
    if mtu != 0 {
        all.extend([wire::nd::OPT_MTU, 1, 0, 0]);
        all.extend(mtu.to_be_bytes());
    }
    all
}

/// A prefix information option (RFC 4861, 4.6.2).
fn option(prefix: Prefix6, valid: Duration, preferred: Duration) -> [u8; 32] {
    let autonomous = if prefix.len() == 64 { 0x40 } else { 0 };
    let mut all = [0; 32];
    all[..4].copy_from_slice(&[wire::nd::OPT_PREFIX, 4, prefix.len(), 0x80 | autonomous]);
    all[4..8].copy_from_slice(&seconds(valid).to_be_bytes());
    all[8..12].copy_from_slice(&seconds(preferred).to_be_bytes());
    all[16..].copy_from_slice(&prefix.addr().octets());
    all
}

impl IP6RouterAdvertiser {
    /// Sends an advertisement if one is due and no other core does it.
    fn send_if_due(&mut self, cx: &mut Cx) {
        let Config { schedule, .. } = &*self.config;
        let (due, now) = (schedule.next.load(Relaxed), cx.now());
        if now.0 < due {
            return cx.set_timer(Time(due));
        }
        let interval = match schedule.sent.load(Relaxed) + 1 < INITIAL {
            true => self.config.interval.min(INITIAL_INTERVAL),
            false => self.config.interval,
        };
        let next = now + interval / 3 + some_of(interval * 2 / 3, cx);
        cx.set_timer(next);
        let mine = schedule
            .next
            .compare_exchange(due, next.0, Relaxed, Relaxed);
        if mine.is_ok() {
            schedule.open.store((now + MIN_BETWEEN).0, Relaxed);
            schedule.sent.fetch_add(1, Relaxed);
            self.send(cx);
        }
    }

    fn send(&mut self, cx: &mut Cx) {
        let (config, all) = (&*self.config, addr::ALL_NODES);
        let link = (config.ether, EtherAddr::multicast6(all));
        // Without a free buffer this advertisement is skipped.
        if let Some(frame) = nd::frame(link, config.ip, all, &config.message) {
            self.count += 1;
            cx.emit(0, frame);
        }
    }

    fn asked(&self, cx: &mut Cx) {
        let schedule = &self.config.schedule;
        let soon = cx.now() + some_of(MAX_DELAY, cx);
        let at = soon.0.max(schedule.open.load(Relaxed));
        schedule.next.fetch_min(at, Relaxed);
        cx.set_timer(Time(at));
    }
}

impl Element for IP6RouterAdvertiser {
    const CONTRACT: Contract = Contract::new("IP6RouterAdvertiser", manual!())
        .ports(Ports::coded(&["in?"], &["out", "solicitations?"], "h/h"))
        .needs(&[Facts::IP6])
        .gives(&[Facts::ETHER, Facts::IP6])
        .drops(DROPS)
        .runs(Runs::AsTask);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let (ip, ether) = (
            args.required("IP6", "the router's link-local address"),
            args.required("ETHER", "the router's Ethernet address"),
        );
        let interval = args.key("INTERVAL", Duration::from_secs(600), "longest time between");
        let lifetime = args.key(
            "LIFETIME",
            Duration::from_secs(1800),
            "use as default router",
        );
        if !(4..=1800).contains(&interval.as_secs()) {
            args.error_in_whole(
                "INTERVAL must lie between 4s and 1800s",
                "see RFC 4861, 6.2.1",
            );
        }
        if !lifetime.is_zero() && !(interval..=Duration::from_secs(9000)).contains(&lifetime) {
            args.error_in_whole(
                "LIFETIME must be 0, or lie between INTERVAL and 9000s",
                "0 says that this is no default router (RFC 4861, 6.2.1)",
            );
        }
        let valid = args.key("VALID", 30 * DAY, "time for which a prefix is valid");
        let preferred = args.key(
            "PREFERRED",
            7 * DAY,
            "time for which its addresses are preferred",
        );
        let mut message = header(args, ether, lifetime);
        for arg in args.rest("PREFIX", "IPv6 prefixes", "prefixes of the link") {
            let prefix = args.value::<Prefix6>("PREFIX", &arg.unquoted(), &arg);
            message.extend(prefix.into_iter().flat_map(|p| option(p, valid, preferred)));
        }
        Config {
            ip,
            ether,
            interval,
            message,
            schedule: Arc::default(),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> IP6RouterAdvertiser {
        IP6RouterAdvertiser {
            config: Arc::clone(config),
            started: false,
            count: 0,
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        if !self.started {
            self.started = true;
            self.send_if_due(cx);
        }
        Did::Sleep
    }

    fn timer(&mut self, cx: &mut Cx) {
        self.send_if_due(cx);
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.drain() {
            let sound =
                nd::received(&packet).is_some_and(|r| r.nd.kind() == wire::nd::ROUTER_SOLICIT);
            if sound {
                self.asked(cx);
            }
            let verdict = match sound {
                true => Verdict::reject(ANSWERED, 1),
                false => Verdict::drop(BAD_MESSAGE),
            };
            cx.send(packet, verdict);
        }
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.schedule = Arc::clone(&old.schedule);
    }

    const HANDLERS: &'static [Handler<IP6RouterAdvertiser>] =
        &[counter!("count", "advertisements sent", count)];
}

#[cfg(test)]
mod tests {
    use super::super::testing::{a, both, checksum_holds, icmp6};
    use std::time::Duration;
    use testkit::Bench;
    use wire::nd::{Opt, PrefixInfo};
    use wire::{EtherAddr, Ipv6, Nd};

    const ROUTER: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
    const TEXT: &str = "ra :: IP6RouterAdvertiser(fe80::1, 02:00:00:00:00:01, 2001:db8:1::/64,
            2001:db8:2::/48, MTU 1400, INTERVAL 100s, LIFETIME 300s, OTHER true)
        -> out :: Collect; ra[1] -> on :: Collect";
    const SOLICIT: [u8; 16] = [133, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 9];

    /// Seconds between the advertisements of the next `span` seconds.
    fn gaps(bench: &mut Bench, span: u64) -> Vec<u64> {
        let mut gaps = Vec::new();
        let mut since = 0;
        for _ in 0..span {
            bench.advance(Duration::from_secs(1));
            since += 1;
            for _ in bench.take("out") {
                gaps.push(since);
                since = 0;
            }
        }
        gaps
    }

    #[test]
    fn the_advertisement_has_the_configured_values() {
        both(TEXT, |bench| {
            bench.run();
            let frame = bench.take("out").remove(0);
            assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
            let ip = Ipv6::new_checked(&frame[14..]).unwrap();
            assert!(checksum_holds(&frame[14..]));
            let nd = Nd::new_checked(ip.payload()).unwrap();
            assert!(
                nd.check_received(ip.src(), ip.dst(), ip.hop_limit())
                    .is_ok()
            );
            assert_eq!((nd.hop_limit(), nd.router_lifetime_secs()), (64, 300));
            assert_eq!(ip.payload()[5], 0x40);
            let prefix = |text: &str, autonomous| {
                Opt::Prefix(PrefixInfo {
                    prefix: text.parse().unwrap(),
                    on_link: true,
                    autonomous,
                    valid_secs: 2_592_000,
                    preferred_secs: 604_800,
                })
            };
            let options: Vec<_> = nd.options().collect();
            let expected = [
                Opt::Source(ROUTER),
                Opt::Mtu(1400),
                prefix("2001:db8:1::/64", true),
                prefix("2001:db8:2::/48", false),
            ];
            assert_eq!(options, expected);
            assert_eq!(ip.src(), a("fe80::1"));
        });
    }

    #[test]
    fn advertisements_come_at_random_times_more_often_at_first() {
        both(TEXT, |bench| {
            bench.run();
            assert_eq!(bench.take("out").len(), 1);
            let gaps = gaps(bench, 2000);
            assert!(gaps[..2].iter().all(|&g| g <= 17), "{gaps:?}");
            assert!(gaps[2..].iter().all(|g| (33..=101).contains(g)), "{gaps:?}");
            assert!(gaps[2..].iter().any(|&g| g != gaps[2]), "{gaps:?}");
        });
    }

    #[test]
    fn solicitations_are_answered_soon_at_a_limited_rate() {
        both(TEXT, |bench| {
            gaps(bench, 60);
            for _ in 0..10 {
                bench.push("ra", &[icmp6("fe80::9", "ff02::2", &SOLICIT)]);
            }
            bench.advance(Duration::from_millis(3500));
            assert_eq!(bench.take("out").len(), 1);
            assert_eq!(bench.take("on").len(), 10);
            bench.push("ra", &[icmp6("::", "ff02::2", &SOLICIT)]);
            bench.push(
                "ra",
                &[icmp6("fe80::9", "ff02::2", &[129, 0, 0, 0, 0, 0, 0, 0])],
            );
            assert_eq!(bench.drops("ra", "bad_message"), 2);
        });
    }

    #[test]
    fn times_out_of_range_are_refused() {
        for (words, said) in [
            ("INTERVAL 3s", "INTERVAL must lie between"),
            ("LIFETIME 100s", "LIFETIME must be 0"),
            ("LIFETIME 9001s", "LIFETIME must be 0"),
            ("10.0.0.0/8", "not `10.0.0.0/8`"),
        ] {
            let text =
                format!("IP6RouterAdvertiser(fe80::1, 02:00:00:00:00:01, {words}) -> Discard");
            let errors = testkit::errors(crate::CLASSES, &text);
            assert!(errors.contains(said), "{errors}");
        }
    }
}
