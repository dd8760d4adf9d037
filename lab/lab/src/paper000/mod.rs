//! Paper 000's tables and figures, and what lies beyond them: one module each.

pub(crate) mod ahead;
pub(crate) mod cuckoo_tables;
pub(crate) mod fig10;
pub(crate) mod fig11;
pub(crate) mod fig12;
pub(crate) mod fig13;
pub(crate) mod fig6;
pub(crate) mod fig7;
pub(crate) mod fig8;
pub(crate) mod fig9;
pub(crate) mod gather;
pub(crate) mod hybrid;
mod hybrid_tables;
pub(crate) mod insertion;
mod linear_tables;
pub(crate) mod probing;
pub(crate) mod published;
pub(crate) mod storage;
pub(crate) mod table1;
pub(crate) mod table2;
pub(crate) mod table3;
pub(crate) mod table4;
