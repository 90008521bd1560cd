//! The patterns of an IPClassifier: compiled, published, changed.

use super::compiled::{Compiled, Headers, verdict};
use super::expr::{RangeTest, View};
use super::family::Family;
use super::ip_pattern;
use super::ip6_headers::{self, Ip6};
use super::program::{Outcome, Rule};
use arguments::{Args, Names};
use packet::{Packet, Verdict};
use sync::Lock;
use sync::publish::{Published, Reader, domain};

/// Version of IP that patterns are about.
pub trait Version: 'static {
    /// IP version of the rules.
    const FAMILY: Family;
    /// View of a packet's headers.
    type Headers<'a>: Headers<'a>;

    /// The packet's headers.
    fn headers(packet: &Packet) -> Self::Headers<'_>;
}

/// IPv4.
pub struct V4;

impl Version for V4 {
    const FAMILY: Family = Family::V4;
    type Headers<'a> = Ip<'a>;

    #[inline]
    fn headers(packet: &Packet) -> Ip<'_> {
        Ip(packet)
    }
}

/// IPv6.
pub struct V6;

impl Version for V6 {
    const FAMILY: Family = Family::V6;
    type Headers<'a> = Ip6<'a>;

    #[inline]
    fn headers(packet: &Packet) -> Ip6<'_> {
        Ip6(packet)
    }
}

/// Compiles rules; packets whose content cannot be determined skip the rules.
pub(crate) fn compile(rules: &[Rule<RangeTest>], family: Family, unreadable: u32) -> Compiled {
    match family {
        Family::V4 => Compiled::new(rules),
        Family::V6 => {
            let first = (Some(unreadable), ip6_headers::unreadable());
            let all: Vec<Rule<RangeTest>> =
                [first].into_iter().chain(rules.iter().cloned()).collect();
            Compiled::of(&all, None)
        }
    }
}

/// Outcome for packets whose content cannot be determined: no output.
const UNREADABLE: u32 = 256;

/// Rules as control sees them, and as packets do.
pub struct Rules {
    written: Lock<Written>,
    compiled: Published<Compiled>,
    names: Names,
    family: Family,
}

struct Written {
    texts: Vec<String>,
    rules: Vec<Rule<RangeTest>>,
}

impl Rules {
    /// Rules with their patterns as text.
    pub fn new(rules: Vec<(String, Rule<RangeTest>)>, names: &Names, family: Family) -> Rules {
        let (texts, rules): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
        let compiled = Published::new(domain(), compile(&rules, family, UNREADABLE));
        Rules {
            written: Lock::new(Written { texts, rules }),
            compiled,
            names: names.clone(),
            family,
        }
    }

    /// Verdicts for packets, in order. The class's first drop name is for packets without a match, the second for
    /// unreadable packets.
    #[inline]
    pub fn run<'a, V: Version>(
        &self,
        packets: impl ExactSizeIterator<Item = &'a Packet>,
        verdicts: &mut Vec<Verdict>,
        reader: &Reader,
    ) {
        let compiled = self.compiled.read(reader);
        compiled.run(
            packets.map(V::headers),
            verdicts,
            |outcome: Outcome| match outcome {
                Some(UNREADABLE) => Verdict::drop(1),
                other => verdict(other),
            },
        );
    }

    /// The decisions as text.
    pub fn program(&self) -> String {
        self.compiled
            .snapshot()
            .show_ip(&|outcome| u8::try_from(outcome).ok())
    }

    /// Warns of patterns that match nothing, in classes where each pattern has an output.
    pub fn warn(&self, args: &mut Args) {
        self.compiled.snapshot().warn(args, self.count());
    }

    /// Number of rules.
    pub fn count(&self) -> usize {
        self.lock().rules.len()
    }

    /// A rule's pattern.
    pub fn pattern(&self, number: usize) -> Result<String, String> {
        let written = self.lock();
        let text = written.texts.get(number).cloned();
        text.ok_or_else(|| no_pattern(number, written.texts.len()))
    }

    /// Changes a rule's pattern.
    pub fn set_pattern(&self, number: usize, text: &str) -> Result<(), String> {
        let expr = ip_pattern::parse(text, &self.names, self.family)?;
        let mut written = self.lock();
        let count = written.rules.len();
        let rule = written.rules.get_mut(number);
        rule.ok_or_else(|| no_pattern(number, count))?.1 = expr;
        written.texts[number] = text.trim().to_owned();
        self.compiled
            .replace(compile(&written.rules, self.family, UNREADABLE));
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Written> {
        self.written.lock()
    }
}

fn no_pattern(number: usize, count: usize) -> String {
    format!("there is no pattern {number}, there are {count}")
}

/// A packet whose network header is of IP. The transport header is where that ends.
#[derive(Clone, Copy)]
pub struct Ip<'a>(pub(crate) &'a Packet);

impl<'a> Headers<'a> for Ip<'a> {
    #[inline]
    fn start(self) -> &'a [u8] {
        self.0.network()
    }

    #[inline]
    fn header_words(words: &[[u8; 4]]) -> usize {
        words.first().map_or(0, |word| usize::from(word[0] & 0xf))
    }

    fn view(self) -> View<'a> {
        let network = self.start();
        let header = network.first().map_or(0, |b| usize::from(b & 0xf) * 4);
        let transport = network.get(header..).unwrap_or(&[]);
        View([network, transport, self.0.mac().unwrap_or(&[])])
    }
}
