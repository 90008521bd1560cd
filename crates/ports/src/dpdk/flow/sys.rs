//! Calls of rte_flow.
#![allow(unsafe_code)]

use super::super::sys::{self, Device};
use super::items::{HEADER_BYTES_MAX, Item, Kind, Pattern};
use dpdk_sys as c;
use std::ffi::CStr;
use std::mem::zeroed;
use std::ptr::{self, NonNull};

/// A rule that a driver has.
#[derive(Debug)]
pub(in crate::dpdk) struct Handle(NonNull<c::rte_flow>);

// SAFETY: the pointer is only handed back to the driver, whose calls any thread may make.
unsafe impl Send for Handle {}

/// Storage for any flow item. Each item begins with its header; zeros after the header mean that no other field is
/// matched.
#[repr(C, align(8))]
struct Room([u8; ROOM]);

const ROOM: usize = 64;

// Bytes copied into an item fit its type, and no item is larger than its room.
const _: () = {
    assert!(HEADER_BYTES_MAX <= ROOM);
    assert!(size_of::<c::rte_flow_item_eth>() <= ROOM);
    assert!(size_of::<c::rte_flow_item_vlan>() <= ROOM);
    assert!(size_of::<c::rte_flow_item_ipv4>() <= ROOM);
    assert!(size_of::<c::rte_flow_item_ipv6>() <= ROOM);
    assert!(size_of::<c::rte_flow_item_tcp>() <= ROOM);
    assert!(size_of::<c::rte_flow_item_udp>() <= ROOM);
    assert!(size_of::<c::rte_flow_item_sctp>() <= ROOM);
};

fn kind(kind: Kind) -> c::rte_flow_item_type {
    match kind {
        Kind::Ether => c::RTE_FLOW_ITEM_TYPE_ETH,
        Kind::Vlan => c::RTE_FLOW_ITEM_TYPE_VLAN,
        Kind::Ipv4 => c::RTE_FLOW_ITEM_TYPE_IPV4,
        Kind::Ipv6 => c::RTE_FLOW_ITEM_TYPE_IPV6,
        Kind::Tcp => c::RTE_FLOW_ITEM_TYPE_TCP,
        Kind::Udp => c::RTE_FLOW_ITEM_TYPE_UDP,
        Kind::Sctp => c::RTE_FLOW_ITEM_TYPE_SCTP,
    }
}

fn room(bytes: &[u8; HEADER_BYTES_MAX]) -> Room {
    let mut room = Room([0; ROOM]);
    room.0[..HEADER_BYTES_MAX].copy_from_slice(bytes);
    room
}

/// The driver's text for a failed call.
fn reason(error: &c::rte_flow_error, code: i32) -> String {
    if error.message.is_null() {
        return sys::reason(code);
    }
    // SAFETY: a message is a terminated string that the driver keeps at least until its next call.
    let message = unsafe { CStr::from_ptr(error.message) };
    message.to_string_lossy().into_owned()
}

/// Hands a rule as C wants it to `call`.
fn with_rule<T>(
    items: &[Item],
    rank: u32,
    queue: u16,
    call: impl FnOnce(&c::rte_flow_attr, *const c::rte_flow_item, *const c::rte_flow_action) -> T,
) -> T {
    let rooms: Vec<[Room; 2]> = items
        .iter()
        .map(|item| [room(&item.spec), room(&item.mask)])
        .collect();
    // SAFETY: all-zero bytes are valid: no attribute, the end of a pattern, the end of actions.
    let (mut attr, end, last): (c::rte_flow_attr, c::rte_flow_item, c::rte_flow_action) =
        unsafe { (zeroed(), zeroed(), zeroed()) };
    attr.set_ingress(1);
    attr.priority = rank;
    let each = items.iter().zip(&rooms).map(|(item, [spec, mask])| {
        let place = |room: &Room| match item.is_any() {
            true => ptr::null(),
            false => ptr::from_ref(room).cast(),
        };
        c::rte_flow_item {
            type_: kind(item.kind),
            spec: place(spec),
            last: ptr::null(),
            mask: place(mask),
        }
    });
    let pattern: Vec<c::rte_flow_item> = each.chain([end]).collect();
    let to = c::rte_flow_action_queue { index: queue };
    let action = c::rte_flow_action {
        type_: c::RTE_FLOW_ACTION_TYPE_QUEUE,
        conf: ptr::from_ref(&to).cast(),
    };
    let actions = [action, last];
    call(&attr, pattern.as_ptr(), actions.as_ptr())
}

/// The driver's verdict about a rule: 0, or a negative error number.
fn validate(device: Device, items: &[Item], rank: u32, queue: u16) -> i32 {
    with_rule(items, rank, queue, |attr, pattern, actions| {
        // SAFETY: all-zero bytes are valid; the others are as DPDK wants them, and live until the call returns.
        unsafe {
            let mut error: c::rte_flow_error = zeroed();
            c::rte_flow_validate(device.number(), attr, pattern, actions, &mut error)
        }
    })
}

/// True if the driver supports rules at all, even if it refuses the simplest one.
pub(super) fn is_known(device: Device) -> bool {
    let code = validate(device, &[], 0, 0);
    code != -libc::ENOSYS && code != -libc::ENODEV
}

/// True if the driver could take a rule.
pub(super) fn takes(device: Device, pattern: &Pattern, queue: u16) -> bool {
    validate(device, &pattern.items, pattern.rank, queue) == 0
}

/// Adds a rule in the driver; the error is the driver's text.
pub(super) fn create(device: Device, pattern: &Pattern, queue: u16) -> Result<Handle, String> {
    let rank = pattern.rank;
    with_rule(&pattern.items, rank, queue, |attr, pattern, actions| {
        // SAFETY: as above. DPDK copies what it keeps.
        unsafe {
            let mut error: c::rte_flow_error = zeroed();
            let made = c::rte_flow_create(device.number(), attr, pattern, actions, &mut error);
            let failed = || reason(&error, c::ashlar_errno());
            NonNull::new(made).map(Handle).ok_or_else(failed)
        }
    })
}

/// Removes a rule from the driver; the error is the rule, which is still there, and the driver's text.
pub(super) fn destroy(device: Device, rule: Handle) -> Result<(), (Handle, String)> {
    // SAFETY: all-zero bytes are valid; the rule is one that this driver has given, and is not used again unless the
    // driver has kept it.
    unsafe {
        let mut error: c::rte_flow_error = zeroed();
        match c::rte_flow_destroy(device.number(), rule.0.as_ptr(), &mut error) {
            0 => Ok(()),
            code => Err((rule, reason(&error, code))),
        }
    }
}
