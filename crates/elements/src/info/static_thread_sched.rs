//! Assigns tasks to workers.
//!
//! ```click
//! s :: InfiniteSource(LIMIT 3) -> Discard;
//! StaticThreadSched(s 0);
//! ```
//!
//! Each argument is the name of an element with a task, then its worker. The name of a compound element means all
//! elements in it; a later argument overrides an earlier one. Several workers give the element a copy on each of
//! them. The element's argument `CORES` does the same.

use crate::prelude::*;
use arguments::units::{Cores, FromArg};

pub(super) struct StaticThreadSched;

impl Element for StaticThreadSched {
    const CONTRACT: Contract = Contract::new("StaticThreadSched", manual!())
        .ports(Ports::coded(&[], &[], "a"))
        .extensions(&[&resources::of::<Self>()]);

    type Config = Vec<(String, Vec<usize>)>;

    fn configure(args: &mut Args) -> Self::Config {
        let mut assigns = Vec::new();
        for arg in args.rest(
            "ELEMENT",
            "an element and its worker",
            "an element's name and the worker of its task",
        ) {
            match arg.words().split_first() {
                Some((name, workers)) if !workers.is_empty() => {
                    if let Some(cores) = args.value::<Cores>("the worker", &workers.join(" "), &arg)
                    {
                        assigns.push((name.clone(), cores.0));
                    }
                }
                _ => args.error_with_help(
                    &arg,
                    format!("`{}` names no worker", arg.raw),
                    format!("write the element, then its {}", Cores::KIND),
                ),
            }
        }
        assigns
    }

    fn new(_: &Arc<Self::Config>, _: &Init) -> StaticThreadSched {
        StaticThreadSched
    }
}

impl Resources for StaticThreadSched {
    fn placement(config: &Self::Config) -> Placement {
        Placement {
            assigns: config.clone(),
            ..Placement::default()
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_task_runs_where_it_is_told_to() {
        let text =
            "s :: InfiniteSource(LIMIT 3) -> c :: Counter -> Discard; StaticThreadSched(s 1)";
        let plan = testkit::plan(crate::CLASSES, text, 2, &engine::port::NoPorts, None)
            .expect("it is right");
        assert_eq!(
            plan.elements[plan.find("c").expect("it is there")].workers,
            [1]
        );
    }

    #[test]
    fn names_mean_what_is_nearest_and_compound_elements_all_that_is_in_them() {
        let text = "StaticThreadSched(b 1); a, b :: {
            s :: InfiniteSource(LIMIT 3) -> q :: Queue -> u :: Unqueue -> Discard;
            StaticThreadSched(u 0) }";
        let plan = testkit::plan(crate::CLASSES, text, 2, &engine::port::NoPorts, None)
            .expect("it is right");
        for (name, home) in [("b/s", 1), ("b/u", 0), ("a/u", 0)] {
            assert_eq!(
                plan.elements[plan.find(name).unwrap()].task_worker,
                home,
                "{name}"
            );
        }
    }

    #[test]
    fn unknown_elements_and_missing_workers_are_refused() {
        let errors = testkit::errors(crate::CLASSES, "StaticThreadSched(a 0, b)");
        assert!(errors.contains("`b` names no worker"), "{errors}");
        let errors = testkit::errors(crate::CLASSES, "StaticThreadSched(a 0)");
        assert!(errors.contains("there is no element `a`"), "{errors}");
    }
}
