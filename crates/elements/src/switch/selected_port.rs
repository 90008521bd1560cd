//! The port that a switch has chosen.

use crate::prelude::*;

/// A port of an element, or none.
#[derive(Clone, Copy)]
pub(super) struct Selected {
    port: i32,
    ports: usize,
}

impl Selected {
    /// A choice of `port` among `ports`; negative = none.
    pub(super) fn new(port: i32, ports: usize) -> Selected {
        let there_is = usize::try_from(port).is_ok_and(|port| port < ports);
        Selected {
            port: if there_is { port } else { -1 },
            ports,
        }
    }

    /// The port, if one is chosen.
    #[inline]
    pub(super) fn port(self) -> Option<usize> {
        usize::try_from(self.port).ok()
    }

    /// Leaves by the port, or is dropped under the first name.
    #[inline]
    pub(super) fn verdict(self) -> Verdict {
        self.port()
            .map_or(Verdict::drop(0), |p| Verdict::out(p as u8))
    }

    /// Changes the choice, from a handler's text.
    pub(super) fn set(&mut self, value: &str) -> Result<(), String> {
        let port: i32 = arguments::units::parse(value)?;
        if usize::try_from(port).is_ok_and(|port| port >= self.ports) {
            return Err(format!("the port must be < {}", self.ports));
        }
        self.port = port.max(-1);
        Ok(())
    }

    /// The choice as a handler's text.
    pub(super) fn show(self) -> Result<String, String> {
        Ok(self.port.to_string())
    }
}

/// Reads the argument `INPUT` or `OUTPUT`; without a default it must be given.
pub(super) fn argument(args: &mut Args, name: &'static str, default: Option<i32>) -> i32 {
    let ports = match name {
        "INPUT" => args.inputs(),
        _ => args.outputs(),
    };
    let doc = "number of the port; negative = none";
    let port: i32 = match default {
        Some(port) => args.optional(name, port, doc),
        None => args.required(name, doc),
    };
    if usize::try_from(port).is_ok_and(|port| port >= ports) {
        args.error_in_whole(
            format!("{name} must be < {ports}"),
            "connect the port, or name another",
        );
    }
    port
}
