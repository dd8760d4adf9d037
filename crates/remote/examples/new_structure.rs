//! A new remote data structure over the three callbacks: counters. They are looked up by READs; to
//! count is a call. `cargo run -p farslot-remote --example new_structure`

use bytemuck::{bytes_of, try_pod_read_unaligned};
use farslot_fabric::shm::{Node, RegionSpec, ShmEndpoint};
use farslot_fabric::{Executor, Limits, NodeId, OwnerMemory, RegionId, Rights};
use farslot_remote::{Found, LookupVerdict, ObjectId, RemoteStructure, Start, StructureClient};
use farslot_rpc::{Client, ClientOptions, Fault, Server, put};
use std::{error::Error, rc::Rc, sync::Arc};

/// Two words each: the count, and a seal by which a READ of two moments is noticed.
#[derive(Clone, Copy)]
struct Counters;

impl RemoteStructure for Counters {
    type Key = u64;
    type Item = u64;
    type Cache = ();

    fn lookup_start(&self, key: &u64, (): &mut ()) -> Start {
        let offset = key % 100 * 16;
        Start::Read { offset, bytes: 16 }
    }

    fn lookup_end(&self, key: &u64, found: Found<'_>, (): &mut ()) -> LookupVerdict<u64> {
        let words = match found {
            Found::Read { words, .. } => words.try_into().ok(),
            Found::Reply(reply) => try_pod_read_unaligned::<[u64; 2]>(reply).ok(),
        };
        match words {
            Some([0, 0]) => LookupVerdict::Absent,
            Some([count, seal]) if seal == !(count ^ key << 32) => LookupVerdict::Found(count),
            _ => LookupVerdict::Unknown,
        }
    }

    fn lookup_request(&self, key: &u64) -> Vec<u8> {
        bytes_of(&[*key, 0]).to_vec()
    }

    fn reply_bytes(&self) -> usize {
        16
    }

    /// A request is a key and what is to be added.
    fn rpc_handler(
        &self,
        request: &[u8],
        memory: &mut dyn OwnerMemory,
        reply: &mut [u8],
    ) -> Result<usize, Fault> {
        let request = try_pod_read_unaligned(request);
        let [key, add]: [u64; 2] = request.map_err(|_| Fault::Refused(1))?;
        let at = key % 100 * 16;
        let count = memory.load(at)?.wrapping_add(add);
        if add > 0 {
            memory.copy_in(at, &[count, !(count ^ key << 32)])?;
        }
        put(reply, bytes_of(&[count, memory.load(at + 8)?]))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let rights = Rights::READ.and(Rights::CALL);
    let node = Node::embedded(&[RegionSpec { len: 1600, rights }])?;
    let mut server = Server::new(Default::default());
    farslot_remote::serve(&mut server, vec![Counters], Arc::default());
    node.serve_calls(Arc::new(server));

    let endpoint = Rc::new(ShmEndpoint::new(vec![node], Limits::default()));
    let to = (NodeId(0), RegionId(0));
    let client = Rc::new(Client::new(endpoint.clone(), to, ClientOptions::default()));
    let counters = StructureClient::new(Counters, ObjectId(0), client, (), Default::default());
    Executor::new(endpoint).block_on(async {
        counters.change(bytes_of(&[42u64, 3])).await?;
        println!("counter 42 is {:?}", counters.lookup(&42).await?);
        Ok(())
    })
}
