//! What the tests of known histories share.

use farslot_check::{History, OpId, RegisterMap, Summary, TableOp, TableRet, Violation, check};

/// Operations.
pub type Op = TableOp<u32>;
/// Results.
pub type Ret = TableRet<u32>;
/// Histories.
pub type Table = History<u64, Op, Ret>;

/// A put of an absent key.
pub const INSERTED: Ret = TableRet::Put {
    inserted: Some(true),
};
/// A put of a present key.
pub const REPLACED: Ret = TableRet::Put {
    inserted: Some(false),
};

/// Records a whole operation on key 7.
pub fn run(history: &mut Table, client: u32, op: Op, ret: Ret, start: u64, end: u64) -> OpId {
    let id = history.invoke(client, 7, op, start);
    history.complete(id, ret, end);
    id
}

/// Checks a history that has an explanation.
pub fn accepted(history: &Table) -> Summary {
    check(history, &RegisterMap::new()).unwrap()
}

/// Checks a history that has none.
pub fn rejected(history: &Table) -> Violation {
    let error = check(history, &RegisterMap::new()).expect_err("an order was found");
    error.violation().expect("the search decides").clone()
}
