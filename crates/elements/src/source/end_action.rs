//! Action of an element after its last packet: `STOP` and `END_CALL`.

use crate::prelude::*;
use engine::graph::call::HandlerCall;

/// Values of `STOP` and `END_CALL`.
#[derive(Clone)]
pub struct End {
    /// True if the router stops at the end.
    pub stop: bool,
    /// The handler that is written at the end.
    pub call: Option<HandlerCall>,
}

impl End {
    /// Parses `STOP` and `END_CALL`, of which at most one may be given.
    pub fn parse(args: &mut Args) -> End {
        let stop = args.key("STOP", false, "true to stop the router at the end");
        let call: Option<HandlerCall> =
            args.key_maybe("END_CALL", "handler that is written at the end");
        if let Some(call) = &call {
            args.will_write(&call.path);
        }
        if stop && call.is_some() {
            args.error_in_whole(
                "'END_CALL' and 'STOP' are mutually exclusive",
                "leave one out",
            );
        }
        End { stop, call }
    }

    /// True if the end does something.
    pub fn acts(&self) -> bool {
        self.stop || self.call.is_some()
    }

    /// Handles the end of a source: stops the router, or writes the handler after the element has returned.
    pub fn handle_end(&self, cx: &mut Cx) {
        if self.stop {
            cx.stop();
        }
        if let Some(call) = &self.call {
            cx.defer_write(call);
        }
    }
}
