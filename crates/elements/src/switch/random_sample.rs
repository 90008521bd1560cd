//! Passes a random sample of the packets.
//!
//! ```click
//! InfiniteSource(LIMIT 100) -> RandomSample(0.1) -> Discard;
//! ```
//!
//! Other packets leave by output 1, or are dropped (`not_sampled`).
//!
//! Arguments:
//!
//! - `P`: the probability with which a packet passes.
//!
//! Keyword arguments, one of the first two may replace `P`:
//!
//! - `SAMPLE`: the same.
//! - `DROP`: the probability with which a packet does not pass.
//! - `ACTIVE`: if false, every packet passes. Default true.

use crate::prelude::*;

drops! {
    NOT_SAMPLED = "not_sampled",
}
const OTHERS: u8 = 1;

/// 2^32 is certainty.
const ONE: f64 = 4_294_967_296.0;

pub(super) struct Config {
    sample: f64,
    active: bool,
}

pub(super) struct RandomSample {
    sample: f64,
    /// A packet passes if it draws less.
    below: u64,
    active: bool,
    drops: u64,
}

impl RandomSample {
    fn set(&mut self, sample: f64) {
        self.sample = sample;
        self.below = (sample * ONE) as u64;
    }
}

fn probability(value: &str) -> Result<f64, String> {
    arguments::units::parse_in(value, 0.0..=1.0)
}

impl Element for RandomSample {
    const CONTRACT: Contract = Contract::new("RandomSample", manual!())
        .ports(Ports::new(&["in"], &["out", "others?"]))
        .drops(DROPS)
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let sample: Option<f64> = args.key_maybe("SAMPLE", "the probability to pass");
        let drop: Option<f64> = args.key_maybe("DROP", "the probability not to pass");
        let active = args.key("ACTIVE", true, "if false, every packet passes");
        let p: Option<f64> = args.maybe("P", "the probability to pass");
        let negative = [p, sample, drop]
            .iter()
            .flatten()
            .any(|n| n.is_sign_negative());
        let given = [p, sample, drop.map(|q| 1.0 - q)];
        let sample = given.into_iter().flatten().last();
        if given.iter().flatten().count() != 1 {
            args.error_in_whole(
                "must specify exactly one of `P`, `SAMPLE` and `DROP`",
                "write RandomSample(0.1)",
            );
        } else if negative || sample.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
            args.error_in_whole(
                "the sampling probability must lie between 0 and 1",
                "write RandomSample(0.1)",
            );
        }
        Config {
            sample: sample.unwrap_or(1.0),
            active,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> RandomSample {
        let mut new = RandomSample {
            sample: 0.0,
            below: 0,
            active: config.active,
            drops: 0,
        };
        new.set(config.sample);
        new
    }

    #[inline]
    fn step(&mut self, _: &mut Packet, cx: &mut Cx) -> Verdict {
        if !self.active || u64::from(cx.random()) < self.below {
            return Verdict::ON;
        }
        self.drops += 1;
        Verdict::reject(NOT_SAMPLED, OTHERS)
    }

    const HANDLERS: &'static [Handler<RandomSample>] = &[
        Handler::show("sampling_prob", "the probability to pass", |e| &e.sample),
        Handler::set("sampling_prob", "changes it", |e, value, _| {
            e.set(probability(value)?);
            Ok(())
        }),
        Handler::text("drop_prob", "the probability not to pass", |e, _| {
            Ok((1.0 - e.sample).to_string())
        }),
        Handler::set("drop_prob", "changes it", |e, value, _| {
            e.set(1.0 - probability(value)?);
            Ok(())
        }),
        Handler::show("active", "see ACTIVE", |e| &e.active),
        Handler::assign("active", "see ACTIVE", |e| &mut e.active),
        counter!("drops", "packets that did not pass", drops),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn about_the_share_passes_and_the_rest_is_counted() {
        let text = "r :: RandomSample(DROP 0.75) -> a :: Collect; r[1] -> b :: Collect";
        let mut bench = Bench::new(crate::CLASSES, text);
        for _ in 0..20 {
            bench.push("r", &[b"x"; 200]);
        }
        let (passed, rest) = (bench.take("a").len(), bench.take("b").len());
        assert_eq!(passed + rest, 4000);
        assert!((850..1150).contains(&passed), "{passed}");
        assert_eq!(bench.read("r.drops"), rest.to_string());
        assert_eq!(bench.read("r.sampling_prob"), "0.25");
    }

    #[test]
    fn the_extremes_are_exact_and_it_can_be_put_to_rest() {
        let mut bench = Bench::new(crate::CLASSES, "r :: RandomSample(0) -> out :: Collect");
        bench.push("r", &[b"x"; 250]);
        assert_eq!(bench.drops("r", "not_sampled"), 250);
        bench.write("r.drop_prob", "0");
        bench.push("r", &[b"x"; 250]);
        bench.write("r.sampling_prob", "0");
        bench.write("r.active", "false");
        bench.push("r", &[b"x"]);
        assert_eq!(bench.take("out").len(), 251);
        assert!(bench.try_write("r.drop_prob", "1.5").is_err());
    }

    #[test]
    fn the_share_is_given_once_and_is_a_probability() {
        for wrong in ["", "0.1, DROP 0.9", "1.01", "DROP -1"] {
            let text = format!("Idle -> RandomSample({wrong}) -> Discard");
            testkit::errors(crate::CLASSES, &text);
        }
    }
}
