//! One-sided verbs on registered memory, the executor, and the fabrics that carry them.
