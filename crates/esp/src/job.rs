//! Packets on their way through a cipher. Those of a batch go together, so that a library can work on several at once.

use crate::cipher::NONCE;
use crate::mb::{self, Manager};
use crate::sa::{Fault, Opened, Sa};
use crate::spec::Direction;
use std::{ptr, slice};

/// Number of packets below which each is processed by itself: most lanes of a library that works on many at once would
/// be empty.
const FEW: usize = 4;

/// A packet that is to be sealed or opened, of an association.
pub struct Job<'p> {
    pub(crate) sa: &'p Sa,
    /// From ESP's header to the end of the code.
    pub(crate) packet: &'p mut [u8],
    /// Start of the authentication code.
    pub(crate) text_end: usize,
    pub(crate) number: u64,
    /// Nonce, for ciphers that have one.
    pub(crate) nonce: [u8; NONCE],
    pub(crate) fault: Option<Fault>,
}

impl Job<'_> {
    /// Bytes before the text, the text, and the code.
    #[inline(always)]
    pub(crate) fn parts(&mut self, head: usize) -> (&mut [u8], &mut [u8], &mut [u8]) {
        let (front, code) = self.packet.split_at_mut(self.text_end);
        let (front, text) = front.split_at_mut(head);
        (front, text, code)
    }

    /// Additional authenticated data: SPI and 64-bit sequence number (RFC 4106, 5); `None` if the header holds all of
    /// it.
    #[inline(always)]
    pub(crate) fn long_aad(&self) -> Option<[u8; 12]> {
        self.sa.spec().esn.then(|| {
            let mut aad = [0; 12];
            aad[..4].copy_from_slice(&self.sa.spec().spi.to_be_bytes());
            aad[4..].copy_from_slice(&self.number.to_be_bytes());
            aad
        })
    }

    /// The upper half of its number, if that is authenticated.
    #[inline]
    pub(crate) fn high(&self) -> Option<[u8; 4]> {
        let high = (self.number >> 32) as u32;
        self.sa.spec().esn.then_some(high.to_be_bytes())
    }

    #[inline]
    pub(crate) fn forged(&mut self) {
        self.fault = Some(Fault::Forged);
    }

    /// Index of the suite among those that process several packets at once; `None` for other suites.
    #[inline]
    fn kind(&self) -> Option<usize> {
        self.sa.together().map(|keys| keys.kind())
    }

    /// Content of an opened packet.
    #[inline]
    fn opened(&self) -> Result<Opened, Fault> {
        match self.fault {
            Some(fault) => Err(fault),
            None => self.sa.inside(&self.packet[..self.text_end], self.number),
        }
    }
}

/// A worker's state for sealing and opening packets.
#[derive(Default)]
pub struct Ciphers {
    /// Manager of the library, made for the first packets that need it.
    manager: Option<Manager>,
    spare: Vec<Job<'static>>,
}

impl Ciphers {
    /// An empty list, to be given to [`seal`](Self::seal) or [`open`](Self::open).
    #[inline]
    pub fn jobs<'p>(&mut self) -> Vec<Job<'p>> {
        std::mem::take(&mut self.spare)
    }

    /// Keeps a list's memory.
    #[inline]
    fn keep(&mut self, mut jobs: Vec<Job<'_>>) {
        jobs.clear();
        // As there is none, all may be said to live for ever.
        let all = jobs
            .into_iter()
            .map(|_| -> Job<'static> { unreachable!("it was cleared") });
        self.spare = all.collect();
    }

    /// Seals packets that [`Sa::frame`] has prepared.
    #[inline]
    pub fn seal(&mut self, mut jobs: Vec<Job<'_>>) {
        self.encipher(Direction::Out, &mut jobs);
        self.keep(jobs);
    }

    /// Opens packets that [`Sa::admit`] has accepted, counts them, and calls `tell` with the result of each in order.
    /// Sequence numbers of authentic packets are marked: they will not open again.
    #[inline]
    pub fn open(
        &mut self,
        mut jobs: Vec<Job<'_>>,
        now: u64,
        mut tell: impl FnMut(Result<Opened, Fault>),
    ) {
        self.encipher(Direction::In, &mut jobs);
        for run in jobs.chunk_by_mut(|a, b| ptr::eq(a.sa, b.sa)) {
            let Some(sa) = run.first().map(|job| job.sa) else {
                continue;
            };
            sa.take_numbers(run);
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
                sa.count(packets, bytes, now);
            }
        }
        self.keep(jobs);
    }

    #[inline]
    fn encipher(&mut self, way: Direction, jobs: &mut [Job<'_>]) {
        let mut kinds = 0_u32;
        for run in jobs.chunk_by_mut(|a, b| ptr::eq(a.sa, b.sa)) {
            let Some(first) = run.first() else {
                continue;
            };
            match first.kind() {
                Some(kind) => kinds |= 1 << kind,
                None => one_by_one(way, first.sa, run),
            }
        }
        while kinds != 0 {
            let kind = kinds.trailing_zeros() as usize;
            kinds &= kinds - 1;
            self.together(way, kind, jobs);
        }
    }

    /// Passes the jobs of a kind to the library together, whatever their associations.
    fn together(&mut self, way: Direction, kind: usize, jobs: &mut [Job<'_>]) {
        if self.manager.is_none() {
            self.manager = Manager::new();
        }
        for jobs in jobs.chunks_mut(mb::BURST) {
            let of_kind = jobs.iter().filter(|job| job.kind() == Some(kind));
            let (many, fit) = of_kind.fold((0, true), |(many, fit), job| {
                (many + 1, fit && job.packet.len() <= mb::LEN_MAX)
            });
            match &mut self.manager {
                Some(manager) if many >= FEW && fit => match way {
                    Direction::Out => manager.seal(kind, jobs),
                    Direction::In => manager.open(kind, jobs),
                },
                _ => {
                    let of_kind = jobs.iter_mut().filter(|job| job.kind() == Some(kind));
                    of_kind.for_each(|job| one_by_one(way, job.sa, slice::from_mut(job)));
                }
            }
        }
    }
}

fn one_by_one(way: Direction, sa: &Sa, jobs: &mut [Job<'_>]) {
    match way {
        Direction::Out => sa.cipher().seal(jobs),
        Direction::In => sa.cipher().open(jobs),
    }
}
