//! Control: any request is executed or refused with a sentence, and any value written to any handler is accepted or
//! refused with a sentence. The router's packet accounts still balance afterwards.
//!
//! Each line is a request as the router's socket takes it: method, target, and then the value (`PUT
//! /v1/handlers/rt4.add 10.9.0.0/16 10.0.2.2 2`). In a line that does not begin with a capital letter, two bytes
//! choose element and handler; the rest is the value.

use super::Choices;
use crate::whole::Whole;
use control::api::request::{Request, parse};
use engine::graph::Walker;
use engine::handler::Access;
use std::time::Duration;

/// Executes requests, with frames between them.
pub fn run(data: &[u8]) {
    let before = engine::packet::pool::balance();
    let mut router = Whole::router(Walker::Sweep);
    let mut choices = Choices(&data[..data.len().min(2 << 10)]);
    let frame = [0xff; 64];
    while !choices.is_empty() {
        if choices.0[0].is_ascii_uppercase() {
            obey(&mut router, &choices.line());
        } else {
            let (element, handler) = (choices.byte(), choices.byte());
            choose(&mut router, element, handler, &choices.line());
        }
        router.receive(choices.0.len(), [&frame[..]]);
        router.settle();
    }
    router.advance(Duration::from_secs(1));
    router.check();
    drop(router);
    assert_eq!(
        engine::packet::pool::balance(),
        before,
        "buffers were leaked"
    );
}

/// Reads a line as a request and executes it.
fn obey(router: &mut Whole, line: &str) {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (method, target, body) = (word(), word(), word());
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    match parse(method, path, query) {
        Ok((_, Request::Read { path, argument })) => find(router, &path, &argument),
        Ok((_, Request::Write { path })) => find(router, &path, body),
        Ok((_, Request::Reload)) => {
            // Any body is JSON of the right shape or a mistake.
            let _ = serde_json::from_str::<control::view::ReloadRequest>(body);
        }
        Ok(_) => {}
        Err(refusal) => {
            assert!((400..500).contains(&refusal.status), "{refusal:?}");
            assert!(!refusal.text.is_empty(), "a refusal needs a reason");
        }
    }
}

fn find(router: &mut Whole, path: &str, value: &str) {
    let graph = router.graph();
    let (read, written) = graph.job(|o| (o.read(path, value), o.write(path, value)));
    for refused in [read.err(), written.err()].into_iter().flatten() {
        assert!(!refused.to_string().is_empty());
    }
}

fn choose(router: &mut Whole, element: u8, handler: u8, value: &str) {
    let plan = router.graph().plan();
    let node = usize::from(element) % plan.elements.len();
    let handlers = (plan.elements[node].class.handlers)();
    if !handlers.is_empty() {
        let at = usize::from(handler) % handlers.len();
        ask(router, node, at, handlers[at].access, value);
    }
}

/// Uses a handler in a way that it allows.
fn ask(router: &mut Whole, node: usize, handler: usize, access: Access, value: &str) {
    let graph = router.graph();
    let answer = match access {
        Access::Control { .. } => Some(graph.plan().control(node, handler, value)),
        Access::Set => {
            let written = graph.write(node, handler, value);
            written.map(|w| w.map(|()| String::new()))
        }
        Access::Sum | Access::Text => graph.read(node, handler, value),
    };
    if let Some(Err(sentence)) = answer {
        assert!(!sentence.is_empty(), "a refusal needs a reason");
    }
}
