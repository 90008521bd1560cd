//! Translates addresses and identifiers of pings.
//!
//! An echo request of a new flow makes a mapping; echo replies to it are rewritten back. In patterns the
//! identifier replaces the source port. Replies without a mapping, and packets that are not pings, are dropped,
//! except at inputs with `pass`.
//!
//! ```click
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> nat :: ICMPPingRewriter(pattern 192.0.2.1 - 0-65535 0 1, drop) -> Discard;
//! FromDevice(null:65) -> Strip(14) -> CheckIPHeader -> [1]nat[1] -> Discard;
//! ```
//!
//! Arguments: one specification for each input, as for IPRewriter; patterns may also be
//! `pattern SADDR DADDR IDENT FOUTPUT ROUTPUT`, with a range of identifiers.
//!
//! Keyword arguments:
//!
//! - `TIMEOUT`: lifetime of an unused mapping. Default 5min.
//! - `GUARANTEE`, `REAP_INTERVAL`, `MAPPING_CAPACITY`, `DST_ANNO`, `REPLY_ANNO`: as for IPRewriter.

use super::handlers::{handlers, table};
use super::rewriter::{Family, Rewriter};
use crate::prelude::*;
use nat::key::Kind;

pub(super) struct ICMPPingRewriter;

impl Family for ICMPPingRewriter {
    const CLASS: &'static str = "ICMPPingRewriter";
    const MANUAL: &'static str = manual!();
    const KIND: Kind = Kind::Ping;

    const HANDLERS: &'static [Handler<Rewriter<ICMPPingRewriter>>] =
        handlers![table::<_, 0>("table"), table::<_, 0>("mappings"),];
}
