//! Makes packets of random bytes as fast as it can.
//!
//! ```click
//! RandomSource(64, LIMIT 10) -> Discard;
//! ```
//!
//! Works like InfiniteSource with random data. The bytes depend on the router's seed.
//!
//! Arguments:
//!
//! - `LENGTH`: bytes of each packet.
//! - `LIMIT`: number of packets; negative = no limit, the default.
//! - `BURST`: packets made at a time. Default 1.
//! - `ACTIVE`: if false, makes none. Default true.
//!
//! Keyword arguments:
//!
//! - `TIMESTAMP`: true if packets get the time at which they are made as their timestamp. Default true.
//! - `STOP`: true to stop the router when `LIMIT` is reached. Default false.
//! - `END_CALL`: handler that is written when `LIMIT` is reached, instead of `STOP`.
//! - `CORES`: the workers on which it runs. Default 0.

use super::infinite_source::{InfiniteSource, Kind, SourceArgs, burst, set_burst};
use super::source_state;
use super::template::Template;
use crate::prelude::*;

/// Kind whose packets contain random bytes.
pub(crate) struct Random;

pub(crate) type RandomSource = InfiniteSource<Random>;

impl Kind for Random {
    const CLASS: &'static str = "RandomSource";
    const MANUAL: &'static str = manual!();
    const HANDLERS: &'static [Handler<RandomSource>] = &[
        source_state::count(),
        source_state::reset(),
        source_state::length(),
        source_state::set_length(),
        source_state::limit(),
        source_state::set_limit(),
        burst(),
        set_burst(),
        source_state::active(),
        source_state::set_active(),
    ];

    fn template(args: &mut Args) -> SourceArgs {
        let length: u16 = args.required("LENGTH", "length of each packet");
        SourceArgs::rest(args, |args| Template::blank(args, length.into()))
    }

    fn fill(packet: &mut Packet, cx: &mut Cx) {
        for chunk in packet.data_mut().chunks_mut(4) {
            chunk.copy_from_slice(&cx.random().to_ne_bytes()[..chunk.len()]);
        }
    }
}
