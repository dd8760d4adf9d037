//! One thread's side of a session.

use crate::credit::{Credit, Slot};
use crate::wire::{
    GRANT_BYTES, NO_SESSION, REPLY_HEADER, REQUEST_HEADER, RequestHeader, RequestStatus,
    SessionGrant,
};
use crate::{Result, RpcError};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, FabricError, Nanos, NodeId, RegionId};
use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

/// How long a client keeps asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientOptions {
    /// Nanoseconds after which a request that the fabric did not carry is not sent again. Must be
    /// less than the server's [lease](crate::RpcServerOptions::lease), of which one verb timeout is
    /// used up besides.
    pub patience: Nanos,
    /// Nanoseconds before the first time that a request is sent again; each pause is twice as long
    /// as the one before.
    pub first_pause: Nanos,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            patience: 10_000_000_000,
            first_pause: 50_000,
        }
    }
}

/// The longest pause, in nanoseconds, between two times that a request is sent.
const LONGEST_PAUSE: Nanos = 100_000_000;

/// One thread's session with the server of a region. Any number of its coroutines may use it.
pub struct Client<E> {
    endpoint: Rc<E>,
    to: (NodeId, RegionId),
    options: ClientOptions,
    /// The session, once there is one.
    session: RefCell<Option<Rc<Session>>>,
}

struct Session {
    grant: SessionGrant,
    credit: Credit,
}

/// The body of a reply.
#[derive(Debug)]
pub struct Reply(Buffer);

impl Deref for Reply {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0[REPLY_HEADER..]
    }
}

impl Reply {
    /// The body as little-endian words, the last one reaching past its end where its length is no
    /// multiple of 8.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.0.words()[REPLY_HEADER / 8..]
    }
}

/// How one sending of a request ended, where that is no reply.
enum Unanswered {
    /// The fabric failed, and may have carried the request.
    Lost(FabricError),
    /// The server does not know the session.
    NoSession,
    Failed(RpcError),
}

impl<E: Endpoint> Client<E> {
    /// A client that has no session yet: its first request opens one.
    pub fn new(endpoint: Rc<E>, to: (NodeId, RegionId), options: ClientOptions) -> Self {
        Self {
            endpoint,
            to,
            options,
            session: RefCell::new(None),
        }
    }

    /// What carries the requests.
    pub fn endpoint(&self) -> &Rc<E> {
        &self.endpoint
    }

    /// The region whose owner answers.
    pub fn to(&self) -> (NodeId, RegionId) {
        self.to
    }

    /// Has the server's owner run a method; resolves to its reply, of at most `room` bytes.
    ///
    /// # Errors
    /// [`RpcError`].
    pub async fn call(&self, method: u16, body: &[u8], room: usize) -> Result<Reply> {
        self.call_with(method, body.len(), |to| to.copy_from_slice(body), room)
            .await
    }

    /// As [`Client::call`], of a request that `fill` puts where the fabric takes it from: once, and
    /// again for each time that it has to be sent.
    ///
    /// # Errors
    /// [`RpcError`].
    pub async fn call_with(
        &self,
        method: u16,
        bytes: usize,
        mut fill: impl FnMut(&mut [u8]),
        room: usize,
    ) -> Result<Reply> {
        let mut attempts = 0;
        loop {
            let session = self.session().await?;
            session.check(bytes)?;
            let slot = session.credit.slot().await;
            let fill = &mut fill;
            let end = self.ask(&session, &slot, method, (bytes, fill), room, &mut attempts);
            match end.await {
                Ok(reply) => return Ok(reply),
                // That the last attempt was not sent says nothing of those before.
                Err(Unanswered::Failed(RpcError::Fabric(error)))
                    if attempts > 1 && !error.may_have_taken_effect() =>
                {
                    return Err(RpcError::InDoubt { method, attempts });
                }
                Err(Unanswered::Failed(error)) => return Err(error),
                Err(Unanswered::Lost(error)) => return Err(error.into()),
                Err(Unanswered::NoSession) => {
                    self.forget(&session);
                    // A request that was sent once and refused for its session was not executed.
                    if attempts > 1 {
                        return Err(RpcError::InDoubt { method, attempts });
                    }
                    attempts = 0;
                }
            }
        }
    }

    /// Sends a request until it is answered or the time is up.
    async fn ask(
        &self,
        session: &Session,
        slot: &Slot<'_>,
        method: u16,
        (bytes, fill): (usize, &mut impl FnMut(&mut [u8])),
        room: usize,
        attempts: &mut u32,
    ) -> std::result::Result<Reply, Unanswered> {
        let header = RequestHeader {
            session: session.grant.session,
            number: slot.number,
            slot: slot.slot,
            method,
        };
        let mut pauses = Pauses::new(&*self.endpoint, self.options);
        loop {
            *attempts += 1;
            let end = self.send(header, (bytes, &mut *fill), room).await;
            match end {
                Err(Unanswered::Lost(error)) if pauses.is_over() => {
                    return Err(Unanswered::Lost(error));
                }
                Err(Unanswered::Lost(_)) => pauses.pause().await,
                end => return end,
            }
        }
    }

    /// Sends a request once.
    async fn send(
        &self,
        header: RequestHeader,
        (bytes, fill): (usize, &mut impl FnMut(&mut [u8])),
        room: usize,
    ) -> std::result::Result<Reply, Unanswered> {
        let buffers = &self.endpoint.core().buffers;
        let mut request = buffers
            .take(REQUEST_HEADER + bytes)
            .map_err(|error| Unanswered::Failed(error.into()))?;
        request[..REQUEST_HEADER].copy_from_slice(&header.encode());
        fill(&mut request[REQUEST_HEADER..]);
        let reply = self.endpoint.call(self.to, request, REPLY_HEADER + room);
        // It may have been sent before; and whoever could not be reached may soon be.
        match reply.await.map_err(FabricError::in_doubt) {
            Ok(reply) => read_reply(reply, header.method, bytes, room),
            Err(error @ FabricError::NodeRestarted { .. }) => Err(Unanswered::Failed(error.into())),
            Err(error) if error.may_have_taken_effect() => Err(Unanswered::Lost(error)),
            Err(error) => Err(Unanswered::Failed(error.into())),
        }
    }

    /// The session, opened if there is none.
    async fn session(&self) -> Result<Rc<Session>> {
        if let Some(session) = &*self.session.borrow() {
            return Ok(Rc::clone(session));
        }
        let grant = self.open().await?;
        // Another coroutine may have been faster; the server forgets the session that nobody uses.
        let mut session = self.session.borrow_mut();
        let session = session.get_or_insert_with(|| {
            Rc::new(Session {
                grant,
                credit: Credit::new(grant.slots),
            })
        });
        Ok(Rc::clone(session))
    }

    async fn open(&self) -> Result<SessionGrant> {
        let header = RequestHeader {
            session: NO_SESSION,
            number: 0,
            slot: 0,
            method: 0,
        };
        let mut pauses = Pauses::new(&*self.endpoint, self.options);
        loop {
            match self
                .send(header, (0, &mut |_: &mut [u8]| {}), GRANT_BYTES)
                .await
            {
                Ok(reply) => {
                    let reason = "it grants no session";
                    let grant = SessionGrant::decode(&reply).filter(|grant| grant.slots > 0);
                    return grant.ok_or(RpcError::Protocol { reason });
                }
                Err(Unanswered::Lost(error)) if pauses.is_over() => return Err(error.into()),
                Err(Unanswered::Lost(_)) => pauses.pause().await,
                Err(Unanswered::Failed(error)) => return Err(error),
                Err(Unanswered::NoSession) => {
                    let reason = "it refuses to open a session for want of one";
                    return Err(RpcError::Protocol { reason });
                }
            }
        }
    }

    /// Lets go of a session that the server does not know any more.
    fn forget(&self, lost: &Rc<Session>) {
        let mut session = self.session.borrow_mut();
        if session
            .as_ref()
            .is_some_and(|known| Rc::ptr_eq(known, lost))
        {
            *session = None;
        }
    }
}

impl Session {
    fn check(&self, bytes: usize) -> Result<()> {
        let limit = self.grant.largest_request as usize;
        if bytes > limit {
            return Err(RpcError::RequestTooLong { bytes, limit });
        }
        Ok(())
    }
}

/// What a reply says.
fn read_reply(
    reply: Buffer,
    method: u16,
    bytes: usize,
    room: usize,
) -> std::result::Result<Reply, Unanswered> {
    let Some((status, detail, _)) = RequestStatus::decode(&reply) else {
        let reason = "it has no status";
        return Err(Unanswered::Failed(RpcError::Protocol { reason }));
    };
    let limit = detail as usize;
    let error = match status {
        RequestStatus::Done => return Ok(Reply(reply)),
        RequestStatus::NoSession => return Err(Unanswered::NoSession),
        RequestStatus::Refused => RpcError::Refused {
            method,
            reason: detail,
        },
        RequestStatus::Malformed if detail == 1 => RpcError::NoMethod { method },
        RequestStatus::TooLong => RpcError::RequestTooLong { bytes, limit },
        RequestStatus::NoRoom => RpcError::NoRoom { bytes: limit, room },
        RequestStatus::Damaged => RpcError::Damaged { method },
        RequestStatus::NotKept => RpcError::NotKept { method },
        RequestStatus::NoVacancy => RpcError::NoVacancy { sessions: detail },
        RequestStatus::Stale => RpcError::Protocol {
            reason: "it knows a newer request of the slot",
        },
        RequestStatus::Malformed => RpcError::Protocol {
            reason: "it does not understand the request",
        },
    };
    Err(Unanswered::Failed(error))
}

/// The pauses between the sendings of a request.
struct Pauses<'e, E> {
    endpoint: &'e E,
    next: Nanos,
    deadline: Nanos,
}

impl<'e, E: Endpoint> Pauses<'e, E> {
    fn new(endpoint: &'e E, options: ClientOptions) -> Self {
        Self {
            endpoint,
            next: options.first_pause,
            deadline: endpoint.now().saturating_add(options.patience),
        }
    }

    fn is_over(&self) -> bool {
        self.endpoint.now() >= self.deadline
    }

    async fn pause(&mut self) {
        self.endpoint.sleep(self.next).await;
        self.next = self.next.saturating_mul(2).clamp(1, LONGEST_PAUSE);
    }
}
