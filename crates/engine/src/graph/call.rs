//! Handler calls within the router: an element, a script or a driver uses handlers of other elements.
//!
//! A running element must not be re-entered. So a call that may reach a running element waits until the element has
//! returned. [`Cx::defer`] defers a job until no element of this worker is running. It then runs before the packets
//! that the element has sent move on (strict walker), or right after the batch (sweep). A job works on a [`JobCx`]:
//! the graph as seen from outside any element. An element that needs an answer at once uses [`Cx::job_cx`]. Then
//! handlers of the running elements (the caller and all elements that pull through it) cannot be read, and writes to
//! them wait until those elements have returned.
//!
//! Names are resolved as Click does: `counter.count` written in `a/b` means `a/b/counter`, else
//! `a/counter`, else `counter`. A name without a dot is a handler of the router ([`Root`]).
//!
//! With several workers a call reaches every copy of an element. The answers are combined as `ashlar show` combines
//! them; see [`peers`](crate::graph::peers).

use crate::clock::{Clock, Time};
use crate::graph::root::Root;
use crate::graph::standard;
use crate::graph::{Core, Nodes};
use crate::graph::{Cx, DynamicOfClass};
use crate::handler_info::AskError;
use crate::handler_info::{Access, HandlerInfo, Use};
use crate::packet::Packet;
use crate::plan::Plan;
use crate::random::{Random, Seed};
use arguments::Names;
use arguments::units::FromArg;
use lang::args as text;
use std::sync::Arc;

/// Maximum depth of jobs within jobs; a deeper nesting is taken for infinite recursion.
const DEPTH_MAX: usize = 100;

/// Part of a handler that needs the graph. It runs when the handler's element is back in the graph.
pub type Job = Box<dyn FnOnce(&mut JobCx) -> Result<String, String>>;

/// A job that waits until its element has returned.
pub(crate) type Deferred = Box<dyn FnOnce(&mut JobCx)>;

/// A handler call given as an argument: the handler's name, and the value to write or the argument to read with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandlerCall {
    /// `element.handler`, or a handler of the router.
    pub path: String,
    /// Text after the name, without quotes.
    pub value: String,
}

impl HandlerCall {
    /// Reads the handler.
    pub fn read(&self, cx: &mut JobCx) -> Result<String, AskError> {
        cx.read(&self.path, &self.value)
    }

    /// Writes the handler.
    pub fn write(&self, cx: &mut JobCx) -> Result<String, AskError> {
        cx.write(&self.path, &self.value)
    }
}

impl FromArg for HandlerCall {
    const KIND: &'static str = "a handler, and what it is given";
    const QUOTED: bool = true;

    fn from_arg(raw: &str, _: &Names) -> Result<HandlerCall, String> {
        let words = text::words(raw);
        let Some(path) = words.first() else {
            return Err("must name a handler, and is empty".to_owned());
        };
        Ok(HandlerCall {
            path: text::unquote(&raw[path.clone()]).into_owned(),
            value: text::unquote(raw[path.end..].trim()).into_owned(),
        })
    }

    fn stand_in() -> HandlerCall {
        HandlerCall::default()
    }

    fn unparse(&self) -> String {
        format!("{} {}", self.path, self.value)
            .trim_end()
            .to_owned()
    }
}

/// Handler that a name resolves to.
#[derive(Clone, Copy, Debug)]
pub enum ResolvedHandler<'a> {
    /// Handler of a class: element, index among the class's handlers, and description.
    Own(usize, usize, HandlerInfo),
    /// Handler that every element has: element and name.
    Standard(usize, &'static str),
    /// Handler that an element's configuration names: element and name.
    Dynamic(usize, &'a str),
    /// Handler of the router.
    Global(&'a str),
}

/// Finds an element by a name written in element `within`; the innermost match wins.
pub fn find_element(plan: &Plan, within: &str, name: &str) -> Option<usize> {
    let mut scope = within;
    while let Some((outer, _)) = scope.rsplit_once('/') {
        if let Some(node) = plan.find(&format!("{outer}/{name}")) {
            return Some(node);
        }
        scope = outer;
    }
    plan.find(name)
}

/// Handler of an element that allows a use: of its class, of every element, or of its configuration.
fn handler_of<'a>(
    plan: &Plan,
    node: usize,
    handler: &'a str,
    wanted: Use,
) -> Option<ResolvedHandler<'a>> {
    let element = &plan.elements[node];
    let own = (element.class.handlers)();
    let fits = |h: &(usize, &HandlerInfo)| h.1.name == handler && h.1.access.allows(wanted);
    if let Some((at, info)) = own.iter().enumerate().find(fits) {
        return Some(ResolvedHandler::Own(node, at, *info));
    }
    let common = standard::list(plan, element);
    let fits = |h: &&HandlerInfo| h.name == handler && h.access.allows(wanted);
    if let Some(common) = common.iter().find(fits) {
        return Some(ResolvedHandler::Standard(node, common.name));
    }
    let offers = element.class.extension::<DynamicOfClass>()?;
    (offers.offers)(&element.config, handler, wanted)
        .then_some(ResolvedHandler::Dynamic(node, handler))
}

/// Resolves the handler name `path`, written in element `within` (empty: outside all elements). A name without an
/// element is that element's own handler if it has one, as in Click, else the router's.
pub fn find<'a>(
    plan: &Plan,
    within: &str,
    path: &'a str,
    wanted: Use,
) -> Result<ResolvedHandler<'a>, AskError> {
    let Some((element, handler)) = path.split_once('.') else {
        let own = plan.find(within);
        let own = own.and_then(|node| handler_of(plan, node, path, wanted));
        return Ok(own.unwrap_or(ResolvedHandler::Global(path)));
    };
    let Some(node) = find_element(plan, within, element) else {
        let names = plan.elements.iter().map(|e| e.name.as_str());
        let near =
            arguments::near::nearest(element, names).map(|n| format!("; did you mean `{n}`?"));
        return Err(AskError::NoElement(format!(
            "there is no element `{element}`{}",
            near.unwrap_or_default()
        )));
    };
    if let Some(found) = handler_of(plan, node, handler, wanted) {
        return Ok(found);
    }
    let class = plan.elements[node].class;
    let own = (class.handlers)();
    let common = standard::list(plan, &plan.elements[node]);
    if own.iter().chain(&common).any(|h| h.name == handler) {
        let only = match wanted {
            Use::Read => "written",
            Use::Write => "read",
        };
        return Err(AskError::Refused(format!("`{path}` can only be {only}")));
    }
    let mut names: Vec<&str> = own.iter().map(|h| h.name).collect();
    names.dedup();
    Err(AskError::NoHandler(format!(
        "`{element}` ({}) has no handler `{handler}`; it has {}",
        class.name,
        names.join(", ")
    )))
}

/// Like [`find`], for callers outside the router.
pub fn find_from_outside<'a>(
    plan: &Plan,
    path: &'a str,
    wanted: Use,
) -> Result<ResolvedHandler<'a>, AskError> {
    match find(plan, "", path, wanted)? {
        ResolvedHandler::Own(_, _, info) if info.inner => Err(AskError::Refused(format!(
            "`{path}` is for the router's own elements"
        ))),
        found => Ok(found),
    }
}

/// Error message for [`find`] without a match, in Click's words, with the element's full name.
pub fn not_found(plan: &Plan, within: &str, path: &str, wanted: Use, wrong: AskError) -> String {
    let Some((element, handler)) = path.split_once('.') else {
        return match wanted {
            Use::Read => format!("no '{path}' read handler"),
            Use::Write => format!("no '{path}' write handler"),
        };
    };
    let found = find_element(plan, within, element);
    let path = found.map(|node| format!("{}.{handler}", plan.elements[node].name));
    let path = path.unwrap_or_default();
    match (wrong, wanted) {
        (AskError::NoElement(_), _) => format!("no element named '{element}'"),
        (_, Use::Read) => format!("no '{path}' read handler"),
        (_, Use::Write) => format!("no '{path}' write handler"),
    }
}

/// The graph as seen from outside any element, for jobs.
pub struct JobCx<'a> {
    pub(crate) nodes: &'a mut Nodes,
    pub(crate) core: &'a mut Core,
    /// The element that deferred the job.
    pub(crate) element: Option<usize>,
}

impl JobCx<'_> {
    /// The plan that runs.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.core.plan
    }

    /// Context for a call of a handler by a client: a name without an element is that of the router's own handler.
    pub fn for_client(&mut self, path: &str) -> JobCx<'_> {
        JobCx {
            nodes: &mut *self.nodes,
            core: &mut *self.core,
            element: self.element.filter(|_| path.contains('.')),
        }
    }

    /// Name of the element whose job this is; empty if there is none.
    pub fn name(&self) -> &str {
        self.element
            .map_or("", |n| &self.core.plan.elements[n].name)
    }

    /// The time, read now.
    pub fn now(&mut self) -> Time {
        self.core.clock.now()
    }

    /// Sets the timer of this job's element to `at`, unless it is set to an earlier time.
    pub fn set_timer(&mut self, at: Time) {
        if let Some(node) = self.element {
            self.core.set_timer(node, at);
        }
    }

    /// Cancels the timer of this job's element.
    pub fn cancel_timer(&mut self) {
        if let Some(node) = self.element {
            self.core.cancel_timer(node);
        }
    }

    /// Makes the task of this job's element ready again.
    pub fn wake(&mut self) {
        if let Some(node) = self.element {
            crate::graph::wake(&mut self.core.tasks, &mut self.core.schedule, node);
        }
    }

    /// Requests the router to stop; an element that controls the router may refuse.
    pub fn stop(&mut self) {
        self.core.stops += 1;
    }

    /// Ends the round of tasks: the driver has something to do before the next round.
    pub fn interrupt(&mut self) {
        self.core.interrupt = true;
    }

    /// Ends the router, after this turn.
    pub fn end(&mut self) {
        self.core.stopping = true;
    }

    /// The present time in nanoseconds since the Unix epoch.
    pub fn wall_ns(&mut self) -> u64 {
        let now = self.core.clock.now();
        self.core.clock.wall_ns(now)
    }

    /// An unpredictable random number; see [`Seed`].
    pub fn random(&mut self) -> u32 {
        self.core.random()
    }

    /// The clock, mutable: to set it or change its speed.
    pub fn clock(&mut self) -> &mut Clock {
        &mut self.core.clock
    }

    /// Sends a packet out by an output of this job's element, and moves it on at once.
    pub fn emit(&mut self, output: usize, packet: Packet) {
        let Some(node) = self.element else { return };
        let mark = self.core.stack.len();
        let mut cx = Cx {
            nodes: self.nodes,
            core: self.core,
            this: node,
        };
        cx.emit(output, packet);
        self.finish_run(mark);
    }

    /// Drops a packet of this job's element, counted under index `reason` of its class's drops.
    pub fn drop(&mut self, packet: Packet, reason: u8) {
        if let Some(node) = self.element {
            self.core.drop_one(node, reason.into(), packet);
        }
    }

    /// Restarts the sequence of random numbers.
    pub fn set_seed(&mut self, seed: Seed) {
        self.core.random = Random::new(seed, self.core.worker);
    }

    /// Like [`set_seed`](Self::set_seed), with the sequence of the C library for this seed, which Click uses.
    pub fn set_library_seed(&mut self, seed: u32) {
        self.core.random = Random::library(seed);
    }

    /// Writes text to the program's output.
    pub fn print(&mut self, text: &str) {
        let root: &Arc<dyn Root> = &self.core.root;
        root.print(text);
    }

    /// Resolves a handler name as written in this job's element.
    pub fn find<'p>(&self, path: &'p str, wanted: Use) -> Result<ResolvedHandler<'p>, AskError> {
        let found = find(&self.core.plan, self.name(), path, wanted)?;
        let ResolvedHandler::Global(name) = found else {
            return Ok(found);
        };
        let has = |wanted| self.core.root.has_handler(name, wanted);
        match wanted {
            _ if has(wanted) => Ok(found),
            Use::Read if has(Use::Write) => {
                Err(AskError::Refused(format!("`{name}` can only be written")))
            }
            Use::Write if has(Use::Read) => {
                Err(AskError::Refused(format!("`{name}` can only be read")))
            }
            _ => Err(AskError::NoHandler(format!(
                "the router has no handler `{name}`"
            ))),
        }
    }

    /// Reads `element.handler` from all copies of the element, on any worker, or reads a handler of the router.
    pub fn read(&mut self, path: &str, argument: &str) -> Result<String, AskError> {
        self.call_all_copies(path, argument, Use::Read)
    }

    /// Writes `element.handler` on all copies of the element, or writes a handler of the router. The answer is
    /// usually empty.
    pub fn write(&mut self, path: &str, value: &str) -> Result<String, AskError> {
        self.call_all_copies(path, value, Use::Write)
    }

    /// Runs a handler of this worker's copy.
    pub fn call_local(&mut self, path: &str, value: &str, wanted: Use) -> Result<String, AskError> {
        let refused = AskError::Refused;
        match (self.find(path, wanted)?, wanted) {
            (ResolvedHandler::Own(node, at, info), Use::Read) => {
                self.read_own(node, at, info, value)
            }
            (ResolvedHandler::Own(node, at, info), Use::Write) => {
                self.write_own(node, at, info, value)
            }
            (ResolvedHandler::Standard(node, name), Use::Read) => {
                Ok(standard::read(self.core, node, name))
            }
            (ResolvedHandler::Standard(node, "config"), Use::Write) => {
                self.reconfigure(node, value)
            }
            (ResolvedHandler::Standard(node, name), Use::Write) => {
                standard::write(self.core, node, name, value).map_err(refused)
            }
            (ResolvedHandler::Dynamic(node, name), _) => {
                self.run_offered(node, name, value, wanted)
            }
            (ResolvedHandler::Global(name), _) => {
                let root = Arc::clone(&self.core.root);
                let done = match wanted {
                    Use::Read => root.read(name, value, self),
                    Use::Write => root.write(name, value, self),
                };
                done.map_err(refused)
            }
        }
    }

    /// Reads a handler of an element's class.
    pub(crate) fn read_own(
        &mut self,
        node: usize,
        at: usize,
        info: HandlerInfo,
        argument: &str,
    ) -> Result<String, AskError> {
        if let Access::Control { .. } = info.access {
            let answer = self.core.plan.control(node, at, argument);
            return answer.map_err(AskError::Refused);
        }
        let Some(element) = &self.nodes[node] else {
            return Err(self.absent(node));
        };
        let plan = Arc::clone(&self.core.plan);
        match element.job(at, argument) {
            Some(job) => plan.call(node, || self.run(node, job)),
            None => plan
                .call(node, || element.read(at, argument))
                .map_err(AskError::Refused),
        }
    }

    /// Writes a handler of an element's class.
    pub(crate) fn write_own(
        &mut self,
        node: usize,
        at: usize,
        info: HandlerInfo,
        value: &str,
    ) -> Result<String, AskError> {
        if let Access::Control { .. } = info.access {
            let answer = self.core.plan.control(node, at, value);
            return answer.map_err(AskError::Refused);
        }
        let Some(mut element) = self.nodes[node].take() else {
            if !self.core.is_here(node) {
                return Err(self.absent(node));
            }
            // The element is running: the write is deferred until it has returned.
            let value = value.to_owned();
            let later: Deferred = Box::new(move |cx| {
                if let Err(wrong) = cx.write_own(node, at, info, &value) {
                    cx.say(&wrong.to_string());
                }
            });
            self.core.deferred.push((node, later));
            return Ok(String::new());
        };
        let plan = Arc::clone(&self.core.plan);
        if let Some(job) = element.job(at, value) {
            self.nodes[node] = Some(element);
            return plan.call(node, || self.run(node, job));
        }
        let mark = self.core.stack.len();
        self.core.running += 1;
        let mut cx = Cx {
            nodes: self.nodes,
            core: self.core,
            this: node,
        };
        let written = plan.call(node, || element.write(at, value, &mut cx));
        self.core.running -= 1;
        self.nodes[node] = Some(element);
        if written.is_ok() && info.argument {
            self.note_argument(node, info.name, value);
        }
        self.finish_run(mark);
        written.map(|()| String::new()).map_err(AskError::Refused)
    }

    fn run_offered(
        &mut self,
        node: usize,
        name: &str,
        value: &str,
        wanted: Use,
    ) -> Result<String, AskError> {
        let Some(element) = &self.nodes[node] else {
            return Err(self.absent(node));
        };
        let Some(class) = self.core.plan.elements[node]
            .class
            .extension::<DynamicOfClass>()
        else {
            return Err(self.absent(node));
        };
        let job = (class.handler_job)(element.element(), name, value, wanted);
        self.run(node, job)
    }

    /// Writes a line for people, where the router writes such lines.
    pub fn say(&mut self, line: &str) {
        let root: &Arc<dyn Root> = &self.core.root;
        root.say(line);
    }

    /// Runs a job of `node`, whose element is back in the graph.
    fn run(&mut self, node: usize, job: Job) -> Result<String, AskError> {
        if self.core.depth >= DEPTH_MAX {
            return Err(AskError::Refused(format!(
                "`{}` is called from itself without end",
                self.core.plan.elements[node].name
            )));
        }
        self.core.depth += 1;
        let answer = job(&mut JobCx {
            nodes: self.nodes,
            core: self.core,
            element: Some(node),
        });
        self.core.depth -= 1;
        answer.map_err(AskError::Refused)
    }

    /// Completes the run of an element: runs the deferred jobs, and moves on the packets sent since the stack was
    /// `mark` high.
    pub(crate) fn finish_run(&mut self, mark: usize) {
        if self.core.running > 0 {
            return;
        }
        self.core.turn_over(mark);
        self.run_deferred();
        crate::graph::descend(self.nodes, self.core, mark);
    }

    /// Runs the jobs that waited for elements to return.
    pub(crate) fn run_deferred(&mut self) {
        if self.core.running > 0 || self.core.depth >= DEPTH_MAX {
            return;
        }
        self.core.depth += 1;
        while !self.core.deferred.is_empty() {
            let jobs = std::mem::take(&mut self.core.deferred);
            for (node, job) in jobs {
                job(&mut JobCx {
                    nodes: self.nodes,
                    core: self.core,
                    element: Some(node),
                });
            }
        }
        self.core.depth -= 1;
    }

    /// Reason why an element is not in the graph.
    fn absent(&self, node: usize) -> AskError {
        let name = &self.core.plan.elements[node].name;
        AskError::Refused(if self.core.is_here(node) {
            format!("`{name}` is running: it can be asked when it has returned")
        } else {
            format!("`{name}` runs on another worker")
        })
    }
}

impl Cx<'_> {
    /// Defers a job until no element of this worker is running. See [`call`](crate::call).
    pub fn defer(&mut self, job: impl FnOnce(&mut JobCx) + 'static) {
        self.core.deferred.push((self.this, Box::new(job)));
    }

    /// Writes a handler later, when no element is running; errors are logged.
    pub fn defer_write(&mut self, call: &HandlerCall) {
        let call = call.clone();
        self.defer(move |cx| {
            if let Err(wrong) = call.write(cx) {
                let line = format!("{}: {wrong}", cx.name());
                cx.say(&line);
            }
        });
    }

    /// The rest of the graph while this element runs. Handlers of this element cannot be called through it.
    pub fn job_cx(&mut self) -> JobCx<'_> {
        JobCx {
            nodes: self.nodes,
            core: self.core,
            element: Some(self.this),
        }
    }
}
