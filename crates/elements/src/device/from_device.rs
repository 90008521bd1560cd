//! Receives packets from a port.
//!
//! ```click
//! FromDevice(null:64, BURST 16) -> Discard;
//! ```
//!
//! The port's receive queues are distributed over workers. Each of these workers has a copy of all elements
//! downstream of FromDevice, up to the next Queue. Without `CORES` the port has one queue for each worker, if the
//! device has that many.
//!
//! By AF_PACKET, TCP arrives in super-frames of up to 64 KiB if its sender leaves segmentation to its device (GSO).
//! Where a path to another port leads through elements that support super-frames, each is one packet and counts as
//! one. It is segmented before an element without this support, and before a port that cannot send it. `ashlar plan`
//! names the elements that bring super-frames; with `--no-optimize` all are segmented on arrival.
//!
//! Arguments:
//!
//! - `DEVICE`: the port: a Linux interface, a PCI address, `pcap:FILE`, `tap:NAME`, `memif:...`, `vhost:...`,
//!   `ring:NAME`, `null:LENGTH` or a DPDK device.
//! - `PROMISC`: true to receive frames for other stations, too. Default false.
//!
//! Keyword arguments:
//!
//! - `CORES`: workers that receive, such as `0-3`.
//! - `QUEUES`: receive queues to open: at least one for each worker that receives, at most as many as the
//!   device has. Default is one for each worker that receives.
//! - `CLASSIFY`: method to spread packets over the workers, on any port: `hash`, `address`, `flow`, `prefix` or
//!   `program`, followed by its arguments. `WORKERS` among them names the workers that get packets; default is all.
//!   It stands for a BucketBy element and a Steer after this element; see docs/queues.md. The port itself also does
//!   what it can of this, so that fewer packets change worker (see the handler `rss`). Default is none: packets stay
//!   on the worker that receives them.
//! - `BURST`: packets taken from a queue at a time (kp of RouteBricks, Table 1). Default 64, or 32 if no element
//!   downstream reads annotations (`ashlar plan` shows it). It is reduced beside other routers if packets take long.
//! - `DESCRIPTORS`: frames that each queue holds. Default is the port's.
//! - `TIMESTAMP`: true if packets get the time at which they are taken from the port as their timestamp.
//!   Default false, but true in `ashlar click`.
//! - `YIELD`: true to poll the port less often while many of its packets are lost at full outputs and none
//!   go elsewhere (VR7). The excess is then lost in the port. Default true, but false in `ashlar click`.
//!
//! - `FORCE_IP`: true if only IPv4 packets pass, with their network header annotation set; others are dropped
//!   (`not_ip`). Default false.
//! - `PROTOCOL`: the only Ethertype that passes, with `METHOD LINUX`; others are dropped (`other_protocol`). Default 0:
//!   all pass.
//!
//! Further keywords of Click's FromDevice are accepted. `METHOD`, `SNAPLEN`, `HEADROOM` and `ENCAP` may request only
//! what FromDevice does anyway. `SNIFFER` (the kernel gets the packets of its interfaces, too) may only be true, and
//! `OUTBOUND` and `BPF_FILTER` may only be off or empty. `ashlar click` accepts other values with a warning.

use super::fill_level::Fill;
use super::frame_filter::{self, FrameFilter};
use super::poll_interval::PollInterval;
use super::rss::Rss;
use super::rx_queues::{Owners, Queues};
use crate::prelude::*;
use arguments::units::Cores;
use engine::external::{self, External, OverflowLosses};
use lang::Severity;
use std::marker::PhantomData;
use std::os::fd::RawFd;
use steer::{Misdelivered, PortTable, Receives, ReceivesOfClass, RxQueues, Table};

pub(crate) struct Config {
    pub(super) device: String,
    pub(super) cores: Option<Cores>,
    pub(super) queues: Option<usize>,
    /// Burst size in packets; `None` for a size that suits the plan.
    pub(super) burst: Option<usize>,
    pub(super) descriptors: usize,
    pub(super) promiscuous: bool,
    /// Part of CLASSIFY that the port can perform. The elements for the other part are inserted before planning.
    pub(super) rss: Option<Arc<Rss>>,
    /// True if packets get timestamps; `None` to follow the emulated driver.
    pub(super) timestamp: Option<bool>,
    /// True if the port is polled less often while all its packets are lost.
    pub(super) yields: bool,
    pub(super) owners: Arc<Owners>,
    /// Filter of frames; `None` for all.
    pub(super) only: Option<FrameFilter>,
}

impl PortTable for Config {
    fn table(&self) -> Option<&Arc<Table>> {
        self.rss.as_ref().map(|rss| rss.table())
    }

    fn misdelivered(&self) -> Vec<Misdelivered> {
        let rss = self.rss.as_ref();
        rss.map_or_else(Vec::new, |rss| rss.misdelivered(&self.owners.by_worker()))
    }

    fn redirect(&self, buckets: &[Misdelivered]) -> Result<(), String> {
        match &self.rss {
            Some(rss) => rss.redirect(buckets, self.owners.by_worker()),
            None => Err("nothing is asked of the port".into()),
        }
    }

    fn is_done(&self) -> bool {
        let rss = self.rss.as_ref();
        rss.is_none_or(|rss| rss.is_done())
    }

    fn tell_again(&self) -> Result<(), String> {
        match &self.rss {
            Some(rss) => rss.tell_again(),
            None => Err("nothing is asked of the port".into()),
        }
    }
}

/// Argument style, in which FromDevice and FromDPDKDevice differ.
pub(crate) trait Style: 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    fn configure(args: &mut Args) -> Config;
}

/// Argument style of FromDevice.
pub(crate) struct Click;

impl Style for Click {
    const CLASS: &'static str = "FromDevice";
    const MANUAL: &'static str = manual!();

    fn configure(args: &mut Args) -> Config {
        let device: String = args.required("DEVICE", "the port");
        let doc = "true to receive frames for other stations";
        let promiscuous = args.optional("PROMISC", false, doc);
        args.maybe::<u32>("SNAPLEN", "accepted, and without effect");
        let only = of_click(args);
        let rss = Rss::configure(args, &device);
        Config {
            device,
            cores: args.key_maybe("CORES", "workers that receive"),
            queues: args.key_maybe("QUEUES", "receive queues to open"),
            burst: args.key_maybe("BURST", "packets taken from a queue at a time"),
            descriptors: args.key(
                "DESCRIPTORS",
                0,
                "frames that each queue holds; 0 = the port's default",
            ),
            rss,
            promiscuous,
            timestamp: args.key_maybe("TIMESTAMP", "true if packets get the time"),
            yields: args.key("YIELD", true, "true to poll less while outputs overflow"),
            owners: Arc::default(),
            only,
        }
    }
}

/// Parses Click's additional keywords: frame filters, and options that are not supported.
fn of_click(args: &mut Args) -> Option<FrameFilter> {
    let method = args.key_maybe::<String>("METHOD", "accepted, and without effect");
    args.key_maybe::<u32>("HEADROOM", "accepted, and without effect");
    args.key_maybe::<String>("ENCAP", "accepted, and without effect");
    let sniffer = args.key("SNIFFER", true, "the kernel sees the packets too");
    let force_ip = args.key("FORCE_IP", false, "true if only IPv4 packets pass");
    let outbound = args.key("OUTBOUND", false, "must be false");
    let protocol = args.key("PROTOCOL", 0u16, "the only Ethertype that passes");
    let filter: Option<String> = args.key_maybe("BPF_FILTER", "must be empty");
    let asked = [
        (
            !sniffer,
            "SNIFFER",
            "filter what the kernel takes by nftables",
        ),
        (outbound, "OUTBOUND", "put a Tee before the ToDevice"),
        (
            filter.is_some_and(|f| !f.is_empty()),
            "BPF_FILTER",
            "put an IPFilter behind it",
        ),
    ];
    for (_, keyword, help) in asked.iter().filter(|a| a.0) {
        let wrong = format!("{keyword} is not supported");
        match args.as_click {
            true => args.report(Severity::Warning, format!("{wrong}; {help}")),
            false => args.error_in_whole(wrong, *help),
        }
    }
    let method = method.is_some_and(|method| method.eq_ignore_ascii_case("LINUX"));
    FrameFilter::new(force_ip, (method && protocol != 0).then_some(protocol))
}

pub(crate) struct FromDevice<S = Click> {
    style: PhantomData<S>,
    queues: Queues,
    poll_interval: Option<PollInterval>,
    fill: Fill,
    /// Number of packets received in the last run.
    last_run_packets: u64,
    burst: usize,
    timestamp: bool,
    /// True if no element reads annotations, so that the port initialises none.
    bare: bool,
    /// True if elements downstream accept GSO super-frames.
    whole: bool,
    only: Option<FrameFilter>,
    /// Batch for a poll; empty between polls.
    batch: Batch,
    count: u64,
    bytes: u64,
}

impl<S: Style> Element for FromDevice<S> {
    const CONTRACT: Contract = Contract::new(S::CLASS, S::MANUAL)
        .ports(Ports::coded(&[], &["out"], "/h"))
        .gives(&[Facts::ETHER])
        .drops(frame_filter::DROPS)
        .runs(Runs::AsTask)
        .extensions(
            const {
                &[
                    &resources::of::<Self>(),
                    &external::of::<Self>(),
                    &ReceivesOfClass::of::<Self>(),
                    &steer::ROUTER,
                ]
            },
        )
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        S::configure(args)
    }

    fn new(config: &Arc<Config>, init: &Init) -> FromDevice<S> {
        let queues = Queues::new(&config.device, &config.owners, init);
        if let (Some(rss), Some(port)) = (&config.rss, init.ports.get(&config.device)) {
            rss.add_copy(&port.port, || config.owners.by_worker());
        }
        let timestamp = config.timestamp.unwrap_or(init.as_click());
        FromDevice {
            style: PhantomData,
            queues,
            poll_interval: (config.yields && !init.as_click()).then(PollInterval::default),
            fill: Fill::default(),
            last_run_packets: 0,
            burst: config.burst.unwrap_or(crate::burst::burst(init)).max(1),
            timestamp,
            bare: init.bare && !timestamp && config.only.is_none(),
            whole: init.super_frames,
            only: config.only,
            batch: Batch::new(),
            count: 0,
            bytes: 0,
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        if self.queues.is_empty() {
            // Another worker receives from the port; a handler wakes this task if that changes.
            return Did::End;
        }
        if let Some(poll_interval) = &mut self.poll_interval
            && let Some(until) = poll_interval.pause_end(cx.now())
        {
            self.last_run_packets = 0;
            cx.set_timer(until);
            return Did::Sleep;
        }
        let (mut came, mut has_more, burst) = (0, false, cx.at_most(self.burst));
        cx.run_to_completion(0, &mut self.batch, |batch, cx| {
            let bare = self.bare && !cx.watched();
            let received = self.queues.receive(|queue| match (bare, self.whole) {
                (true, _) => queue.receive_bare(batch, burst),
                (_, true) => queue.receive_whole(batch, burst),
                _ => queue.receive(batch, burst),
            });
            self.count += received as u64;
            self.bytes += batch.bytes();
            if self.timestamp {
                let now = cx.timestamp();
                let each = batch.iter_mut();
                each.for_each(|packet| packet.cold_mut().timestamp = now);
            }
            if let Some(only) = self.only {
                only.filter(batch, cx);
            }
            came += received;
            has_more = received >= burst;
            has_more
        });
        self.fill.polled(has_more, &self.queues, cx);
        self.last_run_packets = came as u64;
        match came {
            0 if self.queues.has_ended() => Did::End,
            0 => Did::Nothing,
            _ => Did::Work,
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        cx.wake_self();
    }

    fn inherit(config: &mut Config, old: &Config) {
        if config.device == old.device
            && let (Some(rss), Some(old)) = (&mut config.rss, &old.rss)
        {
            rss.inherit(old);
        }
        let same = (&config.device, &config.cores, config.queues);
        if same == (&old.device, &old.cores, old.queues) {
            config.owners = Owners::inherit(&old.owners);
        }
    }

    const HANDLERS: &'static [Handler<FromDevice<S>>] = &[
        counter!("count", "packets received", count),
        counter!("byte_count", "bytes received", bytes),
        Handler::text(
            "kernel_drops",
            "packets that the kernel lost; ?? as that is not known here",
            |_, _| Ok("??".into()),
        ),
        Handler::text("encap", "first header of packets: ETHER", |_, _| {
            Ok("ETHER".into())
        }),
        Handler::shared(
            "rss",
            "which part of CLASSIFY the port does by itself",
            |config: &Config, _| {
                let none = || "nothing is asked of the port".into();
                Ok(config.rss.as_ref().map_or_else(none, |s| s.show()))
            },
        ),
        Handler::action(
            "rss",
            "makes the port's own table and rules match Steer's, without reordering, and tries refused rules again",
            |config: &Config, _| config.tell_again().map(|()| String::new()),
        ),
        Handler::show("burst", "packets taken from a queue at a time", |e| {
            &e.burst
        }),
        Handler::set("set_burst", "changes BURST, 1 to 1024", |e, value, _| {
            e.burst = arguments::units::parse_in(value, 1..=1024)?;
            Ok(())
        }),
        Handler::shared(
            "queue_owners",
            "which worker polls: a line for each queue, its number and its worker",
            |c: &Config, _| Ok(c.owners.show()),
        ),
        Handler::action(
            "queue_owners",
            "makes a worker poll a queue: QUEUE WORKER",
            |_, _| Err("queues move only while workers run".into()),
        ),
        Handler::text(
            "rest",
            "microseconds between two polls while outputs overflow",
            |e, _| {
                Ok(e.poll_interval
                    .as_ref()
                    .map_or(0, |p| p.pause().as_micros())
                    .to_string())
            },
        ),
        Handler::sum(
            "rests",
            "number of pauses between polls because outputs overflow",
            |e| e.poll_interval.as_ref().map_or(0, PollInterval::count),
        ),
        Handler::set("reset_counts", "counts from zero again", |e, _, _| {
            (e.count, e.bytes) = (0, 0);
            Ok(())
        }),
    ];
}

impl<S: Style> Resources for FromDevice<S> {
    fn placement(config: &Config) -> Placement {
        Placement {
            workers: config.cores.as_ref().map(|c| c.0.clone()),
            device: Some(Device {
                name: config.device.clone(),
                receives: true,
                queues: config.queues,
                descriptors: config.descriptors,
                promiscuous: config.promiscuous,
                notes: config.timestamp == Some(true),
            }),
            ..Placement::default()
        }
    }
}

impl<S: Style> External for FromDevice<S> {
    fn overflowed(&mut self, fate: OverflowLosses, cx: &mut Cx) {
        if let Some(poll_interval) = &mut self.poll_interval {
            poll_interval.record_run(self.last_run_packets, fate, cx.now());
        }
    }

    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        self.queues.wait_fds(fds);
    }

    fn must_poll(&self) -> bool {
        self.queues.must_poll()
    }
}

impl<S: Style> Receives for FromDevice<S> {
    fn owners(config: &Config) -> Vec<(usize, usize)> {
        config.owners.all()
    }

    fn port_table(config: &Arc<Config>) -> Option<Arc<dyn PortTable>> {
        config.rss.as_ref()?;
        Some(Arc::clone(config) as _)
    }

    fn queues(&mut self) -> &mut dyn RxQueues {
        &mut self.queues
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn clicks_driver_warns_of_unsupported_arguments_and_runs() {
        let text = "FromDevice(null:64, SNIFFER false, OUTBOUND true, BPF_FILTER udp) -> Discard";
        let mut map = lang::SourceMap::new();
        let file = map.add("test.click", text);
        let (router, _) = lang::parse(&mut map, file, &[]);
        let options = planner::Options {
            as_click: true,
            ..planner::Options::new(1, &engine::port::NoPorts)
        };
        let registry = planner::Registry::new(crate::CLASSES);
        let (_, said) = planner::compile(&router, &registry, &options);
        let said: Vec<_> = said
            .iter()
            .filter(|d| d.message.contains("not supported"))
            .collect();
        assert!(
            said.len() == 3 && said.iter().all(|d| !d.is_error()),
            "{said:?}"
        );
    }

    #[test]
    fn only_what_is_asked_for_passes() {
        let frame = |kind: u16, body: &[u8]| {
            let mut frame = vec![0; 12];
            frame.extend(kind.to_be_bytes());
            frame.extend(body);
            frame
        };
        let ip = crate::ip4::tests::ip([1, 1, 1, 1], [2, 2, 2, 2], b"");
        let frames = [
            frame(0x800, &ip),
            frame(0x806, &[0; 28]),
            frame(0x800, b"x"),
        ];
        for (only, kept) in [
            ((true, None), 1),
            ((false, Some(0x806)), 1),
            ((true, Some(0x806)), 0),
        ] {
            let only = super::FrameFilter::new(only.0, only.1).expect("something is asked");
            let judged = frames.iter().filter(|frame| {
                let mut packet = engine::packet::Packet::from_bytes(frame).expect("it fits");
                only.matches(&mut packet)
            });
            assert_eq!(judged.count(), kept, "{only:?}");
        }
        assert_eq!(super::FrameFilter::new(false, None), None);
    }

    #[test]
    fn keywords_of_click_that_ask_for_more_are_refused_with_the_remedy() {
        let errors = testkit::errors(crate::CLASSES, "FromDevice(x, BPF_FILTER udp) -> Discard");
        assert!(errors.contains("BPF_FILTER is not supported"), "{errors}");
        assert!(errors.contains("IPFilter"), "{errors}");
        let known =
            "FromDevice(x, SNIFFER true, METHOD PCAP, SNAPLEN 100, OUTBOUND false) -> Discard";
        for text in [known, "FromDevice(x, 1, 2000) -> Discard"] {
            let errors = testkit::errors(crate::CLASSES, text);
            let taken = !errors.contains("not supported") && !errors.contains("argument");
            assert!(taken, "{errors}");
        }
    }
}
