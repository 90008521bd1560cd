//! `conf/linux-mpls.click`, which has all of `conf/linux-router.click`, controlled by the model of a kernel: any
//! netlink messages, states of links and neighbours between any frames, on either walker. Whatever the kernel
//! reports, packets are forwarded, given to the kernel or dropped under a name.
//!
//! The first byte chooses the walker; then come records: a byte of flags, a length, and a frame or the kernel's
//! message.

use super::Choices;
use crate::whole::{Whole, conf};
use control::netlink::model::{Link, Model, Part, Source};
use engine::graph::Walker;
use forwarding::{Interface, Kernel, Neighbour};
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::netlink::{AF_INET, Event, messages};

/// Bit with the number of the port or link that the record is about.
const PORT: u8 = 1;
/// The router runs after this record; else frames gather into a burst.
const RUN: u8 = 2;
/// Time passes after this record.
const WAIT: u8 = 4;
/// The length counts in units of 8 bytes.
const LONG: u8 = 8;
/// The frame is sent to the router's own Ethernet address.
const TO_US: u8 = 16;
/// Kind of the record, in the upper bits: a frame for most values.
const NETLINK: u8 = 5;
const NEIGHBOUR: u8 = 6;
const LINK: u8 = 7;

/// Inputs that a router takes before it is replaced.
const INPUTS: u32 = 64;

/// A router, and the kernel that controls it.
struct Steered {
    router: Whole,
    kernel: Arc<Kernel>,
    eth: [Arc<Interface>; 2],
    model: Model,
    inputs: u32,
}

thread_local! {
    /// A router for each walker.
    static ROUTERS: RefCell<[Option<Steered>; 2]> = const { RefCell::new([None, None]) };
}

/// Feeds a router.
pub fn run(data: &[u8]) {
    let mut choices = Choices(&data[..data.len().min(16 << 10)]);
    let walker = usize::from(choices.byte() & 1);
    // A router that panics is not put back.
    let kept = ROUTERS.with_borrow_mut(|all| all[walker].take());
    let mut steered = kept.unwrap_or_else(|| Steered::new([Walker::Sweep, Walker::Strict][walker]));
    steered.feed(choices);
    if steered.inputs < INPUTS {
        ROUTERS.with_borrow_mut(|all| all[walker] = Some(steered));
    }
}

impl Steered {
    fn new(walker: Walker) -> Steered {
        let file = conf("linux-mpls.click");
        let text = std::fs::read_to_string(file).expect("it is part of the project");
        let router = Whole::new(&text, &[("DEV0", "port0"), ("DEV1", "port1")], walker);
        let kernel = router.router_wide::<Kernel>();
        let eth = [0, 1].map(|port| kernel.interface(&format!("eth{port}")).expect("room"));
        let mut steered = Steered {
            router,
            kernel,
            eth,
            model: Model::new(false),
            inputs: 0,
        };
        (0..2).for_each(|port| steered.link(port, true));
        steered
    }

    fn link(&mut self, port: usize, up: bool) {
        let eth = &self.eth[port];
        eth.set_state(up, [2, 0, 0, 0, 0, port as u8], 1500);
        let link = Link {
            number: Some(eth.number()),
            up,
            carrier: up,
        };
        eth.set_takes_labels(true);
        // The first is the loopback interface.
        self.model.link(2 + port as u32, Some(link));
    }

    fn feed(&mut self, mut choices: Choices) {
        self.inputs += 1;
        let before = engine::packet::pool::balance();
        while !choices.is_empty() {
            let flags = choices.byte();
            let length = usize::from(choices.byte()) << if flags & LONG != 0 { 3 } else { 0 };
            let bytes = choices.bytes(length);
            let port = usize::from(flags & PORT);
            match flags >> 5 {
                NETLINK => self.says(bytes),
                NEIGHBOUR => self.neighbour(port, bytes),
                LINK => self.link(port, length % 2 == 1),
                _ => {
                    let mut frame = bytes.to_vec();
                    if flags & TO_US != 0
                        && let Some(to) = frame.first_chunk_mut()
                    {
                        *to = [2, 0, 0, 0, 0, port as u8];
                    }
                    self.router.receive(port, [&frame[..]]);
                }
            }
            if flags & RUN != 0 {
                self.router.settle();
            }
            if flags & WAIT != 0 {
                self.router.advance(Duration::from_millis(700));
            }
        }
        self.router.settle();
        self.kernel.take_asks(&mut |_| ());
        for seconds in [1, 5, 90] {
            if self.router.check().held() == 0 && engine::packet::pool::balance() == before {
                return;
            }
            self.router.advance(Duration::from_secs(seconds));
        }
        assert_eq!(self.router.check().held(), 0, "nothing waits so long");
        assert_eq!(
            engine::packet::pool::balance(),
            before,
            "buffers were leaked"
        );
    }

    /// Delivers messages of the kernel to the router at once.
    fn says(&mut self, bytes: &[u8]) {
        for message in messages(bytes).map_while(Result::ok) {
            match message.event() {
                Ok(Event::Route(change, route)) => {
                    let flags = message.flags;
                    self.model.route(Source::Kernel, flags, change, &route);
                }
                Ok(Event::Nexthop(change, hop)) => self.model.nexthop(Source::Kernel, change, &hop),
                Ok(Event::Address(change, address)) => {
                    self.model.address(change, address.family == AF_INET);
                }
                Ok(Event::Done(_)) => {
                    for part in [Part::Routes4, Part::Labels] {
                        self.model.begin_sync(Source::Kernel, part);
                        self.model.end_sync(Source::Kernel, part);
                    }
                }
                _ => {}
            }
        }
        let routes = self.kernel.routes4().ok().zip(self.kernel.routes6().ok());
        let (v4, v6) = routes.expect("memory");
        let _ = self.model.flush(v4, v6);
        let labels = self.kernel.labels().expect("the router uses them");
        self.model.flush_labels(labels, false);
    }

    /// Makes a neighbour reachable, failed, or unknown.
    fn neighbour(&mut self, port: usize, bytes: &[u8]) {
        let address: IpAddr = match (bytes.first_chunk::<16>(), bytes.first_chunk::<4>()) {
            (Some(v6), _) => IpAddr::from(*v6),
            (None, Some(v4)) => IpAddr::from(*v4),
            (None, None) => return,
        };
        let what = match bytes.last().map_or(0, |b| b % 3) {
            0 => Neighbour::Reachable([2, 0, 0, 1, port as u8, bytes[0]]),
            1 => Neighbour::Failed,
            _ => Neighbour::Gone,
        };
        self.eth[port].set_neighbour(address, what);
    }
}
