//! A reload that fails at any of its steps has changed nothing: all workers run the old plan, packets flow on each,
//! and no port stays open. Once workers have begun to take it up, a reload no longer fails.

use engine::graph::Init;
use engine::handler::AskError;
use engine::plan::Plan;
use engine::port::{OpenPort, PortDirectory, PortInfo, PortRequest};
use engine::prelude::{
    Args, Class, Contract, Cx, Element, Packet, Ports, Resources, Verdict, resources,
};
use ports::Directory;
use router::{Router, RouterExtension};
use router_tests::run;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst};
use std::time::Duration;
use testkit::wait_until;

/// Failing step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Fault {
    None,
    /// A class refuses the plan.
    Check,
    /// The second of two new ports cannot be opened.
    Open,
    /// A new element cannot open a resource.
    Initialize,
    /// A worker does not answer from the start.
    Silent,
    /// A class fails in the work before the reload.
    Before,
    /// A worker stops answering before a queue that is removed is empty.
    Drain,
    /// A worker takes long to take up the plan.
    Late,
}

static FAULT: AtomicU8 = AtomicU8::new(0);
/// Holds worker 1 at the fault; true while it is held.
static STUCK: AtomicBool = AtomicBool::new(false);
static HELD: AtomicBool = AtomicBool::new(false);
const ANSWER_TIME: Duration = Duration::from_millis(500);

fn is(fault: Fault) -> bool {
    FAULT.load(SeqCst) == fault as u8
}

fn hold() {
    HELD.store(true, SeqCst);
    wait_until("the test to let it go", || !STUCK.load(SeqCst));
    HELD.store(false, SeqCst);
}

struct Faulty(usize);

impl Element for Faulty {
    const CONTRACT: Contract = Contract::new("Faulty", "Fails where it is told to.")
        .ports(Ports::new(&["in"], &["out"]))
        .extensions(const { &[&resources::of::<Faulty>(), &ROUTER] })
        .ignores_annotations();

    type Config = ();

    fn configure(args: &mut Args) {
        // A changed text makes it another element.
        args.optional("N", 0u32, "a number");
    }

    fn new(_: &Arc<()>, init: &Init) -> Faulty {
        Faulty(init.worker)
    }

    fn step(&mut self, _: &mut Packet, _: &mut Cx) -> Verdict {
        if self.0 == 1 && is(Fault::Drain) && STUCK.load(SeqCst) {
            hold();
        }
        Verdict::ON
    }

    fn take(&mut self, _: Faulty) {
        if self.0 == 1 && is(Fault::Late) {
            hold();
        }
    }
}

impl Resources for Faulty {
    fn initialize((): &()) -> Result<(), String> {
        refuse(Fault::Initialize)
    }
}

static ROUTER: RouterExtension = RouterExtension {
    check_reload: |_, _| refuse(Fault::Check),
    before_reload: |_, _, _| {
        if is(Fault::Drain) {
            STUCK.store(true, SeqCst);
            wait_until("the worker to be held", || HELD.load(SeqCst));
        }
        refuse(Fault::Before).map_err(AskError::Refused)
    },
    write: |_, _, _, _, _| None,
};

fn refuse(fault: Fault) -> Result<(), String> {
    match is(fault) {
        true => Err(format!("{fault:?}")),
        false => Ok(()),
    }
}

/// Ports of which one may fail to open.
struct Unsure(Directory);

impl PortDirectory for Unsure {
    fn probe(&self, name: &str) -> Result<PortInfo, String> {
        self.0.probe(name)
    }

    fn open(&self, name: &str, request: &PortRequest) -> Result<OpenPort, String> {
        if name == "mem:y" {
            refuse(Fault::Open)?;
        }
        self.0.open(name, request)
    }

    fn get(&self, name: &str) -> Option<OpenPort> {
        self.0.get(name)
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }

    fn close(&self, name: &str) {
        self.0.close(name);
    }
}

fn plan(text: &str, ports: &Unsure, previous: Option<&Plan>) -> Arc<Plan> {
    const OWN: &[Class] = &[Class::of::<Faulty>()];
    let lists: Vec<_> = std::iter::once(OWN)
        .chain(classes::all().iter().copied())
        .collect();
    testkit::plan(&lists, text, 2, ports, previous).unwrap_or_else(|e| panic!("{e}"))
}

const RUNNING: &str =
    "FromDevice(pace:5k/null:64) -> f :: Faulty -> c :: Counter -> q :: Queue(1000)
    -> u :: Unqueue(CORES 1) -> Discard;";
/// Without the queue, so that it must first run empty.
const NEXT: &str = "FromDevice(pace:5k/null:64) -> f :: Faulty(1) -> c :: Counter -> Discard;
    FromDevice(mem:x) -> Discard; FromDevice(mem:y) -> Discard;";

/// Packets counted for each worker.
fn counts(router: &Router) -> Vec<u64> {
    let stats = router.stats().expect("the workers answer");
    let node = router.plan().find("c").expect("it is there");
    stats.iter().map(|worker| worker[node].packets).collect()
}

fn packets_flow(router: &Router, after: Fault) {
    let before = counts(router);
    wait_until(format!("packets on each worker after {after:?}"), || {
        let now = counts(router);
        now.iter().zip(&before).all(|(now, before)| now > before)
    });
}

#[test]
fn reload_is_adopted_by_all_workers_or_by_none() {
    let ports = Arc::new(Unsure(Directory::new()));
    let first = plan(RUNNING, &ports, None);
    let router = run(&first, Arc::clone(&ports) as _);
    let reload = |fault: Fault| {
        FAULT.store(fault as u8, SeqCst);
        let next = plan(NEXT, &ports, Some(&first));
        let done = router.reload_within(&next, ANSWER_TIME);
        (next, done)
    };
    packets_flow(&router, Fault::None);
    for fault in [
        Fault::Check,
        Fault::Open,
        Fault::Initialize,
        Fault::Silent,
        Fault::Before,
        Fault::Drain,
    ] {
        let done = std::thread::scope(|scope| {
            if fault == Fault::Silent {
                STUCK.store(true, SeqCst);
                scope.spawn(|| router.ask(1, |_| hold()));
                wait_until("the worker to be held", || HELD.load(SeqCst));
            }
            let (_, done) = reload(fault);
            STUCK.store(false, SeqCst);
            done
        });
        let why = done.expect_err("it fails");
        let named = match fault {
            Fault::Silent | Fault::Drain => "worker 1 does not answer".to_owned(),
            fault => format!("{fault:?}"),
        };
        assert!(why.contains(&named), "{fault:?}: {why}");
        FAULT.store(Fault::None as u8, SeqCst);
        assert!(Arc::ptr_eq(&router.plan(), &first), "{fault:?}");
        let running = router.ask_all({
            let first = Arc::clone(&first);
            move |inside| Arc::ptr_eq(inside.graph().plan(), &first)
        });
        assert_eq!(running, Ok(vec![true; 2]), "{fault:?}");
        assert_eq!(ports.names(), ["pace:5k/null:64"], "{fault:?}");
        packets_flow(&router, fault);
    }
    STUCK.store(true, SeqCst);
    let (next, done) = reload(Fault::Late);
    assert_eq!(done, Ok(vec![1]), "from there on nothing stops it");
    assert!(Arc::ptr_eq(&router.plan(), &next));
    STUCK.store(false, SeqCst);
    let running = router.ask_all({
        let next = Arc::clone(&next);
        move |inside| Arc::ptr_eq(inside.graph().plan(), &next)
    });
    assert_eq!(running, Ok(vec![true; 2]));
    packets_flow(&router, Fault::Late);
    assert_eq!(ports.names().len(), 3);
}
