//! Shares bytes evenly among its inputs: deficit round robin.
//!
//! ```click
//! InfiniteSource(LIMIT 30) -> Queue -> d :: DRRSched -> Discard;
//! InfiniteSource(LIMIT 30) -> Queue -> [1] d;
//! ```
//!
//! Inputs have turns. A turn adds `QUANTUM` bytes to the input's deficit. While the input's next packet is not
//! longer than the deficit, it leaves, and its length is subtracted; otherwise the packet waits for the input's
//! next turn. An input that becomes empty loses its deficit. M. Shreedhar, G. Varghese, "Efficient Fair Queuing
//! using Deficit Round Robin", 1995.
//!
//! DRRSched holds at most one packet per input. A task that pulls from it sleeps while it holds none and all inputs
//! are known to be empty.
//!
//! Arguments:
//!
//! - `QUANTUM`: bytes per turn. Default 500.

use crate::prelude::*;
use engine::notify::Notifies;

#[derive(Default)]
struct Input {
    head: Option<Packet>,
    deficit: usize,
}

pub(super) struct DrrSched {
    inputs: Vec<Input>,
    quantum: usize,
    next: usize,
}

impl DrrSched {
    /// The next packet, if some input has one.
    fn pull_one(&mut self, cx: &mut Cx) -> Option<Packet> {
        let mut empty = 0;
        let mut one = Batch::new();
        while empty < self.inputs.len() {
            let input = &mut self.inputs[self.next];
            if input.head.is_none() && cx.input_active(self.next) {
                cx.pull(self.next, 1, &mut one);
                input.head = one.drain().next();
            }
            match input.head.take() {
                None => {
                    input.deficit = 0;
                    empty += 1;
                }
                Some(head) if head.len() <= input.deficit => {
                    input.deficit -= head.len();
                    return Some(head);
                }
                Some(head) => {
                    input.head = Some(head);
                    empty = 0;
                }
            }
            self.next = (self.next + 1) % self.inputs.len();
            self.inputs[self.next].deficit += self.quantum;
        }
        None
    }
}

impl Element for DrrSched {
    const CONTRACT: Contract = Contract::new("DRRSched", manual!())
        .ports(Ports::coded(&["in*"], &["out"], "l/l"))
        .copies(Copies::One)
        .extensions(&[&Notifies::PACKETS]);

    type Config = usize;

    fn configure(args: &mut Args) -> usize {
        args.optional_in("QUANTUM", 500, 1..=SIZE_MAX, "bytes per turn")
    }

    fn new(quantum: &Arc<usize>, init: &Init) -> DrrSched {
        DrrSched {
            inputs: (0..init.inputs).map(|_| Input::default()).collect(),
            quantum: **quantum,
            next: 0,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        cx.wake_pullers();
    }

    fn pull(&mut self, _: usize, max: usize, into: &mut Batch, cx: &mut Cx) {
        for _ in 0..max {
            match self.pull_one(cx) {
                Some(packet) => into.push(packet),
                None => {
                    if !(0..self.inputs.len()).any(|i| cx.input_active(i)) {
                        cx.note_empty();
                    }
                    return;
                }
            }
        }
    }

    fn held(&self) -> usize {
        self.inputs.iter().filter(|i| i.head.is_some()).count()
    }

    fn take(&mut self, old: DrrSched) {
        for (input, old) in self.inputs.iter_mut().zip(old.inputs) {
            *input = old;
        }
        self.next = old.next % self.inputs.len().max(1);
    }
}

#[cfg(test)]
mod tests {
    use testkit::{Bench, Rng};

    #[test]
    fn inputs_share_bytes_whatever_their_packets_are() {
        let mut rng = Rng::seed(3);
        for quantum in [1, 500, 1500] {
            let lengths: Vec<usize> = (0..3).map(|_| 40 + rng.below(1400)).collect();
            let mut text =
                format!("d :: DRRSched({quantum}) -> Unqueue(LIMIT 600) -> out :: Collect;");
            for (i, length) in lengths.iter().enumerate() {
                text += &format!("InfiniteSource({i}, LENGTH {length}) -> [{i}] d;");
            }
            let mut bench = Bench::new(crate::CLASSES, &text);
            bench.run();
            let mut bytes = [0usize; 3];
            for packet in bench.take("out") {
                bytes[usize::from(packet[0] - b'0')] += packet.len();
            }
            let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
            assert!(
                most - least <= 2 * (1440 + quantum),
                "{quantum} {lengths:?}: {bytes:?}"
            );
        }
    }

    #[test]
    fn nothing_is_lost_and_each_input_keeps_its_order() {
        let text =
            "a :: Queue -> d :: DRRSched(100) -> Unqueue -> out :: Collect; b :: Queue -> [1] d";
        for make in [Bench::new, Bench::strict] {
            let mut bench = make(crate::CLASSES, text);
            let mut rng = Rng::seed(9);
            let mut sent = [0u16; 2];
            for _ in 0..200 {
                let input = rng.below(2);
                let mut packet = vec![0; 3 + rng.below(300)];
                packet[0] = input as u8;
                packet[1..3].copy_from_slice(&sent[input].to_be_bytes());
                sent[input] += 1;
                bench.push(["a", "b"][input], &[packet]);
                if rng.below(4) == 0 {
                    bench.run();
                }
            }
            bench.run();
            let mut seen = [0u16; 2];
            for packet in bench.take("out") {
                let input = usize::from(packet[0]);
                assert_eq!(packet[1..3], seen[input].to_be_bytes());
                seen[input] += 1;
            }
            assert_eq!(seen, sent);
        }
    }
}
