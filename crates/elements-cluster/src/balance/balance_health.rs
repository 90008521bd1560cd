//! Probes the back ends of a balancer, and excludes those that do not forward.
//!
//! ```click
//! lb :: BalancePool(r1 02:00:00:00:00:01 10.255.0.11, r2 02:00:00:00:00:02 10.255.0.12);
//! FromDevice(eth0) -> own :: Classifier(12/0800 23/11 36/0ec9, -);
//! own[0] -> health :: BalanceHealth(lb, 02:00:00:00:01:03, 10.255.0.1);
//! own[1] -> Discard;
//! FromDevice(eth1) -> in :: BalanceIn(lb) -> back :: ToDevice(null:);
//! in[1] -> Discard;
//! health -> [1] back;
//! ```
//!
//! In each INTERVAL it sends a probe to each back end. A probe is a packet of BFD echo to the balancer itself (RFC
//! 9747). A back end forwards it as any other packet, needs no support for BFD, and shows by it that it forwards.
//! Other kinds show less:
//!
//! - `KIND arp`: an ARP request for the back end's address. An answer shows that the box is there.
//! - `KIND icmp`: an echo request (ping) to it. An answer shows that its kernel runs.
//! - `KIND bfd`: a BFD session with a daemon of the back end (RFC 5881), such as FRR's bfdd. An interval without a
//!   packet that the daemon had to send counts as a lost probe. A session that has never been up has 5 s after the
//!   start. INTERVAL is the minimum time between packets in both directions; MISSES is the multiplier.
//!
//! A back end is down after MISSES lost probes in a row (`silent`), or 12 of the last 32 (`lossy`). It is up again
//! after ANSWERS returned probes in a row. If it fails again within a minute, twice as many must return, up to 64
//! times as many. At the start all back ends are up; one that is added later is down until it has answered (`new`).
//! Back ends that go down while no other is up keep their buckets: what is sent to them may arrive.
//!
//! Probes have the class CS6, and the second input of ToDevice sends them before all waiting packets. If the balancer
//! itself was late, it has sent fewer probes, so this does not count against back ends.
//!
//! Each change is a line of the log and of the pool's `journal`.
//!
//! The inputs take returned probes, replies of ARP and ICMP, and packets of BFD. All end here, as `heard` or as
//! invalid: `malformed`, `forged` (of another sender), `ttl` (not forwarded exactly once), `unknown` (no such back
//! end).
//!
//! Arguments:
//!
//! - `POOL`: the BalancePool.
//! - `ETHER`: the balancer's Ethernet address on its back port.
//! - `IP`: its address there. Back ends must reach it, by ARP or by a route.
//!
//! Keyword arguments:
//!
//! - `INTERVAL`: at least 1 ms. Default 10 ms.
//! - `MISSES`: 2 to 31. Default 3.
//! - `ANSWERS`: 1 to 1000. Default 10.
//! - `KIND`: `echo`, `arp`, `icmp` or `bfd`. Default `echo`.

use super::echo::{self, Bad, Probe};
use super::shared::{Shared, watched};
use super::udp::Ends;
use super::{Peer, arp_probe, bfd, ping};
use crate::prelude::*;
use cluster::balance::{Change, Watch};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::{EtherAddr, ether};

drops! {
    HEARD = "heard",
    MALFORMED = "malformed",
    FORGED = "forged",
    TTL = "ttl",
    UNKNOWN = "unknown",
}

/// Kind of health probe.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Echo,
    Arp,
    Icmp,
    Bfd,
}

pub(super) struct Config {
    pool: Peer,
    own: (EtherAddr, Ipv4Addr),
    interval: Duration,
    misses: u32,
    answers: u32,
    kind: Kind,
    nonce: u64,
}

pub(super) struct BalanceHealth {
    config: Arc<Config>,
    shared: Arc<Shared>,
    /// Name and health state of each back end.
    watches: Vec<(String, Watch)>,
    /// BFD session of each back end.
    sessions: Vec<bfd::Session>,
    /// Number of up and down transitions of each back end.
    changes: Vec<u64>,
    sent: u64,
}

impl Element for BalanceHealth {
    const CONTRACT: Contract = Contract::new("BalanceHealth", manual!())
        .ports(Ports::coded(&["probes", "replies?"], &["back"], "h/h").apart())
        .gives(&[Facts::ETHER])
        .drops(DROPS)
        .copies(Copies::Owner)
        .runs(Runs::AsTask);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let pool = Peer::pool(args);
        let ether = args.required("ETHER", "the balancer's Ethernet address on its back port");
        let address = args.required("IP", "the balancer's address there");
        let interval = args.key("INTERVAL", Duration::from_millis(10), "time between probes");
        if interval < Duration::from_millis(1) || interval > Duration::from_secs(60) {
            args.error_in_whole(
                "INTERVAL must be from 1 ms to a minute",
                "write INTERVAL 10ms",
            );
        }
        let kind: String = args.key("KIND", "echo".to_owned(), "what a probe is");
        let kind = match &*kind {
            "echo" => Kind::Echo,
            "arp" => Kind::Arp,
            "icmp" => Kind::Icmp,
            "bfd" => Kind::Bfd,
            other => {
                let wrong = format!("there is no KIND `{other}`");
                args.error_in_whole(wrong, "write echo, arp, icmp or bfd");
                Kind::Echo
            }
        };
        let nonce = draw().unwrap_or_else(|why| {
            args.error_in_whole(
                format!("the kernel gives no random numbers: {why}"),
                "probes need one that nobody can guess: mend the kernel",
            );
            0
        });
        Config {
            pool,
            own: (ether, address),
            interval,
            misses: args.key_in(
                "MISSES",
                3,
                2..=31,
                "probes in a row that a back end may miss",
            ),
            answers: args.key_in(
                "ANSWERS",
                10,
                1..=1000,
                "probes in a row that must come back",
            ),
            kind,
            nonce,
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> BalanceHealth {
        let shared = config.pool.shared(init);
        let interval = u64::try_from(config.interval.as_nanos()).unwrap_or(u64::MAX);
        let settings = watched(interval, config.misses, config.answers);
        let all = shared.backends.iter();
        let session = |at: usize| {
            bfd::Session::new((config.nonce as u32).wrapping_add(at as u32), init.now.0)
        };
        BalanceHealth {
            config: Arc::clone(config),
            sessions: (0..all.len()).map(session).collect(),
            changes: vec![0; all.len()],
            watches: all
                .map(|of| (of.name.clone(), Watch::new(settings)))
                .collect(),
            shared,
            sent: 0,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        cx.set_timer(cx.now() + self.config.interval);
    }

    fn task(&mut self, _: &mut Cx) -> Did {
        Did::Sleep
    }

    fn timer(&mut self, cx: &mut Cx) {
        let now = cx.now();
        // Changes at one time are applied together: if all back ends seem to be down, no bucket moves.
        let mut changes = Vec::new();
        for at in 0..self.watches.len() {
            if self.config.kind == Kind::Bfd {
                changes.extend(self.check(at, cx));
                continue;
            }
            let (_, change) = self.watches[at].1.probe(cx.read_clock().0);
            changes.extend(change.map(|change| (at, change)));
        }
        self.tell(&changes, cx);
        for at in 0..self.watches.len() {
            if self.config.kind == Kind::Bfd {
                if self.sessions[at].due() <= cx.read_clock().0 {
                    self.control(at, false, cx);
                }
                continue;
            }
            // A back end on the same machine may answer within this call.
            if let Some(packet) = self.packet(at, self.watches[at].1.sent()) {
                self.sent += 1;
                cx.emit(0, packet);
            }
        }
        cx.set_timer(self.next(now));
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.drain() {
            let reason = self.heard(packet.data(), cx);
            cx.drop(packet, reason);
        }
    }

    fn take(&mut self, old: BalanceHealth) {
        let mut new = Vec::new();
        for (own, (name, watch)) in self.watches.iter_mut().enumerate() {
            let Some(at) = old.watches.iter().position(|(known, _)| known == name) else {
                new.push(own);
                continue;
            };
            watch.follow(&old.watches[at].1);
            self.changes[own] = old.changes[at];
            self.sessions[own] = old.sessions[at].clone();
        }
        // New back ends must pass their probes before they receive packets, if an old back end is up.
        let known = (0..self.watches.len()).filter(|own| !new.contains(own));
        if known.into_iter().any(|own| self.watches[own].1.up()) {
            for own in new {
                self.watches[own].1.await_answers();
                self.shared.pool.set_up(own as u16, false, 0);
            }
        }
    }

    const HANDLERS: &'static [Handler<BalanceHealth>] = &[
        counter!("count", "probes sent", sent),
        Handler::set(
            "forget",
            "forgets earlier failures, so that a back end comes back as soon as after its first one",
            |e, _, _| {
                e.watches.iter_mut().for_each(|(_, watch)| watch.forget());
                Ok(())
            },
        ),
        Handler::text(
            "metrics",
            "samples for Prometheus: missing probes, their delay, changes of each back end",
            |e, _| Ok(e.metrics()),
        ),
        Handler::text(
            "backends",
            "a line per back end: name, up or down and why, probes of the last 32 that did not come back, how long the \
             last one took",
            |e, _| Ok(e.show()),
        ),
    ];
}

/// Unpredictable random number.
///
/// # Errors
///
/// The kernel's error of getrandom(2).
fn draw() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    // getrandom(2) never returns less than requested for up to 256 bytes.
    while getrandom(&mut bytes[..], GetRandomFlags::empty())? < bytes.len() {}
    Ok(u64::from_be_bytes(bytes))
}

impl BalanceHealth {
    /// Probe packet for a back end; `None` if the back end has no address for this kind of probe, or no buffer is free.
    fn packet(&self, at: usize, number: u64) -> Option<Packet> {
        let of = self.shared.backends.get(at)?;
        let probe = Probe {
            nonce: self.config.nonce,
            backend: at as u16,
            number,
        };
        if self.config.kind == Kind::Icmp {
            let to = (of.ether, of.address?);
            return Packet::from_bytes(&ping::write(probe, to, self.config.own));
        }
        if self.config.kind == Kind::Arp {
            let to = (of.ether, of.address?);
            return Packet::from_bytes(&arp_probe::write(to, self.config.own));
        }
        Packet::from_bytes(&echo::write(probe, of.ether, self.config.own))
    }

    /// Records the answer to a probe. Returns the index of the drop counter for the frame.
    fn heard(&mut self, frame: &[u8], cx: &mut Cx) -> u8 {
        let is_arp = frame.get(12..14) == Some(&ether::ARP.to_be_bytes());
        let found = match self.config.kind {
            _ if is_arp => self.answered(frame),
            Kind::Icmp => self.pinged(frame),
            Kind::Bfd => match self.session(frame, cx) {
                Ok(Some(found)) => Ok(found),
                Ok(None) => return HEARD,
                Err(reason) => Err(reason),
            },
            Kind::Echo | Kind::Arp => {
                match echo::read(frame, self.config.nonce, self.config.own.1) {
                    Ok(probe) => Ok((usize::from(probe.backend), probe.number)),
                    Err(Bad::Malformed) => Err(MALFORMED),
                    Err(Bad::Ttl) => Err(TTL),
                    Err(Bad::Forged) => Err(FORGED),
                }
            }
        };
        let (at, number) = match found {
            Ok(found) => found,
            Err(reason) => return reason,
        };
        let Some((_, watch)) = self.watches.get_mut(at) else {
            return UNKNOWN;
        };
        if let Some(change) = watch.heard(number, cx.read_clock().0) {
            self.tell(&[(at, change)], cx);
        }
        HEARD
    }

    /// Back end of an ARP reply, and the number of the last probe, which the reply answers. The error is a drop
    /// counter's index.
    fn answered(&self, frame: &[u8]) -> Result<(usize, u64), u8> {
        let (ether, address) = arp_probe::read(frame).ok_or(MALFORMED)?;
        let mut all = self.shared.backends.iter();
        let at = all
            .position(|of| (of.ether, of.address) == (ether, Some(address)))
            .ok_or(UNKNOWN)?;
        Ok((at, self.watches[at].1.sent()))
    }

    /// Back end of an echo reply, and the number of the probe that the reply answers. The error is a drop counter's
    /// index.
    fn pinged(&self, frame: &[u8]) -> Result<(usize, u64), u8> {
        let (from, probe) = ping::read(frame, self.config.own.1).ok_or(MALFORMED)?;
        if probe.nonce != self.config.nonce {
            return Err(FORGED);
        }
        let at = usize::from(probe.backend);
        let of = self.shared.backends.get(at).ok_or(UNKNOWN)?;
        match (of.ether, of.address) == (from.0, Some(from.1)) {
            true => Ok((at, probe.number)),
            false => Err(FORGED),
        }
    }

    /// Time of the next run: after INTERVAL, or after at least half of it if a BFD session has to send.
    fn next(&self, now: Time) -> Time {
        let interval = self.config.interval;
        let due = match self.config.kind {
            Kind::Bfd => self.sessions.iter().map(|one| one.due()).min(),
            _ => None,
        };
        due.map_or(now + interval, |due| {
            Time(due).clamp(now + interval / 2, now + interval)
        })
    }

    /// Judges a back end with a BFD session by the packets received since the last call.
    fn check(&mut self, at: usize, cx: &mut Cx) -> Option<(usize, Change)> {
        let now = cx.read_clock().0;
        if !self.sessions[at].checks(now) {
            return None;
        }
        let (_, change) = self.watches[at].1.probe(now);
        if matches!(change, Some(Change::Down(_))) {
            self.sessions[at].fail();
        }
        change.map(|change| (at, change))
    }

    /// Sends a control packet of a BFD session.
    fn control(&mut self, at: usize, answers: bool, cx: &mut Cx) {
        let of = &self.shared.backends[at];
        let Some(address) = of.address else {
            return;
        };
        let ends = Ends {
            from: self.config.own,
            to: (of.ether, address),
        };
        let settings = (at, self.config.interval, self.config.misses);
        let (now, draw) = (cx.read_clock().0, cx.random());
        let frame = self.sessions[at].frame(now, ends, settings, (answers, draw));
        if let Some(packet) = Packet::from_bytes(&frame) {
            self.sent += 1;
            cx.emit(0, packet);
        }
    }

    /// Back end of a BFD packet, and the number of the last probe, which the packet answers; `None` if the session is
    /// not up. The error is a drop counter's index.
    fn session(&mut self, frame: &[u8], cx: &mut Cx) -> Result<Option<(usize, u64)>, u8> {
        let (from, packet) = bfd::read(frame, self.config.own.1).ok_or(MALFORMED)?;
        let mut all = self.shared.backends.iter();
        let at = all
            .position(|of| (of.ether, of.address) == (from.0, Some(from.1)))
            .ok_or(UNKNOWN)?;
        let heard = self.sessions[at].hear(packet, self.config.interval);
        let heard = heard.ok_or(FORGED)?;
        if heard.asks {
            self.control(at, true, cx);
        }
        Ok(heard.is_up.then(|| (at, self.watches[at].1.sent())))
    }

    /// Applies and logs transitions of back ends at one time.
    fn tell(&mut self, changes: &[(usize, Change)], cx: &mut Cx) {
        if changes.is_empty() {
            return;
        }
        let states: Vec<(u16, bool)> = changes
            .iter()
            .map(|&(at, change)| (at as u16, change == Change::Up))
            .collect();
        let moved = self.shared.pool.set_states(&states, cx.now().0);
        for (&(at, change), moved) in changes.iter().zip(moved) {
            let name = &self.watches[at].0;
            let line = match change {
                Change::Up => format!("{name} up"),
                Change::Down(cause) => {
                    format!("{name} down {cause}, {moved} buckets moved at once")
                }
            };
            self.changes[at] += 1;
            self.note(line, cx);
        }
        if states.iter().any(|(_, up)| !up) && !self.watches.iter().any(|(_, watch)| watch.up()) {
            self.note("no back end is up: all keep their buckets".to_owned(), cx);
        }
    }

    /// Writes a line into the pool's journal and the log.
    fn note(&self, line: String, cx: &mut Cx) {
        self.shared.note(cx.timestamp(), &line);
        cx.defer(move |cx| {
            let line = format!("{}: {line}", cx.name());
            cx.say(&line);
        });
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        for ((name, watch), changes) in self.watches.iter().zip(&self.changes) {
            let delay = Duration::from_nanos(watch.delay()).as_secs_f64();
            for (family, value) in [
                ("missing_probes", f64::from(watch.missing())),
                ("probe_delay_seconds", delay),
                ("changes_total", *changes as f64),
            ] {
                let _ = writeln!(text, "balancer_backend_{family} {value} backend={name}");
            }
        }
        text
    }

    fn show(&self) -> String {
        let mut text = String::new();
        for (name, watch) in &self.watches {
            let state = match watch.cause() {
                Some(cause) => format!("down {cause}"),
                None => "up".to_owned(),
            };
            let delay = Duration::from_nanos(watch.delay());
            let _ = writeln!(
                text,
                "{name} {state} missing {} delay {delay:?}",
                watch.missing()
            );
        }
        text
    }
}

#[cfg(test)]
#[path = "balance_health_tests.rs"]
mod tests;
