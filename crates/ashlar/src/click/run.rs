//! The driver's loop: tasks and timers of one strict graph, descriptors, signals, new configurations.

use super::complain;
use super::root::Click;
use super::signals::Signals;
use engine::clock::Clock;
use engine::graph::Graph;
use engine::port::PortDirectory;
use ports::waiter::Waiter;
use std::sync::Arc;
use std::time::Duration;

/// Longest sleep while a source has to be asked for packets.
const POLLED: Duration = Duration::from_micros(100);
/// Longest sleep in any case.
const LONGEST: Duration = Duration::from_secs(1);

/// Runs until the router ends; returns the graph as it was then.
pub(super) fn run(
    mut graph: Graph,
    click: &Click,
    ports: &Arc<dyn PortDirectory>,
    signals: &mut Signals,
    waiter: &mut Waiter,
) -> Graph {
    // A script may send itself a signal in its first instruction.
    want(&graph, signals);
    graph.start();
    loop {
        // A new configuration runs even if the old one has ended with the installation of it.
        if let Some(plan) = click.take_next() {
            let site = graph.site(Arc::clone(ports));
            graph = graph.swap(&plan, &site);
        }
        if heed(&mut graph, signals) {
            return graph;
        }
        let worked = graph.round();
        if click.has_next() {
            continue;
        }
        if graph.stopped() {
            return graph;
        }
        graph.quiescent();
        if !worked {
            rest(&mut graph, signals, waiter);
        }
    }
}

/// Passes signals on. Returns true if one of them ends the driver.
fn heed(graph: &mut Graph, signals: &mut Signals) -> bool {
    let mut ends = false;
    if signals.any() {
        for signal in signals.take() {
            if !graph.signal(signal) {
                // Only signals that end the driver are caught without a handler.
                signals.give_up(signal);
                ends = true;
            }
        }
    }
    want(graph, signals);
    ends || graph.stopped()
}

/// Catches the signals that elements want now.
fn want(graph: &Graph, signals: &mut Signals) {
    for signal in signals.want(&graph.signals()) {
        complain(&format!("signal {signal} cannot be caught\n"));
    }
}

/// Passes idle time: simulated time advances to the next timer; otherwise the driver waits for it.
fn rest(graph: &mut Graph, signals: &Signals, waiter: &mut Waiter) {
    let next = graph.next_timer();
    if let Clock::Virtual(_) = graph.clock() {
        let now = graph.clock().now();
        match next {
            Some(at) => return graph.set_time(at.max(now)),
            None => wait(graph, signals, waiter, LONGEST),
        }
        return;
    }
    let left = next.map_or(LONGEST, |at| {
        let left = at.since(graph.clock().now());
        left.div_f64(graph.clock().speed())
    });
    wait(graph, signals, waiter, left.min(LONGEST));
}

/// Sleeps until a descriptor is readable, a signal comes or the time is over.
fn wait(graph: &mut Graph, signals: &Signals, waiter: &mut Waiter, at_most: Duration) {
    let (mut fds, must_poll) = graph.wait_fds();
    fds.push(signals.fd());
    let limit = if must_poll {
        at_most.min(POLLED)
    } else {
        at_most
    };
    // Descriptors come and go with connections, and their numbers are reused.
    fds.retain(|&fd| waiter.add(fd).is_ok());
    waiter.wait(limit);
    fds.iter().for_each(|&fd| waiter.remove(fd));
}
