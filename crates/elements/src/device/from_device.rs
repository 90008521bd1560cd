//! Receives packets from a port.
//!
//! ```click
//! FromDevice(null:64, BURST 16) -> Discard;
//! ```
//!
//! The port's receive queues are dealt to workers, and everything behind FromDevice has a copy on
//! each of them, up to the next Queue. Without `CORES` the port gets one queue per worker, as far as
//! it has queues.
//!
//! Arguments:
//!
//! - `DEVICE`: the port: a Linux interface, a PCI address, `pcap:FILE`, `tap:NAME`, `memif:...`,
//!   `ring:NAME`, `null:LENGTH` or a DPDK device.
//!
//! Keyword arguments:
//!
//! - `CORES`: workers that receive, such as `0-3`.
//! - `QUEUES`: receive queues to open. Default is one per worker that receives.
//! - `BURST`: packets taken from a queue at a time (kp of RouteBricks, Table 1). Default 32.
//! - `DESCRIPTORS`: frames that each queue holds. Default is the port's.
//! - `PROMISC`: whether frames for other stations are wanted. Default false.

use crate::prelude::*;
use engine::port::{RxQueue, Slot};
use engine::units::Cores;
use std::marker::PhantomData;
use std::os::fd::RawFd;

pub(crate) struct Config {
    pub(super) device: String,
    pub(super) cores: Option<Cores>,
    pub(super) queues: Option<usize>,
    pub(super) burst: usize,
    pub(super) descriptors: usize,
    pub(super) promiscuous: bool,
}

/// A queue of the port: here, or still with the worker that had it before.
struct Owned {
    slot: Slot<Box<dyn RxQueue>>,
    queue: Option<Box<dyn RxQueue>>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            self.slot.give(queue);
        }
    }
}

/// What FromDevice and FromDPDKDevice differ in: their arguments.
pub(crate) trait Style: 'static {
    const CLASS: &'static str;
    const MANUAL: &'static str;
    fn configure(args: &mut Args) -> Config;
}

/// FromDevice's arguments.
pub(crate) struct Click;

impl Style for Click {
    const CLASS: &'static str = "FromDevice";
    const MANUAL: &'static str = manual!();

    fn configure(args: &mut Args) -> Config {
        Config {
            device: args.required("DEVICE", "the port"),
            cores: args.key_maybe("CORES", "workers that receive"),
            queues: args.key_maybe("QUEUES", "receive queues to open"),
            burst: args.key("BURST", 32, "packets taken from a queue at a time"),
            descriptors: args.key(
                "DESCRIPTORS",
                0,
                "frames that each queue holds; 0 = the port's default",
            ),
            promiscuous: args.key(
                "PROMISC",
                false,
                "whether frames for other stations are wanted",
            ),
        }
    }
}

pub(crate) struct FromDevice<S = Click> {
    style: PhantomData<S>,
    queues: Vec<Owned>,
    burst: usize,
    count: u64,
    bytes: u64,
}

impl<S: Style> Element for FromDevice<S> {
    const CLASS: &'static str = S::CLASS;
    const MANUAL: &'static str = S::MANUAL;
    const PORTS: Ports = Ports::coded(&[], &["out"], "/h");
    const GIVES: &'static [Facts] = &[Facts::ETHER];
    const RUNS: Runs = Runs::AsTask;

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        S::configure(args)
    }

    fn new(config: &Arc<Config>, init: &Init) -> FromDevice<S> {
        let port = init.ports.get(&config.device);
        let slots = port
            .iter()
            .flat_map(|p| init.queues.iter().filter_map(|&q| p.rx.get(q)));
        let queues = slots.map(|slot| Owned {
            slot: slot.clone(),
            queue: None,
        });
        FromDevice {
            style: PhantomData,
            queues: queues.collect(),
            burst: config.burst.max(1),
            count: 0,
            bytes: 0,
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        let mut batch = cx.spare();
        let mut received = 0;
        let mut ended = !self.queues.is_empty();
        for owned in &mut self.queues {
            let Some(queue) = owned.queue.as_mut() else {
                owned.queue = owned.slot.take();
                ended = false;
                continue;
            };
            received += queue.receive(&mut batch, self.burst);
            ended &= queue.ended();
        }
        self.count += received as u64;
        self.bytes += batch.bytes();
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        match received {
            0 if ended => Did::End,
            0 => Did::Nothing,
            _ => Did::Work,
        }
    }

    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        fds.extend(
            self.queues
                .iter()
                .filter_map(|q| q.queue.as_ref()?.wait_fd()),
        );
    }

    fn must_poll(&self) -> bool {
        self.queues
            .iter()
            .any(|q| q.queue.as_ref().is_none_or(|q| q.wait_fd().is_none()))
    }

    fn take(&mut self, old: FromDevice<S>) {
        (self.count, self.bytes) = (old.count, old.bytes);
    }

    fn placement(config: &Config) -> Placement {
        Placement {
            workers: config.cores.as_ref().map(|c| c.0.clone()),
            device: Some(Device {
                name: config.device.clone(),
                receives: true,
                queues: config.queues,
                descriptors: config.descriptors,
                promiscuous: config.promiscuous,
            }),
            assigns: Vec::new(),
        }
    }

    const HANDLERS: &'static [Handler<FromDevice<S>>] = &[
        Handler::sum("count", "packets received", |e| e.count),
        Handler::sum("byte_count", "bytes received", |e| e.bytes),
        Handler::text("burst", "packets taken from a queue at a time", |e, _| {
            Ok(e.burst.to_string())
        }),
        Handler::set("set_burst", "changes BURST, 1 to 1024", |e, value, _| {
            e.burst = engine::units::parse_in(value, 1..=1024)?;
            Ok(())
        }),
        Handler::set("reset_counts", "counts from zero again", |e, _, _| {
            (e.count, e.bytes) = (0, 0);
            Ok(())
        }),
    ];
}
