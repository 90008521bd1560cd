//! What tests share: routers in a line of text, packet builders, traffic, real inputs.

mod bench;

pub use bench::{Bench, Collected, TEST_CLASSES, errors, plan};
