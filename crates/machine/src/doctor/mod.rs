//! Diagnosis of what this machine lacks for ports, why it matters, and the remedy.

mod card;
mod cores;
mod interface;
mod memory;
mod modules;
mod rights;

use crate::Machine;
use serde::{Deserialize, Serialize};

pub use card::why_not;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Everything works, but something could be better.
    Note,
    /// Something does not work as expected.
    Warning,
    /// Something does not work at all.
    Error,
}

impl Level {
    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

/// Remedy for a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// A shell command to run as root.
    pub command: String,
    /// The command that undoes the remedy.
    pub undo: Option<String>,
    /// True if a person has to do it: it needs a decision or a restart.
    pub by_hand: bool,
}

impl Remedy {
    fn new(command: impl Into<String>, undo: impl Into<String>) -> Option<Remedy> {
        let (command, undo) = (command.into(), Some(undo.into()));
        Some(Remedy {
            command,
            undo,
            by_hand: false,
        })
    }

    fn by_hand(command: impl Into<String>) -> Option<Remedy> {
        Some(Remedy {
            command: command.into(),
            undo: None,
            by_hand: true,
        })
    }
}

/// A finding: something that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Severity.
    pub level: Level,
    /// Subject: `hugepages`, a card, an interface.
    pub about: String,
    /// Description of the state.
    pub what: String,
    /// Reason why the state matters.
    pub why: String,
    /// Remedy.
    pub mend: Option<Remedy>,
}

impl Finding {
    fn new(level: Level, about: &str, what: impl Into<String>, why: impl Into<String>) -> Finding {
        Finding {
            level,
            about: about.to_owned(),
            what: what.into(),
            why: why.into(),
            mend: None,
        }
    }

    fn with_remedy(mut self, mend: Option<Remedy>) -> Finding {
        self.mend = mend;
        self
    }
}

/// Quotes a name as one shell word: Linux allows nearly any character in an interface's name.
fn shell_word(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-:@/".contains(c);
    match !name.is_empty() && name.chars().all(plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

/// Requirements of a configuration's ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// PCI addresses.
    pub cards: Vec<String>,
    /// Linux interfaces by AF_PACKET.
    pub interfaces: Vec<String>,
    /// Linux interfaces by AF_XDP.
    pub xdp: Vec<String>,
    /// TAP interfaces, which the router makes.
    pub taps: bool,
    /// Number of bytes that DPDK needs in hugepages; 0 if no port is DPDK's.
    pub memory: usize,
    /// True if IPsec's associations and policies come from the kernel.
    pub ipsec: bool,
    /// True if MPLS labels come from the kernel.
    pub mpls: bool,
    /// True if the ports are open: rights and memory are not checked.
    pub opened: bool,
}

impl Machine {
    /// All findings, the most severe first.
    pub fn findings(&self, wanted: &Wanted) -> Vec<Finding> {
        let mut found = Vec::new();
        self.cards(wanted, &mut found);
        self.linux_interfaces(wanted, &mut found);
        self.modules(wanted, &mut found);
        if !wanted.opened {
            self.memory(wanted, &mut found);
            self.rights(wanted, &mut found);
        }
        self.descriptors(&mut found);
        self.cores(&mut found);
        found.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_word_of_a_shell() {
        assert_eq!(shell_word("eth0.100"), "eth0.100");
        assert_eq!(shell_word("a;reboot"), "'a;reboot'");
        assert_eq!(shell_word("a'b"), "'a'\\''b'");
    }
}
