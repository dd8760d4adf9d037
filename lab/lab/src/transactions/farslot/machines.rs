//! TATP on simulated machines, each with nodes and clients, as paper 003 runs it.

use super::layout::{Buckets, tables};
use super::{Manner, Session, handler};
use crate::cluster::{Program, Seat};
use crate::transactions::tatp::{Tatp, UPDATE_LOCATION};
use crate::transactions::workload::{Call, Workload, WorkloadClient};
use crate::{LabError, Result};
use farslot::fabric::sim::SimEndpoint;
use farslot::fabric::{AnyEndpoint, Handler, NodeId, RegionId, window};
use farslot_remote::PolicyOptions;
use farslot_remote::chained::Chained;
use farslot_rpc::{Client, ClientOptions};
use farslot_txn::{Locking, Structure, TxnError};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Rows that a loading thread has under way.
const TOGETHER: usize = 16;

/// Threads that run TATP's transactions on rows of the other machines, locking as they write.
pub(crate) struct TatpMachines {
    workload: Tatp,
    manner: Manner,
}

impl TatpMachines {
    /// Nodes with so many subscribers each, in tables with buckets of one slot and so many keys a
    /// bucket; all reads are calls, or as clients choose.
    pub(crate) fn new(nodes: u32, subscribers: u64, keys_a_bucket: f64, by_calls: bool) -> Self {
        let nodes = u64::from(nodes);
        Self {
            workload: Tatp {
                subscribers: nodes * subscribers,
                seed: 0,
                // Of so few, the description's favourites would meet more often than of millions.
                evenly: true,
            },
            manner: Manner {
                nodes,
                locking: Locking::Execution,
                at_owner: false,
                policy: match by_calls {
                    true => PolicyOptions::CALLS,
                    false => PolicyOptions::default(),
                },
                buckets: Buckets {
                    slots: 1,
                    keys: keys_a_bucket,
                },
            },
        }
    }

    /// The node of a subscriber.
    fn node_of(&self, subscriber: i64) -> NodeId {
        NodeId((subscriber.unsigned_abs() % self.manner.nodes) as u16)
    }
}

/// A thread.
pub(crate) struct Worker {
    endpoint: Rc<AnyEndpoint>,
    session: Session,
    others: Vec<NodeId>,
    seed: u64,
    state: RefCell<WorkloadClient>,
}

impl Program for TatpMachines {
    type Thread = Worker;

    fn bytes(&self) -> u64 {
        // Tables that could not be laid out the handler has refused.
        let laid_out = tables(&self.workload, self.manner.nodes, self.manner.buckets);
        laid_out.map_or(0, |(_, bytes)| bytes)
    }

    fn handler(&self) -> Result<Arc<dyn Handler>> {
        handler(&self.workload, self.manner.nodes, self.manner.buckets)
    }

    fn thread(&self, endpoint: &Rc<SimEndpoint>, seat: Seat) -> Result<Worker> {
        let endpoint = Rc::new(AnyEndpoint::Sim(Rc::clone(endpoint)));
        Ok(Worker {
            session: self.manner.session(&endpoint, &self.workload, seat.seed)?,
            endpoint,
            others: seat.others,
            seed: seat.seed,
            state: RefCell::new(WorkloadClient::new(seat.seed, 0, 1)),
        })
    }

    async fn load(&self, worker: &Worker, nodes: &[NodeId]) -> Result<()> {
        for node in nodes {
            let (laid_out, _) = tables(&self.workload, self.manner.nodes, self.manner.buckets)?;
            let client = Rc::new(Client::new(
                Rc::clone(&worker.endpoint),
                (*node, RegionId(0)),
                ClientOptions::default(),
            ));
            let own = laid_out.into_iter().filter_map(|(object, table)| {
                let Structure::Chained(table) = table else {
                    return None;
                };
                let (client, policy) = (Rc::clone(&client), PolicyOptions::default());
                Some(Chained::new(table, object, client, 0, policy))
            });
            let own: Vec<_> = own.collect();
            let mut rows = Vec::new();
            for subscriber in 0..self.workload.subscribers as i64 {
                if self.node_of(subscriber) == *node {
                    self.workload.load_subscriber(subscriber, &mut |row| {
                        rows.push((row.table, row.key, row.value));
                        Ok(())
                    })?;
                }
            }
            let puts = rows
                .iter()
                .map(async |(table, key, value)| own[*table].put(key, value).await);
            let mut ended = Ok(());
            window(TOGETHER, puts, |_, put| {
                if let Err(error) = put {
                    ended = Err(LabError::from(TxnError::from(error)));
                }
            })
            .await;
            ended?;
        }
        Ok(())
    }

    /// A transaction that writes at each node: for the session there, and for its name.
    async fn warm(&self, worker: &Worker) -> Result<()> {
        for node in &worker.others {
            let of_node = self.workload.subscribers / self.manner.nodes;
            let own = worker.seed % of_node * self.manner.nodes + u64::from(node.0);
            let call = Call::new(UPDATE_LOCATION, &[own as i64, 0]);
            worker.session.run(&call).await?;
        }
        Ok(())
    }

    async fn operation(&self, worker: &Worker) -> Result<()> {
        let call = loop {
            let call = self.workload.draw(&mut worker.state.borrow_mut());
            if worker.others.contains(&self.node_of(call.numbers[0])) {
                break call;
            }
        };
        let outcome = worker.session.run(&call).await?;
        match self.workload.is_right(&call, outcome) {
            true => Ok(()),
            false => Err(LabError::wrong(1, 1)),
        }
    }

    fn conflicts(&self, worker: &Worker) -> u64 {
        worker.session.database.retries()
    }
}
