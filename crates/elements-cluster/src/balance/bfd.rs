//! BFD in asynchronous mode (RFC 5880, RFC 5881) with one back end: packets and the state of a session.

use super::udp::{self, Ends};
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::{Ether, EtherAddr, Ipv4, Udp, ether, proto};

/// UDP port of control packets (RFC 5881, 4).
const PORT: u16 = 3784;
/// First source port of sessions.
const SOURCE: u16 = 49152;
/// TTL of control packets; forwarded packets have a lower one (RFC 5881, 5).
const TTL: u8 = 255;
const LEN: usize = 24;
const POLL: u8 = 1 << 5;
const FINAL: u8 = 1 << 4;
const AUTHENTICATED: u8 = 1 << 2;
const MULTIPOINT: u8 = 1;
/// Minimum interval between packets while a session is not up (RFC 5880, 6.8.3).
const SLOW: Duration = Duration::from_secs(1);
/// Time after the start, in nanoseconds, in which a session that was never up is not counted as failed.
const PATIENCE_NS: u64 = 5_000_000_000;

/// Session state, with the numbers that control packets use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    AdminDown = 0,
    Down = 1,
    Init = 2,
    Up = 3,
}

/// Fields of a control packet that a session needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Control {
    state: State,
    flags: u8,
    multiplier: u8,
    own: u32,
    other: u32,
    /// Desired Min TX Interval of the sender, in microseconds.
    sends: u32,
    /// Required Min RX Interval of the sender, in microseconds.
    takes: u32,
}

impl Control {
    fn bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[0] = 1 << 5;
        bytes[1] = (self.state as u8) << 6 | self.flags;
        bytes[2] = self.multiplier;
        bytes[3] = LEN as u8;
        for (at, word) in [self.own, self.other, self.sends, self.takes]
            .into_iter()
            .enumerate()
        {
            bytes[4 + 4 * at..][..4].copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Parses a control packet; `None` if RFC 5880, 6.8.6 requires to discard the packet.
    fn parse(bytes: &[u8]) -> Option<Control> {
        let fixed: &[u8; LEN] = bytes.first_chunk()?;
        let word = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let control = Control {
            state: match fixed[1] >> 6 {
                0 => State::AdminDown,
                1 => State::Down,
                2 => State::Init,
                _ => State::Up,
            },
            flags: fixed[1] & 0x3f,
            multiplier: fixed[2],
            own: word(4),
            other: word(8),
            sends: word(12),
            takes: word(16),
        };
        let length = usize::from(fixed[3]);
        let is_right = fixed[0] >> 5 == 1
            && (LEN..=bytes.len()).contains(&length)
            && control.multiplier != 0
            && control.own != 0
            && control.flags & (AUTHENTICATED | MULTIPOINT) == 0
            && (control.other != 0 || matches!(control.state, State::Down | State::AdminDown));
        is_right.then_some(control)
    }
}

/// Sender and control packet of a frame to the address `own`. The UDP checksum is ignored, since a kernel on the same
/// machine leaves it to hardware offload.
pub(super) fn read(frame: &[u8], own: Ipv4Addr) -> Option<((EtherAddr, Ipv4Addr), Control)> {
    let from = Ether::new_checked(frame).ok()?.src();
    let ip = Ipv4::new_checked(frame.get(ether::LEN..)?).ok()?;
    let is_right = ip.verify_checksum()
        && ip.dst() == own
        && ip.protocol() == proto::UDP
        && ip.ttl() == TTL
        && !ip.is_fragment();
    if !is_right {
        return None;
    }
    let udp = Udp::new_checked(ip.payload()).ok()?;
    let control = Control::parse(udp.payload()).filter(|_| udp.dst_port() == PORT)?;
    Some(((from, ip.src()), control))
}

/// A BFD session with a back end.
#[derive(Clone, Debug)]
pub(super) struct Session {
    own: u32,
    other: u32,
    state: State,
    /// True if the session has been up once.
    was_up: bool,
    /// True until the other end acknowledges a changed interval (poll sequence).
    polls: bool,
    /// Maximum interval between packets from the other end, in nanoseconds.
    pace: u64,
    /// Minimum interval that the other end accepts, in nanoseconds; 0 if it wants no packets.
    takes: u64,
    /// Time at which the next packet is due, in nanoseconds.
    due: u64,
    /// Time of the session's start, in nanoseconds.
    started: u64,
    /// Time of the last check for missing packets, in nanoseconds.
    checked: u64,
}

/// Result of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// True if the session is up.
    pub(super) is_up: bool,
    /// True if the other end polls, which requires an immediate answer.
    pub(super) asks: bool,
}

impl Session {
    /// Session with a discriminator, which begins at `now`, in nanoseconds.
    pub(super) fn new(own: u32, now: u64) -> Session {
        Session {
            // A discriminator is never 0. Discriminators are consecutive, so no other session has 2^31.
            own: if own == 0 { 1 << 31 } else { own },
            other: 0,
            state: State::Down,
            was_up: false,
            polls: false,
            pace: SLOW.as_nanos() as u64,
            takes: 1000,
            due: 0,
            started: now,
            checked: now,
        }
    }

    /// True if a check for missing packets is due, one interval of the other end after the last check; the check then
    /// counts as done. The first check of a session that was never up is due [`PATIENCE_NS`] after its start.
    pub(super) fn checks(&mut self, now: u64) -> bool {
        let is_awaited = self.was_up || now.saturating_sub(self.started) >= PATIENCE_NS;
        let is_over = now.saturating_sub(self.checked) >= self.pace;
        if is_awaited && is_over {
            self.checked = now;
        }
        is_awaited && is_over
    }

    /// Takes the session down after a detection timeout.
    pub(super) fn fail(&mut self) {
        (self.state, self.other, self.polls) = (State::Down, 0, false);
    }

    /// Time at which the next packet is due, in nanoseconds.
    pub(super) fn due(&self) -> u64 {
        self.due
    }

    /// Schedules the next packet. Random jitter from `draw` shortens the interval by up to a quarter, so that sessions
    /// do not synchronise (RFC 5880, 6.8.7).
    fn wait(&mut self, now: u64, interval: Duration, draw: u32) {
        let own = match self.state {
            State::Up => interval,
            _ => interval.max(SLOW),
        };
        let gap = self.takes.max(own.as_nanos() as u64);
        self.due = match self.takes {
            0 => u64::MAX,
            _ => now.saturating_add(gap - ((u128::from(gap / 4) * u128::from(draw)) >> 32) as u64),
        };
    }

    /// Processes a packet from the other end. `None` if the packet is for another session.
    pub(super) fn hear(&mut self, packet: Control, interval: Duration) -> Option<Heard> {
        if packet.other != 0 && packet.other != self.own {
            return None;
        }
        self.other = packet.own;
        if self.takes == 0 {
            self.due = 0;
        }
        self.takes = u64::from(packet.takes) * 1000;
        if packet.flags & FINAL != 0 {
            self.polls = false;
        }
        let was = self.state;
        self.state = match (self.state, packet.state) {
            (_, State::AdminDown) => State::Down,
            (State::Down, State::Down) => State::Init,
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => State::Up,
            (State::Up, State::Down) => State::Down,
            (state, _) => state,
        };
        if self.state == State::Up && was != State::Up {
            // From now on, packets are sent faster (RFC 5880, 6.8.3).
            (self.polls, self.was_up, self.due) = (true, true, 0);
        }
        let interval = interval.as_nanos() as u64;
        self.pace = interval.max(u64::from(packet.sends) * 1000);
        Some(Heard {
            is_up: self.state == State::Up,
            asks: packet.flags & POLL != 0,
        })
    }

    /// Control packet in its frame. `answers` is true for the answer to a poll. Otherwise the next packet is scheduled,
    /// with jitter from `draw`.
    pub(super) fn frame(
        &mut self,
        now: u64,
        ends: Ends,
        (at, interval, multiplier): (usize, Duration, u32),
        (answers, draw): (bool, u32),
    ) -> Vec<u8> {
        if !answers {
            self.wait(now, interval, draw);
        }
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let control = Control {
            state: self.state,
            flags: match (answers, self.polls) {
                (true, _) => FINAL,
                (false, true) => POLL,
                (false, false) => 0,
            },
            multiplier: u8::try_from(multiplier).unwrap_or(u8::MAX),
            own: self.own,
            other: self.other,
            sends: micros(match self.state {
                State::Up => interval,
                _ => interval.max(SLOW),
            }),
            takes: micros(interval),
        };
        udp::frame(ends, (SOURCE + at as u16, PORT), &control.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(10);
    const ENDS: Ends = Ends {
        from: (EtherAddr([2, 0, 0, 0, 1, 3]), Ipv4Addr::new(10, 255, 0, 1)),
        to: (EtherAddr([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 255, 0, 11)),
    };

    fn packet(of: &mut Session, answers: bool) -> Control {
        let frame = of.frame(0, ENDS, (3, INTERVAL, 3), (answers, 0));
        let (from, control) = read(&frame, ENDS.to.1).expect("a packet");
        assert_eq!(from, ENDS.from);
        control
    }

    #[test]
    fn two_ends_come_up_and_one_that_was_silent_is_heard_again() {
        let (mut a, mut b) = (Session::new(7, 0), Session::new(0, 0));
        let mut states = Vec::new();
        for _ in 0..3 {
            let of_a = packet(&mut a, false);
            assert!(b.hear(of_a, INTERVAL).is_some());
            let of_b = packet(&mut b, false);
            a.hear(of_b, INTERVAL);
            states.push((a.state, b.state));
        }
        assert_eq!(
            states,
            [
                (State::Up, State::Init),
                (State::Up, State::Up),
                (State::Up, State::Up)
            ]
        );
        // Both have announced that they send faster, and stop polling once that was acknowledged.
        let asked = packet(&mut a, false);
        assert_eq!((asked.flags, asked.sends), (POLL, 10_000));
        assert_eq!(
            b.hear(asked, INTERVAL),
            Some(Heard {
                is_up: true,
                asks: true
            })
        );
        a.hear(packet(&mut b, true), INTERVAL);
        assert_eq!(packet(&mut a, false).flags, 0);
        assert_eq!(a.pace, 10_000_000);
        // b was silent, and is informed of the failure.
        a.fail();
        let down = packet(&mut a, false);
        assert_eq!(
            (down.state, down.other, down.sends),
            (State::Down, 0, 1_000_000)
        );
        assert_eq!(
            b.hear(down, INTERVAL),
            Some(Heard {
                is_up: false,
                asks: false
            })
        );
        assert!(a.was_up);
    }

    #[test]
    fn packets_go_out_as_the_other_end_can_take_them_and_up_to_a_quarter_earlier() {
        let (mut a, mut b) = (Session::new(7, 0), Session::new(9, 0));
        for _ in 0..2 {
            b.hear(packet(&mut a, false), INTERVAL);
            a.hear(packet(&mut b, false), INTERVAL);
        }
        assert_eq!(a.state, State::Up);
        let gap = |a: &mut Session, draw| {
            a.frame(1000, ENDS, (3, INTERVAL, 3), (false, draw));
            a.due() - 1000
        };
        assert_eq!(gap(&mut a, 0), 10_000_000);
        assert_eq!(gap(&mut a, 1 << 31), 8_750_000);
        assert_eq!(gap(&mut a, u32::MAX), 7_500_001);
        let mut slow = packet(&mut b, false);
        slow.takes = 300_000;
        a.hear(slow, INTERVAL);
        assert_eq!(gap(&mut a, 0), 300_000_000);
        // An answer does not delay a packet that is due.
        a.frame(5000, ENDS, (3, INTERVAL, 3), (true, 0));
        assert_eq!(a.due(), 300_001_000);
        slow.takes = 0;
        a.hear(slow, INTERVAL);
        a.frame(1000, ENDS, (3, INTERVAL, 3), (false, 0));
        assert_eq!(a.due(), u64::MAX);
        slow.takes = 1;
        a.hear(slow, INTERVAL);
        assert_eq!(a.due(), 0);
    }

    #[test]
    fn missing_packets_are_checked_for_once_an_interval_and_not_before_a_first_session_had_time() {
        let mut a = Session::new(7, 0);
        assert!(!a.checks(PATIENCE_NS - 1));
        assert!(a.checks(PATIENCE_NS));
        assert!(!a.checks(PATIENCE_NS + 999_999_999));
        assert!(a.checks(PATIENCE_NS + 1_000_000_000));
        let mut b = Session::new(9, 0);
        for _ in 0..2 {
            b.hear(packet(&mut a, false), INTERVAL);
            a.hear(packet(&mut b, false), INTERVAL);
        }
        assert!(a.was_up && !b.checks(9_999_999) && b.checks(10_000_000));
    }

    #[test]
    fn packets_that_the_rfc_discards_change_nothing() {
        let mut a = Session::new(7, 0);
        let mut b = Session::new(9, 0);
        let frame = b.frame(0, ENDS, (0, INTERVAL, 3), (false, 0));
        let good = read(&frame, ENDS.to.1).expect("a packet").1.bytes();
        for (at, value) in [
            (0, 0x40), // version 2
            (1, 0x44), // authenticated
            (1, 0x41), // multipoint
            (1, 0xc0), // up, and knows no session here
            (2, 0),    // no multiplier
            (3, 23),   // too short
            (3, 25),   // longer than the packet
            (7, 0),    // no session there
        ] {
            let mut wrong = good;
            wrong[at] = value;
            assert_eq!(Control::parse(&wrong), None, "{at} {value}");
        }
        for len in 0..LEN {
            assert_eq!(Control::parse(&good[..len]), None);
        }
        let mut other = good;
        other[11] = 99;
        let other = Control::parse(&other).expect("right in itself");
        assert_eq!(a.hear(other, INTERVAL), None);
        let mut forwarded = frame;
        Ipv4::new_unchecked(&mut forwarded[ether::LEN..]).dec_ttl();
        assert_eq!(read(&forwarded, ENDS.to.1), None);
    }

    #[test]
    fn an_end_that_is_administratively_down_is_down() {
        let (mut a, mut b) = (Session::new(7, 0), Session::new(9, 0));
        for _ in 0..2 {
            b.hear(packet(&mut a, false), INTERVAL);
            a.hear(packet(&mut b, false), INTERVAL);
        }
        assert_eq!(a.state, State::Up);
        b.state = State::AdminDown;
        assert_eq!(
            a.hear(packet(&mut b, false), INTERVAL)
                .map(|heard| heard.is_up),
            Some(false)
        );
    }
}
