//! The owner's side: methods by number, and the sessions of clients.

#[cfg(test)]
mod grant_tests;
mod session;

use crate::method::{Fault, Method, Request};
use crate::wire::{NO_SESSION, REPLY_HEADER, RequestHeader, RequestStatus, SessionGrant};
use farslot_fabric::{Call, CallAnswer, Handler, Nanos, OwnerMemory};
use session::{RequestFreshness, Session};
use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a method changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing: a request that comes twice may run twice.
    None,
    /// Something: a request that comes twice runs once, and its reply is kept until it is
    /// acknowledged.
    Once,
}

/// What a server holds for its clients. It takes memory for no kept reply before there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RpcServerOptions {
    /// Clients at a time. Where all are taken, a newcomer takes the place of the client that has
    /// asked for nothing for the longest: of a grant that has more of them than the newcomer's,
    /// else of its own, if that was for five seconds.
    pub sessions: u16,
    /// Requests of one client at a time: its credit.
    pub slots: u16,
    /// Most bytes of a request's body.
    pub largest_request: u32,
    /// Most bytes of a reply's body.
    pub largest_reply: u32,
    /// Nanoseconds for which a session without requests lasts; then a new client may get its place.
    /// No client repeats a request for as long ([`ClientOptions::patience`](crate::ClientOptions)).
    pub lease: Nanos,
    /// Most bytes of kept replies, of all clients together: what comes beyond is executed, and its
    /// reply is sent and not kept ([`RpcError::NotKept`](crate::RpcError)).
    pub most_kept: usize,
    /// Whether each method holds its callers to their rights, by
    /// [`Request::caller`](crate::Request). Else a caller needs
    /// [`Rights::CALL`](farslot_fabric::Rights) for all of the region.
    pub methods_check_callers: bool,
    /// Sessions are numbered from here on. Where a server goes on with the memory of one before it,
    /// a random number: so that sessions of that one are none of this one's.
    pub first_session: u64,
}

impl Default for RpcServerOptions {
    fn default() -> Self {
        Self {
            sessions: 1024,
            slots: 64,
            largest_request: 64 << 10,
            largest_reply: 64 << 10,
            lease: 60_000_000_000,
            most_kept: 64 << 20,
            methods_check_callers: false,
            first_session: 0,
        }
    }
}

/// Nanoseconds after which a client that has asked for nothing may lose its place to another of its
/// grant: it has most likely ended.
const IDLE: Nanos = 5_000_000_000;

/// What answers a method's calls.
enum RegisteredMethod {
    InSession(Effect, Box<dyn Method>),
    /// All of a call, without a session.
    Alone(Arc<dyn Handler>),
}

/// Methods by number, answered on whatever threads the fabric has for calls.
pub struct Server {
    options: RpcServerOptions,
    /// By number. They are few.
    methods: Vec<(u16, RegisteredMethod)>,
    sessions: Box<[Mutex<Option<Session>>]>,
    /// The place from which the next vacant one is looked for, and the newest session's time.
    newest: Mutex<(usize, u64)>,
    /// Bytes of the replies that are kept.
    kept: AtomicUsize,
}

impl Server {
    /// A server without methods. At least one session and one slot are there in any case.
    #[must_use]
    pub fn new(options: RpcServerOptions) -> Self {
        let options = RpcServerOptions {
            sessions: options.sessions.max(1),
            slots: options.slots.max(1),
            ..options
        };
        Self {
            options,
            methods: Vec::new(),
            sessions: (0..options.sessions).map(|_| Mutex::new(None)).collect(),
            newest: Mutex::new((0, options.first_session >> 16)),
            kept: AtomicUsize::new(0),
        }
    }

    /// Has requests for a method answered, in place of what answered them before.
    pub fn register(&mut self, method: u16, effect: Effect, run: impl Method + 'static) {
        self.set(method, RegisteredMethod::InSession(effect, Box::new(run)));
    }

    /// Has a handler answer the calls of a method that needs no session: their callers take a lost
    /// answer for one in doubt. All behind the method's number, in the first two bytes, is the
    /// handler's to read, and so is all of the reply.
    pub fn register_without_session(&mut self, method: u16, handler: Arc<dyn Handler>) {
        self.set(method, RegisteredMethod::Alone(handler));
    }

    fn set(&mut self, method: u16, registered: RegisteredMethod) {
        self.methods.retain(|(number, _)| *number != method);
        self.methods.push((method, registered));
    }

    fn method(&self, number: u16) -> Option<&RegisteredMethod> {
        let mut methods = self.methods.iter();
        methods
            .find(|(method, _)| *method == number)
            .map(|(_, registered)| registered)
    }

    /// Answers a request; returns the bytes of the reply's body.
    fn answer(&self, call: Call<'_>, reply: &mut [u8]) -> Result<usize, (RequestStatus, u32)> {
        let (header, body) =
            RequestHeader::decode(call.request).ok_or((RequestStatus::Malformed, 0))?;
        if header.session == NO_SESSION {
            let grant = self.open(call.now, call.caller.grant())?.encode();
            return put_or_tell(reply, &grant);
        }
        let limit = self.options.largest_request;
        if body.len() > limit as usize {
            return Err((RequestStatus::TooLong, limit));
        }
        let Some(RegisteredMethod::InSession(effect, method)) = self.method(header.method) else {
            return Err((RequestStatus::Malformed, 1));
        };
        let effect = *effect;
        let mut place = self.place_of(header.session);
        let session = place.as_deref_mut().and_then(Option::as_mut);
        // No other client speaks for it.
        let grant = call.caller.grant();
        let session = session
            .filter(|session| session.id == header.session && session.grant.as_deref() == grant);
        let session = session.ok_or((RequestStatus::NoSession, 0))?;
        session.last_used = call.now;
        let slot = session.slot(header.slot, self.options.slots);
        let slot = slot.ok_or((RequestStatus::Malformed, 0))?;
        let request = Request {
            body,
            region: call.region,
            memory: call.memory,
            now: call.now,
            session: header.session,
            caller: call.caller,
        };
        let room = reply.len().min(self.options.largest_reply as usize);
        let reply = &mut reply[..room];
        match slot.find(header.number) {
            RequestFreshness::Stale => Err((RequestStatus::Stale, 0)),
            RequestFreshness::Repeated(kept) if effect == Effect::Once => match kept {
                Ok(kept) => put_or_tell(reply, kept),
                Err(end) => Err(end),
            },
            RequestFreshness::New | RequestFreshness::Repeated(_) => {
                slot.begin(header.number);
                if effect == Effect::None {
                    // Nothing is kept: others of the client may run meanwhile.
                    drop(place);
                    return run(&**method, request, reply);
                }
                let end = run(&**method, request, reply);
                let kept = self.kept.load(Relaxed);
                let most = self.options.most_kept.saturating_sub(kept);
                let more = slot.keep(end.map(|bytes| &reply[..bytes]), most);
                if more != 0 {
                    self.kept.fetch_add(more as usize, Relaxed);
                }
                end
            }
        }
    }

    /// Where a session is, if it could be one of this server's.
    fn place_of(&self, session: u64) -> Option<MutexGuard<'_, Option<Session>>> {
        let place = self.sessions.get(usize::from(session as u16))?;
        Some(place.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Opens a session, in a place that is vacant or whose client has not been heard of for the
    /// lease.
    fn open(&self, now: Nanos, grant: Option<&str>) -> Result<SessionGrant, (RequestStatus, u32)> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, time) = &mut *newest;
        let count = self.sessions.len();
        let mut places = (0..count).map(|ahead| (*next + ahead) % count);
        let vacant = places.find(|index| {
            let place = self.session_at(*index);
            let held = place.as_ref().map(|session| session.last_used);
            held.is_none_or(|since| now.saturating_sub(since) > self.options.lease)
        });
        let index = vacant.or_else(|| self.idle_one(now, grant));
        let index = index.ok_or((RequestStatus::NoVacancy, count as u32))?;
        // Numbered by time, so that sessions of servers before this one have other numbers.
        *time = now.max(*time + 1);
        *next = (index + 1) % count;
        let id = *time << 16 | index as u64;
        let before = self.session_at(index).replace(Session::new(id, grant, now));
        let given_back = before.map_or(0, |session| session.kept());
        self.kept.fetch_sub(given_back, Relaxed);
        Ok(SessionGrant {
            session: id,
            slots: self.options.slots,
            largest_request: self.options.largest_request,
            largest_reply: self.options.largest_reply,
        })
    }

    /// The place of the session that has been idle for the longest, of the grant that has the most
    /// of them, if it has more than this one; else of this one's own, if it was idle for a while.
    fn idle_one(&self, now: Nanos, grant: Option<&str>) -> Option<usize> {
        let mut sessions: HashMap<Option<Box<str>>, (usize, Nanos, usize)> = HashMap::new();
        for index in 0..self.sessions.len() {
            if let Some(session) = &*self.session_at(index) {
                let seen = (0, session.last_used, index);
                let (count, since, at) = sessions.entry(session.grant.clone()).or_insert(seen);
                *count += 1;
                if session.last_used < *since {
                    (*since, *at) = (session.last_used, index);
                }
            }
        }
        let session = sessions.get(&grant.map(Box::from)).copied();
        let count = session.map_or(0, |(count, ..)| count);
        let (most, _, at) = sessions.values().max_by_key(|(count, ..)| *count)?;
        if *most > count + 1 {
            return Some(*at);
        }
        let (_, since, at) = session?;
        (now.saturating_sub(since) > IDLE).then_some(at)
    }

    fn session_at(&self, index: usize) -> MutexGuard<'_, Option<Session>> {
        let place = &self.sessions[index];
        place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for Server {
    fn checks_callers(&self) -> bool {
        self.options.methods_check_callers
    }

    /// Has each handler of [methods without sessions](Server::register_without_session) go on.
    fn go_on(&self, memory: &mut dyn OwnerMemory, now: Nanos) -> Option<Nanos> {
        let mut handlers: Vec<&Arc<dyn Handler>> = Vec::new();
        for (_, method) in &self.methods {
            if let RegisteredMethod::Alone(handler) = method
                && !handlers.iter().any(|known| Arc::ptr_eq(known, handler))
            {
                handlers.push(handler);
            }
        }
        let next = handlers.iter().map(|handler| handler.go_on(memory, now));
        next.flatten().min()
    }

    fn handle(&self, mut call: Call<'_>) -> CallAnswer {
        let method = call
            .request
            .first_chunk()
            .map(|bytes| u16::from_le_bytes(*bytes));
        if let Some(RegisteredMethod::Alone(handler)) =
            method.and_then(|method| self.method(method))
        {
            return handler.handle(call);
        }
        let reply = std::mem::take(&mut call.reply);
        // Without room for a header there is nobody who could read a reply.
        let Some((head, body)) = reply.split_first_chunk_mut::<REPLY_HEADER>() else {
            return CallAnswer::Now(0);
        };
        let (end, bytes) = match self.answer(call, body) {
            Ok(bytes) => (RequestStatus::Done.encode(0), bytes),
            Err((status, detail)) => (status.encode(detail), 0),
        };
        *head = end;
        CallAnswer::Now(REPLY_HEADER + bytes)
    }
}

/// Runs a method; returns the bytes of its reply, which are no more than there is room for.
fn run(
    method: &dyn Method,
    request: Request<'_>,
    reply: &mut [u8],
) -> Result<usize, (RequestStatus, u32)> {
    let bytes = method.run(request, reply).map_err(end_of)?;
    Ok(bytes.min(reply.len()))
}

/// How a fault is told.
fn end_of(fault: Fault) -> (RequestStatus, u32) {
    match fault {
        Fault::Refused(reason) => (RequestStatus::Refused, reason),
        Fault::NoRoom(bytes) => (
            RequestStatus::NoRoom,
            u32::try_from(bytes).unwrap_or(u32::MAX),
        ),
        Fault::Damaged => (RequestStatus::Damaged, 0),
    }
}

fn put_or_tell(reply: &mut [u8], bytes: &[u8]) -> Result<usize, (RequestStatus, u32)> {
    crate::method::put(reply, bytes).map_err(end_of)
}
