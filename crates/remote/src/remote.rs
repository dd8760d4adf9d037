//! A remote data structure as a client has it: Algorithm 1 of paper 003.

use crate::error::{RefusalReason, RemoteError};
use crate::policy::{Policy, PolicyOptions};
use crate::structure::{Found, LookupVerdict, RemoteStructure, Start};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, RemoteAddr};
use farslot_rpc::{Client, Effect, Fault, Reply, Request, Server};
use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// Which of a node's structures (paper 003, section 4: object ID). In a store it is the table's id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectId(pub u64);

/// The method of lookups. The structure's number stands before each request.
pub const LOOKUP: u16 = 0x0104;
/// The method of changes, likewise.
pub const CHANGE: u16 = 0x0204;

/// The structures of a node, by number.
pub trait Objects: Send + Sync + 'static {
    /// Has a structure answer a request: none other of the node's is answered meanwhile.
    ///
    /// # Errors
    /// [`Fault`]; [`NO_OBJECT`](crate::NO_OBJECT) where there is no such structure.
    fn answer(
        &self,
        object: ObjectId,
        request: Request<'_>,
        reply: &mut [u8],
    ) -> Result<usize, Fault>;
}

impl<S: RemoteStructure> Objects for Vec<S> {
    /// They are numbered from 0 on.
    fn answer(
        &self,
        object: ObjectId,
        request: Request<'_>,
        reply: &mut [u8],
    ) -> Result<usize, Fault> {
        let structure = usize::try_from(object.0).ok().and_then(|at| self.get(at));
        let structure = structure.ok_or(RefusalReason::NoObject)?;
        structure.rpc_handler(request.body, request.memory, reply)
    }
}

/// Has a server answer calls to structures. Calls are executed one at a time: by all servers that
/// share `alone`, so that methods beside them may change the same memory.
pub fn serve(server: &mut Server, objects: impl Objects, alone: Arc<Mutex<()>>) {
    let objects = Arc::new((objects, alone));
    for (method, effect) in [(LOOKUP, Effect::None), (CHANGE, Effect::Once)] {
        let objects = Arc::clone(&objects);
        let run = move |request: Request<'_>, reply: &mut [u8]| {
            let (object, body) = request
                .body
                .split_first_chunk()
                .ok_or(RefusalReason::Malformed)?;
            let object = ObjectId(u64::from_le_bytes(*object));
            let (objects, alone) = &*objects;
            let _alone = alone.lock().unwrap_or_else(PoisonError::into_inner);
            let memory = request.memory;
            memory.begin_turn();
            let request = Request {
                body,
                memory: &mut *memory,
                ..request
            };
            let answered = objects.answer(object, request, reply);
            // Nothing was changed by a turn that is too large.
            memory.end_turn().map_err(|_| RefusalReason::Malformed)?;
            answered
        };
        server.register(method, effect, run);
    }
}

/// What a client has counted of its lookups.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LookupCounts {
    /// Lookups that a READ answered.
    pub by_read: u64,
    /// Lookups whose READ did not tell, and that a call answered.
    pub by_both: u64,
    /// Lookups that a call answered at once.
    pub by_call: u64,
}

/// A remote data structure as one thread's client has it.
pub struct StructureClient<S: RemoteStructure, E> {
    structure: S,
    object: ObjectId,
    client: Rc<Client<E>>,
    cache: RefCell<S::Cache>,
    policy: Policy,
    counts: Cell<LookupCounts>,
}

impl<S: RemoteStructure, E: Endpoint> StructureClient<S, E> {
    /// A client that knows nothing but the structure's description and this cache.
    pub fn new(
        structure: S,
        object: ObjectId,
        client: Rc<Client<E>>,
        cache: S::Cache,
        policy: PolicyOptions,
    ) -> Self {
        let policy = Policy::new(policy, client.endpoint().call_cost());
        Self {
            structure,
            object,
            client,
            cache: RefCell::new(cache),
            policy,
            counts: Cell::default(),
        }
    }

    /// The description.
    pub fn structure(&self) -> &S {
        &self.structure
    }

    /// What is remembered; must not be held across an operation.
    pub fn cache(&self) -> RefMut<'_, S::Cache> {
        self.cache.borrow_mut()
    }

    /// Whether lookups begin with a READ at present.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How lookups were answered.
    pub fn counts(&self) -> LookupCounts {
        self.counts.get()
    }

    /// Looks a key up: by a READ, then by a call if the READ does not tell (paper 003, algorithm
    /// 1).
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn lookup(&self, key: &S::Key) -> Result<Option<S::Item>, RemoteError> {
        let mut has_read = false;
        if self.policy.reads_next() {
            let start = self
                .structure
                .lookup_start(key, &mut self.cache.borrow_mut());
            if let Start::Read { offset, bytes } = start {
                has_read = true;
                let read = self.read(offset, bytes).await?;
                let words = read.words();
                let found = Found::Read { offset, words };
                let mut cache = self.cache.borrow_mut();
                let end = self.structure.lookup_end(key, found, &mut cache);
                self.policy.note(!matches!(end, LookupVerdict::Unknown));
                match end {
                    LookupVerdict::Found(item) => {
                        return Ok(self.count(|all| &mut all.by_read, Some(item)));
                    }
                    LookupVerdict::Absent => return Ok(self.count(|all| &mut all.by_read, None)),
                    LookupVerdict::Unknown => {}
                }
            }
        }
        let reply = self.ask(&self.structure.lookup_request(key)).await?;
        let found = Found::Reply(&reply);
        let mut cache = self.cache.borrow_mut();
        let end = self.structure.lookup_end(key, found, &mut cache);
        let item = match end {
            LookupVerdict::Found(item) => Some(item),
            LookupVerdict::Absent => None,
            LookupVerdict::Unknown => return Err(RemoteError::BadReply),
        };
        if has_read {
            return Ok(self.count(|all| &mut all.by_both, item));
        }
        Ok(self.count(|all| &mut all.by_call, item))
    }

    /// READs bytes of the region, for walks of a structure's own such as scans.
    ///
    /// # Errors
    /// [`RemoteError::Fabric`].
    pub async fn read(&self, offset: u64, bytes: usize) -> Result<Buffer, RemoteError> {
        let (node, region) = self.client.to();
        let from = RemoteAddr {
            node,
            region,
            offset,
        };
        Ok(self.client.endpoint().read(from, bytes).await?)
    }

    /// Has the owner answer a request that changes nothing.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn ask(&self, request: &[u8]) -> Result<Reply, RemoteError> {
        self.ask_for(request, self.structure.reply_bytes()).await
    }

    /// As [`StructureClient::ask`], with room for a reply of so many bytes.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn ask_for(&self, request: &[u8], room: usize) -> Result<Reply, RemoteError> {
        self.call(LOOKUP, request, room).await
    }

    /// Has the owner execute a request that changes something, at most once.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn change(&self, request: &[u8]) -> Result<Reply, RemoteError> {
        self.change_for(request, self.structure.reply_bytes()).await
    }

    /// As [`StructureClient::change`], with room for a reply of so many bytes.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn change_for(&self, request: &[u8], room: usize) -> Result<Reply, RemoteError> {
        self.call(CHANGE, request, room).await
    }

    async fn call(&self, method: u16, request: &[u8], room: usize) -> Result<Reply, RemoteError> {
        let object = self.object.0.to_le_bytes();
        let fill = |to: &mut [u8]| {
            let (before, body) = to.split_at_mut(object.len());
            before.copy_from_slice(&object);
            body.copy_from_slice(request);
        };
        let bytes = object.len() + request.len();
        Ok(self.client.call_with(method, bytes, fill, room).await?)
    }

    fn count<T>(&self, which: fn(&mut LookupCounts) -> &mut u64, item: T) -> T {
        let mut counts = self.counts.get();
        *which(&mut counts) += 1;
        self.counts.set(counts);
        item
    }
}
