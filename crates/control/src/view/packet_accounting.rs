//! Packet accounting of a router: every received packet was sent, was dropped under a name, or is held.

use crate::view::Stats;
use engine::plan::Plan;
use std::fmt;

/// Counts of one element, summed over workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Name.
    pub name: String,
    /// Class.
    pub class: String,
    /// Packets that came over the element's connections.
    pub entered: u64,
    /// Packets that left by the element's outputs.
    pub left: u64,
    /// Packets dropped, by name; names with a count only.
    pub drops: Vec<(String, u64)>,
    /// Packets held.
    pub held: u64,
    /// Packets that the element made.
    pub made: u64,
    /// Packets that ended in the element without being dropped: sent, counted or answered.
    pub taken: u64,
}

/// Packet accounting of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketAccounting {
    /// Every element, in the order of the configuration.
    pub lines: Vec<Line>,
    /// Number of buffers that workers have allocated and not freed; `None` for DPDK's pool, from which drivers
    /// allocate, too.
    pub buffers: Option<i64>,
}

/// Computes the packet accounting from a plan and its counters.
pub fn balance(plan: &Plan, stats: Stats) -> PacketAccounting {
    let entered: Vec<u64> = (0..plan.elements.len())
        .map(|node| pushed_into(plan, &stats, node) + pulled_by(plan, &stats, node))
        .collect();
    let buffers: i64 = stats.workers.iter().map(|w| w.buffers).sum();
    let elements = stats.elements.into_iter().zip(entered);
    let lines = elements.map(|(element, entered)| {
        let mut drops: Vec<(String, u64)> = Vec::new();
        for (at, name) in element.drop_names.into_iter().enumerate() {
            let count = element.copies.iter().filter_map(|c| c.drops.get(at)).sum();
            if count > 0 {
                drops.push((name, count));
            }
        }
        let left = element.copies.iter().flat_map(|c| &c.sent).sum();
        let held = element.copies.iter().map(|c| c.held).sum();
        let gone = left + held + drops.iter().map(|(_, n)| n).sum::<u64>();
        Line {
            name: element.name,
            class: element.class,
            entered,
            left,
            drops,
            held,
            made: gone.saturating_sub(entered),
            taken: entered.saturating_sub(gone),
        }
    });
    PacketAccounting {
        lines: lines.collect(),
        buffers: (!engine::packet::pool::is_external()).then_some(buffers),
    }
}

/// Packets that came by push inputs. Those that were pulled from the element are counted with them.
fn pushed_into(plan: &Plan, stats: &Stats, node: usize) -> u64 {
    let element = &plan.elements[node];
    if !element.inputs.contains(&false) {
        return 0;
    }
    let copies = &stats.elements[node].copies;
    let pulled = |sent: &[u64]| -> u64 {
        let outputs = sent.iter().zip(&element.outputs);
        outputs.filter(|(_, pull)| **pull).map(|(n, _)| n).sum()
    };
    let each = copies
        .iter()
        .map(|c| c.packets.saturating_sub(pulled(&c.sent)));
    each.sum()
}

/// Packets that the element pulled, as counted by the upstream elements.
fn pulled_by(plan: &Plan, stats: &Stats, node: usize) -> u64 {
    let edges = plan.edges.edges_to(node).filter(|e| e.pull);
    let sent = edges.flat_map(|e| {
        let copies = stats.elements[e.from.0].copies.iter();
        copies.filter_map(|c| c.sent.get(e.from.1))
    });
    sent.sum()
}

impl PacketAccounting {
    /// Totals of packets: in, out, dropped, held.
    pub fn totals(&self) -> (u64, u64, u64, u64) {
        let sum = |f: fn(&Line) -> u64| self.lines.iter().map(f).sum();
        let dropped = |l: &Line| l.drops.iter().map(|(_, n)| n).sum();
        (
            sum(|l| l.made),
            sum(|l| l.taken),
            sum(dropped),
            sum(|l| l.held),
        )
    }

    /// True if the held packets are all packets that exist. It is false only after a defect of the program.
    pub fn fit(&self) -> bool {
        let (made, taken, dropped, held) = self.totals();
        let buffers = self.buffers.is_none_or(|n| u64::try_from(n) == Ok(held));
        made == taken + dropped + held && buffers
    }
}

impl fmt::Display for PacketAccounting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide =
            |side: fn(&Line) -> usize, least| self.lines.iter().map(side).fold(least, usize::max);
        let (name, class) = (wide(|l| l.name.len(), 7), wide(|l| l.class.len(), 5));
        writeln!(
            f,
            "{:name$}  {:class$} {:>12} {:>12} {:>12}",
            "element", "class", "in", "out", "held"
        )?;
        for l in &self.lines {
            let (held, entered, left) = (l.held, l.entered, l.left);
            write!(
                f,
                "{:name$}  {:class$} {entered:>12} {left:>12} {held:>12}",
                l.name, l.class
            )?;
            for (reason, count) in &l.drops {
                write!(f, "  {reason} {count}")?;
            }
            writeln!(f)?;
        }
        let (made, taken, dropped, held) = self.totals();
        writeln!(
            f,
            "books: in {made} = out {taken} + drops {dropped} + held {held}"
        )?;
        if let Some(buffers) = self.buffers.filter(|_| !self.fit()) {
            writeln!(
                f,
                "books: {buffers} buffers are in use, but {held} packets are held"
            )?;
        }
        Ok(())
    }
}
