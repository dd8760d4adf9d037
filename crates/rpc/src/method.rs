//! What a method is given, and how it ends.

use farslot_fabric::{Caller, FabricError, Nanos, OwnerMemory, RegionId};

/// A request as its method gets it. Every byte of the body is the client's word, and may be
/// anything.
pub struct Request<'r> {
    /// The bytes that the client sent.
    pub body: &'r [u8],
    /// The region that was called, and its memory.
    pub region: RegionId,
    /// See [`Request::region`].
    pub memory: &'r mut dyn OwnerMemory,
    /// The owner's clock, in nanoseconds.
    pub now: Nanos,
    /// The client's session; no two have the same.
    pub session: u64,
    /// What the client may do. A server checks nothing of it unless it
    /// [is said to](crate::RpcServerOptions::methods_check_callers).
    pub caller: &'r dyn Caller,
}

/// Why a method gives no reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It refuses, for a reason of its own: the client gets the number with
    /// [`RpcError::Refused`](crate::RpcError).
    Refused(u32),
    /// The reply takes so many bytes, and the client has room for fewer. A method says so before it
    /// changes anything.
    NoRoom(usize),
    /// What it found in the memory makes no sense: clients with the right to write may have put
    /// anything there.
    Damaged,
}

impl From<FabricError> for Fault {
    /// An access that the memory's owner cannot make was led astray by the memory.
    fn from(_: FabricError) -> Self {
        Self::Damaged
    }
}

/// A remote procedure.
///
/// Requests of several clients may run on several threads at a time; whatever must not run side by
/// side is the method's to lock. It must not wait for other requests.
pub trait Method: Send + Sync {
    /// Answers a request; returns how many bytes of `reply` are the reply.
    ///
    /// # Errors
    /// [`Fault`]. What was changed before it stays changed.
    fn run(&self, request: Request<'_>, reply: &mut [u8]) -> Result<usize, Fault>;
}

impl<F> Method for F
where
    F: Fn(Request<'_>, &mut [u8]) -> Result<usize, Fault> + Send + Sync,
{
    fn run(&self, request: Request<'_>, reply: &mut [u8]) -> Result<usize, Fault> {
        self(request, reply)
    }
}

/// Puts the bytes of a reply; returns how many they are.
///
/// # Errors
/// [`Fault::NoRoom`].
pub fn put(reply: &mut [u8], bytes: &[u8]) -> Result<usize, Fault> {
    match reply.get_mut(..bytes.len()) {
        Some(room) => room.copy_from_slice(bytes),
        None => return Err(Fault::NoRoom(bytes.len())),
    }
    Ok(bytes.len())
}
