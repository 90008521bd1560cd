//! The contract of an element class: one const with all declarations on which the planner relies.
//!
//! Defaults are the safe choice where there is one: packets come with initialised annotations and in segments, and an
//! output establishes no fact. A class that changes or moves a header must say [`Contract::spoils`]; one whose state
//! cannot be split, [`Contract::copies`]; one that drops packets, [`Contract::drops`]; one that starts work by itself,
//! [`Contract::runs`].

use crate::facts::Facts;
use crate::ports::Ports;
use std::any::Any;
use std::sync::Arc;

/// The extensions of a class, each found by its type; see `element::extension`.
pub type Extensions = &'static [&'static (dyn Any + Send + Sync)];

/// Number of copies of an element that may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// One copy of the element for each core that reaches it.
    PerCore,
    /// One copy in all: the element keeps an order or a state that cannot be split.
    One,
    /// One copy, on the worker that owns the element's state and the state of the elements that it names. The plan puts
    /// queues before the element's inputs, through which packets from other workers reach the owner. The inputs must be
    /// push.
    Owner,
}

/// Occasions on which an element runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// The element runs only when packets arrive or a timer expires.
    OnPackets,
    /// Task that is always ready.
    AsTask,
    /// Task if its input is pull, otherwise on packets (ToDevice, Discard).
    AsTaskIfPull,
    /// Task if its output is push, otherwise on demand (InfiniteSource).
    AsTaskIfPush,
}

/// A configuration with its type erased.
pub type AnyConfig = Arc<dyn Any + Send + Sync>;

/// Declarations of a class. Write `Contract::new(...)`, and a line for each declaration that
/// differs from the default.
#[derive(Clone, Copy)]
pub struct Contract {
    /// The class name that configurations use.
    pub name: &'static str,
    /// Source file of the class; see [`Contract::manual`].
    pub source: &'static str,
    /// See [`Contract::ports`].
    pub ports: Ports,
    /// See [`Contract::needs`].
    pub needs: &'static [Facts],
    /// See [`Contract::gives`].
    pub gives: &'static [Facts],
    /// See [`Contract::spoils`].
    pub spoils: Facts,
    /// See [`Contract::drops`].
    pub drops: &'static [&'static str],
    /// See [`Contract::copies`].
    pub copies: Copies,
    /// See [`Contract::runs`].
    pub runs: Runs,
    /// See [`Contract::extensions`].
    pub extensions: Extensions,
    /// See [`Contract::ignores_annotations`].
    pub reads_annotations: bool,
    /// See [`Contract::carries_super_frames_if`].
    pub carries_super_frames: fn(&AnyConfig) -> bool,
}

impl Contract {
    /// The contract of a class without ports. For `source` write `manual!("my_element.rs")`: the manual page is the
    /// documentation at the head of that file.
    pub const fn new(name: &'static str, source: &'static str) -> Contract {
        Contract {
            name,
            source,
            ports: Ports::new(&[], &[]),
            needs: &[],
            gives: &[],
            spoils: Facts::NONE,
            drops: &[],
            copies: Copies::PerCore,
            runs: Runs::OnPackets,
            extensions: &[],
            reads_annotations: true,
            carries_super_frames: |_| false,
        }
    }

    /// Ports by name.
    pub const fn ports(self, ports: Ports) -> Contract {
        Contract { ports, ..self }
    }

    /// Facts that must hold for packets at each input; the last entry is for all further inputs.
    pub const fn needs(self, needs: &'static [Facts]) -> Contract {
        Contract { needs, ..self }
    }

    /// Facts that hold for packets at each output; the last entry is for all further outputs.
    pub const fn gives(self, gives: &'static [Facts]) -> Contract {
        Contract { gives, ..self }
    }

    /// Facts that no longer hold for packets that leave the element.
    pub const fn spoils(self, spoils: Facts) -> Contract {
        Contract { spoils, ..self }
    }

    /// Names of drops, for `Verdict::drop` and `Cx::drop`.
    pub const fn drops(self, drops: &'static [&'static str]) -> Contract {
        Contract { drops, ..self }
    }

    /// Number of copies that may run.
    pub const fn copies(self, copies: Copies) -> Contract {
        Contract { copies, ..self }
    }

    /// Occasions on which an element runs.
    pub const fn runs(self, runs: Runs) -> Contract {
        Contract { runs, ..self }
    }

    /// Extensions that the class implements beside `Element`; see [`extension`](crate::element::extension).
    pub const fn extensions(self, extensions: Extensions) -> Contract {
        Contract { extensions, ..self }
    }

    /// The class reads no annotations except the hash and those that `needs` guarantees. Nor does it pass packets,
    /// by a copy or a queue, to an element that reads more. If this holds for all classes downstream of a device, the
    /// port skips initialising annotations; a class that reads them all the same reads those of another packet.
    pub const fn ignores_annotations(self) -> Contract {
        let reads_annotations = false;
        Contract {
            reads_annotations,
            ..self
        }
    }

    /// An element processes a super-frame like any packet (see [`super_frame`](crate::packet::super_frame)). It
    /// treats all segments of a super-frame alike, changes nothing after the network header, needs no TCP checksum,
    /// and stores no packets. Where a length decides, it uses `Packet::segment_len`. Other elements get the segments.
    pub const fn carries_super_frames(self) -> Contract {
        self.carries_super_frames_if(|_| true)
    }

    /// Like [`carries_super_frames`](Contract::carries_super_frames), if a configuration allows it.
    pub const fn carries_super_frames_if(
        self,
        carries_super_frames: fn(&AnyConfig) -> bool,
    ) -> Contract {
        Contract {
            carries_super_frames,
            ..self
        }
    }

    /// An extension of the class, by its type.
    pub fn extension<T: 'static>(&self) -> Option<&'static T> {
        self.extensions.iter().find_map(|one| one.downcast_ref())
    }

    /// Facts that an input requires.
    pub fn needs_at(&self, input: usize) -> Facts {
        at_port(self.needs, input)
    }

    /// Facts that an output establishes.
    pub fn gives_at(&self, output: usize) -> Facts {
        at_port(self.gives, output)
    }

    /// The manual page as text: the file's leading `//!` lines.
    pub fn manual(&self) -> String {
        let lines = self.source.lines().take_while(|l| l.starts_with("//!"));
        let mut text = String::new();
        for line in lines {
            let line = line.trim_start_matches("//!");
            text.push_str(line.strip_prefix(' ').unwrap_or(line));
            text.push('\n');
        }
        text
    }

    /// The first sentence of the manual page.
    pub fn summary(&self) -> String {
        let manual = self.manual();
        let first: Vec<&str> = manual.lines().take_while(|l| !l.is_empty()).collect();
        first.join(" ")
    }
}

/// The entry for a port; the last one is for all further ports.
fn at_port(facts: &[Facts], port: usize) -> Facts {
    let facts = facts.get(port).or(facts.last());
    facts.copied().unwrap_or(Facts::NONE)
}

/// The drops of a class as one list. Each line makes a constant, for `Verdict::drop` and `Cx::drop`; `DROPS` has the
/// names, for [`Contract::drops`](crate::element::Contract::drops).
///
/// ```
/// engine::drops! {
///     FAR = "far",
///     NO_HEADER = "no_header",
/// }
/// assert_eq!((FAR, NO_HEADER, DROPS), (0, 1, &["far", "no_header"][..]));
/// ```
#[macro_export]
macro_rules! drops {
    (@from $number:expr;) => {};
    (@from $number:expr; $vis:vis $name:ident = $text:expr, $($rest:tt)*) => {
        $vis const $name: u8 = $number;
        $crate::drops!(@from $number + 1; $($rest)*);
    };
    ($($vis:vis $name:ident = $text:expr),+ $(,)?) => {
        const DROPS: &[&str] = &[$($text),+];
        $crate::drops!(@from 0; $($vis $name = $text,)+);
    };
}
