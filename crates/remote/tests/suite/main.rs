//! Remote data structures: against plain models, under the simulator's faults, and over every
//! fabric.

mod chained_faults;
mod chained_model;
mod fabrics;
mod held_leaves;
mod local;
mod ordered;
mod policy;
mod queue;
mod sim;

/// What structures do whatever carries their calls.
mod over_fabrics {
    use crate::fabrics;

    farslot_testbed::suites! {
        every fabric
        {
            fabrics {
                keys_of_a_table_and_a_map
                items_of_a_queue
            }
        }
    }
}
