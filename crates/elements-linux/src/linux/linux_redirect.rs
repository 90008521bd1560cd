//! Makes the kernel send redirects to hosts that have a better next hop on their own link.
//!
//! ```click
//! FromDevice(null:64) -> Paint(0) -> Strip(14) -> CheckIPHeader -> back :: LinuxRedirect(0) -> Discard;
//! back[1] -> Discard;     // to the kernel
//! ```
//!
//! Put it first of the elements by which packets leave an interface. A packet with the interface's own paint is about
//! to leave by the interface by which it came. A few of these packets leave by output 1, as exceptions: the kernel
//! forwards them, and sends a redirect to their source if that is a host of the link and its settings want so
//! (`net.ipv4.conf.*.send_redirects`; RFC 1812, 5.2.7.2, and RFC 4861, 8.2). All others leave by output 0.
//!
//! Arguments:
//!
//! - `COLOR`: the interface's paint.
//!
//! Keyword arguments:
//!
//! - `RATE`: packets per second for the kernel, by this element; 0 = no limit. Default 10.
//! - `BURST`: such packets at once. Default 10. As many more are for hosts that want few, so that no host keeps
//!   redirects from others.

use crate::prelude::*;
use elements::rate_limit::Limit;

const EXCEPTION: Verdict = Verdict::out(1);

pub(crate) struct Config {
    color: u8,
    limit: Limit,
}

pub(crate) struct LinuxRedirect {
    config: Arc<Config>,
    color: u8,
    count: u64,
    exceptions: u64,
}

/// The part of a packet's source that distinguishes the hosts of a link.
fn host(packet: &Packet) -> u64 {
    let packet = packet.network();
    match packet.first().map(|first| first >> 4) {
        Some(4) => packet.get(12..16),
        _ => packet.get(16..24),
    }
    .map_or(0, |source| {
        source
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    })
}

impl Element for LinuxRedirect {
    const CONTRACT: Contract = Contract::new("LinuxRedirect", manual!())
        .ports(Ports::new(&["in"], &["out", "exception"]))
        .carries_super_frames();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        Config {
            color: args.required("COLOR", "the interface's paint"),
            limit: Limit::own(args, 10, 10, elements::secret(cfg!(test))),
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> LinuxRedirect {
        LinuxRedirect {
            config: Arc::clone(config),
            color: config.color,
            count: 0,
            exceptions: 0,
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    fn inherit(config: &mut Config, old: &Config) {
        config.limit.inherit(&old.limit);
    }

    const HANDLERS: &'static [Handler<LinuxRedirect>] = &[
        counter!(
            "count",
            "packets that left by the interface by which they came",
            count
        ),
        counter!("exceptions", "those of them for the kernel", exceptions),
        Handler::shared(
            "rate",
            "packets per second and at once for the kernel",
            |config: &Config, _| Ok(config.limit.show()),
        ),
    ];
}

impl Fuse for LinuxRedirect {
    /// A packet of another interface.
    #[inline]
    fn fast(&self, _: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let color = self.color;
        #[inline(always)]
        move |packet| (packet.anno().paint != color).then_some(Verdict::ON)
    }

    fn slow(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        if packet.anno().paint != self.color {
            return Verdict::ON;
        }
        self.count += 1;
        if !self.config.limit.take(host(packet), cx) {
            return Verdict::ON;
        }
        self.exceptions += 1;
        EXCEPTION
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, ip4, ip6};

    const TEXT: &str =
        "a :: Paint(1) -> c :: MarkIPHeader -> r :: LinuxRedirect(1, RATE 1, BURST 2)
            -> out :: Collect; r[1] -> kernel :: Collect; b :: Paint(2) -> c";

    #[test]
    fn some_packets_that_go_back_are_the_kernels_and_no_others() {
        let mut bench = Bench::new(crate::with_basics(), TEXT);
        let packet = ip4().src("10.0.0.9").dst("10.0.0.7").udp(1, 2).bytes();
        for _ in 0..20 {
            bench.push("b", std::slice::from_ref(&packet));
        }
        assert_eq!(
            (bench.take("out").len(), bench.take("kernel").len()),
            (20, 0)
        );
        for _ in 0..20 {
            bench.push("a", std::slice::from_ref(&packet));
        }
        let (out, kernel) = (bench.take("out").len(), bench.take("kernel").len());
        assert!(out + kernel == 20 && (2..=3).contains(&kernel), "{kernel}");
        assert_eq!(bench.read("r.count"), "20");
        assert_eq!(bench.read("r.exceptions"), kernel.to_string());
    }

    #[test]
    fn a_host_that_does_not_listen_keeps_no_redirects_from_others() {
        let mut bench = Bench::new(crate::with_basics(), TEXT);
        let from = |n: u8| {
            ip4()
                .src(format!("10.0.0.{n}"))
                .dst("10.0.0.7")
                .udp(1, 2)
                .bytes()
        };
        bench.push("a", &vec![from(9); 50]);
        bench.take("kernel");
        bench.push("a", &[from(10)]);
        assert_eq!(bench.take("kernel"), [from(10)]);
        // The same for IPv6, with its own class.
        let mut bench = Bench::new(
            crate::with_basics(),
            &TEXT.replace("MarkIPHeader", "CheckIP6Header"),
        );
        let from = |n: u8| {
            ip6()
                .src(format!("2001:db8::{n}"))
                .dst("2001:db8::99")
                .udp(1, 2)
                .bytes()
        };
        bench.push("a", &vec![from(9); 50]);
        bench.take("kernel");
        bench.push("a", &[from(10)]);
        assert_eq!(bench.take("kernel"), [from(10)]);
    }
}
