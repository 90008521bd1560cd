//! The whole router: any frames at its ports, at any times, on either walker.
//!
//! The first byte chooses the walker; then come records: a byte of flags, a length, the frame.

use super::Choices;
use crate::whole::Whole;
use engine::graph::Walker;
use std::cell::RefCell;
use std::time::Duration;

/// The port that receives the frame.
const PORT: u8 = 1;
/// The router runs after this frame; else frames gather into a burst.
const RUN: u8 = 2;
/// Time passes after this frame.
const WAIT: u8 = 4;
/// The frame is sent to the router's own Ethernet address.
const TO_US: u8 = 8;
/// Makes the IPv4 header checksum correct.
const SUMMED: u8 = 16;
/// The length counts in units of 8 bytes.
const LONG: u8 = 32;
/// Makes the Ethertype fit the first byte after the header.
const TYPED: u8 = 64;

/// Address of in-memory ports.
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Inputs that a router takes before it is replaced. Building one takes as long as feeding it a hundred inputs. An
/// earlier input leaves only neighbours and their timers.
const INPUTS: u32 = 64;

thread_local! {
    /// A router for each walker, and the inputs that it has taken.
    static ROUTERS: RefCell<[Option<(Whole, u32)>; 2]> = const { RefCell::new([None, None]) };
}

/// Feeds a router.
pub fn run(data: &[u8]) {
    let mut choices = Choices(&data[..data.len().min(16 << 10)]);
    let walker = usize::from(choices.byte() & 1);
    // A router that panics is not put back.
    let kept = ROUTERS.with_borrow_mut(|all| all[walker].take());
    let (mut router, inputs) = kept.unwrap_or_else(|| {
        let walker = [Walker::Sweep, Walker::Strict][walker];
        (Whole::router(walker), 0)
    });
    feed(&mut router, choices);
    if inputs + 1 < INPUTS {
        ROUTERS.with_borrow_mut(|all| all[walker] = Some((router, inputs + 1)));
    }
}

fn feed(router: &mut Whole, mut choices: Choices) {
    let before = engine::packet::pool::balance();
    while !choices.is_empty() {
        let flags = choices.byte();
        let length = usize::from(choices.byte()) << if flags & LONG != 0 { 3 } else { 0 };
        let mut frame = choices.bytes(length).to_vec();
        shape(&mut frame, flags);
        router.receive(usize::from(flags & PORT), [&frame[..]]);
        if flags & RUN != 0 {
            router.settle();
        }
        if flags & WAIT != 0 {
            router.advance(Duration::from_millis(700));
        }
    }
    router.settle();
    // Neighbours expire first, fragments later. A reassembled packet has its own buffer.
    for seconds in [1, 5, 90] {
        if router.check().held() == 0 && engine::packet::pool::balance() == before {
            return;
        }
        router.advance(Duration::from_secs(seconds));
    }
    assert_eq!(router.check().held(), 0, "nothing waits so long");
    assert_eq!(
        engine::packet::pool::balance(),
        before,
        "buffers were leaked"
    );
}

/// Helps the fuzzer past checks that it would pass only by chance.
fn shape(frame: &mut [u8], flags: u8) {
    if flags & TO_US != 0
        && let Some(to) = frame.first_chunk_mut()
    {
        *to = ROUTER;
    }
    if frame.len() > 14 && flags & TYPED != 0 {
        let ethertype: [u8; 2] = match frame[14] >> 4 {
            4 => [0x08, 0x00],
            6 => [0x86, 0xdd],
            _ => [0x08, 0x06],
        };
        frame[12..14].copy_from_slice(&ethertype);
    }
    if flags & SUMMED != 0
        && let Some(ip) = frame.get_mut(14..)
        && let Some(first) = ip.first()
        && let Some(header) = ip.get_mut(..usize::from(first & 15) * 4)
        && header.len() >= 20
    {
        header[10..12].fill(0);
        let sum = wire::checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}
