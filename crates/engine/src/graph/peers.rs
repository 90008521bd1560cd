//! Handler calls between workers.
//!
//! A call to an element whose copies live on other workers is posted to them, and the caller waits for their answers.
//! While waiting it serves calls of others, so two workers that call each other do not deadlock. Elements that are
//! running meanwhile refuse calls. Workers check for calls once a turn.

use crate::graph::call::{JobCx, ResolvedHandler};
use crate::handler_info::{Access, Use};
use crate::handler_info::{AskError, REPLACED, merge};
use crate::plan::Plan;
use crate::port::Slot;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Time that a caller waits for other workers. They answer within a turn, unless they have ended.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// A call of a handler on another worker's copy.
pub(crate) struct Call {
    /// The plan of the caller: in another plan the name may mean another handler.
    pub(crate) plan: Arc<Plan>,
    pub(crate) path: String,
    pub(crate) value: String,
    pub(crate) wanted: Use,
    /// Channel for the answer; the caller may have given up.
    pub(crate) answer: Sender<Result<String, AskError>>,
}

struct Desk {
    calls: Sender<Call>,
    waiting: Arc<AtomicBool>,
    inbox: Slot<Inbox>,
}

/// The waiting calls for one worker.
pub(crate) struct Inbox {
    calls: Receiver<Call>,
    waiting: Arc<AtomicBool>,
}

/// The mailboxes of one router's workers, for calls between them.
pub struct Peers(Vec<Desk>);

impl Peers {
    /// Mailboxes for this number of workers; a single worker needs none.
    pub fn new(workers: usize) -> Arc<Peers> {
        let desk = |_| {
            let (to, calls) = channel();
            let waiting: Arc<AtomicBool> = Arc::default();
            Desk {
                calls: to,
                waiting: Arc::clone(&waiting),
                inbox: Slot::new(Inbox { calls, waiting }),
            }
        };
        Arc::new(Peers((0..workers).map(desk).collect()))
    }

    /// Takes the inbox of a worker; possible once.
    pub(crate) fn inbox(&self, worker: usize) -> Option<Inbox> {
        self.0.get(worker)?.inbox.take()
    }

    /// Posts a call to another worker. Returns false if that worker has ended.
    pub(crate) fn post(&self, worker: usize, call: Call) -> bool {
        let Some(desk) = self.0.get(worker) else {
            return false;
        };
        let posted = desk.calls.send(call).is_ok();
        desk.waiting.store(true, Ordering::Release);
        posted
    }
}

impl Inbox {
    /// True if calls may wait.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The next call. Costs one load when there is none.
    #[inline]
    pub(crate) fn next(&self) -> Option<Call> {
        if !self.waiting.load(Ordering::Relaxed) {
            return None;
        }
        // The flag is cleared before the last check, so that a call that arrives afterwards is seen next time.
        self.waiting.store(false, Ordering::Release);
        let call = self.calls.try_recv().ok()?;
        self.waiting.store(true, Ordering::Release);
        Some(call)
    }
}

impl JobCx<'_> {
    /// Runs a handler on every worker that has a copy of its element.
    pub(crate) fn call_all_copies(
        &mut self,
        path: &str,
        value: &str,
        wanted: Use,
    ) -> Result<String, AskError> {
        let (node, handler, access) = match self.find(path, wanted)? {
            ResolvedHandler::Own(_, _, info) if matches!(info.access, Access::Control { .. }) => {
                return self.call_local(path, value, wanted);
            }
            ResolvedHandler::Own(node, _, info) => (node, info.name, info.access),
            ResolvedHandler::Standard(node, "packets") => (node, "packets", Access::Sum),
            ResolvedHandler::Standard(node, name) => (node, name, Access::Text),
            ResolvedHandler::Dynamic(node, name) => (node, name, Access::Text),
            ResolvedHandler::Global(_) => return self.call_local(path, value, wanted),
        };
        let plan = Arc::clone(&self.core.plan);
        let me = self.core.worker;
        let away = plan.elements[node].workers.iter().filter(|&&w| w != me);
        let away: Vec<usize> = away.copied().collect();
        if away.is_empty() {
            return self.call_local(path, value, wanted);
        }
        // Other workers find the element by its full name.
        let whole = format!("{}.{handler}", plan.elements[node].name);
        let (tell, hear) = channel();
        for &worker in &away {
            let call = Call {
                plan: Arc::clone(&plan),
                path: whole.clone(),
                value: value.to_owned(),
                wanted,
                answer: tell.clone(),
            };
            if !self.core.peers.post(worker, call) {
                return Err(AskError::NoAnswer(worker));
            }
            self.core.wakers.wake(worker);
        }
        drop(tell);
        let mut answers = Vec::new();
        if self.core.is_here(node) {
            answers.push(self.call_local(&whole, value, wanted)?);
        }
        let until = Instant::now() + ANSWER_TIME;
        loop {
            match hear.try_recv() {
                Ok(answer) => answers.push(answer?),
                Err(TryRecvError::Disconnected) => return Ok(merge(access, answers)),
                Err(TryRecvError::Empty) if Instant::now() >= until => {
                    return Err(AskError::NoAnswer(away[0]));
                }
                Err(TryRecvError::Empty) => {
                    self.serve();
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Answers the calls of other workers. Returns true if there were some.
    pub(crate) fn serve(&mut self) -> bool {
        let mut any = false;
        while let Some(call) = self.core.inbox.as_ref().and_then(Inbox::next) {
            any = true;
            let answer = if Arc::ptr_eq(&call.plan, &self.core.plan) {
                let mut cx = JobCx {
                    nodes: self.nodes,
                    core: self.core,
                    element: None,
                };
                cx.call_local(&call.path, &call.value, call.wanted)
            } else {
                Err(AskError::Refused(REPLACED.to_owned()))
            };
            // The caller may have given up.
            let _ = call.answer.send(answer);
        }
        any
    }
}
