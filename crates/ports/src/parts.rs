//! A port as its driver makes it.

use engine::port::{Port, RxQueue, TxQueue};
use std::sync::Arc;

/// A port, and its queues for workers.
pub(crate) struct Parts {
    pub(crate) port: Arc<dyn Port>,
    pub(crate) rx: Vec<Box<dyn RxQueue>>,
    pub(crate) tx: Vec<Box<dyn TxQueue>>,
}
