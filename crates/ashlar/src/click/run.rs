//! The driver's loop: tasks and timers of one strict graph, descriptors, signals, new configurations.

use super::complain;
use super::global_handlers::Click;
use super::signals::Signals;
use engine::clock::Clock;
use engine::graph::Graph;
use engine::port::PortDirectory;
use ports::waiter::Waiter;
use std::sync::Arc;
use std::time::Duration;

/// Maximum sleep while a source must be polled.
const POLL_SLEEP_MAX: Duration = Duration::from_micros(100);
/// Maximum sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Runs until the router ends; returns the graph as it was then.
pub(super) fn run(
    mut graph: Graph,
    click: &Click,
    ports: &Arc<dyn PortDirectory>,
    signals: &mut Signals,
    waiter: &mut Waiter,
) -> Graph {
    // A script may send itself a signal in its first instruction.
    catch_wanted(&graph, signals);
    graph.start();
    loop {
        // A new configuration runs even if its installation has ended the old one.
        if let Some(plan) = click.take_next() {
            let site = graph.build_context(Arc::clone(ports));
            graph = graph.swap(&plan, &site);
        }
        if handle_signals(&mut graph, signals) {
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
            wait_idle(&mut graph, signals, waiter);
        }
    }
}

/// Passes signals on. Returns true if one of them ends the driver.
fn handle_signals(graph: &mut Graph, signals: &mut Signals) -> bool {
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
    catch_wanted(graph, signals);
    ends || graph.stopped()
}

/// Installs handlers for the signals that elements handle.
fn catch_wanted(graph: &Graph, signals: &mut Signals) {
    for signal in signals.set_caught(&graph.signals()) {
        complain(&format!("signal {signal} cannot be caught\n"));
    }
}

/// Passes idle time: simulated time advances to the next timer; otherwise the driver waits for it.
fn wait_idle(graph: &mut Graph, signals: &Signals, waiter: &mut Waiter) {
    let next = graph.next_timer();
    if let Clock::Virtual(_) = graph.clock() {
        let now = graph.clock().now();
        match next {
            Some(at) => return graph.set_time(at.max(now)),
            None => wait(graph, signals, waiter, SLEEP_MAX),
        }
        return;
    }
    let remaining = next.map_or(SLEEP_MAX, |at| {
        let remaining = at.since(graph.clock().now());
        remaining.div_f64(graph.clock().speed())
    });
    wait(graph, signals, waiter, remaining.min(SLEEP_MAX));
}

/// Sleeps until a descriptor is readable, a signal comes or the time is over.
fn wait(graph: &mut Graph, signals: &Signals, waiter: &mut Waiter, timeout: Duration) {
    let (mut fds, must_poll) = graph.wait_fds();
    fds.push(signals.fd());
    let limit = if must_poll {
        timeout.min(POLL_SLEEP_MAX)
    } else {
        timeout
    };
    // Descriptors come and go with connections, and their numbers are reused.
    fds.retain(|&fd| waiter.add(fd).is_ok());
    waiter.wait(limit);
    fds.iter().for_each(|&fd| waiter.remove(fd));
}
