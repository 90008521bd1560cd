//! Tests of ToDevice.

use super::*;

/// Takes a given number of packets at each call, later none, and records how many were offered.
struct Takes(Vec<usize>, Vec<usize>);

impl TxQueue for Takes {
    fn transmit(&mut self, batch: &mut Batch, _: &mut Batch) -> usize {
        self.1.push(batch.len());
        let n = self.0.drain(..self.0.len().min(1)).sum::<usize>();
        let n = n.min(batch.len());
        batch.drain_front(n);
        n
    }
}

fn lengths(n: u8) -> Batch {
    let packet = |len| Packet::from_bytes(&vec![0; usize::from(len)]).expect("memory");
    (1..=n).map(packet).collect()
}

#[test]
fn a_port_is_handed_a_burst_at_a_time() {
    let (mut waiting, mut part) = (lengths(5), Batch::new());
    let mut port = Takes(vec![2, 2, 1], Vec::new());
    assert_eq!(
        in_bursts(
            |batch| port.transmit(batch, &mut Batch::new()),
            &mut waiting,
            &mut part,
            2
        ),
        5
    );
    assert_eq!(port.1, [2, 2, 1]);
    assert!(waiting.is_empty() && part.is_empty());
}

/// A ToDevice with packets of the second input and of the first, and a port that takes `takes` each time.
fn out(ahead: usize, behind: usize, takes: Vec<usize>) -> ToDevice<Click> {
    ToDevice {
        style: PhantomData,
        slot: None,
        queue: Some(Box::new(Takes(takes, Vec::new()))),
        burst: 64,
        timeout: Duration::ZERO,
        room: 64,
        bare: false,
        whole: false,
        waiting: lengths((ahead + behind) as u8),
        ahead,
        part: Batch::new(),
        refused: Batch::new(),
        count: 0,
        preceded: 0,
        unsent: 0,
        bytes: 0,
        busy: 0,
        lost: 0,
        sent_at_reset: 0,
    }
}

/// Counts after each flush: sent packets, those of the second input, and true if the initially waiting packets have
/// left.
fn sent(out: &mut ToDevice<Click>, times: usize) -> Vec<(u64, u64, bool)> {
    let mark = out.mark();
    let each = (0..times).map(|_| {
        out.flush();
        (out.count, out.preceded, out.is_past(mark))
    });
    each.collect()
}

#[test]
fn a_mark_is_past_when_the_waiting_packets_of_both_inputs_have_gone() {
    let mut mixed = out(1, 3, vec![0, 1, 2, 1, 9]);
    let late = [(0, 0, false), (1, 1, false), (3, 1, false)];
    let said = sent(&mut mixed, 5);
    assert_eq!(said[..3], late);
    assert_eq!(said[3..], [(4, 1, true); 2]);
    let mut second = out(2, 0, vec![0, 1, 1]);
    let said = sent(&mut second, 3);
    assert_eq!(said, [(0, 0, false), (1, 1, false), (2, 2, true)]);
}

#[test]
fn a_mark_is_past_though_more_of_the_second_input_waits() {
    let mut out = out(1, 1, vec![1, 2, 1]);
    let mark = out.mark();
    out.flush();
    let mut others = std::mem::replace(&mut out.waiting, lengths(2));
    out.ahead = 2;
    out.waiting.append(&mut others);
    out.flush();
    assert!(!out.is_past(mark), "the first input's has not gone");
    out.flush();
    assert!(out.is_past(mark));
}

#[test]
fn a_mark_is_past_where_the_counts_of_both_inputs_wrap() {
    let mut out = out(2, 2, vec![1, 1, 1, 1]);
    out.preceded = u64::from(u32::MAX);
    out.count = 2 * out.preceded;
    let said = sent(&mut out, 4);
    let past: Vec<bool> = said.iter().map(|(_, _, past)| *past).collect();
    assert_eq!(past, [false, false, false, true]);
}

#[test]
fn packets_refused_by_a_busy_port_wait_in_order() {
    let (mut waiting, mut part) = (lengths(5), Batch::new());
    let mut port = Takes(vec![2, 1], Vec::new());
    assert_eq!(
        in_bursts(
            |batch| port.transmit(batch, &mut Batch::new()),
            &mut waiting,
            &mut part,
            2
        ),
        3
    );
    assert_eq!(port.1, [2, 2]);
    let left: Vec<usize> = waiting.iter().map(Packet::len).collect();
    assert_eq!(left, [4, 5]);
    assert!(part.is_empty());
}
