//! Far-memory hash tables: stores, tables and their catalog.
