//! Numbers of bytes in messages.

use std::fmt;

/// A number of bytes, as a message has it: "1 byte", "2 bytes".
///
/// ```
/// use farslot_fabric::ByteCount;
///
/// assert_eq!(format!("{}, {}", ByteCount(1_u32), ByteCount(0_usize)), "1 byte, 0 bytes");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteCount<T>(pub T);

impl<T: Copy + PartialEq + From<u8> + fmt::Display> fmt::Display for ByteCount<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == T::from(1) { "" } else { "s" };
        write!(f, "{} byte{plural}", self.0)
    }
}
