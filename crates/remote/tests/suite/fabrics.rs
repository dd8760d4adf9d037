//! Every structure over every fabric that carries calls, by clients in threads of their own.

use farslot_fabric::{AnyEndpoint, NodeId, RegionId, Rights, window};
use farslot_remote::chained::{Chained, Shape, Table};
use farslot_remote::ordered::{KeyRange, OrderedMap, Tree, TreeShape};
use farslot_remote::queue::{Fifo, Queue, QueueShape};
use farslot_remote::{
    NO_OBJECT, ObjectId, Objects, PolicyOptions, RemoteError, RemoteStructure, serve,
};
use farslot_rpc::{Client, ClientOptions, Fault, Request, RpcServerOptions, Server};
use farslot_testbed::{Fabric, TestNode};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

const TABLE: Shape = Shape {
    at: 0,
    key_bytes: 8,
    value_bytes: 80,
    slots: 2,
    buckets: 8,
    most_buckets: 512,
    overflow: 2000,
    split_after: 3,
    seed: 7,
};

fn queue() -> QueueShape {
    QueueShape {
        at: TABLE.bytes(),
        slots: 64,
        value_bytes: 16,
    }
}

fn tree() -> TreeShape {
    TreeShape {
        at: queue().at + queue().bytes(),
        key_bytes: 8,
        value_bytes: 80,
        leaf_pairs: 6,
        children: 8,
        nodes: 2000,
    }
}

/// The structures of the node: table, queue, tree.
struct OneOfEach {
    table: Table,
    queue: Queue,
    tree: Tree,
}

impl Objects for OneOfEach {
    fn answer(
        &self,
        object: ObjectId,
        request: Request<'_>,
        reply: &mut [u8],
    ) -> Result<usize, Fault> {
        let (body, memory) = (request.body, request.memory);
        match object {
            ObjectId(0) => self.table.rpc_handler(body, memory, reply),
            ObjectId(1) => self.queue.rpc_handler(body, memory, reply),
            ObjectId(2) => self.tree.rpc_handler(body, memory, reply),
            ObjectId(_) => Err(Fault::Refused(NO_OBJECT)),
        }
    }
}

fn served(fabric: Fabric) -> TestNode {
    let bytes = tree().at + tree().bytes();
    let node = fabric.start(&[(bytes, Rights::READ.and(Rights::CALL))]);
    node.serve_calls(|| {
        let mut server = Server::new(RpcServerOptions::default());
        let objects = OneOfEach {
            table: Table::new(TABLE).unwrap(),
            queue: Queue::new(queue()).unwrap(),
            tree: Tree::new(tree()).unwrap(),
        };
        serve(&mut server, objects, Arc::default());
        Arc::new(server)
    });
    node
}

fn client(endpoint: &Rc<AnyEndpoint>) -> Rc<Client<AnyEndpoint>> {
    let to = (NodeId(0), RegionId(0));
    Rc::new(Client::new(
        Rc::clone(endpoint),
        to,
        ClientOptions::default(),
    ))
}

/// The value of a key in a turn; READs of it may tear.
fn value(key: u64, turn: u64) -> Vec<u8> {
    (key << 32 | turn).to_le_bytes().repeat(10)
}

/// The turn of a value, which was one turn's as a whole.
fn turn_of(key: u64, value: &[u8]) -> u64 {
    let (words, _) = value.as_chunks::<8>();
    let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    assert!(
        words
            .iter()
            .all(|word| *word == words[0] && word >> 32 == key),
        "{words:x?}"
    );
    words[0] & 0xffff_ffff
}

const CLIENTS: u32 = 3;
const KEYS: u64 = 60;

/// Each client writes keys of its own, in growing turns, and reads those of all.
pub fn keys_of_a_table_and_a_map(fabric: Fabric) {
    let node = served(fabric);
    let turns = u64::from(fabric.cases(200));
    node.run_clients(CLIENTS, Fabric::limits(), async move |number, endpoint| {
        let client = client(&endpoint);
        let policy = PolicyOptions::default();
        let table = Table::new(TABLE).unwrap();
        let table = Chained::new(table, ObjectId(0), Rc::clone(&client), 100, policy);
        let tree = Tree::new(tree()).unwrap();
        let map = OrderedMap::new(tree, ObjectId(2), client, 1000, policy);
        let mut newest = BTreeMap::new();
        for turn in 1..=turns {
            let writes = (0..KEYS).filter(|key| key % u64::from(CLIENTS) == u64::from(number));
            let writes = writes.map(async |key| {
                let bytes = key.to_be_bytes();
                table.put(&bytes, &value(key, turn)).await.unwrap();
                map.put(&bytes, &value(key, turn)).await.unwrap();
                if (key + turn).is_multiple_of(7) {
                    assert!(table.remove(&bytes).await.unwrap());
                    assert!(map.remove(&bytes).await.unwrap());
                }
            });
            window(8, writes, |_, ()| ()).await;
            for key in 0..KEYS {
                let own = key % u64::from(CLIENTS) == u64::from(number);
                let gone = (key + turn).is_multiple_of(7);
                let bytes = key.to_be_bytes();
                let in_table = table.get(&bytes).await.unwrap().map(|item| item.value);
                let in_map = map.get(&bytes).await.unwrap();
                if own {
                    let expected = (!gone).then(|| value(key, turn));
                    assert_eq!((&in_table, &in_map), (&expected, &expected), "{key}");
                }
                for (which, value) in [in_table, in_map].into_iter().enumerate() {
                    let seen = value.map_or(0, |value| turn_of(key, &value));
                    let newest = newest.entry((which, key)).or_insert(0);
                    assert!(seen == 0 || seen >= *newest, "{key}: {seen} after {newest}");
                    *newest = seen.max(*newest);
                }
            }
            let all = map.scan(KeyRange::default(), usize::MAX).await.unwrap();
            assert!(all.is_sorted_by(|(a, _), (b, _)| a < b));
        }
        let counts = table.remote().counts();
        assert!(counts.by_read > 0, "{counts:?}");
        assert!(map.remote().counts().by_read > 0);
    });
}

/// Items come out once each, those of one client in the order in which it added them.
pub fn items_of_a_queue(fabric: Fabric) {
    let node = served(fabric);
    let each = u64::from(fabric.cases(2000));
    let taken = node.run_clients(CLIENTS, Fabric::limits(), async move |number, endpoint| {
        let queue = Queue::new(queue()).unwrap();
        let fifo = Fifo::new(
            queue,
            ObjectId(1),
            client(&endpoint),
            PolicyOptions::default(),
        );
        let (mut added, mut taken) = (0, Vec::new());
        while added < each || taken.len() < each as usize {
            if added < each {
                let item = [number.into(), added].map(u64::to_le_bytes).concat();
                match fifo.push(&item).await {
                    Ok(_) => added += 1,
                    Err(error) => assert_eq!(error, RemoteError::Full),
                }
            }
            let _ = fifo.front().await.unwrap();
            if taken.len() < each as usize {
                taken.extend(fifo.pop().await.unwrap());
            }
        }
        taken
    });
    let mut all: Vec<_> = taken.into_iter().flatten().collect();
    all.sort_by_key(|front| front.position);
    for number in 0..u64::from(CLIENTS) {
        let own = all
            .iter()
            .filter(|item| item.value[..8] == number.to_le_bytes());
        let own = own.map(|item| u64::from_le_bytes(item.value[8..].try_into().unwrap()));
        assert!(own.eq(0..each), "{number}");
    }
}
