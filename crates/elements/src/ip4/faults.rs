//! Counts of bad packets by fault, and their log messages.

use crate::complain::complain;
use crate::prelude::*;

/// Frequency of reports of bad packets on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Say {
    Never,
    Once,
    Always,
}

/// Names of the faults in a class that checks packets.
#[derive(Debug)]
pub(crate) struct Wording<const N: usize> {
    /// Name of the checked header, such as `IP`.
    pub(crate) header: &'static str,
    /// Name of each fault; several may have the same.
    pub(crate) faults: [&'static str; N],
    /// The lines of `drop_details`, in Click's order. Faults that are not among them are our own, and
    /// are shown where there are any.
    pub(crate) lines: &'static [&'static str],
}

/// Counts of an element's bad packets.
pub(crate) struct Faults<const N: usize> {
    name: String,
    say: Say,
    wording: &'static Wording<N>,
    counts: [u64; N],
}

/// Reads the keywords `VERBOSE` and `DETAILS`; gives the first.
pub(crate) fn verbose(args: &mut Args) -> bool {
    args.key(
        "DETAILS",
        false,
        "accepted: faults are always counted by kind",
    );
    args.key("VERBOSE", false, "true if every bad packet is reported")
}

impl<const N: usize> Faults<N> {
    /// No faults so far. With Click's driver, the first bad packet of each element is reported, too.
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

    /// Counts and reports a fault, which is also the reason of the drop.
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

    /// Counts a bad packet, which leaves by output 1 or is dropped.
    #[cold]
    pub(crate) fn reject(&mut self, fault: u8) -> Verdict {
        self.note(fault);
        Verdict::reject(fault, 1)
    }

    /// Bad packets.
    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// A line per fault: its count and its name.
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

    /// Continues the old counts after a hot swap.
    pub(crate) fn take(&mut self, old: Faults<N>) {
        self.counts = old.counts;
    }
}
