//! Passes the packets of a batch to ciphers together, so that a library can process several at once.

use crate::burst::{self, Manager};
use crate::protection::{Fault, Job, Opened, Protection};
use crate::spec::Direction;
use std::{ptr, slice};

/// Below this number of packets, each is processed separately: most SIMD lanes of the library would be empty.
const BATCH_MIN: usize = 4;

/// A worker's state for encrypting and decrypting packets.
#[derive(Default)]
pub struct Ciphers {
    /// Job manager of the library, made for the first packets that need it.
    manager: Option<Manager>,
    spare: Vec<Job<'static>>,
}

impl Ciphers {
    /// An empty list, for [`encrypt`](Self::encrypt) or [`decrypt`](Self::decrypt).
    #[inline]
    pub fn jobs<'p>(&mut self) -> Vec<Job<'p>> {
        std::mem::take(&mut self.spare)
    }

    /// Stores the list's memory for reuse.
    #[inline]
    fn keep(&mut self, mut jobs: Vec<Job<'_>>) {
        jobs.clear();
        // The list is empty, so its type may have any lifetime.
        let all = jobs
            .into_iter()
            .map(|_| -> Job<'static> { unreachable!("it was cleared") });
        self.spare = all.collect();
    }

    /// Encrypts packets that [`Sa::frame`](crate::Sa::frame) has prepared.
    #[inline]
    pub fn encrypt(&mut self, mut jobs: Vec<Job<'_>>) {
        self.encipher(Direction::Out, &mut jobs);
        self.keep(jobs);
    }

    /// Decrypts packets that [`Sa::admit`](crate::Sa::admit) has accepted, counts them, and calls `tell` with each
    /// result in order. Marks the sequence numbers of authentic packets as seen.
    #[inline]
    pub fn decrypt(
        &mut self,
        mut jobs: Vec<Job<'_>>,
        now: u64,
        mut tell: impl FnMut(Result<Opened, Fault>),
    ) {
        self.encipher(Direction::In, &mut jobs);
        for run in jobs.chunk_by_mut(|a, b| ptr::eq(a.protection, b.protection)) {
            let Some(protection) = run.first().map(|job| job.protection) else {
                continue;
            };
            protection.take_numbers(run);
            let (mut packets, mut bytes) = (0, 0);
            for job in run {
                let opened = job.opened();
                if let Ok(inner) = opened {
                    packets += 1;
                    bytes += (inner.end - inner.start) as u64;
                }
                tell(opened);
            }
            if packets > 0 {
                protection.count(packets, bytes, now);
            }
        }
        self.keep(jobs);
    }

    #[inline]
    fn encipher(&mut self, way: Direction, jobs: &mut [Job<'_>]) {
        let mut kinds = 0_u32;
        for run in jobs.chunk_by_mut(|a, b| ptr::eq(a.protection, b.protection)) {
            let Some(first) = run.first() else {
                continue;
            };
            match first.kind() {
                Some(kind) => kinds |= 1 << kind,
                None => one_by_one(way, first.protection, run),
            }
        }
        while kinds != 0 {
            let kind = kinds.trailing_zeros() as usize;
            kinds &= kinds - 1;
            self.process_in_batches(way, kind, jobs);
        }
    }

    /// Passes the jobs of one kind to the library together, across associations.
    fn process_in_batches(&mut self, way: Direction, kind: usize, jobs: &mut [Job<'_>]) {
        if self.manager.is_none() {
            self.manager = Manager::new();
        }
        for jobs in jobs.chunks_mut(burst::BURST) {
            let of_kind = jobs.iter().filter(|job| job.kind() == Some(kind));
            let (many, fit) = of_kind.fold((0, true), |(many, fit), job| {
                (many + 1, fit && job.packet.len() <= burst::LEN_MAX)
            });
            match &mut self.manager {
                Some(manager) if many >= BATCH_MIN && fit => match way {
                    Direction::Out => manager.encrypt(kind, jobs),
                    Direction::In => manager.decrypt(kind, jobs),
                },
                _ => {
                    let of_kind = jobs.iter_mut().filter(|job| job.kind() == Some(kind));
                    of_kind.for_each(|job| one_by_one(way, job.protection, slice::from_mut(job)));
                }
            }
        }
    }
}

fn one_by_one(way: Direction, protection: &Protection, jobs: &mut [Job<'_>]) {
    match way {
        Direction::Out => protection.cipher.encrypt(jobs),
        Direction::In => protection.cipher.decrypt(jobs),
    }
}
