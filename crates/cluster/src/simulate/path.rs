//! A packet's path through a simulated cluster.

use super::counters::Flow;
use super::failures::Place;
use super::report::Drops;
use super::rng::SimRng;
use super::{COOKIE, Event, Packet, Simulation};
use crate::address::{self, Address, HOPS_MAX, Kind, NO_NODE, NodeId};
use crate::spread::Refusal;
use crate::transit::{self, Fault, Step};

impl Simulation {
    pub(super) fn send(&mut self, number: u32) {
        let now = self.now;
        let source = &mut self.sources[number as usize];
        let (sizes, sum) = &self.sizes;
        let Some(next) = source.next(sizes, *sum) else {
            return;
        };
        let input = source.node;
        if now >= self.end() {
            return;
        }
        self.events.add(now + next.gap, Event::Source(number));
        let packet = Packet {
            born: now,
            chosen: now,
            bytes: next.bytes,
            flow: next.flow,
            sequence: next.number,
            links: 0,
            addresses: Address {
                kind: Kind::Data,
                hops: HOPS_MAX,
                node: next.output,
                port: 0,
                gateway: 0,
                input,
                via: NO_NODE,
                cookie: COOKIE,
            }
            .bytes(),
            tag: (0, 0),
        };
        let measured = self.measured();
        self.report.record_offered(&packet, measured);
        self.enter(input, packet);
    }

    /// Processes a packet that arrives at a node's external port.
    fn enter(&mut self, node: NodeId, mut packet: Packet) {
        let Some(done) = self.queue_packet(node, &packet) else {
            return;
        };
        let address = packet.address();
        let (ways, hash) = (&self.ways[usize::from(node)], flow_hash(packet.flow));
        let here = &mut self.nodes[usize::from(node)];
        let choice = here
            .spread
            .choose(done, ways, address.node, packet.bytes, hash);
        match choice {
            Ok(choice) => {
                if let Some(order) = &mut here.order {
                    packet.tag = order.numbers.number(address.node, hash);
                }
                let hops = address::allowance(ways.passes(choice.via, address.node));
                address::set_way(&mut packet.addresses, hops, choice.via);
                if self.lanes {
                    address::set_lane(&mut packet.addresses, hash);
                }
                self.cross(node, choice.link, packet, done);
            }
            Err(Refusal::NoPath) => {
                self.count_loss(done, &packet, Place::Node(node), |drops| &mut drops.no_path)
            }
            Err(Refusal::Full) => self.count_loss(done, &packet, Place::Node(node), |drops| {
                &mut drops.ways_full
            }),
        }
    }

    /// Processes a packet that arrives at a node by an internal link.
    pub(super) fn process(&mut self, node: NodeId, mut packet: Packet) {
        let Some(done) = self.queue_packet(node, &packet) else {
            return;
        };
        match transit::pass(&packet.addresses, &self.ways[usize::from(node)], COOKIE) {
            Ok(Step::Here) => self.arrive(node, packet, done + self.config.latency),
            Ok(Step::On { link, addresses }) => {
                let spread = &mut self.nodes[usize::from(node)].spread;
                spread.carried(done, link, packet.bytes);
                packet.addresses = addresses;
                self.cross(node, link, packet, done);
            }
            Ok(Step::Heartbeat) => {}
            Err(fault) => self.count_loss(done, &packet, Place::Node(node), |drops| match fault {
                Fault::NoPath => &mut drops.no_path,
                Fault::TooManyHops => &mut drops.too_many_hops,
                _ => &mut drops.faulty,
            }),
        }
    }

    /// Time at which a node finishes a packet; `None` if its queue is full.
    fn queue_packet(&mut self, node: NodeId, packet: &Packet) -> Option<u64> {
        let (measured, place) = (self.measured(), Place::Node(node));
        let work = &mut self.nodes[usize::from(node)].work;
        if let Some(watch) = &mut self.watch {
            watch.record_passage(self.now, packet, place);
            if watch.is_dead(self.now, node) {
                self.count_loss(self.now, packet, place, |drops| &mut drops.dead);
                return None;
            }
            if let Some(until) = watch.hang_end(self.now, node) {
                work.busy = work.busy.max(until);
            }
        }
        let done = work.serve(self.now, packet.bytes, measured);
        if done.is_none() {
            self.count_loss(self.now, packet, place, |drops| &mut drops.node_full);
        }
        done
    }

    /// Counts a lost packet.
    fn count_loss(
        &mut self,
        now: u64,
        packet: &Packet,
        at: Place,
        name: impl Fn(&mut Drops) -> &mut u64,
    ) {
        *name(&mut self.report.drops) += 1;
        if let Some(watch) = &mut self.watch {
            watch.record_loss(now, packet, at);
        }
    }

    /// Sends a packet over a link.
    fn cross(&mut self, node: NodeId, own: u16, mut packet: Packet, done: u64) {
        let (now, measured) = (done + self.config.latency, self.measured());
        let fabric = self.ways[usize::from(node)].reach().fabric();
        let (peer, link) = fabric.neighbours(node)[usize::from(own)];
        let direction = usize::from(node > peer);
        let place = Place::Link(node, peer);
        packet.chosen = self.now;
        let passage = match &mut self.watch {
            Some(watch) => {
                watch.record_passage(now, &packet, place);
                watch.extra_delay_ns(now, node, peer)
            }
            None => Some(0),
        };
        let Some(more) = passage else {
            return self.count_loss(now, &packet, place, |drops| &mut drops.dead);
        };
        packet.links += 1;
        let cable = &mut self.links[2 * link as usize + direction];
        match cable.serve(now, packet.bytes, measured) {
            None => self.count_loss(now, &packet, place, |drops| &mut drops.link_full),
            Some(done) => self
                .events
                .add(done + self.config.delay + more, Event::Arrive(peer, packet)),
        }
    }

    /// Records that a packet has reached its output node.
    fn arrive(&mut self, node: NodeId, packet: Packet, now: u64) {
        let Some(order) = &mut self.nodes[usize::from(node)].order else {
            return self.send_out(node, &packet, now);
        };
        let mut out = Vec::new();
        let input = packet.address().input;
        order
            .resequencer
            .take(now, input, packet.tag, packet, &mut |packet| {
                out.push(packet)
            });
        out.iter()
            .for_each(|packet| self.send_out(node, packet, now));
        self.plan_tick(node);
    }

    /// Makes a node's resequencer release packets that have waited long enough.
    pub(super) fn tick(&mut self, node: NodeId) {
        // The time includes the processing latency of packets.
        let now = self.now + self.config.latency;
        let Some(order) = &mut self.nodes[usize::from(node)].order else {
            return;
        };
        order.tick = None;
        let mut out = Vec::new();
        order.resequencer.tick(now, &mut |packet| out.push(packet));
        out.iter()
            .for_each(|packet| self.send_out(node, packet, now));
        self.plan_tick(node);
    }

    fn plan_tick(&mut self, node: NodeId) {
        let Some(order) = &mut self.nodes[usize::from(node)].order else {
            return;
        };
        if let (None, Some(due)) = (order.tick, order.resequencer.due()) {
            let at = due.saturating_sub(self.config.latency).max(self.now);
            order.tick = Some(at);
            self.events.add(at, Event::ResequencerTimer(node));
        }
    }

    /// Sends a packet out by its external port.
    fn send_out(&mut self, node: NodeId, packet: &Packet, now: u64) {
        let born_measured = (self.config.warmup..self.end()).contains(&packet.born);
        let output = &mut self.nodes[usize::from(node)].output;
        match output.serve(now, packet.bytes, true) {
            None => self.count_loss(now, packet, Place::Node(node), |drops| {
                &mut drops.output_full
            }),
            Some(left) => {
                let at = packet.flow as usize;
                if at >= self.flows.len() {
                    self.flows.resize(at + 1, Flow::default());
                }
                let flow = &mut self.flows[at];
                self.report.deliver(packet, flow, left, born_measured);
            }
        }
    }
}

/// Hash of a flow, in place of that of a 5-tuple.
fn flow_hash(flow: u32) -> u32 {
    SimRng::new(u64::from(flow)).bits() as u32
}
