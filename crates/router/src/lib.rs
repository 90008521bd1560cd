//! Running routers: the workers that run graphs in turns ([`worker`]), and a router as control sees it ([`Router`])
//! with handlers, counters and hot swap. Its graphs run on the workers of the process ([`Workers`]), beside those of
//! other routers.

mod extension;
pub mod worker;
mod workers;

use crate::worker::share::Share;
use crate::worker::{AddedRouter, LocalRouter, Progress, WorkerTimes};
use engine::clock::Clock;
use engine::element::Runs;
use engine::graph::call::{self, ResolvedHandler};
use engine::graph::peers::Peers;
use engine::graph::root::Plain;
use engine::graph::standard;
use engine::graph::{BuildContext, Graph, Walker};
use engine::handler::{Access, AskError, HandlerInfo, REPLACED, Use, merge};
use engine::outputs::{ByDeviceOfClass, Outputs};
use engine::plan::Plan;
use engine::port::PortDirectory;
use engine::random::Seed;
use engine::stats::{NodeStats, TaskStats};
pub use extension::{RouterExtension, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use sync::Lock;
use workers::answers;
pub use workers::{MakeWaiter, Workers};

/// Time limit for a worker's answer to control.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum pause of sources before a reload. Queues between workers drain meanwhile.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// A running router.
pub struct Router {
    workers: Arc<Workers>,
    /// Number of the router, unique among all routers on these workers.
    number: u64,
    progress: Vec<Arc<Progress>>,
    plan: Lock<Arc<Plan>>,
    /// Held while the plan is replaced, or ownership of buckets or queues changes.
    change_lock: Lock<()>,
    ports: Arc<dyn PortDirectory>,
}

impl Router {
    /// Opens the plan's devices and starts workers for this router. The error is a sentence.
    pub fn start(
        plan: &Arc<Plan>,
        ports: Arc<dyn PortDirectory>,
        make_waiter: &MakeWaiter,
        seed: impl Into<Seed>,
    ) -> Result<Router, String> {
        // Drivers with threads of their own must be opened before the workers start.
        plan.open_devices(&*ports)?;
        let workers = Workers::start(plan.workers, make_waiter)?;
        Router::start_on(&workers, plan, ports, Share::default(), seed)
    }

    /// Opens the plan's devices and runs the router on existing workers beside other routers, which are not affected.
    /// The error is a sentence.
    pub fn start_on(
        workers: &Arc<Workers>,
        plan: &Arc<Plan>,
        ports: Arc<dyn PortDirectory>,
        share: Share,
        seed: impl Into<Seed>,
    ) -> Result<Router, String> {
        let seed = seed.into();
        let count = workers.count();
        if plan.workers != count {
            let planned = plan.workers;
            return Err(format!(
                "the plan is for {planned} workers, and {count} run: a process has the same workers for all routers"
            ));
        }
        plan.open_devices(&*ports)?;
        plan.must_initialize(None)?;
        workers.make_buffers();
        let progress = || {
            Arc::new(Progress {
                changed: Arc::clone(workers.changed()),
                ..Progress::default()
            })
        };
        let router = Router {
            workers: Arc::clone(workers),
            number: workers.next_number(),
            progress: (0..count).map(|_| progress()).collect(),
            plan: Lock::new(Arc::clone(plan)),
            change_lock: Lock::default(),
            ports,
        };
        let wakers = Arc::new(workers.wakers().for_router(router.number));
        let peers = Peers::new(count);
        let clock = Clock::real();
        for worker in 0..count {
            let site = BuildContext {
                worker,
                walker: Walker::Sweep,
                clock: clock.clone(),
                ports: Arc::clone(&router.ports),
                wakers: Arc::clone(&wakers),
                seed,
                root: Arc::new(Plain),
                peers: Arc::clone(&peers),
            };
            let arrival = AddedRouter {
                router: router.number,
                plan: Arc::clone(plan),
                site,
                share,
                progress: Arc::clone(&router.progress[worker]),
            };
            let added = workers.post_job(worker, move |routers| routers.add(arrival));
            added.map_err(|e| e.to_string())?;
        }
        Ok(router)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Plan>> {
        self.plan.lock()
    }

    /// The plan that runs.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.lock())
    }

    /// The ports.
    pub fn ports(&self) -> &Arc<dyn PortDirectory> {
        &self.ports
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.workers.count()
    }

    /// The workers that run the router; they may run other routers, too.
    pub fn runs_on(&self) -> &Arc<Workers> {
        &self.workers
    }

    /// Counters of a worker's turns and sleeps.
    pub fn times(&self, worker: usize) -> &WorkerTimes {
        self.workers.times(worker)
    }

    /// Progress of the router on a worker.
    pub fn progress(&self, worker: usize) -> &Progress {
        &self.progress[worker]
    }

    /// Number of the router, unique among its workers: see [`Workers::busy`].
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Sets its share of the workers; the share is in force when this returns.
    pub fn set_share(&self, share: Share) -> Result<(), AskError> {
        let number = self.number;
        let told = self
            .workers
            .ask_all(move |routers| routers.set_share(number, share));
        told.map(|_| ())
    }

    /// True if the router has ended: an element has stopped it, or all sources have ended and no packet is held
    /// anywhere.
    pub fn ended(&self) -> bool {
        let ended = |p: &Arc<Progress>| p.ended.load(Ordering::Acquire);
        if self.progress.iter().any(ended) {
            return true;
        }
        // A worker that is done can still receive packets from another one. So the router has ended only if all workers
        // are done, no packet is held, and no packet moved during this check.
        let all_done = || self.progress.iter().all(|p| p.done.load(Ordering::Acquire));
        let moved = || -> Vec<u64> {
            let each = self.progress.iter();
            each.map(|p| p.busy_turns.load(Ordering::Acquire)).collect()
        };
        let before = moved();
        self.has_sources() && all_done() && self.held() == Ok(0) && all_done() && moved() == before
    }

    fn has_sources(&self) -> bool {
        self.lock()
            .elements
            .iter()
            .any(|e| e.runs == Runs::AsTask && e.inputs.is_empty())
    }

    /// Waits until the router has ended, for at most `timeout`. Returns true if it has ended.
    pub fn wait_ended(&self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        loop {
            let seen = self.workers.changed().count();
            if self.ended() {
                return true;
            }
            let remaining = until.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return false;
            }
            self.workers.changed().wait(seen, remaining);
        }
    }

    /// Number of packets that elements hold.
    pub fn held(&self) -> Result<usize, AskError> {
        Ok(self.ask_all(|local| local.graph().held())?.iter().sum())
    }

    /// Runs `ask` on a worker between batches and returns its answer.
    pub fn ask<R: Send + 'static>(
        &self,
        worker: usize,
        ask: impl FnOnce(&mut LocalRouter) -> R + Send + 'static,
    ) -> Result<R, AskError> {
        let answer = self.post(worker, ask)?;
        answer
            .recv_timeout(ANSWER_TIMEOUT)
            .map_err(|_| AskError::NoAnswer(worker))
    }

    fn post<R: Send + 'static>(
        &self,
        worker: usize,
        ask: impl FnOnce(&mut LocalRouter) -> R + Send + 'static,
    ) -> Result<Receiver<R>, AskError> {
        let (to, answer) = sync_channel(1);
        self.post_job(worker, move |local| {
            // The caller may have given up.
            let _ = to.send(ask(local));
        })?;
        Ok(answer)
    }

    fn post_job(
        &self,
        worker: usize,
        message: impl FnOnce(&mut LocalRouter) + Send + 'static,
    ) -> Result<(), AskError> {
        let number = self.number;
        // On a removed router the message never runs, and no answer arrives.
        self.workers.post_job(worker, move |routers| {
            _ = routers.with_router(number, message)
        })
    }

    /// Runs `job` repeatedly on these workers in parallel, between batches, until each worker has an answer. Returns
    /// the answers in the order of `workers`. `job` keeps intermediate results on a worker in an `S`. The call takes
    /// at most `time_limit` plus 10 seconds.
    pub fn ask_until<S: Default + 'static, R: Send + 'static>(
        &self,
        workers: &[usize],
        time_limit: Duration,
        job: impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        let job = Arc::new(job);
        let each = workers.iter().map(|&worker| {
            let answer = self.start_job(worker, Arc::clone(&job));
            answer.map(|answer| (worker, answer))
        });
        answers(each, time_limit.saturating_add(ANSWER_TIMEOUT))
    }

    /// Starts running `job` on a worker, repeatedly until `job` returns an answer.
    fn start_job<S: Default + 'static, R: Send + 'static>(
        &self,
        worker: usize,
        job: Arc<impl Fn(&mut Graph, &mut S) -> Option<R> + Send + Sync + 'static>,
    ) -> Result<Receiver<R>, AskError> {
        let (to, answer) = sync_channel(1);
        self.post_job(worker, move |local| {
            let mut state = S::default();
            local.run_until(move |graph| {
                let answer = job(graph, &mut state);
                answer.map(|answer| _ = to.send(answer)).is_some()
            });
        })?;
        Ok(answer)
    }

    /// Runs `ask` on every worker, all at the same time, and returns the answers by worker.
    pub fn ask_all<R: Send + 'static>(
        &self,
        ask: impl Fn(&mut LocalRouter) -> R + Send + Sync + 'static,
    ) -> Result<Vec<R>, AskError> {
        self.ask_all_within(ask, ANSWER_TIMEOUT)
    }

    fn ask_all_within<R: Send + 'static>(
        &self,
        ask: impl Fn(&mut LocalRouter) -> R + Send + Sync + 'static,
        answer_time: Duration,
    ) -> Result<Vec<R>, AskError> {
        let ask = Arc::new(ask);
        let each = (0..self.workers()).map(|worker| {
            let ask = Arc::clone(&ask);
            let answer = self.post(worker, move |local| ask(local));
            answer.map(|answer| (worker, answer))
        });
        answers(each, answer_time)
    }

    /// Looks up the element and the handler of the path `element.handler`.
    pub fn find_handler(
        plan: &Plan,
        path: &str,
        wanted: Use,
    ) -> Result<(usize, usize, HandlerInfo), AskError> {
        match call::find_from_outside(plan, path, wanted)? {
            ResolvedHandler::Own(node, at, info) => Ok((node, at, info)),
            _ => Err(AskError::NoHandler(format!(
                "`{path}` is no handler of an element's class"
            ))),
        }
    }

    /// Reads `element.handler`; `argument` is the text after the name.
    pub fn read(&self, path: &str, argument: &str) -> Result<String, AskError> {
        let plan = self.plan();
        let found = call::find_from_outside(&plan, path, Use::Read)?;
        if let ResolvedHandler::Standard(node, name) = found
            && !standard::is_of_task(name)
        {
            return Ok(standard::text(&plan, node, name, &self.sum_of(node)?));
        }
        self.use_found(&plan, found, path, argument, Use::Read)
    }

    /// Writes `element.handler` on every worker that has a copy, or once if copies share the state.
    pub fn write(&self, path: &str, value: &str) -> Result<String, AskError> {
        let plan = self.plan();
        let found = call::find_from_outside(&plan, path, Use::Write)?;
        self.use_found(&plan, found, path, value, Use::Write)
    }

    /// Calls a handler on all workers that have a copy of the element, and merges the answers.
    fn use_found(
        &self,
        plan: &Arc<Plan>,
        found: ResolvedHandler,
        path: &str,
        value: &str,
        wanted: Use,
    ) -> Result<String, AskError> {
        let (node, access) = match found {
            ResolvedHandler::Own(node, handler, info) => {
                if wanted == Use::Write
                    && let Some(answer) = self.write_by_extension(plan, node, info.name, value)
                {
                    return answer;
                }
                if let Access::Control { .. } = info.access {
                    let by_device: Option<&ByDeviceOfClass> = plan.elements[node].class.extension();
                    let answer = by_device.and_then(|class| {
                        let outputs = Outputs::new(plan, node);
                        let config = &plan.elements[node].config;
                        plan.call(node, || (class.control)(config, info.name, value, &outputs))
                    });
                    if let Some(answer) = answer {
                        return answer.map_err(AskError::Refused);
                    }
                    let answer = plan.control(node, handler, value);
                    return answer.map_err(AskError::Refused);
                }
                (Some(node), info.access)
            }
            ResolvedHandler::Standard(node, _) | ResolvedHandler::Dynamic(node, _) => {
                (Some(node), Access::Text)
            }
            ResolvedHandler::Global(_) => (None, Access::Text),
        };
        let (path, value, plan) = (path.to_owned(), value.to_owned(), Arc::clone(plan));
        let answers = self.ask_all(move |local| {
            let graph = local.graph();
            let (worker, running) = (graph.worker(), Arc::clone(graph.plan()));
            if !Arc::ptr_eq(&running, &plan) {
                return Some(Err(AskError::Refused(REPLACED.to_owned())));
            }
            let here = node.map_or(worker == 0, |n| plan.elements[n].workers.contains(&worker));
            here.then(|| graph.job(|cx| cx.call_local(&path, &value, wanted)))
        })?;
        let answers: Result<Vec<String>, AskError> = answers.into_iter().flatten().collect();
        Ok(merge(access, answers?))
    }

    fn sum_of(&self, node: usize) -> Result<NodeStats, AskError> {
        let mut total = NodeStats::default();
        for stats in self.stats()? {
            if let Some(one) = stats.get(node) {
                total.add(one);
            }
        }
        Ok(total)
    }

    /// Counters of every element, by worker.
    pub fn stats(&self) -> Result<Vec<Vec<NodeStats>>, AskError> {
        self.ask_all(|local| local.graph().stats().to_vec())
    }

    /// Counters of every task, by worker: element and counters.
    pub fn task_stats(&self) -> Result<Vec<Vec<(usize, TaskStats)>>, AskError> {
        self.ask_all(|local| local.graph().task_stats().map(|(n, s)| (n, *s)).collect())
    }

    /// Replaces the running plan: each worker adopts `plan` between two batches. New devices are opened before the
    /// swap, and unused ones closed after it.
    ///
    /// Either all workers adopt the plan or none does: all steps that can fail come first, and are undone on failure.
    /// Once the first worker has the plan, the reload cannot be stopped. A worker that does not answer in time adopts
    /// the plan later. Returns these late workers.
    ///
    /// # Errors
    /// A step failed: the number of workers or queues would change, a device cannot be opened, an element cannot be
    /// initialised, or a worker does not answer. A sentence says why; nothing has changed.
    pub fn reload(&self, plan: &Arc<Plan>) -> Result<Vec<usize>, String> {
        self.reload_within(plan, ANSWER_TIMEOUT)
    }

    /// Like [`reload`](Self::reload), with `answer_time` for each answer of a worker.
    pub fn reload_within(
        &self,
        plan: &Arc<Plan>,
        answer_time: Duration,
    ) -> Result<Vec<usize>, String> {
        let _change = self.lock_changes();
        let current = self.plan();
        let open = self.ports.names();
        if let Err(why) = self.prepare(&current, plan, answer_time) {
            for worker in 0..self.workers() {
                // A late worker processes this message after the earlier request.
                let _ = self.post_job(worker, |local| local.graph().pause(false));
            }
            self.close_others(|name| open.iter().any(|o| o == name));
            return Err(why);
        }
        let told: Vec<_> = (0..self.workers())
            .map(|worker| {
                let next = Arc::clone(plan);
                self.post(worker, move |local| local.swap(&next))
            })
            .collect();
        let until = Instant::now() + answer_time;
        let in_time = |answer: Receiver<()>| {
            let remaining = until.saturating_duration_since(Instant::now());
            answer.recv_timeout(remaining).is_ok()
        };
        let told = told.into_iter().enumerate();
        let late = told.filter_map(|(worker, told)| (!told.is_ok_and(in_time)).then_some(worker));
        let late = late.collect();
        *self.lock() = Arc::clone(plan);
        for device in &plan.devices {
            if let Some(open) = self.ports.get(&device.name) {
                open.port.set_promiscuous(device.request.promiscuous);
            }
        }
        self.close_others(|name| plan.devices.iter().any(|d| d.name == name));
        Ok(late)
    }

    /// Performs all steps of a reload that can fail. The running graphs are unchanged, except that their sources pause.
    fn prepare(&self, current: &Plan, plan: &Plan, answer_time: Duration) -> Result<(), String> {
        let failed = |e: AskError| e.to_string();
        if plan.workers != current.workers {
            return Err(format!(
                "the number of workers cannot change by reload: {} run",
                current.workers
            ));
        }
        let extensions = extension::of(current, plan);
        for extension in &extensions {
            (extension.check_reload)(current, plan)?;
        }
        for device in &plan.devices {
            let fits = self.ports.get(&device.name).is_none_or(|open| {
                device.request.rx_queues <= open.rx.len()
                    && device.request.tx_queues <= open.tx.len()
            });
            if !fits {
                return Err(format!(
                    "{} is open with fewer queues than the new configuration needs; it must be stopped for that",
                    device.name
                ));
            }
            self.ports.open(&device.name, &device.request)?;
        }
        plan.must_initialize(Some(current))?;
        // All workers must answer before sources are paused.
        self.ask_all_within(|_| (), answer_time).map_err(failed)?;
        for extension in &extensions {
            (extension.before_reload)(self, current, plan).map_err(failed)?;
        }
        self.empty_crossings(current, plan, answer_time)
            .map_err(failed)
    }

    /// Closes the ports for which `stays` is false.
    fn close_others(&self, stays: impl Fn(&str) -> bool) {
        let names = self.ports.names().into_iter();
        names
            .filter(|name| !stays(name))
            .for_each(|name| self.ports.close(&name));
    }

    /// Drains the queues between workers that the new plan does not have, with sources paused. Workers adopt the new
    /// graph one after the other: a packet that entered a removed queue meanwhile would never leave it.
    fn empty_crossings(
        &self,
        old: &Plan,
        new: &Plan,
        answer_time: Duration,
    ) -> Result<(), AskError> {
        let stays = |name: &str, class: &str| {
            new.find(name)
                .is_some_and(|i| new.elements[i].class.name == class)
        };
        let crossings = old
            .crossings()
            .into_iter()
            .filter_map(|(name, ..)| old.find(name));
        let gathers = |&i: &usize| old.elements[i].placement().gathers;
        let going: Arc<[usize]> = crossings
            .chain((0..old.elements.len()).filter(gathers))
            .filter(|&i| !stays(&old.elements[i].name, old.elements[i].class.name))
            .collect();
        if going.is_empty() {
            return Ok(());
        }
        let until = Instant::now() + DRAIN_TIMEOUT;
        loop {
            let going = Arc::clone(&going);
            let pause = move |local: &mut LocalRouter| {
                local.graph().pause(true);
                let each = going.iter();
                each.map(|&node| local.graph().held_by(node)).sum::<usize>()
            };
            let held = self.ask_all_within(pause, answer_time)?;
            if held.iter().sum::<usize>() == 0 || Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// Stops all packets of the router. Workers still answer requests, so that final counters can be read.
    /// [`stop`](Self::stop) ends the router.
    pub fn halt(&self) -> Result<(), AskError> {
        self.ask_all(LocalRouter::halt).map(|_| ())
    }

    /// Removes the router from all workers. Workers without other routers end, and the call waits for them.
    pub fn stop(&mut self) {
        if Arc::strong_count(&self.workers) == 1 {
            return self.workers.stop();
        }
        self.take_down();
    }

    /// Removes the router from all workers, which continue with other routers.
    pub fn take_down(&self) {
        let number = self.number;
        let gone = self.workers.ask_all(move |routers| routers.remove(number));
        // A worker that does not answer now removes the router when it processes messages again.
        let _ = gone;
    }

    /// Waits until all workers have ended.
    pub fn join(&mut self) {
        self.workers.join();
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        self.stop();
    }
}
