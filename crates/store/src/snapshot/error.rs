//! What can go wrong with the file of a snapshot.

/// Why a snapshot could not be taken or restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A file or a directory failed.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What the system says.
        reason: String,
    },
    /// The file is not what was written. Nothing of it is restored.
    #[error("{path} is damaged at byte {offset}: expected {expected}, found {found}")]
    Damaged {
        /// The file.
        path: String,
        /// The first byte of the piece that is damaged.
        offset: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The file is whole, but was written by another version of this program.
    #[error("{path} has format {version}; this program reads format {known}")]
    Version {
        /// The file.
        path: String,
        /// The version of its format.
        version: u32,
        /// The version that can be read.
        known: u32,
    },
    /// The table lacks what nodes had of it that came back empty.
    #[error(
        "{nodes} came back empty and lost what it had of table {table:?}: no snapshot without that is written to {path}"
    )]
    Lost {
        /// The table.
        table: String,
        /// The file of its last snapshot.
        path: String,
        /// The addresses of the nodes.
        nodes: String,
    },
    /// The table was sharded over more nodes than the store has.
    #[error("{path} is of a table over {partitions} nodes, and the store has {nodes}")]
    NodeCount {
        /// The file.
        path: String,
        /// Partitions of the table.
        partitions: usize,
        /// Nodes of the store.
        nodes: usize,
    },
    /// The file is of one node's part of a table, and the store has several nodes.
    #[error(
        "{path} is part {number} of a table over several nodes, as one of them has written it: restore it on that node (farslot serve --restore, or farslot restore --node)"
    )]
    OnePart {
        /// The file.
        path: String,
        /// The part's number.
        number: u16,
    },
    /// The node whose part is to be restored is none of the store's.
    #[error("{node} is none of the store's nodes: {nodes}")]
    NoSuchNode {
        /// The node, as it was asked for.
        node: String,
        /// The addresses of the store's nodes.
        nodes: String,
    },
    /// Nothing says which part of a table over several nodes the node had.
    #[error("{path} is of a table over {nodes}, and {node} is none of these nodes")]
    WhichPart {
        /// The file.
        path: String,
        /// The addresses of the table's nodes, as its creator named them.
        nodes: String,
        /// The addresses of the node that is to have its part.
        node: String,
    },
    /// The table that the part is to be put back into is sharded otherwise, or the file has another
    /// part.
    #[error(
        "{path} does not have what {node} had of table {table:?}: the table was sharded otherwise, or this is another part of it"
    )]
    OtherPart {
        /// The file.
        path: String,
        /// The table.
        table: String,
        /// The node's address.
        node: String,
    },
    /// The snapshot was written without the part that is to be restored.
    #[error("{path} lacks what {node} had of table {table:?}: it was written without it")]
    PartMissing {
        /// The file.
        path: String,
        /// The table.
        table: String,
        /// The node's address.
        node: String,
    },
    /// Another process takes or restores the same snapshot.
    #[error("another process is writing {path}")]
    InUse {
        /// The file.
        path: String,
    },
    /// A file stands where a snapshot is to be written, and this user has not left it there.
    #[error("{path} {reason}: remove it, or use another directory")]
    Untrusted {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The caller stopped it. What was done is kept, and the next attempt continues there.
    #[error("stopped: the next attempt continues where this one ended")]
    Stopped,
    /// Another thread of this store wrote the table, so that records may have moved past the scan.
    #[error(
        "the records of table {table:?} were moved meanwhile by another thread that writes it: begin again when none does"
    )]
    Moved {
        /// The table.
        table: String,
    },
    /// The table was dropped, cleared or renamed meanwhile, or one of its nodes came back empty.
    #[error("the table {table:?} was replaced by another meanwhile: begin again")]
    Replaced {
        /// The table.
        table: String,
    },
}
