//! Removal of follow-up errors: a wrong value of a variable is reported once, not at each use of the variable.

use lang::{Diagnostic, Router, SourceMap, count};
use std::collections::HashMap;

/// Removes duplicates of an error at the same position: each use of a compound element repeats the error.
fn leave_out_uses(diagnostics: &mut Vec<Diagnostic>) {
    let mut first: HashMap<(Option<lang::Span>, String), usize> = HashMap::new();
    let mut kept: Vec<(Diagnostic, usize)> = Vec::new();
    for wrong in std::mem::take(diagnostics) {
        let place = (wrong.span, wrong.message.clone());
        match first.get(&place).filter(|_| wrong.span.is_some()) {
            Some(&at) => kept[at].1 += 1,
            None => {
                first.insert(place, kept.len());
                kept.push((wrong, 0));
            }
        }
    }
    diagnostics.extend(kept.into_iter().map(|(mut wrong, more)| {
        if more > 0 {
            let uses = count(more, "other use");
            let note = format!("the same in {uses} of the compound element around it");
            wrong.notes.push((None, note));
        }
        wrong
    }));
}

/// Removes errors that follow from an earlier one: errors at uses of variables that quote an already reported value, or
/// a name that an erroneous AddressInfo would define.
pub(crate) fn leave_out(diagnostics: &mut Vec<Diagnostic>, router: &Router, map: &SourceMap) {
    leave_out_uses(diagnostics);
    // The error that remains for each value.
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<Diagnostic> = Vec::new();
    let mut more: HashMap<usize, usize> = HashMap::new();
    let (info, other): (Vec<_>, Vec<_>) = std::mem::take(diagnostics)
        .into_iter()
        .partition(|wrong| wrong.is_error() && gives_names(wrong));
    for wrong in info.into_iter().chain(other) {
        let at_variable = wrong.span.is_some_and(|span| map.slice(span).contains('$'));
        if !wrong.is_error() || !at_variable {
            kept.push(wrong);
            continue;
        }
        let values = quoted_values(&wrong);
        match values.iter().find_map(|value| first.get(value)) {
            Some(&at) => *more.entry(at).or_default() += 1,
            None => {
                let names = names_of(&wrong, router);
                for value in values.into_iter().chain(names) {
                    first.entry(value).or_insert(kept.len());
                }
                kept.push(wrong);
            }
        }
    }
    for (at, more) in more {
        let others = count(more, "other place");
        kept[at]
            .notes
            .push((None, format!("the same value is wrong in {others}")));
    }
    lang::sort(&mut kept);
    *diagnostics = kept;
}

/// True if a mistake is in names for addresses.
fn gives_names(wrong: &Diagnostic) -> bool {
    let about = wrong.subject.as_ref();
    about.is_some_and(|about| about.title.ends_with(":: AddressInfo"))
}

/// Names that an erroneous AddressInfo would define.
fn names_of(wrong: &Diagnostic, router: &Router) -> Vec<String> {
    if !gives_names(wrong) {
        return Vec::new();
    }
    let place = wrong.subject.as_ref().map(|about| about.declared_at);
    let elements = router.elements.iter().filter(|e| Some(e.span) == place);
    let arguments = elements.flat_map(|e| e.config.text.split(','));
    let names = arguments.filter_map(|argument| argument.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// Words that an error quotes as wrong, prefixes without their lengths.
fn quoted_values(wrong: &Diagnostic) -> Vec<String> {
    let values = |text: &str| -> Vec<String> {
        let quoted = text.split('`').skip(1).step_by(2);
        let words = quoted.flat_map(str::split_whitespace);
        let bare = words.map(|word| word.split('/').next().unwrap_or(word).to_owned());
        // Words without a dot, colon or digit are keywords or names of elements, not values.
        bare.filter(|word| word.contains(['.', ':']) || word.chars().any(|c| c.is_ascii_digit()))
            .collect()
    };
    let mut all: Vec<String> = match wrong.message.rsplit_once("not `") {
        Some((_, value)) => values(&format!("`{value}")),
        None => values(&wrong.message),
    };
    // The help of a wrong argument quotes it first.
    if all.is_empty()
        && let Some((_, rest)) = wrong.help.as_deref().unwrap_or_default().split_once("in `")
    {
        all = values(&format!("`{}", rest.split('`').next().unwrap_or_default()));
        all.truncate(1);
    }
    all
}
