//! `ashlar graph`

use super::{Done, compile, print_as_it_is, say};
use crate::cli::{Graph, GraphFormat};
use crate::graph::{Drawing, dot, svg};
use planner::Registry;

pub(crate) fn graph(args: &Graph, registry: &Registry) -> Done {
    let ports = ports::Directory::new();
    let (_, compiled) = compile(
        &args.configuration,
        registry,
        args.workers.count(),
        &ports,
        false,
    )?;
    say(&compiled.text());
    let Some(plan) = &compiled.plan else {
        return Err(String::new());
    };
    let drawing = Drawing::of(plan);
    print_as_it_is(&match args.format {
        GraphFormat::Svg => svg::render(&drawing),
        GraphFormat::Dot => dot::render(&drawing),
    })
}
