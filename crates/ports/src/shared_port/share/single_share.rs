//! A shared port with a single share that gets all frames unchanged: frames need no classification, and there is no
//! other sender. The share's router polls the device and sends to it directly, as a router that owns the port does; the
//! port's router does neither. When shares change, both routers read the table again; packets that wait in queues go
//! first.

use super::*;
use std::os::fd::RawFd;
use sync::Lock;

/// A queue of the device that the port's router and its only share may use. Usually both are on the same worker, so the
/// lock, taken once per burst, is free.
pub(super) struct HeldQueue<Q: ?Sized>(Lock<Option<Box<Q>>>);

impl<Q: ?Sized> HeldQueue<Q> {
    fn new(queue: Box<Q>) -> Arc<HeldQueue<Q>> {
        Arc::new(HeldQueue(Lock::new(Some(queue))))
    }

    /// `None` if the device is closed.
    #[inline]
    pub(super) fn with<R>(&self, job: impl FnOnce(&mut Q) -> R) -> Option<R> {
        self.0.lock().as_deref_mut().map(job)
    }
}

/// The device's queues.
#[derive(Default)]
pub(super) struct Queues {
    pub(super) rx: Vec<Arc<HeldQueue<dyn RxQueue>>>,
    pub(super) tx: Vec<Arc<HeldQueue<dyn TxQueue>>>,
}

impl Shared {
    /// Called when the device is open. Returns the parts for the port's router.
    pub(in crate::shared_port) fn opened(self: &Arc<Shared>, parts: Parts) -> Parts {
        let Parts { rx, tx, port } = parts;
        *self.device.lock() = Some(Arc::clone(&port));
        let rx: Vec<_> = rx.into_iter().map(HeldQueue::new).collect();
        let tx: Vec<_> = tx.into_iter().map(HeldQueue::new).collect();
        let lent_rx = rx.iter().enumerate().map(|(queue, held)| {
            Box::new(LentRx {
                held: Arc::clone(held),
                port: Arc::clone(self),
                queue,
                changes: u64::MAX,
                single: None,
                wake_sender: WakeSender::default(),
            }) as Box<dyn RxQueue>
        });
        let lent_tx = tx
            .iter()
            .map(|held| Box::new(LentTx(Arc::clone(held))) as Box<dyn TxQueue>);
        let parts = Parts {
            rx: lent_rx.collect(),
            tx: lent_tx.collect(),
            port,
        };
        *self.queues.lock() = Arc::new(Queues { rx, tx });
        self.changes.fetch_add(1, Release);
        parts
    }

    /// The share that gets all frames, if there is one.
    fn single_share(&self) -> Option<Arc<Share>> {
        self.table.lock().single_share().cloned()
    }

    /// Queues of the device if this share is the single one; `None` otherwise.
    pub(super) fn queues_of_single(&self, share: &Arc<Share>) -> Option<Arc<Queues>> {
        let sole = self.single_share()?;
        Arc::ptr_eq(&sole, share).then(|| Arc::clone(&self.queues.lock()))
    }
}

impl ShareTable {
    /// The share that gets all frames, unchanged and at any rate.
    fn single_share(&self) -> Option<&Arc<Share>> {
        let only = self.shares.first().filter(|(_, of)| of.rate.is_none());
        only.filter(|_| self.is_whole).map(|(share, _)| share)
    }
}

/// A receive queue of the device, as the port's router has it.
struct LentRx {
    held: Arc<HeldQueue<dyn RxQueue>>,
    port: Arc<Shared>,
    queue: usize,
    /// Version of the table of shares that was read last.
    changes: u64,
    single: Option<Arc<Share>>,
    wake_sender: WakeSender,
}

impl LentRx {
    /// Yields the queue to the router of the single share, if there is one and it runs. Returns true if it has yielded.
    #[inline]
    fn yield_queue(&mut self) -> bool {
        let changes = self.port.changes.load(Acquire);
        if changes != self.changes {
            self.changes = changes;
            self.single = self.port.single_share();
        }
        let Some(share) = &self.single else {
            return false;
        };
        let lane = &share.to_router[self.queue % share.to_router.len()];
        if lane.is_open() {
            // The share's router, if it is idle, polls the device only after this wake-up.
            fence(SeqCst);
            self.wake_sender.ring(&lane.bell);
        }
        lane.is_open()
    }
}

impl RxQueue for LentRx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        match self.yield_queue() {
            true => 0,
            false => self.held.with(|rx| rx.receive(into, max)).unwrap_or(0),
        }
    }

    fn receive_bare(&mut self, into: &mut Batch, max: usize) -> usize {
        match self.yield_queue() {
            true => 0,
            false => self.held.with(|rx| rx.receive_bare(into, max)).unwrap_or(0),
        }
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.held.with(|rx| rx.wait_fd()).flatten()
    }

    fn wakes(&mut self, wakers: &Arc<Wakers>, worker: usize) -> bool {
        let wakes = self.held.with(|rx| rx.wakes(wakers, worker));
        wakes.unwrap_or(false)
    }

    fn ended(&self) -> bool {
        self.held.with(|rx| rx.ended()).unwrap_or(true)
    }

    fn fill(&self) -> Option<f64> {
        self.held.with(|rx| rx.fill()).flatten()
    }

    fn waiting(&self) -> Option<usize> {
        self.held.with(|rx| rx.waiting()).flatten()
    }
}

impl Drop for LentRx {
    fn drop(&mut self) {
        // Closes the device, even if the share's router has used it.
        *self.held.0.lock() = None;
    }
}

/// A transmit queue of the device, as the port's router has it.
struct LentTx(Arc<HeldQueue<dyn TxQueue>>);

impl TxQueue for LentTx {
    fn transmit(&mut self, batch: &mut Batch, refused: &mut Batch) -> usize {
        self.0.with(|tx| tx.transmit(batch, refused)).unwrap_or(0)
    }
}

impl Drop for LentTx {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}
