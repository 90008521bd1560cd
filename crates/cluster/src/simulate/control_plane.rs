//! Knowledge of a simulated cluster's nodes: live links and new servers.

use std::sync::Arc;

use super::failures::Beat;
use super::{Event, Node, Simulation, matrix};
use crate::address::NodeId;
use crate::map::{Fabric, Reach, Ways};
use crate::spread::Spread;

/// Nanoseconds between two servers' adoptions of a new map.
const ADOPT_INTERVAL_NS: u64 = 5_000_000;
/// Nanoseconds from the last adoption until the matrix covers all servers: links are up by then.
const SETTLE_NS: u64 = 200_000_000;

impl Simulation {
    /// Runs a node's timers, and sends heartbeats that are due.
    pub(super) fn look(&mut self, node: NodeId) {
        let (now, end) = (self.now, self.end());
        let Some(watch) = &mut self.watch else {
            return;
        };
        // Heartbeats stop after the last packet; otherwise the run would not end.
        if watch.due[usize::from(node)] > now && watch.due[usize::from(node)] != u64::MAX
            || now >= end
        {
            return;
        }
        if let Some(until) = watch.hang_end(now, node) {
            watch.due[usize::from(node)] = until;
            return self.events.add(until, Event::Look(node));
        }
        watch.due[usize::from(node)] = u64::MAX;
        let mut out = Vec::new();
        watch.tick(now, node, &mut self.links, &mut out);
        for (at, beat) in out {
            self.events
                .add(at + self.config.delay, Event::Heard(Box::new(beat)));
        }
        self.follow(node);
    }

    pub(super) fn receive_heartbeat(&mut self, beat: Box<Beat>) {
        let now = self.now;
        let Some(watch) = &mut self.watch else {
            return;
        };
        if let Some(until) = watch.hang_end(now, beat.to) {
            return self.events.add(until, Event::Heard(beat));
        }
        watch.receive_heartbeat(now, &beat);
        self.follow(beat.to);
    }

    /// Computes a node's paths from its knowledge of links.
    fn follow(&mut self, node: NodeId) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        let ways = &mut self.ways[usize::from(node)];
        let fabric = Arc::clone(ways.reach().fabric());
        if let Some(new) = watch.changed(self.now, node, &fabric) {
            *ways = new;
        }
        if let Some(due) = watch.plan(self.now, node) {
            self.events.add(due, Event::Look(node));
        }
    }

    /// Starts the new servers. The others adopt the new map one after another, as with `ashlar cluster reload`.
    pub(super) fn add_servers(&mut self, step: usize) {
        let (now, map) = (self.now, self.config.growth[step].map.clone());
        let old = self.nodes.len();
        for link in &map.links[self.links.len() / 2..] {
            let cable = self.config.cable(link.rate);
            self.links.extend([cable; 2]);
        }
        self.fabric = Fabric::new(map);
        let map = self.fabric.map();
        let Some(()) = self
            .watch
            .as_mut()
            .and_then(|watch| watch.join(map, now, true))
        else {
            return;
        };
        let new = old..map.nodes.len();
        for node in new.clone() {
            let ways = self.known(node as NodeId);
            let spread = Spread::new(self.settings.clone(), &ways, now);
            let rates = (self.fabric.map().nodes[node].rate, self.fabric.map().most());
            self.nodes.push(Node::new(spread, rates, &self.config));
            self.ways.push(ways);
            self.events.add(now, Event::Look(node as NodeId));
        }
        for node in 0..old {
            let at = now + (node as u64 + 1) * ADOPT_INTERVAL_NS;
            self.events.add(at, Event::Adopt(node as NodeId));
        }
        let all = now + (old as u64 + 1) * ADOPT_INTERVAL_NS + SETTLE_NS;
        self.events.add(all, Event::Serve);
    }

    /// The paths of a node over the links that it believes up, in the newest map.
    fn known(&self, node: NodeId) -> Ways {
        let links = self.watch.as_ref().map(|watch| watch.links(node).clone());
        let links = links.unwrap_or_else(|| crate::map::Links::all(self.fabric.map()));
        Ways::new(&Reach::new(&self.fabric, &links), node)
    }

    /// Switches a node to the newest map.
    pub(super) fn adopt(&mut self, node: NodeId) {
        let now = self.now;
        if let Some(watch) = &mut self.watch {
            watch.adopt(self.fabric.map(), node, now);
        }
        let ways = self.known(node);
        self.nodes[usize::from(node)].spread.adapt(&ways, now);
        self.ways[usize::from(node)] = ways;
        self.follow(node);
    }

    /// Extends the traffic matrix to all servers.
    pub(super) fn serve_all(&mut self) {
        self.sources.iter_mut().for_each(|source| source.stop());
        let ports = matrix::ports(self.fabric.map());
        self.report.begin_stage(self.now, ports.len());
        self.add_sources(&ports);
    }
}
