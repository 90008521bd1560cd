//! Matching of compound elements' arguments to parameters.

use crate::args;
use crate::ast::Formal;
use crate::config::Config;
use crate::diagnostic::{Diagnostic, count, count_in_words};
use crate::source::Span;
use crate::template::{Node, Template};
use std::collections::HashMap;

/// Reason why arguments do not fit parameters.
pub(crate) enum ArgumentMismatch {
    /// Number of given positional arguments, and number of accepted ones.
    TooFew(usize, usize),
    TooMany(usize, usize),
    /// The keyword is missing.
    Missing(String),
}

/// The arguments in a configuration string.
pub(crate) fn arguments(config: &Config) -> Vec<Config> {
    let ranges = args::split(&config.text).into_iter();
    ranges.map(|range| config.slice(range)).collect()
}

/// The values of the parameters.
pub(crate) fn bind(
    formals: &[Formal],
    arguments: &[Config],
) -> Result<Vec<(String, Config)>, ArgumentMismatch> {
    let positional: Vec<&Formal> = formals.iter().filter(|f| f.keyword.is_none()).collect();
    // The first arguments are positional, even if they look like keyword arguments.
    let mut keyed: HashMap<&str, Vec<usize>> = HashMap::new();
    if formals.iter().any(|f| f.keyword.is_some() && !f.is_rest()) {
        for (at, argument) in arguments.iter().enumerate().skip(positional.len()) {
            if let Some(word) = args::words(&argument.text).first() {
                let word = &argument.text[word.clone()];
                keyed.entry(word).or_default().push(at);
            }
        }
    }
    let mut taken = vec![false; arguments.len()];
    let mut values = Vec::new();
    for formal in formals {
        let Some(keyword) = formal.keyword.as_deref().filter(|_| !formal.is_rest()) else {
            continue;
        };
        let Some(places) = keyed.get(keyword) else {
            return Err(ArgumentMismatch::Missing(keyword.to_owned()));
        };
        for &at in places {
            taken[at] = true;
        }
        // The last of several arguments with one keyword counts.
        let argument = &arguments[places[places.len() - 1]];
        let value = args::words(&argument.text)
            .get(1)
            .map_or(argument.text.len(), |w| w.start);
        values.push((
            formal.variable.clone(),
            argument.slice(value..argument.text.len()),
        ));
    }
    let free = arguments.iter().zip(taken);
    let mut free: Vec<&Config> = free.filter(|(_, taken)| !taken).map(|(c, _)| c).collect();
    let rest = formals.iter().find(|f| f.is_rest());
    if free.len() < positional.len() {
        return Err(ArgumentMismatch::TooFew(free.len(), positional.len()));
    }
    let left = free.split_off(positional.len());
    if rest.is_none() && !left.is_empty() {
        return Err(ArgumentMismatch::TooMany(
            positional.len() + left.len(),
            positional.len(),
        ));
    }
    for (formal, value) in positional.iter().zip(free) {
        values.push((formal.variable.clone(), value.clone()));
    }
    if let Some(rest) = rest {
        let left: Vec<Config> = left.into_iter().cloned().collect();
        let span = left.first().map_or(rest.span, |first| first.span());
        values.push((rest.variable.clone(), Config::join(&left, span)));
    }
    Ok(values)
}

/// Reports why no definition takes the arguments.
pub(crate) fn report_mismatch(
    node: &Node,
    class: &str,
    arguments: &[Config],
    misfits: &[(&Template, ArgumentMismatch)],
) -> Diagnostic {
    let class = if class.is_empty() {
        "this compound element".to_owned()
    } else {
        format!("`{class}`")
    };
    let place = match (arguments.first(), arguments.last()) {
        (Some(first), Some(last)) => first.span().to(last.span()),
        _ => node.class_span,
    };
    let error = match misfits {
        [(template, misfit)] => {
            let text = match misfit {
                ArgumentMismatch::TooFew(given, taken)
                | ArgumentMismatch::TooMany(given, taken) => {
                    let keywords = template.formals.iter().any(|f| f.keyword.is_some());
                    let kind = if keywords { " without keyword" } else { "" };
                    format!(
                        "{class} takes {}{kind}, not {given}",
                        count_in_words(*taken, "argument")
                    )
                }
                ArgumentMismatch::Missing(keyword) => {
                    format!("{class} needs the argument `{keyword}`")
                }
            };
            let help = match template.formals.as_slice() {
                [] => "leave out the configuration string".to_owned(),
                formals => format!("its arguments are: {}", list(formals)),
            };
            Diagnostic::error("compound-arguments", text).help(help)
        }
        _ => {
            let text = format!("no definition of {class} takes these arguments");
            let error = Diagnostic::error("compound-arguments", text);
            let forms: Vec<String> = misfits
                .iter()
                .map(|(template, _)| match template.formals.as_slice() {
                    [] => "none".to_owned(),
                    formals => format!("({})", list(formals)),
                })
                .collect();
            error.help(format!("possible arguments: {}", forms.join(" or ")))
        }
    };
    let definition = misfits.first().and_then(|(template, _)| template.span);
    let error = error.at(place);
    match definition {
        Some(span) => error.note_at(span.before(), "defined here"),
        None => error,
    }
}

/// Adds Click's explanation that no definition fits: the requested and the available ones.
pub(crate) fn no_match(
    error: Diagnostic,
    node: &Node,
    class: &str,
    arguments: usize,
    tried: &[&Template],
    end: Span,
) -> Diagnostic {
    let name = if class.is_empty() {
        "<anonymous>"
    } else {
        class
    };
    let given = match arguments {
        0 => String::new(),
        n => format!("{}, ", count(n, "argument")),
    };
    let asked = format!("{name}[{given}{}]", ports(node.inputs, node.outputs));
    let place = node.class_span;
    let error = error
        // Click finds this mistake when it has read the whole file, and names its last line.
        .click_at(end, format!("no match for `{asked}`"))
        .click_at(
            tried.first().and_then(|t| t.span).unwrap_or(place),
            "candidates are:",
        );
    tried.iter().fold(error, |error, template| {
        let types = template.formals.iter().map(|formal| match &formal.keyword {
            _ if formal.is_rest() => "...",
            Some(keyword) => keyword,
            None => "<arg>",
        });
        let types = match template.formals.len() {
            0 => String::new(),
            _ => format!("({})", types.collect::<Vec<_>>().join(", ")),
        };
        let has = ports(template.inputs, template.outputs);
        let place = template.span.unwrap_or(place);
        error.click_at(place, format!("  {name}{types}[{has}]"))
    })
}

/// Numbers of inputs and outputs, in Click's words.
pub(crate) fn ports(inputs: usize, outputs: usize) -> String {
    format!("{}, {}", count(inputs, "input"), count(outputs, "output"))
}

fn list(formals: &[Formal]) -> String {
    let form = |formal: &Formal| match &formal.keyword {
        _ if formal.is_rest() => "...".to_owned(),
        Some(keyword) => format!("{keyword} ${}", formal.variable),
        None => format!("${}", formal.variable),
    };
    formals.iter().map(form).collect::<Vec<_>>().join(", ")
}
