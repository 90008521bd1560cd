//! Loads and stores of big-endian numbers, each with one bounds check, and [`fields!`], which lists the
//! plain fields of a view.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::EtherAddr;

/// Copies `N` bytes from `at`. Panics if they are not there.
#[inline(always)]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    match bytes.get(at..at + N).and_then(<[u8]>::first_chunk) {
        Some(chunk) => *chunk,
        None => missing(at, N, bytes.len()),
    }
}

/// Writes `value` at `at`. Panics if there is no room.
#[inline(always)]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    let len = bytes.len();
    match bytes.get_mut(at..at + N).and_then(<[u8]>::first_chunk_mut) {
        Some(chunk) => *chunk = value,
        None => missing(at, N, len),
    }
}

#[cold]
#[inline(never)]
fn missing(at: usize, n: usize, len: usize) -> ! {
    panic!("{n} bytes at {at} of {len}");
}

/// The 16-bit number at `at`.
#[inline(always)]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

/// The 32-bit number at `at`.
#[inline(always)]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

/// Writes a 16-bit number at `at`.
#[inline(always)]
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at, value.to_be_bytes());
}

/// Writes a 32-bit number at `at`.
#[inline(always)]
pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, value.to_be_bytes());
}

/// Value of a header field in network byte order: a number or an address.
pub(crate) trait Field {
    fn load(bytes: &[u8], at: usize) -> Self;
    fn store(self, bytes: &mut [u8], at: usize);
}

macro_rules! field {
    ($kind:ty, $value:ident => $bytes:expr, $array:ident => $made:expr) => {
        impl Field for $kind {
            #[inline(always)]
            fn load(bytes: &[u8], at: usize) -> Self {
                let $array = array(bytes, at);
                $made
            }

            #[inline(always)]
            fn store(self, bytes: &mut [u8], at: usize) {
                let $value = self;
                put(bytes, at, $bytes);
            }
        }
    };
}

field!(u8, v => [v], a => { let [v] = a; v });
field!(u16, v => v.to_be_bytes(), a => u16::from_be_bytes(a));
field!(u32, v => v.to_be_bytes(), a => u32::from_be_bytes(a));
field!(Ipv4Addr, v => v.octets(), a => Ipv4Addr::from_octets(a));
field!(Ipv6Addr, v => v.octets(), a => Ipv6Addr::from_octets(a));
field!(EtherAddr, v => v.0, a => EtherAddr(a));

/// Defines accessors for the plain fields of a view; each line has a doc, the getter, the setter if there is one, the
/// type and the offset. Fields that need shifts, units or a second field have hand-written accessors. `VIEW, LEN bytes`
/// also defines `new_checked`, for a header of fixed length without further conditions.
macro_rules! fields {
    (
        $view:ident $(, $len:ident bytes)?:
        $($(#[$doc:meta])* $get:ident $(, $set:ident)?: $kind:ident at $at:expr;)*
    ) => {
        impl<B: AsRef<[u8]>> $view<B> {
            /// Makes a view without checks. Getters panic if bytes are missing.
            #[inline]
            pub fn new_unchecked(bytes: B) -> Self {
                $view(bytes)
            }

            $(
                /// Checks that the bytes contain the whole header.
                #[inline]
                pub fn new_checked(bytes: B) -> Result<Self, $crate::BadHeader> {
                    match bytes.as_ref().len() {
                        0..$len => Err($crate::BadHeader::TooShort),
                        _ => Ok($view(bytes)),
                    }
                }

                /// Bytes after the header.
                #[inline]
                pub fn payload(&self) -> &[u8] {
                    &self.0.as_ref()[$len..]
                }
            )?

            $(
                $(#[$doc])*
                #[inline]
                pub fn $get(&self) -> $kind {
                    <$kind as $crate::bytes::Field>::load(self.0.as_ref(), $at)
                }
            )*
        }

        impl<B: AsRef<[u8]> + AsMut<[u8]>> $view<B> {
            $($(
                #[doc = concat!("Sets [`", stringify!($get), "`](Self::", stringify!($get), ").")]
                #[inline]
                pub fn $set(&mut self, value: $kind) {
                    $crate::bytes::Field::store(value, self.0.as_mut(), $at);
                }
            )?)*
        }
    };
}
