//! What a source does when it has made all its packets.

use crate::prelude::*;
use engine::call::HandlerCall;

/// The arguments `STOP` and `END_CALL`.
#[derive(Clone)]
pub(super) struct End {
    stop: bool,
    call: Option<HandlerCall>,
}

impl End {
    /// Reads them; at most one of them may be given.
    pub(super) fn parse(args: &mut Args) -> End {
        let stop = args.key("STOP", false, "whether to stop the router at the limit");
        let call: Option<HandlerCall> =
            args.key_maybe("END_CALL", "handler that is written at the limit");
        if let Some(call) = &call {
            args.will_write(call);
        }
        if stop && call.is_some() {
            args.error_in_whole("END_CALL and STOP are mutually exclusive", "leave one out");
        }
        End { stop, call }
    }

    /// The limit is reached: stops the router, or writes the handler when the source has returned.
    pub(super) fn reached(&self, cx: &mut Cx) {
        if self.stop {
            cx.stop();
        }
        if let Some(call) = &self.call {
            cx.defer_write(call);
        }
    }
}
