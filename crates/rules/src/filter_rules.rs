//! The rules of an IPFilter: parsed, published, changed while packets flow, and counted by rule.
//!
//! Each rule has a slot in the counters as long as it exists. The compiled rules return the slot of the first
//! matching rule, so a packet costs one addition. Each copy of the filter has its own counters.

use super::compiled::{Compiled, Headers};
use super::expr::{Expr, RangeTest};
use super::family::Family;
use super::ip_pattern;
use super::program::Outcome;
use arguments::Names;
use arguments::text_file::lines;
use arguments::units::whole_number;
use packet::Verdict;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard};
use sync::Lock;
use sync::publish::{Published, Reader, domain};

/// Number of rules that can be added at run time.
const ADDED_RULES_MAX: usize = 1024;
/// Syntax of a rule, for errors.
const FORM: &str = "a rule is written `[NAME:] ACTION PATTERN`, where ACTION is `allow`, `deny`, `drop` or an output \
    from 0 to 254";

/// A parsed rule, with its text.
#[derive(Clone, Debug)]
pub struct Line {
    name: Option<String>,
    /// Text of the rule from the action on.
    text: String,
    /// The output; `None`: the packet is dropped.
    output: Option<u8>,
    expr: Expr<RangeTest>,
}

impl Line {
    /// Reads `[NAME:] ACTION PATTERN`. The error is a sentence, and a remedy if one is known.
    pub fn read(
        text: &str,
        names: &Names,
        family: Family,
    ) -> Result<Line, (String, Option<&'static str>)> {
        let text = text.trim();
        let (name, rule) = match text.split_once(':') {
            Some((name, rule)) if is_name(name) => (Some(name.to_owned()), rule.trim()),
            _ => (None, text),
        };
        let (action, pattern) = rule.split_once(char::is_whitespace).unwrap_or((rule, ""));
        let output = match action {
            "allow" => Some(0),
            "deny" | "drop" => None,
            _ => match whole_number::<u8>(action) {
                Some(output) if output < u8::MAX => Some(output),
                _ => return Err((format!("unknown slot ID `{action}`"), Some(FORM))),
            },
        };
        let expr = ip_pattern::parse(pattern, names, family).map_err(|wrong| (wrong, None))?;
        Ok(Line {
            name,
            text: rule.to_owned(),
            output,
            expr,
        })
    }

    /// Number of outputs that the rule needs.
    pub fn outputs(&self) -> usize {
        self.output.map_or(0, |output| usize::from(output) + 1)
    }

    /// True if the rule matches every packet: no packet is left for later rules.
    fn takes_all(&self) -> bool {
        self.expr.known() == Some(true)
    }
}

/// Writes the rule in its syntax.
impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}: ")?;
        }
        f.write_str(&self.text)
    }
}

/// A number names a rule, too, so a name is none.
fn is_name(word: &str) -> bool {
    let begins = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// Compiled rules for packets.
struct Filter {
    compiled: Compiled,
    /// Verdicts by slot; the last two are for packets that no rule matches, and for unreadable packets.
    verdicts: Box<[Verdict]>,
}

/// Counts of one copy by slot, written only by that copy.
pub struct Lane(Box<[AtomicU64]>);

impl Lane {
    #[inline]
    fn hit(&self, slot: usize) {
        if let Some(count) = self.0.get(slot) {
            // There is one writer: no atomic addition is needed.
            count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }
}

/// The rules of a filter, compiled and as text, with their counts.
pub struct FilterRules {
    filter: Published<Filter>,
    state: Lock<State>,
    /// Slots for rules. Two more are for hits only: of packets that no rule matches, and of unreadable packets, which
    /// are not compared with rules.
    slots: usize,
    /// Outputs of the element, which stay.
    outputs: usize,
    names: Names,
    family: Family,
}

struct State {
    configured: Vec<String>,
    rules: Vec<(Line, usize)>,
    /// Slots without a rule. The one that was freed first is used first, as no worker sees its old rule by then.
    free: VecDeque<usize>,
    lanes: Vec<Arc<Lane>>,
    /// Sum of a slot's counts when its rule got it, or at `reset`.
    count_base: Vec<u64>,
    /// Counts that the rule of a slot had in the previous configuration.
    inherited: Vec<u64>,
}

impl State {
    fn hits(&self, slot: usize) -> u64 {
        let all = self.lanes.iter().filter_map(|lane| lane.0.get(slot));
        let all = all.fold(0u64, |sum, count| sum.wrapping_add(count.load(Relaxed)));
        let own = all.wrapping_sub(self.count_base[slot]);
        own.wrapping_add(self.inherited[slot])
    }

    /// Counts the slot from 0 again.
    fn reset_slot(&mut self, slot: usize) {
        self.inherited[slot] = 0;
        self.count_base[slot] = self.count_base[slot].wrapping_add(self.hits(slot));
    }

    /// The place of a rule by its number or name.
    fn find(&self, rules: &[(Line, usize)], word: &str) -> Result<usize, String> {
        let found = match word.parse::<usize>() {
            Ok(number) => (number < rules.len()).then_some(number),
            Err(_) => rules
                .iter()
                .position(|(line, _)| line.name.as_deref() == Some(word)),
        };
        found.ok_or_else(|| {
            let names = rules.iter().filter_map(|(line, _)| line.name.as_deref());
            let near = arguments::near::nearest(word, names);
            let near = near.map(|near| format!("; did you mean `{near}`?"));
            let count = lang::count(rules.len(), "rule");
            format!(
                "there is no rule `{word}`, there are {count}{}",
                near.unwrap_or_default()
            )
        })
    }
}

impl FilterRules {
    /// Rules in their order, for an element with this number of outputs.
    pub fn new(lines: Vec<Line>, outputs: usize, names: &Names, family: Family) -> FilterRules {
        let slots = lines.len() + ADDED_RULES_MAX;
        let rules: Vec<_> = lines.into_iter().zip(0..).collect();
        FilterRules {
            filter: Published::new(domain(), filter(&rules, slots, family)),
            state: Lock::new(State {
                configured: rules.iter().map(|(line, _)| line.to_string()).collect(),
                free: (rules.len()..slots).collect(),
                rules,
                lanes: Vec::new(),
                count_base: vec![0; slots + 2],
                inherited: vec![0; slots + 2],
            }),
            slots,
            outputs,
            names: names.clone(),
            family,
        }
    }

    /// Number of outputs of the element.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Counters of a new copy.
    pub fn new_counters(&self) -> Arc<Lane> {
        let lane = (0..self.slots + 2).map(|_| AtomicU64::new(0)).collect();
        let lane = Arc::new(Lane(lane));
        self.lock().lanes.push(Arc::clone(&lane));
        lane
    }

    /// Verdicts for the packets of a batch, in order, with each counted.
    #[inline]
    pub fn run<'a, H: Headers<'a>>(
        &self,
        packets: impl ExactSizeIterator<Item = H>,
        verdicts: &mut Vec<Verdict>,
        lane: &Lane,
        reader: &Reader,
    ) {
        let filter = self.filter.read(reader);
        filter.compiled.run(packets, verdicts, |outcome: Outcome| {
            let slot = outcome.map_or(self.slots, |slot| slot as usize);
            lane.hit(slot);
            filter
                .verdicts
                .get(slot)
                .copied()
                .unwrap_or(Verdict::drop(0))
        });
    }

    /// Counts packets that were dropped before any rule was asked.
    pub fn count_unreadable(&self, lane: &Lane, packets: usize) {
        (0..packets).for_each(|_| lane.hit(self.slots + 1));
    }

    /// The decisions as text.
    pub fn program(&self) -> String {
        let state = self.lock();
        let output = |slot: u32| {
            let mut rules = state.rules.iter();
            rules
                .find(|(_, at)| *at == slot as usize)
                .and_then(|(line, _)| line.output)
        };
        self.filter.snapshot().compiled.show_ip(&output)
    }

    /// The rules with their numbers and hits.
    pub fn show(&self) -> String {
        let state = self.lock();
        let mut text = format!("{:>4}  {:>14}  rule\n", "", "packets");
        for (number, (line, slot)) in state.rules.iter().enumerate() {
            let _ = writeln!(text, "{number:>4}  {:>14}  {line}", state.hits(*slot));
        }
        let _ = writeln!(
            text,
            "{:>4}  {:>14}  (no rule: dropped)",
            "-",
            state.hits(self.slots)
        );
        let hits = state.hits(self.slots + 1);
        let _ = writeln!(text, "{:>4}  {hits:>14}  (bad headers: dropped)", "-");
        text
    }

    /// Lines of `ctrl` that turn the configured rules into the present ones.
    pub fn changes(&self) -> String {
        let state = self.lock();
        let rules = state.rules.iter();
        let now: Vec<String> = rules.map(|(line, _)| line.to_string()).collect();
        difference(&state.configured, &now)
    }

    /// Resets all counts to 0.
    pub fn reset(&self) {
        let mut state = self.lock();
        (0..self.slots + 2).for_each(|slot| state.reset_slot(slot));
    }

    /// Executes lines, all or none. The answer is a warning or empty. The error names the line.
    pub fn change(&self, text: &str) -> Result<String, (usize, String)> {
        let mut state = self.lock();
        // Rules without a slot get one when everything is known to be right.
        let mut rules = state.rules.clone();
        let mut warning = String::new();
        for (number, line) in lines(text) {
            let said = self
                .run_command(&state, &mut rules, line)
                .map_err(|wrong| (number, wrong))?;
            warning = if said.is_empty() { warning } else { said };
            // Refuse at once: each rule is compared with all before it.
            if rules.len() > self.slots {
                let wrong = format!(
                    "that would be {} rules, and this filter takes {} until its configuration has more",
                    rules.len(),
                    self.slots
                );
                return Err((number, wrong));
            }
        }
        let mut used = vec![false; self.slots];
        for (_, slot) in rules.iter().filter(|(_, slot)| *slot != NEW) {
            used[*slot] = true;
        }
        let gone: Vec<usize> = state
            .rules
            .iter()
            .map(|(_, slot)| *slot)
            .filter(|slot| !used[*slot])
            .collect();
        state.free.extend(gone);
        for (_, slot) in rules.iter_mut().filter(|(_, slot)| *slot == NEW) {
            let Some(free) = state.free.pop_front() else {
                continue;
            };
            state.reset_slot(free);
            *slot = free;
        }
        self.filter.replace(filter(&rules, self.slots, self.family));
        state.rules = rules;
        Ok(warning)
    }

    fn run_command(
        &self,
        state: &State,
        rules: &mut Vec<(Line, usize)>,
        line: &str,
    ) -> Result<String, String> {
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match command {
            "clear" => rules.clear(),
            "remove" => {
                let at = state.find(rules, rest)?;
                rules.remove(at);
            }
            "replace" => {
                let (which, rule) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let at = state.find(rules, which)?;
                let mut rule = self.rule(rule)?;
                rule.name = rule.name.or_else(|| rules[at].0.name.clone());
                unique(rules, &rule, Some(at))?;
                rules[at] = (rule, NEW);
            }
            "add" => {
                let (at, rule) = match rest.split_once(char::is_whitespace) {
                    Some((place @ ("before" | "after"), rest)) => {
                        let (which, rule) = rest
                            .trim()
                            .split_once(char::is_whitespace)
                            .unwrap_or((rest, ""));
                        (
                            state.find(rules, which)? + usize::from(place == "after"),
                            rule,
                        )
                    }
                    _ => (rules.len(), rest),
                };
                let rule = self.rule(rule)?;
                unique(rules, &rule, None)?;
                let before = rules[..at].iter().position(|(line, _)| line.takes_all());
                rules.insert(at, (rule, NEW));
                if let Some(all) = before {
                    return Ok(format!(
                        "no packet comes to rule {at}, because rule {all} takes all: `add before {all} RULE` puts it \
                            in front"
                    ));
                }
            }
            _ => {
                return Err(format!(
                    "unknown command `{command}`: there are add, remove, replace and clear"
                ));
            }
        }
        Ok(String::new())
    }

    fn rule(&self, text: &str) -> Result<Line, String> {
        let line = Line::read(text, &self.names, self.family);
        let line = line.map_err(|(wrong, help)| match help {
            Some(help) => format!("{wrong}: {help}"),
            None => wrong,
        })?;
        if line.outputs() > self.outputs {
            let outputs = lang::count(self.outputs, "output");
            return Err(format!(
                "`{line}` needs an output that is not there: the filter has {outputs}"
            ));
        }
        Ok(line)
    }

    /// Rules that are in both configurations keep their counts.
    pub fn inherit(&self, old: &FilterRules) {
        let (last, old) = (old.slots, old.lock());
        let mut state = self.lock();
        if state.configured == old.configured
            && state.rules.len() + ADDED_RULES_MAX >= old.rules.len()
        {
            // Changes at run time stay as long as the configured rules do not change.
            let rules: Vec<_> = old
                .rules
                .iter()
                .map(|(line, _)| line.clone())
                .zip(0..)
                .collect();
            self.filter.replace(filter(&rules, self.slots, self.family));
            state.free = (rules.len()..self.slots).collect();
            state.rules = rules;
        }
        for at in 0..state.rules.len() {
            let (line, slot) = &state.rules[at];
            let same =
                |(other, _): &&(Line, usize)| other.name == line.name && other.text == line.text;
            let (found, slot) = (
                old.rules.iter().find(same).map(|(_, slot)| old.hits(*slot)),
                *slot,
            );
            state.inherited[slot] = found.unwrap_or(0);
        }
        state.inherited[self.slots] = old.hits(last);
        state.inherited[self.slots + 1] = old.hits(last + 1);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Lines of `ctrl` that make one list of rules of another: rules that go, by their numbers in the old list from its
/// end, then those that come, from the beginning.
fn difference(old: &[String], new: &[String]) -> String {
    let same = |(a, b): &(&String, &String)| a == b;
    let begin = old.iter().zip(new).take_while(same).count();
    let (old_rest, new_rest) = (&old[begin..], &new[begin..]);
    let end = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(same)
        .count();
    let (old, new_part) = (
        &old_rest[..old_rest.len() - end],
        &new_rest[..new_rest.len() - end],
    );
    let (gone, came) = unmatched(old, new_part);
    let mut text = String::new();
    for at in gone.into_iter().rev() {
        let _ = writeln!(text, "remove {}", begin + at);
    }
    let first = begin + end + new_part.len() - came.len();
    for (len, at) in (first..).zip(came) {
        let (line, at) = (&new_part[at], begin + at);
        let _ = match at < len {
            true => writeln!(text, "add before {at} {line}"),
            false => writeln!(text, "add {line}"),
        };
    }
    text
}

/// Places in two lists that are not in their longest common subsequence.
fn unmatched(old: &[String], new: &[String]) -> (Vec<usize>, Vec<usize>) {
    /// Cells of the table at most; of longer lists everything changes.
    const CELLS_MAX: usize = 1 << 24;
    let width = new.len() + 1;
    if (old.len() + 1).saturating_mul(width) > CELLS_MAX {
        return ((0..old.len()).collect(), (0..new.len()).collect());
    }
    // Length of the longest common subsequence after two positions.
    let mut longest = vec![0u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            longest[i * width + j] = match old[i] == new[j] {
                true => longest[(i + 1) * width + j + 1] + 1,
                false => longest[(i + 1) * width + j].max(longest[i * width + j + 1]),
            };
        }
    }
    let (mut gone, mut came, mut i, mut j) = (Vec::new(), Vec::new(), 0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || i < old.len() && longest[(i + 1) * width + j] >= longest[i * width + j + 1]
        {
            gone.push(i);
            i += 1;
        } else {
            came.push(j);
            j += 1;
        }
    }
    (gone, came)
}

/// Marks a rule without a slot.
const NEW: usize = usize::MAX;

fn unique(rules: &[(Line, usize)], rule: &Line, but: Option<usize>) -> Result<(), String> {
    let same = rules
        .iter()
        .position(|(line, _)| line.name.is_some() && line.name == rule.name);
    match (same, &rule.name) {
        (Some(at), Some(name)) if Some(at) != but => {
            Err(format!("rule {at} has the name `{name}` already"))
        }
        _ => Ok(()),
    }
}

/// The first two rules that have the same name, as a sentence.
pub fn duplicate_name(lines: &[Line]) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    let mut names = lines.iter().filter_map(|line| line.name.as_ref());
    let name = names.find(|name| !seen.insert(*name))?;
    Some(format!("two rules have the name `{name}`"))
}

fn filter(rules: &[(Line, usize)], slots: usize, family: Family) -> Filter {
    let mut verdicts = vec![Verdict::drop(0); slots + 2];
    verdicts[slots + 1] = Verdict::drop(1);
    for (line, slot) in rules {
        verdicts[*slot] = line.output.map_or(Verdict::drop(0), Verdict::out);
    }
    let compiled: Vec<_> = rules
        .iter()
        .map(|(line, slot)| (Some(*slot as u32), line.expr.clone()))
        .collect();
    Filter {
        compiled: super::ip_rules::compile(&compiled, family, (slots + 1) as u32),
        verdicts: verdicts.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    /// Rules with one change more for each line, as `ctrl` carries them out.
    fn carried_out(mut rules: Vec<String>, text: &str) -> Vec<String> {
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["remove", at] => _ = rules.remove(at.parse().expect("a number")),
                ["add", "before", at, rule] => {
                    rules.insert(at.parse().expect("a number"), rule.to_owned());
                }
                _ => rules.push(line.strip_prefix("add ").expect("a rule").to_owned()),
            }
        }
        rules
    }

    #[test]
    fn a_difference_makes_one_list_of_the_other_and_leaves_the_rest_alone() {
        let mut rng = Rng::seed(47);
        for _ in 0..2000 {
            let mut list = |most: usize| -> Vec<String> {
                (0..rng.below(most))
                    .map(|_| format!("allow udp port {}", rng.below(6)))
                    .collect()
            };
            let (old, new) = (list(9), list(9));
            let text = difference(&old, &new);
            assert_eq!(carried_out(old.clone(), &text), new, "{old:?}: {text}");
            assert_eq!(old == new, text.is_empty());
        }
        let old: Vec<String> = (0..2000)
            .map(|n| format!("deny src 10.0.{}.{}", n / 256, n % 256))
            .collect();
        let mut new = old.clone();
        new.insert(1000, "allow icmp".to_owned());
        assert_eq!(difference(&old, &new), "add before 1000 allow icmp\n");
        assert_eq!(difference(&new, &old), "remove 1000\n");
    }
}
