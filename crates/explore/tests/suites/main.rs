//! The suites of exploration, as one program.

mod agreement;
mod conditions;
mod documents;
mod journals;
mod models;
mod nets;
mod oracle;
mod ranks;
mod shared_table;
mod small_documents;
mod symbolic;
mod unbounded;
