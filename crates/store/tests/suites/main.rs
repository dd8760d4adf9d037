//! What no fabric may change about stores: each function of these suites is a test over each of
//! them, `cargo test -p farslot --test suites tcp::` for instance. What needs threads or other
//! processes is in the tests `processes`.

mod calls;
mod catalog;
#[path = "../common/mod.rs"]
mod common;
mod cuckoo;
mod duo;
mod pool;
mod queues;
mod race;
mod sealed;
mod sets;
mod tables;
mod transactions;
mod writers;

/// Every protocol of a store.
mod protocols {
    use crate::{catalog, cuckoo, duo, queues, race, sealed, sets, tables, transactions, writers};

    farslot_testbed::suites! {
        {
            sim: crate::common::Sim,
            embedded: crate::common::Embedded,
            shm: crate::common::Shm,
            tcp: crate::common::Tcp,
            #[ignore = "needs a verbs device: scripts/test-verbs"]
            verbs: crate::common::Verbs,
        }
        {
            catalog {
                a_name_is_given_once_and_missing_ones_list_the_others
                memory_that_is_not_there_is_refused_and_the_rest_stays_usable
            }
            cuckoo {
                a_table_that_is_built_holds_every_record_and_never_changes
            }
            duo {
                a_lookup_beside_the_writer_finds_what_it_moves
                a_table_grows_under_its_readers
                a_table_for_its_writer_alone_grows_and_is_nobody_elses
            }
            queues {
                a_queue_does_what_a_deque_does
                each_item_is_popped_once_and_those_of_a_client_in_their_order
                a_queue_is_snapshotted_restored_and_copied_in_its_order
            }
            race {
                slots_of_removed_keys_serve_others
                a_table_grows_under_all_its_writers_and_then_is_full
            }
            sealed {
                what_was_built_is_found_by_everybody_and_nothing_else_is
                each_key_has_one_slot_of_a_table_with_a_perfect_hash_function
                a_table_that_is_not_built_says_so_until_it_is
            }
            sets {
                a_set_does_what_a_map_does_that_only_grows
                each_element_is_put_by_exactly_one_client
                a_set_is_snapshotted_restored_and_copied
            }
            tables {
                single_operations
                batches_iteration_and_survey
                a_batch_of_all_kinds_of_operations_does_each_of_them
                callbacks_of_writes_may_write
            }
            transactions {
                transfers_keep_the_sum_whoever_looks
                a_scan_is_a_range_at_one_moment
                a_scan_goes_down_as_it_goes_up
                a_transaction_without_a_closure_ends_with_its_first_conflict
                a_transaction_is_all_or_nothing
                a_table_that_is_made_again_is_found_again
                keys_and_values_are_held_to_the_sizes_of_the_table
            }
            writers {
                one_table_writes_until_it_is_closed_or_dropped_and_all_read
            }
        }
    }
}

/// What else holds for all fabrics alike: where a verb takes long, `scripts/test-verbs` leaves it
/// out unless asked.
mod properties {
    use crate::{catalog, cuckoo, duo, pool, queues, race, sealed, sets, tables, writers};

    farslot_testbed::suites! {
        {
            sim: crate::common::Sim,
            embedded: crate::common::Embedded,
            shm: crate::common::Shm,
            tcp: crate::common::Tcp,
            #[ignore = "needs a verbs device: scripts/test-verbs"]
            verbs: crate::common::Verbs,
        }
        {
            catalog {
                bad_names_and_options_are_refused
                the_catalog_takes_no_more_than_it_holds
                tables_are_dropped_renamed_and_emptied_under_their_users
                the_entries_and_the_memory_of_dropped_tables_are_used_again
            }
            cuckoo {
                the_catalog_keeps_the_scheme_with_its_shape
                options_that_no_cuckoo_table_can_have_are_named
                nearly_every_shape_holds_its_capacity
                a_full_table_says_so_and_serves_on
                several_records_a_key_are_built_and_not_put
                a_build_that_fails_leaves_the_table_empty_and_to_others
            }
            duo {
                the_catalog_keeps_the_scheme_with_its_shape
                options_that_no_duo_table_can_have_are_named
                tables_of_every_shape_hold_their_capacity
            }
            pool {
                a_table_has_all_of_its_node
                tables_share_their_node
                dropped_tables_leave_nothing
            }
            queues {
                a_queue_is_listed_renamed_cleared_and_dropped
                what_needs_keys_is_refused_of_a_queue_and_the_other_way_round
            }
            race {
                the_catalog_keeps_the_scheme_with_its_shape
                dead_records_are_counted_apart
                options_that_no_race_table_can_have_are_named
                tables_of_every_bucket_hold_their_capacity
            }
            sealed {
                every_write_says_that_the_table_is_sealed
                of_two_records_of_a_key_the_last_stays_unless_it_may_have_several
                options_that_are_not_for_sealed_tables_are_named
                no_records_make_an_empty_table
            }
            sets {
                a_full_set_says_so_and_loses_nothing
                sets_of_every_kind_hold_their_capacity
                what_a_set_cannot_do_is_refused_by_name
                options_that_no_set_can_have_are_named
                a_set_is_listed_renamed_cleared_and_dropped
            }
            tables {
                a_full_table_says_so_and_serves_on
                a_batch_names_what_failed_and_does_the_rest
                what_fails_in_a_long_batch_has_its_own_number
                keys_and_values_that_do_not_fit_are_named
                callbacks_may_use_the_table
            }
            writers {
                a_linear_table_needs_no_writer
            }
        }
    }
}

/// What calls do for tables where they look up and others write.
mod looked_up_by_calls {
    use crate::calls;

    farslot_testbed::suites! {
        {
            shm: crate::common::Shm,
            tcp: crate::common::Tcp,
            #[ignore = "needs a verbs device: scripts/test-verbs"]
            verbs: crate::common::Verbs,
        }
        {
            calls {
                whole_and_newest_records_are_found_while_others_write
                sealed_tables_are_looked_up_and_say_that_they_are_sealed
            }
        }
    }
}
