//! Control: any value written to any handler is taken or refused with a sentence, and the books of a
//! router whose handlers were written still balance.

use super::Choices;
use crate::whole::Whole;
use engine::graph::Walker;
use engine::handler::Access;
use std::time::Duration;

/// Each line is a request: two bytes choose element and handler, the rest is the value.
pub fn run(data: &[u8]) {
    let before = engine::pool::balance();
    let mut router = Whole::router(Walker::Sweep);
    let mut choices = Choices(&data[..data.len().min(2 << 10)]);
    let frame = [0xff; 64];
    while !choices.is_empty() {
        let (element, handler) = (choices.byte(), choices.byte());
        ask(&mut router, element, handler, &choices.line());
        router.receive(usize::from(element & 1), [&frame[..]]);
        router.settle();
    }
    router.advance(Duration::from_secs(1));
    router.check();
    drop(router);
    assert_eq!(engine::pool::balance(), before, "buffers were leaked");
}

/// Uses one handler of one element in the ways that it allows.
fn ask(router: &mut Whole, element: u8, handler: u8, value: &str) {
    let plan = std::sync::Arc::clone(router.graph().plan());
    let node = usize::from(element) % plan.elements.len();
    let handlers = (plan.elements[node].class.handlers)();
    if handlers.is_empty() {
        return;
    }
    let at = usize::from(handler) % handlers.len();
    let access = handlers[at].access;
    let answer = match access {
        Access::Control { .. } => Some(plan.elements[node].control(at, value)),
        Access::Set => {
            let written = router.graph().write(node, at, value);
            written.map(|w| w.map(|()| String::new()))
        }
        Access::Sum | Access::Text => router.graph().read(node, at, value),
    };
    if let Some(Err(sentence)) = answer {
        assert!(!sentence.is_empty(), "a refusal needs a reason");
    }
}
