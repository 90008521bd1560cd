//! The VXLAN header (RFC 7348, 5).

use crate::prelude::*;

/// Bytes of the header.
pub(super) const LEN: usize = 8;
/// Flag: the network identifier (VNI) is valid.
pub(super) const VALID: u8 = 0x08;
/// Greatest network identifier (VNI).
const VNI_MAX: u32 = 0xff_ffff;

/// Reads the argument that names a network; a mistake is recorded.
pub(super) fn vni(args: &mut Args) -> u32 {
    let vni = args.required("VNI", "number of the network");
    if vni > VNI_MAX {
        args.error_in_whole(
            format!("VNI {vni} is none"),
            format!("write a number from 0 to {VNI_MAX}"),
        );
    }
    vni
}
