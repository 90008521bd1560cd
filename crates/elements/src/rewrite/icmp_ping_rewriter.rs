//! Translates addresses and identifiers of pings.
//!
//! An echo request of an unknown flow makes a mapping; the echo replies to it are rewritten back. The
//! identifier takes the place of the source port in patterns. Replies that nobody asked for are dropped, but
//! on inputs that say `pass`; so is what is no ping.
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
//! - `TIMEOUT`: how long an unused mapping lasts. Default 5min.
//! - `GUARANTEE`, `REAP_INTERVAL`, `MAPPING_CAPACITY`, `DST_ANNO`, `REPLY_ANNO`: as for IPRewriter.

use super::handlers::{handlers, table};
use super::key::Kind;
use super::rewriter::{Family, Rewriter};
use crate::prelude::*;

pub(super) struct ICMPPingRewriter;

impl Family for ICMPPingRewriter {
    const CLASS: &'static str = "ICMPPingRewriter";
    const MANUAL: &'static str = manual!();
    const KIND: Kind = Kind::Ping;

    const HANDLERS: &'static [Handler<Rewriter<ICMPPingRewriter>>] =
        handlers![table::<_, 0>("table"), table::<_, 0>("mappings"),];
}
