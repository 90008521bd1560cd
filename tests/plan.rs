//! Decisions and refusals of the planner, on configurations in text.

use control::Source;
use control::describe::describe;
use engine::plan::Plan;
use engine::port::{OpenPort, PortDirectory, PortInfo, PortRequest};
use std::sync::Arc;

/// Devices that exist only in the plan, named for their queues: `four` has four of each kind, `one` one. `narrow` has
/// one and takes packets of 1,300 bytes.
struct Paper;

impl PortDirectory for Paper {
    fn probe(&self, name: &str) -> Result<PortInfo, String> {
        let queues = match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "four" => 4,
            "two" => 2,
            "one" | "narrow" => 1,
            _ => return Err(format!("there is no device `{name}`")),
        };
        let mut info = PortInfo::of_process("paper", queues);
        info.mac = [2, 0, 0, 0, 0, queues as u8];
        if name.starts_with("narrow") {
            info.mtu = 1300;
        }
        Ok(info)
    }

    fn open(&self, name: &str, _: &PortRequest) -> Result<OpenPort, String> {
        Err(format!("{name} is made of paper"))
    }

    fn get(&self, _: &str) -> Option<OpenPort> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn close(&self, _: &str) {}
}

fn plan(workers: usize, text: &str) -> Arc<Plan> {
    testkit::plan(classes::all(), text, workers, &Paper, None).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(workers: usize, text: &str) -> String {
    match testkit::plan(classes::all(), text, workers, &Paper, None) {
        Ok(plan) => panic!("should be refused:\n{}", describe(&plan)),
        Err(errors) => errors,
    }
}

/// Warnings of a text.
fn warned(text: &str) -> String {
    let source = Source {
        name: "test.click".to_owned(),
        text: text.into(),
        ..Source::default()
    };
    let options = planner::Options::new(1, &Paper);
    let read = control::compile(&source, router_tests::registry(), &options);
    let told = read.text();
    assert!(read.plan.is_some(), "{told}");
    told
}

#[test]
fn packets_that_a_device_is_too_narrow_for_are_warned_of() {
    let before = "Idle -> MarkIPHeader -> a :: ";
    for (limit, longest) in [
        ("IPFragmenter(1500) -> out :: ToDevice(narrow)", 1500),
        (
            "CheckLength(1400) -> Queue -> out :: ToDevice(narrow)",
            1400,
        ),
        (
            "IP6Fragmenter(1500) -> Counter -> Null -> ToDevice(narrow)",
            1500,
        ),
    ] {
        let told = warned(&format!("{before}{limit}"));
        let words = format!("a lets packets of {longest} bytes through, and narrow takes 1300");
        assert!(told.contains(&words), "{limit}: {told}");
        assert!(told.contains("write `narrow:mtu` in place of"), "{told}");
    }
    for good in [
        "IPFragmenter(1300) -> ToDevice(narrow)",
        "IPFragmenter(narrow:mtu) -> ToDevice(narrow)",
        "IPFragmenter(1500) -> ToDevice(one)",
        // The length of a frame, with its header.
        "CheckLength(1314) -> ToDevice(narrow)",
        // Longer packets take another path.
        "CheckLength(1500) -> Discard; a[1] -> IPFragmenter(1300) -> ToDevice(narrow)",
    ] {
        let told = warned(&format!("{before}{good}"));
        assert!(!told.contains("lets packets"), "{good}: {told}");
    }
}

fn workers<'p>(plan: &'p Plan, name: &str) -> &'p [usize] {
    &plan.elements[plan.find(name).expect("the element exists")].workers
}

#[test]
fn everything_behind_a_device_has_a_copy_on_each_worker_that_receives() {
    let plan = plan(
        4,
        "from :: FromDevice(four) -> c :: Counter -> to :: ToDevice(four1)",
    );
    for name in ["from", "c", "to"] {
        assert_eq!(workers(&plan, name), [0, 1, 2, 3], "{name}");
    }
    let from = &plan.elements[0];
    assert_eq!((from.queues_of(0), from.queues_of(3)), (&[0][..], &[3][..]));
    assert!(plan.crossings().is_empty());
}

#[test]
fn cores_and_queues_of_a_device_are_as_asked() {
    let plan = plan(
        4,
        "from :: FromDevice(four, CORES \"1 3\", QUEUES 4) -> Discard",
    );
    let from = &plan.elements[0];
    assert_eq!(from.workers, [1, 3]);
    assert_eq!(
        (from.queues_of(1), from.queues_of(3)),
        (&[0, 2][..], &[1, 3][..])
    );
    assert_eq!(plan.devices[0].request.rx_queues, 4);
}

#[test]
fn devices_with_few_queues_are_dealt_out_over_the_workers() {
    let plan = plan(
        2,
        "a :: FromDevice(one1) -> Discard; b :: FromDevice(one2) -> Discard",
    );
    assert_eq!(
        (workers(&plan, "a"), workers(&plan, "b")),
        (&[0][..], &[1][..])
    );
}

#[test]
fn one_queue_before_one_sender_is_cloned_and_nothing_changes_worker() {
    let plan = plan(2, "FromDevice(two) -> q :: Queue -> to :: ToDevice(two1)");
    assert_eq!(
        (workers(&plan, "q"), workers(&plan, "to")),
        (&[0, 1][..], &[0, 1][..])
    );
    assert!(plan.crossings().is_empty());
    let to = &plan.elements[plan.find("to").expect("it is there")];
    assert!(!to.signals[0].busy);
}

#[test]
fn a_sender_with_too_few_queues_gets_one_owner_and_the_plan_says_so() {
    let plan = plan(2, "FromDevice(two) -> q :: Queue -> to :: ToDevice(one)");
    let owner = workers(&plan, "to")[0];
    assert_eq!(workers(&plan, "to").len(), 1);
    assert_eq!(plan.crossings(), [("q", vec![1 - owner], owner)]);
    assert!(
        describe(&plan)
            .to_string()
            .contains("packets change worker in q"),
        "{}",
        describe(&plan)
    );
    assert!(
        plan.elements[plan.find("to").expect("it is there")]
            .signals
            .iter()
            .any(|s| s.busy)
    );
}

#[test]
fn a_sender_without_a_queue_before_it_needs_one_device_queue_per_worker() {
    let errors = refused(2, "FromDevice(two) -> ToDevice(one)");
    assert!(
        errors.contains("offers 1 transmit queues, but 2 are needed"),
        "{errors}"
    );
    assert!(errors.contains("put `Queue` before it"), "{errors}");
}

#[test]
fn more_cores_than_queues_or_workers_are_refused() {
    let errors = refused(4, "FromDevice(two, CORES 0-3) -> Discard");
    assert!(
        errors.contains("two offers 2 receive queues, but 4 workers are asked for"),
        "{errors}"
    );
    let errors = refused(2, "FromDevice(four, CORES 0-3) -> Discard");
    assert!(
        errors.contains("worker 2 is asked for, but there are 2"),
        "{errors}"
    );
}

#[test]
fn more_queues_than_a_device_has_and_fewer_than_its_workers_are_refused() {
    let errors = refused(2, "Idle -> Discard;\n FromDevice(two, QUEUES 3) -> Discard");
    assert!(
        errors.contains("two offers 2 receive queues, but 3 are asked for"),
        "{errors}"
    );
    assert!(errors.contains("ask for 2 or fewer"), "{errors}");
    assert!(errors.contains(":2:"), "it says where: {errors}");
    let errors = refused(2, "FromDevice(two, QUEUES 1, CORES 0-1) -> Discard");
    assert!(
        errors.contains("1 receive queues are asked for, but 2 needed"),
        "{errors}"
    );
    let errors = refused(1, "FromDevice(two, QUEUES 0) -> Discard");
    assert!(errors.contains("0 receive queues"), "{errors}");
}

#[test]
fn two_receivers_on_one_device_are_refused() {
    let errors = refused(
        1,
        "FromDevice(four) -> Discard; FromDevice(four) -> Discard",
    );
    assert!(
        errors.contains("receives from four too") && errors.contains("the first one is here"),
        "{errors}"
    );
}

#[test]
fn push_meets_pull_only_with_help() {
    let errors = refused(1, "TimedSource -> Unqueue -> Discard");
    assert!(
        errors.contains("push output 0 connected to")
            && errors.contains("put `Queue` between them"),
        "{errors}"
    );
    let errors = refused(
        1,
        "InfiniteSource -> Queue -> c :: Counter -> Tee -> Discard",
    );
    assert!(
        errors.contains("in mixed context: pull input 0, push output 0"),
        "{errors}"
    );
    let errors = refused(1, "InfiniteSource -> Queue -> Tee -> Discard");
    assert!(
        errors.contains("pull output 0 connected to")
            && errors.contains("put `Unqueue` between them"),
        "{errors}"
    );
}

#[test]
fn agnostic_elements_take_the_flow_of_their_neighbours() {
    let plan = plan(
        1,
        "InfiniteSource -> a :: Counter -> Queue -> b :: Null -> c :: Counter -> Discard",
    );
    let pull = |name: &str| plan.elements[plan.find(name).expect("it is there")].inputs[0];
    assert_eq!((pull("a"), pull("b"), pull("c")), (false, true, true));
}

#[test]
fn a_push_output_with_two_ends_is_refused() {
    let errors = refused(1, "s :: InfiniteSource -> Discard; s -> Discard");
    assert!(
        errors.contains("illegal reuse of") && errors.contains("put Tee"),
        "{errors}"
    );
}

#[test]
fn ports_that_must_be_connected_are_named() {
    let errors = refused(1, "Counter; InfiniteSource -> [1]Discard; Queue -> Discard");
    for part in ["input 0 unused", "output 0 unused", "has no input 1"] {
        assert!(errors.contains(part), "{part}:\n{errors}");
    }
}

#[test]
fn needs_of_elements_are_proved_on_every_path() {
    let errors = refused(1, "InfiniteSource -> ToDevice(one)");
    assert!(
        errors.contains("needs an Ethernet header at the start"),
        "{errors}"
    );
    // Both paths that meet must guarantee the header.
    let errors = refused(
        1,
        "t :: ToDevice(one); FromDevice(one1) -> t; InfiniteSource -> t",
    );
    assert_eq!(
        errors.matches("needs an Ethernet header").count(),
        1,
        "{errors}"
    );
}

#[test]
fn all_mistakes_are_found_at_once() {
    let errors = refused(
        1,
        "InfiniteSorce -> Paint(red) -> Queue(many) -> Discard;\nFromDevice(nowhere) -> Tee(2) -> Discard;",
    );
    for part in [
        "did you mean `InfiniteSource`?",
        "COLOR must be",
        "CAPACITY must be",
    ] {
        assert!(errors.contains(part), "{part}:\n{errors}");
    }
}

#[test]
fn a_device_gives_its_own_address_a_name() {
    let plan = plan(1, "FromDevice(two) -> Discard; AddressInfo(me 10.0.0.1)");
    assert_eq!(plan.elements.len(), 3);
}

#[test]
fn a_connection_to_a_port_that_a_class_lacks_is_refused_by_name() {
    for (text, says) in [
        ("Idle -> AddressInfo;", "has no input 0"),
        ("Idle -> [3] Null -> Discard;", "has no input 3"),
        (
            "t :: Tee(1); Idle -> t -> Discard; t[2] -> Discard;",
            "has no output 2",
        ),
    ] {
        let errors = refused(1, text);
        assert!(errors.contains(says), "{text}\n{errors}");
    }
}

#[test]
fn memory_of_each_copy_is_counted() {
    let text = "vlb :: VLBNode(NODE a, NODES a 1Gbps b 1Gbps, LINKS a-b, FLOWS 65536);
        FromDevice(four) -> Strip(14) -> CheckIPHeader -> in :: VLBInput(vlb, b/0) -> Discard;";
    for workers in [1, 2, 4] {
        let plan = plan(workers, text);
        let input = &plan.elements[plan.find("in").expect("it is there")];
        // An entry for each flow, and a count for each output and intermediate node of two, or none in between.
        assert_eq!(input.memory(), workers * (16 * 65_536 + 4 * 2 * 3));
    }
}
