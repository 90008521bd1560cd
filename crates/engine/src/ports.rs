//! An element's ports: their names, and whether packets are pushed or pulled.

/// Flow of packets at a port, as in Click's processing codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// `h`: the source sends.
    Push,
    /// `l`: the destination asks.
    Pull,
    /// `a`: as the neighbours want.
    Agnostic,
}

/// Names and processing of an element's ports.
///
/// A name that ends in `?` may stay unconnected: packets for such an output are dropped under the port's name. A last
/// name that ends in `*` stands for any number of ports (also none), `+` for one or more. Processing is Click's code
/// for inputs and outputs: `h` push, `l` pull, `a` agnostic; the last letter counts for all further ports.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// Input names.
    pub inputs: &'static [&'static str],
    /// Output names.
    pub outputs: &'static [&'static str],
    /// Click's processing code, such as `h/lh`.
    pub processing: &'static str,
    /// True if agnostic ports are all push or all pull: packets pass from inputs to outputs.
    pub joined: bool,
}

impl Ports {
    /// Agnostic ports.
    pub const fn new(inputs: &'static [&'static str], outputs: &'static [&'static str]) -> Ports {
        Ports {
            inputs,
            outputs,
            processing: "a/ah",
            joined: true,
        }
    }

    /// Ports with a processing code.
    pub const fn coded(
        inputs: &'static [&'static str],
        outputs: &'static [&'static str],
        processing: &'static str,
    ) -> Ports {
        Ports {
            inputs,
            outputs,
            processing,
            joined: true,
        }
    }

    /// The same ports, if no packet passes from an input to an output.
    pub const fn apart(self) -> Ports {
        Ports {
            joined: false,
            ..self
        }
    }

    /// True if there may be any number of outputs: then none is the main one, though the first may have names.
    pub const fn any_outputs(&self) -> bool {
        match self.outputs.last() {
            Some(name) => matches!(name.as_bytes().last(), Some(b'*' | b'+')),
            None => false,
        }
    }

    fn code(&self, side: usize, port: usize) -> Flow {
        let mut halves = self.processing.splitn(2, '/');
        let inputs = halves.next().unwrap_or("a");
        let letters = if side == 0 {
            inputs
        } else {
            halves.next().unwrap_or(inputs)
        };
        match letters.as_bytes().get(port).or(letters.as_bytes().last()) {
            Some(b'h') => Flow::Push,
            Some(b'l') => Flow::Pull,
            _ => Flow::Agnostic,
        }
    }

    /// Processing of an input.
    pub fn input_flow(&self, port: usize) -> Flow {
        self.code(0, port)
    }

    /// Processing of an output.
    pub fn output_flow(&self, port: usize) -> Flow {
        self.code(1, port)
    }

    /// Fewest and most ports of a side.
    pub fn range(names: &[&str]) -> (usize, usize) {
        let least = names.iter().filter(|n| !n.ends_with(['?', '*'])).count();
        let open = names.last().is_some_and(|n| n.ends_with(['*', '+']));
        (least, if open { usize::MAX } else { names.len() })
    }

    /// True if a port may stay unconnected.
    pub fn optional(names: &[&str], port: usize) -> bool {
        names
            .get(port)
            .or(names.last())
            .is_some_and(|n| n.ends_with(['?', '*']))
    }

    /// Name of a port without its mark; with a number if the name stands for many ports.
    pub fn port_name(names: &[&str], port: usize) -> String {
        let many = |n: &&&str| n.ends_with(['*', '+']);
        match names.get(port) {
            Some(name) if !many(&name) => name.trim_end_matches('?').to_owned(),
            _ => match names.last().filter(many) {
                Some(name) => format!("{}{port}", name.trim_end_matches(['*', '+'])),
                None => port.to_string(),
            },
        }
    }
}
