//! Counts of bad packets by fault, and their log messages.

use crate::prelude::*;
use crate::stderr_messages::complain;

/// Frequency of log messages about bad packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Say {
    Never,
    Once,
    Always,
}

/// Texts of a class that checks packets.
#[derive(Debug)]
pub(crate) struct Wording<const N: usize> {
    /// Name of the checked header, such as `IP`.
    pub(crate) header: &'static str,
    /// Name of each fault; several may have the same.
    pub(crate) faults: [&'static str; N],
    /// Lines of `drop_details`, in Click's order. Faults missing here are listed after them if they occurred.
    pub(crate) lines: &'static [&'static str],
}

/// Counters of an element's bad packets.
pub(crate) struct Faults<const N: usize> {
    name: String,
    say: Say,
    wording: &'static Wording<N>,
    counts: [u64; N],
}

/// Parses the keywords `VERBOSE` and `DETAILS`. Returns the value of `VERBOSE`.
pub(crate) fn verbose(args: &mut Args) -> bool {
    args.key(
        "DETAILS",
        false,
        "accepted: faults are always counted by kind",
    );
    args.key("VERBOSE", false, "true if every bad packet is reported")
}

impl<const N: usize> Faults<N> {
    /// Counters at zero. In Click's mode, the first bad packet of each element is logged, too.
    pub(crate) fn new(verbose: bool, wording: &'static Wording<N>, init: &Init) -> Faults<N> {
        Faults {
            name: init.name.to_owned(),
            say: match (verbose, init.as_click()) {
                (true, _) => Say::Always,
                (false, true) => Say::Once,
                (false, false) => Say::Never,
            },
            wording,
            counts: [0; N],
        }
    }

    /// Counts and logs a fault. The fault is also the drop reason.
    #[cold]
    pub(crate) fn note(&mut self, fault: u8) {
        let fault = usize::from(fault);
        self.counts[fault] += 1;
        if self.say != Say::Never {
            let (header, what) = (self.wording.header, self.wording.faults[fault]);
            complain(&format!(
                "{}: {header} header check failed: {what}",
                self.name
            ));
            if self.say == Say::Once {
                self.say = Say::Never;
            }
        }
    }

    /// Counts a bad packet. Returns the verdict: output 1, or a drop.
    #[cold]
    pub(crate) fn reject(&mut self, fault: u8) -> Verdict {
        self.note(fault);
        Verdict::reject(fault, 1)
    }

    /// Number of bad packets.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Counters with names, one per line.
    pub(crate) fn details(&self) -> String {
        let Wording { faults, lines, .. } = self.wording;
        let count = |line: &str| -> u64 {
            let each = self.counts.iter().zip(faults);
            each.filter(|(_, name)| **name == line)
                .map(|(n, _)| n)
                .sum()
        };
        let own = faults.iter().filter(|f| !lines.contains(f));
        let own = own.filter(|f| count(f) > 0);
        let all = lines.iter().chain(own);
        all.map(|line| format!("{}\t{line}\n", count(line)))
            .collect()
    }

    /// Takes over the counters of the replaced element.
    pub(crate) fn take(&mut self, old: Faults<N>) {
        self.counts = old.counts;
    }
}
