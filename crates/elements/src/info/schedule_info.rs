//! Sets the tasks' shares of a worker's time.
//!
//! ```click
//! a :: InfiniteSource(LIMIT 30) -> Discard;
//! b :: InfiniteSource(LIMIT 10) -> Discard;
//! ScheduleInfo(a 3, b 1);
//! ```
//!
//! Each argument is the name of an element with a task, and the task's share. Share 1, the default, means 1024
//! tickets. The element's handler `tickets` reads and changes them.
//!
//! The name of a compound element means all tasks in it: its share multiplies the shares that a ScheduleInfo within
//! the compound element gives. An argument that names one of these tasks overrides that: with `ScheduleInfo(c 4, c/a
//! 10)` the share of `c/a` is 10. Names are relative to the compound element that contains ScheduleInfo.

use crate::prelude::*;
use arguments::Named;
use std::collections::HashMap;

/// Tickets of a share of 1.
const TICKETS: f64 = 1024.0;
/// Maximum number of tickets of a task.
const TICKETS_MAX: f64 = 32768.0;

pub(super) struct ScheduleInfo(Arc<Tasks>);

/// An element, its tickets, and true if the element itself was named, not the compound element that it is in.
type Tasks = Vec<(String, u64, bool)>;

/// Shares from all elements of the class: by compound element (with a slash behind its name), then by name in it.
struct Shares(HashMap<String, HashMap<String, f64>>);

impl Shares {
    fn new(args: &Args) -> Shares {
        let mut all: HashMap<_, HashMap<_, _>> = HashMap::new();
        for peer in args.peers(ScheduleInfo::CONTRACT.name) {
            let end = peer.name().rfind('/').map_or(0, |slash| slash + 1);
            let here = all.entry(peer.name()[..end].to_owned()).or_default();
            for arg in peer.args(&[]).rest("", "", "") {
                if let [name, share] = arg.words().as_slice()
                    && let Ok(share) = share.parse()
                {
                    here.insert(name.clone(), share);
                }
            }
        }
        Shares(all)
    }

    /// Share of an element, if declared: outer declarations take precedence over inner ones.
    fn of(&self, element: &str) -> Option<f64> {
        let mut share = None;
        let mut begun = 0;
        loop {
            let (outside, rest) = element.split_at(begun);
            let said = self.0.get(outside);
            let of = |name: &str| said.and_then(|said| said.get(name)).copied();
            // The element itself, then the compound elements around it, the nearest first.
            let ends = rest.rmatch_indices('/').map(|(slash, _)| slash);
            let found = std::iter::once(rest.len())
                .chain(ends)
                .find_map(|end| Some((end, of(&rest[..end])?)));
            let end = match found {
                Some((end, factor)) => {
                    share = Some(share.unwrap_or(1.0) * factor);
                    end
                }
                None => rest.find('/').unwrap_or(rest.len()),
            };
            if end == rest.len() {
                return share;
            }
            begun += end + 1;
        }
    }
}

impl Element for ScheduleInfo {
    const CONTRACT: Contract =
        Contract::new("ScheduleInfo", manual!()).ports(Ports::coded(&[], &[], "a"));

    type Config = Tasks;

    fn configure(args: &mut Args) -> Tasks {
        let mut tasks = Tasks::new();
        let entries = args.rest(
            "ELEMENT",
            "an element and its share",
            "a task's share of time",
        );
        let shares = args.memoize(Shares::new);
        for arg in entries {
            let words = arg.words();
            let [name, share] = words.as_slice() else {
                args.error(&arg, "expected 'ELEMENTNAME PARAM'");
                continue;
            };
            let Some(share) = args.value::<f64>("PARAM", share, &arg) else {
                continue;
            };
            let (elements, itself) = match args.named(name) {
                Named::Element(element) => (vec![element], true),
                // A missing element is reported when the router starts.
                Named::Within(none) if none.is_empty() => (vec![name.as_str()], true),
                Named::Within(elements) => (elements, false),
            };
            for element in elements {
                let share = shares.of(element).unwrap_or(share);
                let tickets = (share * TICKETS).round();
                if !(1.0..=TICKETS_MAX).contains(&tickets) {
                    let (least, most) = (1.0 / TICKETS, TICKETS_MAX / TICKETS);
                    args.error_with_help(
                        &arg,
                        format!("a share of {share} cannot be given"),
                        format!("shares lie between {least} and {most}"),
                    );
                    break;
                }
                tasks.push((element.to_owned(), tickets as u64, itself));
            }
        }
        tasks
    }

    fn new(config: &Arc<Tasks>, _: &Init) -> ScheduleInfo {
        ScheduleInfo(Arc::clone(config))
    }

    fn start(&mut self, cx: &mut Cx) {
        let tasks = Arc::clone(&self.0);
        cx.defer(move |cx| {
            for (name, tickets, itself) in tasks.iter() {
                let path = format!("{name}.tickets");
                // Not every element of a compound element has a task.
                if let Err(wrong) = cx.write(&path, &tickets.to_string())
                    && *itself
                {
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
        assert_eq!(bench.messages(), "");
    }

    #[test]
    fn the_share_of_a_compound_element_multiplies_those_within_unless_they_are_named_outside() {
        for (outside, tickets) in [
            ("", [512, 1024, 256]),
            ("ScheduleInfo(c 4)", [2048, 4096, 1024]),
            ("ScheduleInfo(c 4, c/i 8)", [8192, 4096, 1024]),
            (
                "ScheduleInfo(c/i 8); ScheduleInfo(c/d 2)",
                [8192, 1024, 1024],
            ),
            ("ScheduleInfo(c 4, c/d 2)", [2048, 4096, 1024]),
            ("ScheduleInfo(c/d/i 3)", [512, 1024, 3072]),
        ] {
            let text = format!(
                "elementclass D {{ i :: InfiniteSource(LIMIT 1) -> q :: Queue -> Discard;
                    ScheduleInfo(i 0.5) }}
                elementclass C {{ i, k :: InfiniteSource(LIMIT 1); i -> Discard; k -> Discard; d :: D;
                    ScheduleInfo(i 0.5, d 0.5) }}
                c :: C; {outside}"
            );
            let mut bench = Bench::strict(crate::CLASSES, &text);
            bench.run();
            let seen = ["c/i", "c/k", "c/d/i"].map(|e| bench.read(&format!("{e}.tickets")));
            assert_eq!(seen, tickets.map(|t| t.to_string()), "{outside}");
            assert_eq!(bench.messages(), "", "{outside}");
        }
    }

    #[test]
    fn unknown_elements_are_said_and_wrong_shares_refused() {
        let mut bench = Bench::strict(crate::CLASSES, "si :: ScheduleInfo(a 1)");
        bench.run();
        assert!(bench.messages().starts_with("si :: ScheduleInfo: "));
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
