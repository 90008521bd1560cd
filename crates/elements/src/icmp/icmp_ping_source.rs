//! Pings an address: makes ICMP echo requests, and reports on the replies.
//!
//! ```click
//! p :: ICMPPingSource(192.0.2.1, 198.51.100.1, INTERVAL 0.5, LIMIT 3)
//!     -> ICMPPingResponder -> p;
//! ```
//!
//! A request is made at every interval, or for each packet that is pulled. The sequence number counts up from
//! 0. The input takes the replies. Replies with the element's identifier are counted, timed and, with
//! `VERBOSE`, reported on the standard error stream. Every packet of the input ends here: as `answered` if it
//! is such a reply, otherwise as `other`.
//!
//! Arguments:
//!
//! - `SRC`: the source address.
//! - `DST`: the destination address.
//!
//! Keyword arguments:
//!
//! - `INTERVAL`: time between requests, and before the first one. Default 1s.
//! - `IDENTIFIER`: the identifier of the requests. By default it is random, so that others cannot forge replies; with
//!   `ashlar click` it is 0, as in Click.
//! - `LIMIT`: number of requests; negative = no limit, the default.
//! - `STOP`: true to stop the router at the limit. Default false.
//! - `DATA`: data of the requests. Default is none.
//! - `ACTIVE`: true if requests are made. Default true.
//! - `MIRROR`: true if a reply becomes the next request, even beyond `LIMIT`. Default false.
//! - `VERBOSE`: true if replies are reported. Default true.

use super::encap::Message;
use super::rtt::{RttStats, milliseconds, seconds};
use crate::ip4::encap::{Headed, Header, To, read_dst, read_src, write_dst, write_src};
use crate::prelude::*;
use crate::source::remaining_before;
use crate::stderr_messages::complain;
use arguments::show;
use arguments::units::{self, Bytes};
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::{Icmp, Ipv4, icmp, proto};

drops! {
    ANSWERED = "answered",
    OTHER = "other",
}

/// Minimum interval, so that requests leave time for other work.
const SHORTEST: Duration = Duration::from_micros(1);

pub(super) struct Config {
    message: Message,
    identifier: Option<u16>,
    interval: Duration,
    limit: i64,
    stop: bool,
    data: Vec<u8>,
    active: bool,
    mirror: bool,
    verbose: bool,
}

pub(super) struct ICMPPingSource {
    name: String,
    config: Arc<Config>,
    message: Message,
    /// True if the identifier is not yet chosen.
    unnumbered: bool,
    /// The first sequence number.
    first: u16,
    interval: Duration,
    limit: i64,
    active: bool,
    count: u64,
    /// Send time by sequence number; empty without an input for replies.
    sent: Vec<Option<Time>>,
    trips: RttStats,
}

impl ICMPPingSource {
    fn remaining(&self) -> usize {
        match self.active {
            true => remaining_before(self.limit, self.count),
            false => 0,
        }
    }

    /// Next request; `None` without a free buffer.
    fn request(&mut self, cx: &Cx, data: &[u8]) -> Option<Packet> {
        let mut packet = Packet::from_bytes(data)?;
        // Replies are matched by this number, which follows from the count on any worker.
        let number = (self.count as u16).wrapping_add(self.first);
        if !self.message.prepend(&mut packet, number) {
            return None;
        }
        packet.cold_mut().timestamp = cx.timestamp();
        if let Some(sent) = self.sent.get_mut(usize::from(number)) {
            *sent = Some(cx.now());
        }
        self.count += 1;
        Some(packet)
    }

    /// Stops the router if STOP is set and the limit is reached.
    fn stop_if_done(&self, cx: &mut Cx) {
        if self.config.stop && remaining_before(self.limit, self.count) == 0 {
            cx.stop();
        }
    }

    /// Counts a reply to a request; `None` if the packet is not such a reply.
    fn reply(&mut self, packet: &Packet, cx: &Cx) -> Option<()> {
        let bytes = packet.data().get(packet.network_offset()..)?;
        let ip = Ipv4::new_checked(bytes).ok()?;
        if ip.protocol() != proto::ICMP {
            return None;
        }
        let message = Icmp::new_checked(ip.payload()).ok()?;
        let ours = message.kind() == icmp::ECHO_REPLY && message.ident() == self.message.identifier;
        if !ours {
            return None;
        }
        let trip = cx
            .now()
            .since(self.sent.get_mut(usize::from(message.seq()))?.take()?);
        self.trips.add(trip);
        if self.config.verbose {
            complain(&format!(
                "{}: {} bytes from {}: icmp_seq={} ttl={} time={} ms",
                self.name,
                ip.payload().len(),
                ip.src(),
                message.seq(),
                ip.ttl(),
                milliseconds(trip),
            ));
        }
        Some(())
    }

    fn schedule(&self, cx: &mut Cx) {
        if self.remaining() > 0 {
            cx.set_timer(cx.now() + self.interval.max(SHORTEST));
        }
    }

    fn summary(&self) -> String {
        let (sent, received) = (self.count, self.trips.count());
        let lost = sent.saturating_sub(received) * 100 / sent.max(1);
        format!(
            "{sent} packets transmitted, {received} received, {lost}% packet loss\n{}",
            self.trips.summary()
        )
    }
}

impl Element for ICMPPingSource {
    const CONTRACT: Contract = Contract::new("ICMPPingSource", manual!())
        .ports(Ports::coded(&["replies?"], &["out"], "h/a"))
        .gives(&[Facts::IP4.and(Facts::AT_NETWORK).and(Facts::DST4)])
        .drops(DROPS)
        .copies(Copies::One)
        .runs(Runs::AsTaskIfPush);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let src = args.required("SRC", "the source address");
        let dst: Ipv4Addr = args.required("DST", "the destination address");
        let identifier = args.key_maybe("IDENTIFIER", "the identifier of the requests");
        Config {
            identifier,
            interval: args.key("INTERVAL", Duration::from_secs(1), "time between requests"),
            message: Message {
                header: Header {
                    ttl: if args.as_click { 200 } else { 250 },
                    ..Header::new(src, To::Fixed(dst), proto::ICMP)
                },
                kind: icmp::ECHO,
                code: 0,
                identifier: identifier.unwrap_or(0),
            },
            limit: args.key("LIMIT", -1, "number of requests; negative = no limit"),
            stop: args.key("STOP", false, "true to stop the router at the limit"),
            data: args
                .key("DATA", Bytes(Vec::new()), "body of the requests")
                .0,
            active: args.key("ACTIVE", true, "true if requests are made"),
            mirror: args.key("MIRROR", false, "true if replies become the next requests"),
            verbose: args.key("VERBOSE", true, "true if replies are reported"),
        }
    }

    fn new(config: &Arc<Config>, init: &Init) -> ICMPPingSource {
        let times = if init.inputs > 0 { 0x1_0000 } else { 0 };
        ICMPPingSource {
            name: init.name.to_owned(),
            message: config.message,
            unnumbered: config.identifier.is_none() && !init.as_click(),
            first: u16::from(init.as_click()),
            interval: config.interval,
            limit: config.limit,
            active: config.active,
            count: 0,
            sent: vec![None; times],
            trips: RttStats::default(),
            config: Arc::clone(config),
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        if std::mem::take(&mut self.unnumbered) {
            self.message.identifier = cx.random() as u16;
        }
        self.schedule(cx);
    }

    fn task(&mut self, _: &mut Cx) -> Did {
        match remaining_before(self.limit, self.count) {
            0 => Did::End,
            _ => Did::Sleep,
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        if self.remaining() == 0 {
            self.stop_if_done(cx);
            return cx.wake_self();
        }
        let config = Arc::clone(&self.config);
        if let Some(packet) = self.request(cx, &config.data) {
            cx.emit(0, packet);
        }
        cx.set_timer(cx.now() + self.interval.max(SHORTEST));
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        let config = Arc::clone(&self.config);
        for _ in 0..max.min(self.remaining()) {
            into.extend(self.request(cx, &config.data));
        }
        if self.remaining() == 0 {
            self.stop_if_done(cx);
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        for packet in batch.drain() {
            if self.reply(&packet, cx).is_none() {
                cx.drop(packet, OTHER);
                continue;
            }
            if !self.config.mirror {
                cx.drop(packet, ANSWERED);
                continue;
            }
            let data = packet.network_offset() + wire::ipv4::MIN_LEN + icmp::LEN;
            let data = packet.data().get(data..).unwrap_or(&[]);
            if let Some(request) = self.request(cx, data) {
                cx.emit(0, request);
            }
            cx.drop(packet, ANSWERED);
        }
    }

    fn take(&mut self, old: ICMPPingSource) {
        self.trips = old.trips;
        if self.unnumbered && old.config.identifier.is_none() {
            self.message.identifier = old.message.identifier;
            self.unnumbered = old.unnumbered;
        }
        if old.sent.len() == self.sent.len() {
            self.sent = old.sent;
        }
    }

    const HANDLERS: &'static [Handler<ICMPPingSource>] = &[
        Handler::show("active", "see ACTIVE", |e| &e.active),
        Handler::set("active", "see ACTIVE", |e, value, cx| {
            let was_active = e.active;
            assign(&mut e.active, value)?;
            if e.active != was_active {
                cx.cancel_timer();
                if e.remaining() > 0 {
                    cx.set_timer(cx.now());
                }
            }
            Ok(())
        }),
        counter!("count", "requests made", count),
        Handler::set("limit", "see LIMIT", |e, value, cx| {
            assign(&mut e.limit, value)?;
            e.schedule(cx);
            Ok(())
        }),
        Handler::text("interval", "see INTERVAL", |e, _| {
            Ok(show::interval(e.interval))
        }),
        Handler::set("interval", "see INTERVAL", |e, value, cx| {
            e.interval = units::parse(value)?;
            cx.cancel_timer();
            e.schedule(cx);
            Ok(())
        }),
        Handler::set("reset_counts", "counts from zero again", |e, _, cx| {
            (e.count, e.trips) = (0, RttStats::default());
            e.sent.fill(None);
            e.schedule(cx);
            Ok(())
        }),
        read_src(),
        write_src(),
        read_dst(),
        write_dst(),
        Handler::text(
            "summary",
            "requests, replies, losses, round trips",
            |e, _| Ok(e.summary()),
        ),
        Handler::text("rtt_min", "shortest round trip, in seconds", |e, _| {
            Ok(seconds(e.trips.min()))
        }),
        Handler::text("rtt_avg", "average round trip, in seconds", |e, _| {
            Ok(seconds(e.trips.average()))
        }),
        Handler::text("rtt_max", "longest round trip, in seconds", |e, _| {
            Ok(seconds(e.trips.max()))
        }),
    ];
}

impl Headed for ICMPPingSource {
    fn header(&self) -> &Header {
        &self.message.header
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.message.header
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::Bench;

    #[test]
    fn requests_are_answered_and_counted() {
        let text = "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, INTERVAL 0.5, LIMIT 3, STOP true, VERBOSE false)
            -> CheckIPHeader -> CheckICMPHeader -> t :: Tee -> ICMPPingResponder -> p; t[1] -> out :: Collect";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.advance(Duration::from_millis(1600));
        let numbers: Vec<u8> = bench.take("out").iter().map(|p| p[27]).collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!(
            bench.read("p.summary"),
            "3 packets transmitted, 3 received, 0% packet loss\nrtt min/avg/max = 0.000/0.000/0.000 ms"
        );
        assert!(!bench.graph().stopped());
        bench.advance(Duration::from_millis(500));
        assert!(bench.graph().stopped());
    }

    #[test]
    fn replies_are_timed_and_counts_begin_again() {
        let text = "p :: ICMPPingSource(10.0.0.1, 10.0.0.2, LIMIT 2, IDENTIFIER 0, VERBOSE false)
            -> ICMPPingResponder -> Queue -> DelayUnqueue(0.03) -> p;
            Idle -> c :: CheckIPHeader -> p";
        let mut bench = Bench::strict(crate::CLASSES, text);
        for round in 1..=2 {
            bench.advance(Duration::from_secs(3));
            assert_eq!(
                bench.read("p.summary"),
                "2 packets transmitted, 2 received, 0% packet loss\n\
                 rtt min/avg/max = 30.000/30.000/30.000 ms"
            );
            assert_eq!(bench.read("p.rtt_avg"), "0.030000");
            assert_eq!(bench.drops("p", "answered"), 2 * round);
            // An answered request is not answered again.
            let again = testkit::ip4().src("10.0.0.2").icmp_echo_reply(0, 1);
            bench.push("c", &[again.bytes()]);
            assert_eq!(bench.drops("p", "other"), round);
            bench.write("p.reset_counts", "");
        }
    }

    #[test]
    fn an_identifier_that_is_not_given_cannot_be_guessed() {
        let text = "p :: ICMPPingSource(1.0.0.1, 2.0.0.2) -> out :: Collect; Idle -> p;
            q :: ICMPPingSource(1.0.0.1, 2.0.0.2) -> others :: Collect";
        let identifiers = |bench: &mut Bench| {
            bench.advance(Duration::from_millis(2500));
            ["out", "others"].map(|out| {
                let all = bench.take(out).into_iter();
                let mut all: Vec<_> = all.map(|p| [p[24], p[25]]).collect();
                assert!(all.len() >= 2);
                all.dedup();
                all
            })
        };
        let mut bench = Bench::new(crate::CLASSES, text);
        let [first, second] = identifiers(&mut bench);
        assert!(first.len() == 1 && second.len() == 1 && first != second);
        bench
            .reload(&text.replace("Idle -> p", "Idle -> Null -> p"))
            .expect("it is right");
        assert_eq!(identifiers(&mut bench), [first, second]);
        let mut bench = Bench::click(crate::CLASSES, text);
        assert_eq!(identifiers(&mut bench), [[[0, 0]], [[0, 0]]]);
    }

    #[test]
    fn every_pull_makes_a_request_up_to_the_limit() {
        let text =
            "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 5, DATA abc) -> Unqueue -> out :: Collect";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.run();
        let out = bench.take("out");
        assert_eq!((out.len(), &out[4][28..]), (5, &b"abc"[..]));
    }

    #[test]
    fn a_reply_becomes_the_next_request() {
        let text = "p :: ICMPPingSource(1.0.0.1, 2.0.0.2, LIMIT 1, MIRROR true, VERBOSE false)
            -> ICMPPingResponder -> s :: Switch(0) -> q :: Queue -> u :: Unqueue -> p; s[1] -> Discard";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.advance(Duration::from_millis(999));
        bench.write("u.limit", "9");
        bench.advance(Duration::from_millis(1));
        assert_eq!(bench.read("p.count"), "10");
    }
}
