//! Common part of elements that play the packets of a file in order, while they are active: pushed by a task or
//! pulled, at once or at their times.

use super::playback_times::{Pace, Sample};
use crate::prelude::*;

/// Next packet to send.
pub(super) enum Next {
    Packet(Packet),
    /// A packet, later: the timer is set.
    Later,
    /// No buffer is available now.
    NoBuffer,
    End,
}

/// The arguments `TIMING`, `SAMPLE` and `ACTIVE`.
#[derive(Clone, Copy)]
pub(super) struct PlaybackArgs {
    timing: bool,
    pub(super) sample: Sample,
    active: bool,
}

impl PlaybackArgs {
    /// Reads the arguments.
    pub(super) fn parse(args: &mut Args) -> PlaybackArgs {
        PlaybackArgs {
            timing: args.key("TIMING", false, "true if packets keep their delays"),
            sample: Sample::parse(args),
            active: args.key("ACTIVE", true, "if false, emits nothing"),
        }
    }
}

/// Progress of playing a file.
pub(super) struct Playback {
    pub(super) args: PlaybackArgs,
    pub(super) active: bool,
    /// A packet that was read and has not left: it is not yet due, or not wanted yet.
    pub(super) waiting: Option<Packet>,
    pub(super) pace: Pace,
    output_pull: bool,
    /// Length of the file in bytes, if it is known.
    size: Option<u64>,
    /// Bytes of the dump that were read.
    pub(super) position: u64,
}

impl Playback {
    pub(super) fn new(args: PlaybackArgs, size: Option<u64>, init: &Init) -> Playback {
        Playback {
            args,
            active: args.active,
            waiting: None,
            pace: Pace::default(),
            output_pull: init.output_pull,
            size,
            position: 0,
        }
    }

    /// With `TIMING`, a packet that is not due yet waits, and the timer is set.
    pub(super) fn hold(&mut self, packet: Packet, cx: &mut Cx) -> Next {
        if self.args.timing
            && let Some(due) = self.pace.due_later(&packet, cx.now())
        {
            self.waiting = Some(packet);
            cx.set_timer(due);
            return Next::Later;
        }
        Next::Packet(packet)
    }

    /// True if the element is pulled.
    pub(super) fn is_pulled(&self) -> bool {
        self.output_pull
    }
}

/// A class that plays a file back.
pub(super) trait PlaybackClass: Element {
    fn playback(&self) -> &Playback;

    fn playback_mut(&mut self) -> &mut Playback;

    /// Returns the next packet.
    fn next(&mut self, cx: &mut Cx) -> Next;

    /// Handles the end of the packets, for now or for good.
    fn end(&mut self, cx: &mut Cx) -> Did;

    /// True if all packets of the file have left.
    fn is_over(&self) -> bool;
}

/// The element can work again.
pub(super) fn wake(cx: &mut Cx) {
    cx.wake_self();
    cx.wake_pullers();
}

/// Starts playback: wakes pulling elements if it is active.
pub(super) fn start(e: &impl PlaybackClass, cx: &mut Cx) {
    if e.playback().active {
        cx.wake_pullers();
    }
}

/// Appends up to `max` packets.
pub(super) fn pull(e: &mut impl PlaybackClass, max: usize, into: &mut Batch, cx: &mut Cx) {
    if !e.playback().active {
        return cx.note_empty();
    }
    for _ in 0..max {
        match e.next(cx) {
            Next::Packet(packet) => into.push(packet),
            Next::End => {
                if e.end(cx) == Did::Work {
                    continue;
                }
                cx.note_empty();
                return cx.wake_self();
            }
            Next::Later => return cx.note_empty(),
            Next::NoBuffer => return,
        }
    }
}

/// Pushes a packet.
pub(super) fn task(e: &mut impl PlaybackClass, cx: &mut Cx) -> Did {
    let playback = e.playback();
    if playback.output_pull || !playback.active {
        return if e.is_over() { Did::End } else { Did::Sleep };
    }
    match e.next(cx) {
        Next::Packet(packet) => {
            cx.emit(0, packet);
            Did::Work
        }
        Next::Later => Did::Sleep,
        Next::NoBuffer => Did::Nothing,
        Next::End => e.end(cx),
    }
}

/// Hot swap between elements of the same configuration: the file is read on where it was read before.
pub(super) fn take<E: PlaybackClass>(e: &mut E, old: E) {
    let output_pull = e.playback().output_pull;
    *e = old;
    e.playback_mut().output_pull = output_pull;
}

pub(super) const fn sampling_prob<E: PlaybackClass>() -> Handler<E> {
    let doc = "probability with which a packet is taken";
    Handler::text("sampling_prob", doc, |e, _| {
        Ok(e.playback().args.sample.show())
    })
}

pub(super) const fn active<E: PlaybackClass>() -> Handler<E> {
    Handler::text("active", "true if it makes packets", |e, _| {
        Ok(e.playback().active.to_string())
    })
}

pub(super) const fn set_active<E: PlaybackClass>() -> Handler<E> {
    Handler::set("active", "see ACTIVE", |e, value, cx| {
        e.playback_mut().active = arguments::units::parse(value)?;
        wake(cx);
        Ok(())
    })
}

pub(super) const fn filesize<E: PlaybackClass>() -> Handler<E> {
    Handler::text("filesize", "length of the file in bytes", |e, _| {
        let size = e.playback().size;
        Ok(size.map_or("-".into(), |size| size.to_string()))
    })
}

pub(super) const fn filepos<E: PlaybackClass>() -> Handler<E> {
    Handler::text("filepos", "bytes of the file that were read", |e, _| {
        Ok(e.playback().position.to_string())
    })
}

pub(super) const fn stop<E: PlaybackClass>() -> Handler<E> {
    let doc = "stops making packets, and stops the router";
    Handler::set("stop", doc, |e, _, cx| {
        e.playback_mut().active = false;
        cx.stop();
        Ok(())
    })
}
