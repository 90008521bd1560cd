//! A plan as text: what `ashlar plan` prints.

use super::{Plan, PlanElement};
use crate::element::{Copies, Runs};
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for device in &self.devices {
            let r = &device.request;
            writeln!(
                f,
                "device {}: {} receive and {} transmit queues",
                device.name, r.rx_queues, r.tx_queues
            )?;
        }
        for worker in 0..self.workers {
            let here = self.elements.iter().filter(|e| e.workers.contains(&worker));
            writeln!(f, "worker {worker}: {} elements", here.clone().count())?;
            for element in here
                .filter(|e| e.runs == Runs::AsTask || e.single() || !e.queues_of(worker).is_empty())
            {
                let queues = element.queues_of(worker);
                write!(f, "  {} :: {}", element.name, element.class.name)?;
                if !queues.is_empty() {
                    let list: Vec<String> = queues.iter().map(usize::to_string).collect();
                    write!(f, ", queue {}", list.join(", "))?;
                }
                let task = if element.runs == Runs::AsTask {
                    ", task"
                } else {
                    ""
                };
                let single = if element.single() { ", not copied" } else { "" };
                writeln!(f, "{task}{single}")?;
            }
        }
        for placed in &self.loops {
            let names = placed.all().map(|n| self.elements[n].name.as_str());
            writeln!(
                f,
                "run as one loop: {}",
                names.collect::<Vec<_>>().join(" -> ")
            )?;
        }
        for name in self.bare_sources() {
            writeln!(
                f,
                "without annotations, which nobody looks at: packets from {name}"
            )?;
        }
        for (name, from, to) in self.crossings() {
            writeln!(f, "packets change worker in {name}: from {from:?} to {to}")?;
        }
        for (name, from, to) in self.gathering() {
            writeln!(
                f,
                "packets change worker in {name}, by their buckets: from {from:?} to {to:?}"
            )?;
        }
        let copied = self.elements.iter().filter(|e| e.workers.len() > 1).count();
        writeln!(
            f,
            "{} elements, {} connections; {copied} elements have a copy on more than one worker",
            self.elements.len(),
            self.edges.len()
        )
    }
}

impl PlanElement {
    /// Whether it has an owner among several workers: it cannot be copied.
    fn single(&self) -> bool {
        self.class.copies == Copies::One
    }
}

impl Plan {
    /// Names of elements whose packets come from a device without annotations.
    pub fn bare_sources(&self) -> impl Iterator<Item = &str> {
        let bare = |e: &&PlanElement| e.bare && e.inputs.is_empty();
        self.elements.iter().filter(bare).map(|e| e.name.as_str())
    }

    /// Elements that hand each packet to one of several workers ([`Placement::gathers`](crate::placement::Placement::gathers)):
    /// name, workers that bring packets, workers that get them.
    pub fn gathering(&self) -> impl Iterator<Item = (&str, &[usize], &[usize])> {
        let each = self.elements.iter().enumerate();
        each.filter_map(|(i, e)| {
            if !e.placement().gathers {
                return None;
            }
            let next = self.edges.iter().find(|edge| edge.from.0 == i)?.to.0;
            let owners = self.elements[next].workers.as_slice();
            let stays = e.pushers.len() == 1 && e.pushers == owners;
            (!stays).then_some((e.name.as_str(), e.pushers.as_slice(), owners))
        })
    }

    /// Queues in which packets change worker: name, workers that fill it, worker that empties it.
    pub fn crossings(&self) -> Vec<(&str, Vec<usize>, usize)> {
        let crosses = self
            .elements
            .iter()
            .filter(|e| e.outputs.contains(&true) && e.pullers.len() == 1);
        crosses
            .filter_map(|e| {
                let to = e.pullers[0];
                let from: Vec<usize> = e.pushers.iter().copied().filter(|&w| w != to).collect();
                (!from.is_empty()).then_some((e.name.as_str(), from, to))
            })
            .collect()
    }
}
