//! The patterns of an IPClassifier: compiled, published, changed.

use super::compiled::{Compiled, Headers, verdict};
use super::expr::{View, Within};
use super::ip_pattern;
use super::ip_primitive::Family;
use super::ip6_headers::{self, Ip6};
use super::program::{Outcome, Rule};
use arguments::{Args, Names};
use engine::prelude::{Batch, Cx, Packet, Verdict};
use engine::publish::{Published, domain};
use sync::Lock;

/// The packets that the patterns of a class are about.
pub(super) trait Version: 'static {
    const FAMILY: Family;
    type Headers<'a>: Headers<'a>;

    fn headers(packet: &Packet) -> Self::Headers<'_>;
}

pub(super) struct V4;

impl Version for V4 {
    const FAMILY: Family = Family::V4;
    type Headers<'a> = Ip<'a>;

    #[inline]
    fn headers(packet: &Packet) -> Ip<'_> {
        Ip(packet)
    }
}

pub(super) struct V6;

impl Version for V6 {
    const FAMILY: Family = Family::V6;
    type Headers<'a> = Ip6<'a>;

    #[inline]
    fn headers(packet: &Packet) -> Ip6<'_> {
        Ip6(packet)
    }
}

/// Compiles rules; packets whose content cannot be determined skip the rules.
pub(super) fn compile(rules: &[Rule<Within>], family: Family, unreadable: u32) -> Compiled {
    match family {
        Family::V4 => Compiled::new(rules),
        Family::V6 => {
            let first = (Some(unreadable), ip6_headers::unreadable());
            let all: Vec<Rule<Within>> = [first].into_iter().chain(rules.iter().cloned()).collect();
            Compiled::of(&all, None)
        }
    }
}

/// Outcome for packets whose content cannot be determined: no output.
const UNREADABLE: u32 = 256;

/// Rules as control sees them, and as packets do.
pub(super) struct Rules {
    written: Lock<Written>,
    compiled: Published<Compiled>,
    names: Names,
    family: Family,
}

struct Written {
    texts: Vec<String>,
    rules: Vec<Rule<Within>>,
}

impl Rules {
    /// Rules with their patterns as text.
    pub(super) fn new(rules: Vec<(String, Rule<Within>)>, names: &Names, family: Family) -> Rules {
        let (texts, rules): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
        let compiled = Published::new(domain(), compile(&rules, family, UNREADABLE));
        Rules {
            written: Lock::new(Written { texts, rules }),
            compiled,
            names: names.clone(),
            family,
        }
    }

    /// Sends packets on after all are decided. Packets without a match are dropped under the class's first name,
    /// unreadable ones under its second. `verdicts` only keeps its memory between calls.
    pub(super) fn sort<V: Version>(
        &self,
        batch: &mut Batch,
        verdicts: &mut Vec<Verdict>,
        cx: &mut Cx,
    ) {
        verdicts.clear();
        let compiled = self.compiled.read(cx.reader());
        compiled.run(
            batch.iter().map(V::headers),
            verdicts,
            |outcome: Outcome| match outcome {
                Some(UNREADABLE) => Verdict::drop(1),
                other => verdict(other),
            },
        );
        let mut verdicts = verdicts.iter();
        cx.sort(batch, |_, _| {
            verdicts.next().copied().unwrap_or(Verdict::drop(0))
        });
    }

    /// The decisions as text.
    pub(super) fn program(&self) -> String {
        self.compiled
            .snapshot()
            .show_ip(&|outcome| u8::try_from(outcome).ok())
    }

    /// Warns of patterns that match nothing, where each has an output of its number.
    pub(super) fn warn(&self, args: &mut Args) {
        self.compiled.snapshot().warn(args, self.len());
    }

    /// Number of rules.
    pub(super) fn len(&self) -> usize {
        self.lock().rules.len()
    }

    /// A rule's pattern.
    pub(super) fn pattern(&self, number: usize) -> Result<String, String> {
        let written = self.lock();
        let text = written.texts.get(number).cloned();
        text.ok_or_else(|| no_pattern(number, written.texts.len()))
    }

    /// Changes a rule's pattern.
    pub(super) fn set_pattern(&self, number: usize, text: &str) -> Result<(), String> {
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
pub(super) struct Ip<'a>(pub(super) &'a Packet);

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
