//! Associations and policies of a text, checked as a whole.

use super::syntax::{self, Line};
use esp::policy::Policy;
use esp::{Direction, Keys, Sa, Spec};

/// Associations and policies of a text.
#[derive(Default)]
pub struct StaticDatabase {
    pub(super) sas: Vec<(Spec, Keys)>,
    pub(super) policies: Vec<Policy>,
    /// True if some associations encrypt by numbers that count up from the clock.
    pub(super) counts: bool,
    made: Vec<Sa>,
}

impl StaticDatabase {
    /// Adds a line, given as words. The error describes a mistake in the line, or a conflict with other lines; it shows
    /// no key.
    pub fn add(&mut self, words: &[String]) -> Result<(), String> {
        let (spec, keys) = match syntax::parse(words)? {
            Line::Policy(policy) => {
                self.policies.push(policy);
                return Ok(());
            }
            Line::Sa(spec, keys) => (spec, keys),
        };
        let sa = Sa::new(spec.clone(), &keys, 0)?;
        let named = (spec.direction, spec.spi);
        let mut known = self.sas.iter().map(|(s, _)| (s.direction, s.spi));
        let twice = known.any(|other| other == named);
        let shared = own_keys(&sa, self.made.iter());
        self.counts |= sa.seals_by_count();
        self.made.push(sa);
        self.sas.push((spec, keys));
        match twice {
            true => Err("there are two associations with this direction and SPI".to_owned()),
            false => shared,
        }
    }

    /// Numbers that outbound policies protect by and that no outbound association has.
    pub fn missing_reqids(&self) -> Vec<u32> {
        use esp::policy::Action;
        let has = |number: u32| {
            let mut sas = self.sas.iter().map(|(spec, _)| spec);
            sas.any(|spec| spec.direction == Direction::Out && spec.reqid == number)
        };
        let mut numbers = Vec::new();
        for policy in &self.policies {
            if let (Direction::Out, Action::Protect(number)) = (policy.direction, policy.action)
                && !has(number)
                && !numbers.contains(&number)
            {
                numbers.push(number);
            }
        }
        numbers
    }
}

/// An association that counts must have keys of its own: others' numbers would meet its own.
pub(super) fn own_keys<'s>(
    sa: &Sa,
    mut others: impl Iterator<Item = &'s Sa>,
) -> Result<(), String> {
    let counts = sa.seals_by_count();
    match others.find(|other| counts && other.seals_by_count() && sa.has_keys_of(other)) {
        Some(other) if other.spec().spi != sa.spec().spi => Err(format!(
            "the outbound association {:#x} has the same key: their initialisation vectors would meet, which gives \
             packets and keys away; give each a key of its own",
            other.spec().spi
        )),
        _ => Ok(()),
    }
}
