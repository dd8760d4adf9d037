//! Remote hash-table designs, each written once over the verbs.
