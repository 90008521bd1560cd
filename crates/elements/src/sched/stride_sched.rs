//! Shares packets among its inputs by tickets: stride scheduling.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> Queue -> s :: StrideSched(2, 1) -> Discard;
//! InfiniteSource(LIMIT 30) -> Queue -> [1] s;
//! ```
//!
//! While all inputs have packets, each gets a share in proportion to its tickets. Every input has a pass value, which
//! grows by a stride, the inverse of its tickets, at each pull; the input with the lowest pass is pulled first. An
//! input without a packet is not pulled again for the same packet, and does not save up its share. Inputs known to be
//! empty are skipped; when all are empty, a task that pulls from StrideSched sleeps. C. Waldspurger, W. Weihl,
//! "Stride Scheduling", 1995.
//!
//! Arguments:
//!
//! - `TICKETS`: tickets of each input, as many as there are inputs: from 1 to 32768; larger numbers count as
//!   32768.

use crate::prelude::*;
use arguments::units;
use engine::dynamic::{self, DynamicHandlers};
use lang::Severity;
use std::cell::Cell;
use std::rc::Rc;

/// Stride of a client with one ticket.
const STRIDE_ONE: u64 = 1 << 16;
const TICKETS_MAX: u32 = 1 << 15;

struct Client {
    input: usize,
    pass: u64,
}

/// Tickets of each input, shared with the element's dynamic handlers.
#[derive(Clone)]
struct Tickets(Rc<[Cell<u32>]>);

impl Tickets {
    fn stride(&self, input: usize) -> u64 {
        STRIDE_ONE / u64::from(self.0[input].get())
    }

    fn of(&self, input: usize) -> Result<&Cell<u32>, String> {
        let tickets = self.0.get(input);
        tickets.ok_or_else(|| format!("there is no input {input}"))
    }

    fn show(&self, input: usize) -> Result<String, String> {
        Ok(self.of(input)?.get().to_string())
    }

    fn set(&self, input: usize, value: &str) -> Result<(), String> {
        let tickets = units::parse_in(value, 1..=TICKETS_MAX)?;
        self.of(input)?.set(tickets);
        Ok(())
    }
}

pub(super) struct StrideSched {
    tickets: Tickets,
    /// Clients in ascending order of pass. Among equal passes, the most recently pulled client is first, as in Click.
    clients: Vec<Client>,
    /// Clients pulled in the search for the next packet.
    pulled_clients: Vec<Client>,
}

/// Input in a handler's name, such as `tickets3`.
fn input_of(name: &str) -> Option<usize> {
    let digits = name.strip_prefix("tickets")?;
    let plain = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| plain)
}

impl StrideSched {
    /// Pulls a packet from the first input that has one, in order; returns true if there was one.
    fn pull_one(&mut self, into: &mut Batch, cx: &mut Cx) -> bool {
        let mut found = false;
        while !found && !self.clients.is_empty() {
            let mut client = self.clients.remove(0);
            found = cx.input_active(client.input) && cx.pull(client.input, 1, into) > 0;
            client.pass += self.tickets.stride(client.input);
            self.pulled_clients.push(client);
        }
        for client in self.pulled_clients.drain(..) {
            let at = self.clients.partition_point(|c| c.pass < client.pass);
            self.clients.insert(at, client);
        }
        found
    }
}

/// Handlers of the first inputs; those of others are offered, by the number of inputs.
macro_rules! handlers {
    ($($input:literal $name:literal,)*) => {
        &[$(
            Handler::text($name, "tickets of this input", |e, _| e.tickets.show($input)),
            Handler::set($name, "tickets of this input", |e, value, _| {
                e.tickets.set($input, value)
            }),
        )*]
    };
}

impl Element for StrideSched {
    const CONTRACT: Contract = Contract::new("StrideSched", manual!())
        .ports(Ports::coded(&["in+"], &["out"], "l/l"))
        .copies(Copies::One)
        .extensions(&[&resources::of::<Self>(), &dynamic::of::<Self>()]);

    type Config = Vec<u32>;

    fn configure(args: &mut Args) -> Vec<u32> {
        let words = args.rest("TICKETS", "numbers", "tickets of each input");
        let mut tickets = Vec::new();
        for word in words {
            let n: u32 = args.value("TICKETS", &word.raw, &word).unwrap_or(1);
            if n == 0 {
                args.error(&word, "number of tickets must be positive");
            }
            if n > TICKETS_MAX {
                let cut = format!("{n} tickets are too many, {TICKETS_MAX} will do");
                args.report(Severity::Warning, cut);
            }
            tickets.push(n.clamp(1, TICKETS_MAX));
        }
        tickets
    }

    fn new(tickets: &Arc<Vec<u32>>, init: &Init) -> StrideSched {
        let given = |input| Cell::new(tickets.get(input).copied().unwrap_or(1));
        let tickets = Tickets((0..init.inputs).map(given).collect());
        let client = |input| Client {
            input,
            pass: tickets.stride(input),
        };
        let mut clients: Vec<Client> = (0..init.inputs).map(client).collect();
        clients.sort_by_key(|client| client.pass);
        StrideSched {
            tickets,
            clients,
            pulled_clients: Vec::new(),
        }
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        for _ in 0..max {
            if !self.pull_one(into, cx) {
                return;
            }
        }
    }

    const HANDLERS: &'static [Handler<StrideSched>] = handlers! {
        0 "tickets0", 1 "tickets1", 2 "tickets2", 3 "tickets3", 4 "tickets4", 5 "tickets5",
        6 "tickets6", 7 "tickets7", 8 "tickets8", 9 "tickets9", 10 "tickets10", 11 "tickets11",
        12 "tickets12", 13 "tickets13", 14 "tickets14", 15 "tickets15",
    };
}

impl Resources for StrideSched {
    fn port_count(tickets: &Vec<u32>) -> (Option<usize>, Option<usize>) {
        (Some(tickets.len()), None)
    }
}

impl DynamicHandlers for StrideSched {
    fn has_handler(tickets: &Vec<u32>, name: &str, _: Use) -> bool {
        input_of(name).is_some_and(|input| input < tickets.len())
    }

    fn handler_job(&self, name: &str, value: &str, wanted: Use) -> Job {
        let (tickets, input) = (self.tickets.clone(), input_of(name).unwrap_or(usize::MAX));
        let value = value.to_owned();
        Box::new(move |_| match wanted {
            Use::Read => tickets.show(input),
            Use::Write => tickets.set(input, &value).map(|()| String::new()),
        })
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, Rng};

    /// Pulls `n` packets from inputs that always have some, and counts them by input.
    fn shares(tickets: &[u32], n: usize) -> Vec<usize> {
        let list: Vec<String> = tickets.iter().map(u32::to_string).collect();
        let mut text = format!(
            "s :: StrideSched({}) -> Unqueue(LIMIT {n}) -> out :: Collect;",
            list.join(", ")
        );
        for i in 0..tickets.len() {
            text += &format!("InfiniteSource({i}) -> [{i}] s;");
        }
        let mut bench = Bench::new(crate::CLASSES, &text);
        bench.run();
        let mut counts = vec![0; tickets.len()];
        for packet in bench.take("out") {
            counts[usize::from(packet[0] - b'0')] += 1;
        }
        counts
    }

    #[test]
    fn inputs_share_by_tickets() {
        let mut rng = Rng::seed(5);
        for _ in 0..10 {
            let tickets: Vec<u32> = (0..1 + rng.below(5))
                .map(|_| 1 + rng.below(20) as u32)
                .collect();
            let total: u32 = tickets.iter().sum();
            let rounds = 50;
            let counts = shares(&tickets, rounds * total as usize);
            for (count, t) in counts.iter().zip(&tickets) {
                let fair = rounds as i64 * i64::from(*t);
                // Strides are rounded down, which affects few tickets least.
                let slack = 2 + fair / 500;
                assert!(
                    (*count as i64 - fair).abs() <= slack,
                    "{tickets:?}: {counts:?}"
                );
            }
        }
    }

    #[test]
    fn an_input_without_packets_saves_nothing_up() {
        let text = "a :: Queue -> s :: StrideSched(1, 1) -> u :: Unqueue -> out :: Collect;
            b :: Queue -> [1] s";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.push("a", &[b"a"; 6]);
        bench.run();
        bench.take("out");
        bench.write("u.active", "false");
        bench.push("a", &[b"a"; 3]);
        bench.push("b", &[b"b"; 3]);
        bench.write("u.active", "true");
        bench.run();
        let order = bench.take("out").concat();
        let mut ahead = 0i32;
        for input in &order {
            ahead += if *input == b'a' { 1 } else { -1 };
            assert!(ahead.abs() <= 2, "{order:?}");
        }
        assert_eq!((order.len(), ahead), (6, 0));
    }

    #[test]
    fn of_inputs_that_are_due_together_the_last_asked_is_asked_first() {
        let text = "InfiniteSource(a, LIMIT 7) -> s :: StrideSched(4, 2, 1) -> u :: Unqueue
            -> out :: Collect; InfiniteSource(b, LIMIT 7) -> [1] s; InfiniteSource(c, LIMIT 7) -> [2] s";
        let mut bench = Bench::strict(crate::CLASSES, text);
        bench.run();
        assert_eq!(bench.take("out").concat(), b"aabaabcaababcbbcbcccc");
    }

    #[test]
    fn more_tickets_than_count_are_cut() {
        let text = "Idle -> s :: StrideSched(2, 100000) -> Discard; Idle -> [1] s";
        assert_eq!(Bench::new(crate::CLASSES, text).read("s.tickets1"), "32768");
    }

    #[test]
    fn tickets_change_at_run_time() {
        let text = "Idle -> s :: StrideSched(2, 3) -> Discard; Idle -> [1] s";
        let mut bench = Bench::new(crate::CLASSES, text);
        bench.write("s.tickets1", "7");
        assert_eq!(bench.read("s.tickets1"), "7");
        assert!(bench.try_write("s.tickets1", "0").is_err());
        assert!(bench.try_read("s.tickets5", "").is_err());
    }

    #[test]
    fn every_input_has_a_handler_for_its_tickets() {
        let inputs: String = (0..20).map(|n| format!("Idle -> [{n}] s;")).collect();
        let tickets = ["3"; 20].join(",");
        let text = format!("s :: StrideSched({tickets}) -> Discard; {inputs}");
        let mut bench = Bench::new(crate::CLASSES, &text);
        for input in [0, 15, 16, 19] {
            let name = format!("s.tickets{input}");
            assert_eq!(bench.read(&name), "3");
            bench.write(&name, "7");
            assert_eq!(bench.read(&name), "7");
            assert!(bench.try_write(&name, "0").is_err());
        }
        assert!(bench.try_write("s.tickets20", "1").is_err());
        assert!(bench.try_write("s.tickets016", "1").is_err());
    }
}
