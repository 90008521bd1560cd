//! Stand-in for intel-ipsec-mb where it is not installed.

pub(crate) fn is_there() -> bool {
    false
}
