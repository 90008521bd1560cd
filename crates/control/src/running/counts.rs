//! Counters of a running router: of all workers at one moment, and of its ports.

use super::Control;
use crate::view::{self, Failure, packet_accounting};
use engine::plan::Plan;
use engine::port::PortDirectory;
use engine::stats::{NodeStats, TaskStats, drop_names};
use router::worker::WorkerTimes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A worker's counts, all at one moment.
pub(crate) struct Answer {
    plan: Arc<Plan>,
    pub(crate) stats: Vec<NodeStats>,
    tasks: Vec<(usize, TaskStats)>,
    held: Vec<usize>,
    /// Packets and bytes of elements with a device.
    devices: Vec<(usize, u64, u64)>,
    buffers: isize,
}

impl Control {
    /// Every worker's counts and the plan that they belong to.
    pub(crate) fn counts(&self) -> Result<(Arc<Plan>, Vec<Answer>), Failure> {
        // Workers adopt a new configuration one after the other. Repeat if only some have adopted it.
        for _ in 0..3 {
            let answers = self.router.ask_all(|local| Answer::of(local.graph()))?;
            let Some(plan) = answers.first().map(|a| Arc::clone(&a.plan)) else {
                break;
            };
            if answers.iter().all(|a| Arc::ptr_eq(&a.plan, &plan)) {
                return Ok((plan, answers));
            }
        }
        Err(Failure::new(
            503,
            "the configuration is being replaced: ask again",
        ))
    }

    /// All counts.
    pub fn stats(&self) -> Result<view::Stats, Failure> {
        let (plan, answers) = self.counts()?;
        Ok(self.view(&plan, &answers))
    }

    /// Each worker's longest turn, awake, since the last call. Workers are not disturbed: a concurrent turn counts in
    /// one of the two answers.
    pub fn longest_turns(&self) -> Vec<view::Longest> {
        let take = |n: &AtomicU64| n.swap(0, Ordering::Acquire);
        (0..self.router.workers())
            .map(|worker| longest(self.router.times(worker), take))
            .collect()
    }

    fn view(&self, plan: &Plan, answers: &[Answer]) -> view::Stats {
        let element = |node: usize| view::ElementStats {
            name: plan.elements[node].name.clone(),
            class: plan.elements[node].class.name.to_owned(),
            drop_names: drop_names(&plan.elements[node]),
            copies: plan.elements[node]
                .workers
                .iter()
                .filter_map(|&w| Some(answers.get(w)?.copy(plan, node, w)))
                .collect(),
        };
        let workers = answers.iter().enumerate().map(|(w, answer)| {
            let times = self.router.times(w);
            let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
            view::WorkerStats {
                turns: get(&times.turns),
                empty: get(&times.empty),
                busy_ns: get(&times.busy),
                asleep_ns: get(&times.asleep),
                sleeps: get(&times.sleeps),
                longest: longest(times, |n| n.load(Ordering::Acquire)),
                runs: times.runs.iter().map(get).collect(),
                held: answer.held.iter().sum::<usize>() as u64,
                buffers: answer.buffers as i64,
            }
        });
        view::Stats {
            time_ns: self.uptime_ns(),
            reloads: self.reloads.load(Ordering::Relaxed),
            elements: (0..plan.elements.len()).map(element).collect(),
            workers: workers.collect(),
            ports: self.port_stats(),
            pool: view::PoolStats {
                buffers: engine::packet::pool::heap_buffers(),
                bytes: engine::packet::pool::memory_bytes(),
            },
            balance: self.balance.view(),
        }
    }

    fn port_stats(&self) -> Vec<view::PortStats> {
        let open = self.ports.names().into_iter();
        open.filter_map(|name| self.ports.get(&name))
            .map(|open| {
                let info = open.port.info();
                let counters = open.port.counters().into_iter();
                view::PortStats {
                    name: open.name,
                    driver: info.driver,
                    mac: wire::EtherAddr(info.mac).to_string(),
                    mtu: info.mtu,
                    up: open.port.link_up(),
                    counters: counters
                        .map(|(name, queue, value)| view::PortCounter {
                            name: name.to_owned(),
                            queue,
                            value,
                        })
                        .collect(),
                }
            })
            .collect()
    }

    /// Halts the router and returns its final packet accounting.
    pub fn close(&self) -> Result<packet_accounting::PacketAccounting, Failure> {
        self.router.halt()?;
        let (plan, answers) = self.counts()?;
        Ok(packet_accounting::balance(
            &plan,
            self.view(&plan, &answers),
        ))
    }
}

impl Answer {
    fn of(graph: &mut engine::graph::Graph) -> Answer {
        let plan = Arc::clone(graph.plan());
        let mut devices = Vec::new();
        for (node, element) in plan.elements.iter().enumerate() {
            if element.queues.is_empty() {
                continue;
            }
            let handlers = (element.class.handlers)();
            let count = |name: &str| {
                let at = handlers.iter().position(|h| h.name == name)?;
                graph.read(node, at, "")?.ok()?.parse().ok()
            };
            let packets = count("count").unwrap_or(0);
            devices.push((node, packets, count("byte_count").unwrap_or(0)));
        }
        Answer {
            stats: graph.stats().to_vec(),
            tasks: graph.task_stats().map(|(n, s)| (n, *s)).collect(),
            held: (0..plan.elements.len()).map(|n| graph.held_by(n)).collect(),
            devices,
            buffers: engine::packet::pool::balance(),
            plan,
        }
    }

    fn copy(&self, plan: &Plan, node: usize, worker: usize) -> view::CopyStats {
        let stats = &self.stats[node];
        let element = &plan.elements[node];
        let task = self.tasks.iter().find(|(n, _)| *n == node);
        let used = self.devices.iter().find(|(n, ..)| *n == node);
        let device = element.device().zip(used);
        view::CopyStats {
            worker,
            packets: stats.packets,
            batches: stats.batches,
            cycles: stats.cycles,
            sent: stats.sent.clone(),
            drops: stats.drops.clone(),
            held: self.held[node] as u64,
            task: task.map(|(_, t)| view::Task {
                runs: t.runs,
                empty: t.empty,
                cycles: t.cycles,
                empty_cycles: t.empty_cycles,
            }),
            device: device.map(|(device, &(_, packets, bytes))| view::DeviceUse {
                port: device.name,
                receives: device.receives,
                queues: element.queues_of(worker).to_vec(),
                packets,
                bytes,
            }),
        }
    }
}

/// A worker's longest turn, read by `read`. The whole turn is read last, so that no part exceeds it.
fn longest(times: &WorkerTimes, read: impl Fn(&AtomicU64) -> u64) -> view::Longest {
    view::Longest {
        longest_run_ns: read(&times.longest_run),
        longest_wait_ns: read(&times.longest_wait),
        longest_control_ns: read(&times.longest_control),
        longest_turn_ns: read(&times.longest_turn),
    }
}
