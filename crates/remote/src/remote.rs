//! A remote data structure as a client has it: Algorithm 1 of paper 003.

use crate::error::RemoteError;
use crate::policy::{Policy, PolicyOptions};
use crate::structure::{End, Found, RemoteStructure, Start};
use farslot_fabric::{Buffer, Endpoint, EndpointExt, RemoteAddr};
use farslot_rpc::{Client, Effect, Reply, Request, Server};
use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// Which of a server's structures: its objects count from 0 (paper 003, section 4: object ID).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectId(pub u16);

/// The most objects of one server: each takes two of the methods that 16 bits number.
const OBJECTS: u16 = 1 << 15;

impl ObjectId {
    /// The methods of lookups and of changes.
    #[must_use]
    pub fn methods(self) -> (u16, u16) {
        (self.0 % OBJECTS, self.0 % OBJECTS + OBJECTS)
    }
}

/// Has a server answer calls to a structure. Calls are executed one at a time.
pub fn serve<S: RemoteStructure>(server: &mut Server, object: ObjectId, structure: S) {
    serve_alone(server, object, structure, Arc::default());
}

/// As [`serve`], for a structure that must not be changed while others hold `alone`: several
/// structures, or methods beside them, that change the same memory share it.
pub fn serve_alone<S: RemoteStructure>(
    server: &mut Server,
    object: ObjectId,
    structure: S,
    alone: Arc<Mutex<()>>,
) {
    let structure = Arc::new((structure, alone));
    let (lookups, changes) = object.methods();
    for (method, effect) in [(lookups, Effect::None), (changes, Effect::Once)] {
        let structure = Arc::clone(&structure);
        let run = move |request: Request<'_>, reply: &mut [u8]| {
            let (structure, lock) = &*structure;
            let _alone = lock.lock().unwrap_or_else(PoisonError::into_inner);
            structure.rpc_handler(request.body, request.memory, reply)
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
pub struct Remote<S: RemoteStructure, E> {
    structure: S,
    object: ObjectId,
    client: Rc<Client<E>>,
    cache: RefCell<S::Cache>,
    policy: Policy,
    counts: Cell<LookupCounts>,
}

impl<S: RemoteStructure, E: Endpoint> Remote<S, E> {
    /// A client that knows nothing but the structure's description and this cache.
    pub fn new(
        structure: S,
        object: ObjectId,
        client: Rc<Client<E>>,
        cache: S::Cache,
        policy: PolicyOptions,
    ) -> Self {
        Self {
            structure,
            object,
            client,
            cache: RefCell::new(cache),
            policy: Policy::new(policy),
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
                self.policy.note(!matches!(end, End::Unknown));
                match end {
                    End::Found(item) => return Ok(self.count(|all| &mut all.by_read, Some(item))),
                    End::Absent => return Ok(self.count(|all| &mut all.by_read, None)),
                    End::Unknown => {}
                }
            }
        }
        let reply = self.ask(&self.structure.lookup_request(key)).await?;
        let found = Found::Reply(&reply);
        let mut cache = self.cache.borrow_mut();
        let end = self.structure.lookup_end(key, found, &mut cache);
        let item = match end {
            End::Found(item) => Some(item),
            End::Absent => None,
            End::Unknown => return Err(RemoteError::BadReply),
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
        let (lookups, _) = self.object.methods();
        let room = self.structure.reply_bytes();
        Ok(self.client.call(lookups, request, room).await?)
    }

    /// Has the owner execute a request that changes something, at most once.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn change(&self, request: &[u8]) -> Result<Reply, RemoteError> {
        let (_, changes) = self.object.methods();
        let room = self.structure.reply_bytes();
        Ok(self.client.call(changes, request, room).await?)
    }

    fn count<T>(&self, which: fn(&mut LookupCounts) -> &mut u64, item: T) -> T {
        let mut counts = self.counts.get();
        *which(&mut counts) += 1;
        self.counts.set(counts);
        item
    }
}
