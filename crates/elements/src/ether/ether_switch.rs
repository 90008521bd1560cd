//! A learning Ethernet switch.
//!
//! ```click
//! s :: EtherSwitch(TIMEOUT 60);
//! InfiniteSource(LIMIT 3) -> s -> Discard;
//! InfiniteSource(LIMIT 3) -> [1]s[1] -> Discard;
//! ```
//!
//! The input and the output with the same number belong to one LAN. The switch learns a frame's source address with
//! the number of its input. Later frames to this address leave by the output with this number; if they also came from
//! there, they are dropped (`same_port`). Multicast and broadcast frames, and frames to unknown stations, go to all
//! other outputs. If there is no free packet buffer, a copy is not made (counter `no_buffer`).
//!
//! Unlike Click's, the table is bounded. When it has `CAPACITY` stations, those that have been silent for `TIMEOUT`
//! are removed. If there are none, a new station is not learnt (counter `not_learnt`), and frames to it go to all
//! ports. A multicast or zero source address is not learnt. One worker runs the switch.
//!
//! Keyword arguments:
//!
//! - `TIMEOUT`: seconds after which a silent station is removed; 0 = none is learnt. Default 300.
//! - `CAPACITY`: maximum number of stations in the table. Default 65536.

use crate::prelude::*;
use crate::switch::hub::{flood, no_buffer};
use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;
use wire::{Ether, EtherAddr};

drops! {
    SAME_PORT = "same_port",
    ALONE = "alone",
    SHORT = "short",
}

/// Time between two searches of a full table for silent stations.
const SWEEP: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
pub(super) struct Config {
    timeout: Duration,
    capacity: usize,
}

/// Port and time at which a station was heard last.
#[derive(Clone, Copy)]
struct Heard {
    port: usize,
    at: Time,
}

pub(super) struct EtherSwitch {
    config: Config,
    outputs: usize,
    stations: HashMap<EtherAddr, Heard>,
    /// Earliest time of the next search in a full table.
    sweep_at: Time,
    now: Time,
    not_learnt: u64,
    no_buffer: u64,
}

impl EtherSwitch {
    fn learn(&mut self, source: EtherAddr, port: usize) {
        if self.config.timeout.is_zero() || !source.is_unicast() {
            return;
        }
        let heard = Heard { port, at: self.now };
        if let Some(station) = self.stations.get_mut(&source) {
            *station = heard;
        } else if self.has_room() {
            self.stations.insert(source, heard);
        } else {
            self.not_learnt += 1;
        }
    }

    fn has_room(&mut self) -> bool {
        if self.stations.len() >= self.config.capacity && self.now >= self.sweep_at {
            self.sweep_at = self.now + SWEEP;
            let (now, timeout) = (self.now, self.config.timeout);
            self.stations.retain(|_, s| now.since(s.at) < timeout);
        }
        self.stations.len() < self.config.capacity
    }

    /// The port of a station that has sent lately.
    fn port_of(&self, station: EtherAddr) -> Option<usize> {
        let heard = self.stations.get(&station)?;
        (self.now.since(heard.at) < self.config.timeout).then_some(heard.port)
    }

    fn forward(&mut self, packet: Packet, input: usize, cx: &mut Cx) {
        let Some((to, from)) = addresses(packet.data()) else {
            return cx.drop(packet, SHORT);
        };
        self.learn(from, input);
        match self.port_of(to).filter(|_| to.is_unicast()) {
            Some(port) if port == input => cx.drop(packet, SAME_PORT),
            Some(port) if port < self.outputs => cx.emit(port, packet),
            _ => self.no_buffer += flood(packet, input, self.outputs, ALONE, cx),
        }
    }
}

/// Destination and source of a frame.
fn addresses(frame: &[u8]) -> Option<(EtherAddr, EtherAddr)> {
    let header = Ether::new_checked(frame).ok()?;
    Some((header.dst(), header.src()))
}

impl Element for EtherSwitch {
    const CONTRACT: Contract = Contract::new("EtherSwitch", manual!())
        .ports(Ports::coded(&["in+"], &["out+"], "h/h"))
        .drops(DROPS)
        .copies(Copies::One);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let default = Duration::from_secs(300);
        Config {
            timeout: args.key(
                "TIMEOUT",
                default,
                "time for which a silent station is known",
            ),
            capacity: args.capacity("CAPACITY", 65536, "stations in the table"),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> EtherSwitch {
        EtherSwitch {
            config: **config,
            outputs: init.outputs,
            stations: HashMap::new(),
            sweep_at: init.now,
            now: init.now,
            not_learnt: 0,
            no_buffer: 0,
        }
    }

    fn process(&mut self, input: usize, batch: &mut Batch, cx: &mut Cx) {
        self.now = cx.now();
        for packet in batch.drain() {
            self.forward(packet, input, cx);
        }
    }

    fn take(&mut self, old: EtherSwitch) {
        self.stations = old.stations;
        self.no_buffer = old.no_buffer;
    }

    const HANDLERS: &'static [Handler<EtherSwitch>] = &[
        Handler::text("table", "a line per station: address and port", |e, _| {
            let mut known: Vec<_> = e.stations.iter().collect();
            known.retain(|(_, heard)| e.now.since(heard.at) < e.config.timeout);
            known.sort_by_key(|(station, _)| station.0);
            let mut text = String::new();
            for (station, heard) in known {
                let _ = writeln!(text, "{} {}", station.dashed(), heard.port);
            }
            Ok(text)
        }),
        Handler::text("timeout", "see TIMEOUT, in seconds", |e, _| {
            Ok(e.config.timeout.as_secs_f64().to_string())
        }),
        Handler::assign("timeout", "see TIMEOUT", |e| &mut e.config.timeout),
        counter!(
            "not_learnt",
            "frames from stations that found no room",
            not_learnt
        ),
        no_buffer(|e| e.no_buffer),
    ];
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    const A: u8 = 0x0a;
    const B: u8 = 0x0b;
    const ALL: u8 = 0xff;

    fn switch(args: &str) -> Bench {
        let text = format!(
            "s :: EtherSwitch({args}); Idle -> s -> p0 :: Collect;
            Idle -> [1]s[1] -> p1 :: Collect; Idle -> [2]s[2] -> p2 :: Collect"
        );
        Bench::new(crate::CLASSES, &text)
    }

    fn frame(to: u8, from: u8) -> Vec<u8> {
        let address = |last| match last {
            ALL => [ALL; 6],
            _ => [2, 0, 0, 0, 0, last],
        };
        [&address(to)[..], &address(from), &[8, 0, 1, 2]].concat()
    }

    /// Sends a frame, and returns the number of copies that left by each port.
    fn ways(bench: &mut Bench, input: usize, to: u8, from: u8) -> [usize; 3] {
        bench.push_at("s", input, &[frame(to, from)]);
        ["p0", "p1", "p2"].map(|out| bench.take(out).len())
    }

    #[test]
    fn frames_go_where_their_station_was_heard_last() {
        let mut bench = switch("");
        assert_eq!(ways(&mut bench, 0, B, A), [0, 1, 1]);
        assert_eq!(ways(&mut bench, 1, A, B), [1, 0, 0]);
        assert_eq!(ways(&mut bench, 0, B, A), [0, 1, 0]);
        assert_eq!(ways(&mut bench, 0, ALL, A), [0, 1, 1]);
        assert_eq!(
            bench.read("s.table"),
            "02-00-00-00-00-0A 0\n02-00-00-00-00-0B 1\n"
        );
        assert_eq!(ways(&mut bench, 2, B, A), [0, 1, 0], "A has moved");
        assert_eq!(ways(&mut bench, 1, A, B), [0, 0, 1]);
        assert_eq!(ways(&mut bench, 2, A, A), [0, 0, 0]);
        assert_eq!(bench.drops("s", "same_port"), 1);
        bench.push("s", &[b"short"]);
        assert_eq!(bench.drops("s", "short"), 1);
    }

    #[test]
    fn groups_are_never_learnt() {
        let mut bench = switch("");
        ways(&mut bench, 0, A, ALL);
        assert_eq!(bench.read("s.table"), "");
        assert_eq!(ways(&mut bench, 1, ALL, B), [1, 0, 1]);
    }

    #[test]
    fn silent_stations_are_forgotten() {
        let mut bench = switch("TIMEOUT 10");
        ways(&mut bench, 1, ALL, B);
        bench.advance(Duration::from_secs(9));
        assert_eq!(ways(&mut bench, 0, B, A), [0, 1, 0]);
        bench.advance(Duration::from_secs(1));
        assert_eq!(ways(&mut bench, 0, B, A), [0, 1, 1]);
        assert_eq!(bench.read("s.table"), "02-00-00-00-00-0A 0\n");
        assert_eq!(bench.read("s.timeout"), "10");
    }

    #[test]
    fn without_a_timeout_it_is_a_hub() {
        let mut bench = switch("");
        ways(&mut bench, 1, ALL, B);
        bench.write("s.timeout", "0");
        assert_eq!(ways(&mut bench, 0, B, A), [0, 1, 1]);
        assert_eq!(ways(&mut bench, 1, A, B), [1, 0, 1]);
        assert_eq!(bench.read("s.table"), "");
    }

    #[test]
    fn a_full_table_learns_again_when_stations_are_forgotten() {
        let mut bench = switch("TIMEOUT 10, CAPACITY 2");
        for station in 1..=3 {
            ways(&mut bench, 1, ALL, station);
        }
        assert_eq!(ways(&mut bench, 0, 2, 1), [0, 1, 0]);
        assert_eq!(ways(&mut bench, 0, 3, 1), [0, 1, 1], "3 found no room");
        assert_eq!(bench.read("s.not_learnt"), "1");
        bench.advance(Duration::from_secs(10));
        ways(&mut bench, 1, ALL, 3);
        assert_eq!(ways(&mut bench, 0, 3, 1), [0, 1, 0]);
    }
}
