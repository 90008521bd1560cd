//! `null:` discards the frames sent to it and receives nothing; `null:LENGTH` receives, without end, UDP frames of that
//! many bytes. The port serves to measure the cost of a router without a device.

use crate::scheme::{Parts, PortContext, Resource, Scheme};
use engine::packet::{Batch, Packet};
use engine::port::{PortInfo, PortRequest, RxQueue, TxQueue};
use std::sync::Arc;

const QUEUES_MAX: usize = 64;

/// Receives copies of one frame, or nothing.
struct Rx(Option<Vec<u8>>);

impl RxQueue for Rx {
    fn receive(&mut self, into: &mut Batch, max: usize) -> usize {
        let Some(frame) = &self.0 else {
            return 0;
        };
        for n in 0..max {
            let Some(mut packet) = Packet::from_bytes(frame) else {
                return n;
            };
            packet.set_mac_here();
            into.push(packet);
        }
        max
    }

    fn ended(&self) -> bool {
        self.0.is_none()
    }
}

struct Tx;

impl TxQueue for Tx {
    fn transmit(&mut self, batch: &mut Batch, _: &mut Batch) -> usize {
        let n = batch.len();
        batch.clear();
        n
    }
}

/// A UDP frame of `len` bytes (42 at least) from 10.0.0.1 to 10.0.1.1.
fn frame(len: usize, queue: usize) -> Vec<u8> {
    let mut f = vec![0; len];
    f[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    f[12..14].copy_from_slice(&[8, 0]);
    f[14..24].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17]);
    f[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 1, 1]);
    let check = wire::checksum::checksum(&f[14..34]);
    f[24..26].copy_from_slice(&check.to_be_bytes());
    // Checksum 0: none (RFC 768).
    f[34..38].copy_from_slice(&[0x10, queue as u8, 0, 9]);
    f[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    f
}

fn length(rest: &str) -> Result<Option<usize>, String> {
    if rest.is_empty() {
        return Ok(None);
    }
    let max = engine::packet::pool::data_bytes();
    match rest.parse() {
        Ok(len) if (42..=max).contains(&len) => Ok(Some(len)),
        _ => Err(format!(
            "null:{rest} must say a frame length from 42 to {max} bytes, or none"
        )),
    }
}

/// The scheme `null:`.
pub(crate) struct Null;

impl Scheme for Null {
    fn name_syntax(&self) -> &'static str {
        "null:LENGTH"
    }

    fn resource(&self, _: &str) -> Resource {
        Resource::Nothing
    }

    fn probe(&self, rest: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        length(rest)?;
        Ok(PortInfo::of_process("null", QUEUES_MAX))
    }

    fn open(
        &self,
        rest: &str,
        request: &PortRequest,
        site: &PortContext<'_>,
    ) -> Result<Parts, String> {
        let (info, len) = (self.probe(rest, site)?, length(rest)?);
        let rx = (0..request.rx_queues)
            .map(|queue| Box::new(Rx(len.map(|len| frame(len, queue)))) as Box<dyn RxQueue>);
        let tx = (0..request.tx_queues).map(|_| Box::new(Tx) as Box<dyn TxQueue>);
        Ok(Parts {
            port: Arc::new(info),
            rx: rx.collect(),
            tx: tx.collect(),
        })
    }
}
