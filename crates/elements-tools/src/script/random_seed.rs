//! Sets the seed of the router's random numbers.
//!
//! ```click
//! RandomSeed(42);
//! ```
//!
//! Arguments:
//!
//! - `SEED`: the seed; without it the random numbers are unpredictable.
//!
//! The elements of one worker share one sequence of random numbers. Without RandomSeed these are unpredictable,
//! unless `ashlar run` has the option `--seed`. A seed is for repeatable runs, and not for routers on a network: the
//! ports that NAT chooses and the identifiers of fragments follow from it.

use crate::prelude::*;
use engine::graph::call::JobCx;
use engine::random::Seed;

pub(super) struct RandomSeed {
    seed: Option<u32>,
}

/// Starts the sequence of a seed, as Click's does, or an unpredictable one.
fn start_sequence(seed: Option<u32>, cx: &mut JobCx) {
    match seed {
        Some(seed) => cx.set_library_seed(seed),
        None => cx.set_seed(Seed::Kernel),
    }
}

impl Element for RandomSeed {
    const CONTRACT: Contract = Contract::new("RandomSeed", manual!())
        .ports(Ports::coded(&[], &[], "a"))
        .copies(Copies::One);

    type Config = Option<u32>;

    fn configure(args: &mut Args) -> Option<u32> {
        args.maybe("SEED", "the seed")
    }

    fn new(config: &Arc<Option<u32>>, _: &Init) -> RandomSeed {
        RandomSeed { seed: **config }
    }

    fn start(&mut self, cx: &mut Cx) {
        start_sequence(self.seed, &mut cx.job_cx());
    }

    const HANDLERS: &'static [Handler<RandomSeed>] = &[Handler::set(
        "seed",
        "sets the seed; an empty value: one that cannot be predicted",
        |_, value, cx| {
            let seed = match value.trim() {
                "" => None,
                value => Some(arguments::units::parse(value)?),
            };
            start_sequence(seed, &mut cx.job_cx());
            Ok(())
        },
    )];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |bench: &mut Bench| [0; 4].map(|_| bench.read("s.random"));
        let text = "r :: RandomSeed(7); s :: Script(TYPE PASSIVE)";
        let mut bench = Bench::new(crate::with_basics(), text);
        bench.run();
        let first = draw(&mut bench);
        let second = draw(&mut bench);
        assert_ne!(first, second);
        bench.write("r.seed", "7");
        assert_eq!(draw(&mut bench), first);
        bench.write("r.seed", "");
        assert_ne!(draw(&mut bench), first);
        let mut bench = Bench::new(crate::with_basics(), text);
        bench.run();
        assert_eq!(draw(&mut bench), first);
        assert!(bench.try_write("r.seed", "x").is_err());
    }
}
