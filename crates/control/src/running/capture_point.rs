//! Points of a capture, in a user's notation: `a -> b`, `a[1]`, `[0]a`, `a`.

use engine::plan::{Edge, Plan};
use engine::tap::Point;

/// A capture point, with its name in captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CapturePoint {
    /// The point for the engine.
    pub(super) point: Point,
    /// Name of an edge, in the syntax of the language.
    pub(super) name: String,
}

/// A port as written: `[1]a[2]`.
struct Written<'a> {
    input: Option<usize>,
    name: &'a str,
    output: Option<usize>,
}

fn bracket(text: &str) -> Option<usize> {
    text.strip_prefix('[')?
        .strip_suffix(']')?
        .trim()
        .parse()
        .ok()
}

fn written(text: &str) -> Result<Written<'_>, String> {
    let wrong = || format!("`{text}` is no port: write `element`, `element[0]` or `[0]element`");
    let mut name = text.trim();
    let (mut input, mut output) = (None, None);
    if let Some(end) = name.find(']').filter(|_| name.starts_with('[')) {
        input = Some(bracket(&name[..=end]).ok_or_else(wrong)?);
        name = name[end + 1..].trim();
    }
    if let Some(start) = name.rfind('[').filter(|_| name.ends_with(']')) {
        output = Some(bracket(&name[start..]).ok_or_else(wrong)?);
        name = name[..start].trim();
    }
    match name.is_empty() || name.contains(['[', ']', ' ']) {
        true => Err(wrong()),
        false => Ok(Written {
            input,
            name,
            output,
        }),
    }
}

/// The edges of a plan that `text` names. The error is a sentence.
pub(super) fn parse(plan: &Plan, text: &str) -> Result<Vec<CapturePoint>, String> {
    let node = |name: &str| {
        plan.find(name).ok_or_else(|| {
            let names = plan.elements.iter().map(|e| e.name.as_str());
            let near = arguments::near::nearest(name, names);
            let near = near.map(|n| format!("; did you mean `{n}`?"));
            format!("there is no element `{name}`{}", near.unwrap_or_default())
        })
    };
    let fits =
        |edge: &&Edge, from: Option<(usize, Option<usize>)>, to: Option<(usize, Option<usize>)>| {
            let same = |end: (usize, usize), wanted: Option<(usize, Option<usize>)>| {
                wanted.is_none_or(|(n, port)| end.0 == n && port.is_none_or(|p| p == end.1))
            };
            same(edge.from, from) && same(edge.to, to)
        };
    let edges: Vec<&Edge> = match text.split_once("->") {
        Some((from, to)) => {
            let (from, to) = (written(from)?, written(to)?);
            let ends = (
                Some((node(from.name)?, from.output)),
                Some((node(to.name)?, to.input)),
            );
            plan.edges
                .iter()
                .filter(|e| fits(e, ends.0, ends.1))
                .collect()
        }
        None => {
            let port = written(text)?;
            let n = node(port.name)?;
            match (port.input, port.output) {
                (Some(_), Some(_)) => {
                    return Err(format!("`{text}` names an input and an output: name one"));
                }
                (Some(i), None) => plan
                    .edges
                    .iter()
                    .filter(|e| fits(e, None, Some((n, Some(i)))))
                    .collect(),
                (None, Some(o)) => plan
                    .edges
                    .iter()
                    .filter(|e| fits(e, Some((n, Some(o))), None))
                    .collect(),
                (None, None) => edges_at(plan, n),
            }
        }
    };
    if edges.is_empty() {
        return Err(format!(
            "there is no connection `{}`; see `ashlar show flatconfig`",
            text.trim()
        ));
    }
    Ok(edges
        .into_iter()
        .map(|edge| capture_point(plan, edge))
        .collect())
}

/// Edges into an element, or out of it if it has no inputs.
fn edges_at(plan: &Plan, node: usize) -> Vec<&Edge> {
    let into: Vec<&Edge> = plan.edges.iter().filter(|e| e.to.0 == node).collect();
    if into.is_empty() {
        return plan.edges.iter().filter(|e| e.from.0 == node).collect();
    }
    into
}

fn capture_point(plan: &Plan, edge: &Edge) -> CapturePoint {
    let point = match edge.pull {
        true => Point::Input(edge.to.0, edge.to.1),
        false => Point::Output(edge.from.0, edge.from.1),
    };
    CapturePoint {
        point,
        name: crate::compile::describe::edge_name(plan, edge),
    }
}
