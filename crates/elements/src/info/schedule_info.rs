//! Says how much of a worker's time tasks get.
//!
//! ```click
//! a :: InfiniteSource(LIMIT 30) -> Discard;
//! b :: InfiniteSource(LIMIT 10) -> Discard;
//! ScheduleInfo(a 3, b 1);
//! ```
//!
//! Each argument is the name of an element with a task, and the task's share. Share 1, the default, means 1024
//! tickets. The element's handler `tickets` reads and changes them. Names are relative to the place of
//! ScheduleInfo in compound elements.

use crate::prelude::*;

/// Tickets of a share of 1.
const TICKETS: f64 = 1024.0;
/// Most tickets of a task.
const TICKETS_MAX: f64 = 32768.0;

pub(super) struct ScheduleInfo(Arc<Shares>);

/// Elements and their tickets.
type Shares = Vec<(String, u64)>;

impl Element for ScheduleInfo {
    const CLASS: &'static str = "ScheduleInfo";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&[], &[], "a");
    const READS_ANNOTATIONS: bool = true;

    type Config = Shares;

    fn configure(args: &mut Args) -> Shares {
        let mut shares = Shares::new();
        for arg in args.rest(
            "ELEMENT",
            "an element and its share",
            "a task's share of time",
        ) {
            let words = arg.words();
            let [name, share] = words.as_slice() else {
                args.error(&arg, "expected 'ELEMENTNAME PARAM'");
                continue;
            };
            let Some(share) = args.value::<f64>("PARAM", share, &arg) else {
                continue;
            };
            let tickets = (share * TICKETS).round();
            if (1.0..=TICKETS_MAX).contains(&tickets) {
                shares.push((name.clone(), tickets as u64));
            } else {
                args.error_with_help(
                    &arg,
                    format!("a share of {share} cannot be given"),
                    format!(
                        "shares lie between {} and {}",
                        1.0 / TICKETS,
                        TICKETS_MAX / TICKETS
                    ),
                );
            }
        }
        shares
    }

    fn new(config: &Arc<Shares>, _: &Init) -> ScheduleInfo {
        ScheduleInfo(Arc::clone(config))
    }

    fn start(&mut self, cx: &mut Cx) {
        let shares = Arc::clone(&self.0);
        cx.defer(move |cx| {
            for (name, tickets) in shares.iter() {
                let path = format!("{name}.tickets");
                if let Err(wrong) = cx.write(&path, &tickets.to_string()) {
                    let line = format!("{} :: ScheduleInfo: {wrong}", cx.name());
                    cx.say(&line);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn tasks_get_the_tickets_that_they_are_given() {
        let text = "a, b, c :: InfiniteSource(LIMIT 1); a -> Discard; b -> Discard; c -> Discard;
            ScheduleInfo(a 4, b .5)";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.run();
        let tickets = ["a", "b", "c"].map(|e| bench.read(&format!("{e}.tickets")));
        assert_eq!(tickets, ["4096", "512", "1024"]);
        assert_eq!(bench.said(), "");
    }

    #[test]
    fn unknown_elements_are_said_and_wrong_shares_refused() {
        let mut bench = Bench::strict(crate::CLASSES, "si :: ScheduleInfo(a 1)");
        bench.run();
        assert!(bench.said().starts_with("si :: ScheduleInfo: "));
        for text in [
            "ScheduleInfo(a)",
            "ScheduleInfo(a b)",
            "ScheduleInfo(a 0)",
            "ScheduleInfo(a 99)",
        ] {
            testkit::errors(crate::CLASSES, text);
        }
    }
}
