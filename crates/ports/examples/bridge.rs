//! Forwards frames between two ports, both ways, with N queues and threads each: `bridge PORT PORT [QUEUES]`. For each
//! line on standard input, the program prints the port events since the last line, and an empty line. It ends when
//! standard input ends, and then prints the last events and the ports' counters. With `POLL=1` in the environment it
//! never sleeps.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use engine::packet::Batch;
use engine::port::{OpenPort, PortDirectory, PortRequest, RxQueue, TxQueue};
use ports::Directory;
use ports::waiter::{Waiter, WakeReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Packets received, packets sent, empty polls.
#[derive(Default)]
struct Totals([AtomicU64; 3]);

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [a, b, rest @ ..] = args.as_slice() else {
        return Err("usage: bridge PORT PORT [QUEUES]".into());
    };
    let queues = rest
        .first()
        .map_or(Ok(1), |n| n.parse())
        .map_err(|_| "QUEUES is a number")?;
    let directory = Directory::new();
    let request = PortRequest {
        rx_queues: queues,
        tx_queues: queues,
        descriptors: 0,
        promiscuous: true,
    };
    let (a, b) = (directory.open(a, &request)?, directory.open(b, &request)?);
    for port in [&a, &b] {
        eprintln!("{}: {:?}", port.name, port.port.info());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let totals = Arc::new(Totals::default());
    let mut threads = Vec::new();
    let mut wakers = Vec::new();
    for queue in 0..queues {
        let lanes = [lane(&a, &b, queue), lane(&b, &a, queue)];
        let (stop, totals) = (Arc::clone(&stop), Arc::clone(&totals));
        let (waiter, waker) = Waiter::new().map_err(|e| e.to_string())?;
        wakers.push(waker);
        threads.push(std::thread::spawn(move || {
            work(lanes, waiter, &stop, &totals)
        }));
    }
    println!("ready");
    let start = Instant::now();
    let mut line = String::new();
    while std::io::stdin().read_line(&mut line).is_ok_and(|n| n > 0) {
        say(&directory);
        println!();
    }
    stop.store(true, Relaxed);
    wakers.iter().for_each(ports::waiter::Waker::wake);
    for thread in threads {
        thread.join().map_err(|_| "a worker panicked")?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let [rx, tx, empty] = totals.0.each_ref().map(|n| n.load(Relaxed));
    println!(
        "received {rx} sent {tx} empty {empty} pps {:.0}",
        tx as f64 / seconds
    );
    for port in [&a, &b] {
        for (name, queue, value) in port.port.counters() {
            println!("{} {name} {queue:?} {value}", port.name);
        }
    }
    say(&directory);
    Ok(())
}

fn say(directory: &Directory) {
    for event in directory.events() {
        println!("event {event}");
    }
}

type Lane = (Box<dyn RxQueue>, Box<dyn TxQueue>, Batch);

fn lane(from: &OpenPort, to: &OpenPort, queue: usize) -> impl FnOnce() -> Option<Lane> + use<> {
    let (rx, tx) = (from.rx[queue].clone(), to.tx[queue].clone());
    move || Some((rx.take()?, tx.take()?, Batch::with_capacity(64)))
}

fn work(
    lanes: [impl FnOnce() -> Option<Lane>; 2],
    mut waiter: Waiter,
    stop: &AtomicBool,
    totals: &Totals,
) {
    let mut lanes = lanes.map(|make| make().expect("main gave every queue away once"));
    for (rx, ..) in &lanes {
        rx.wait_fd().map(|fd| waiter.add(fd));
    }
    let poll = std::env::var_os("POLL").is_some();
    let (mut received, mut sent, mut empty) = (0, 0, 0);
    while !stop.load(Relaxed) {
        let mut busy = false;
        for (rx, tx, batch) in &mut lanes {
            received += rx.receive(batch, 32);
            if !batch.is_empty() {
                busy = true;
                sent += tx.transmit(batch, &mut Batch::new());
            }
        }
        if !busy {
            empty += 1;
            if !poll && waiter.wait(Duration::from_millis(100)) == WakeReason::WakerCalled {
                break;
            }
        }
    }
    let counts = [received as u64, sent as u64, empty];
    for (total, n) in totals.0.iter().zip(counts) {
        total.fetch_add(n, Relaxed);
    }
}
