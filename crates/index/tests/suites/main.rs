//! What no fabric may change about the indexes: each function of these suites is a test over each
//! of them, `cargo test -p farslot-index --test suites tcp::` for instance. What needs the
//! simulator's faults or its clock, and what needs tables of millions of slots, is in [`schemes`].

mod bad_input;
mod cache;
#[path = "../common/mod.rs"]
mod common;
mod cuckoo_costs;
mod cuckoo_map;
mod cuckoo_writers;
mod get_many;
mod heap;
mod hints;
mod hybrid;
mod linear_map;
mod multi_key;
mod relocation;
mod round_trips;
mod schemes;
mod sealed_map;
mod several_clients;
mod signatures;
mod write_many;

/// Every protocol, every kind of verb, and several clients at once.
mod protocols {
    use crate::{
        bad_input, cuckoo_costs, cuckoo_map, cuckoo_writers, get_many, heap, hints, hybrid,
        linear_map, multi_key, relocation, round_trips, sealed_map, several_clients, signatures,
        write_many,
    };

    farslot_testbed::suites! {
        every fabric
        {
            bad_input {
                the_longest_and_the_shortest_that_fit
            }
            cuckoo_costs {
                lookups
                writes
            }
            cuckoo_map {
                every_shape_is_a_map
            }
            cuckoo_writers {
                only_one_client_writes_until_it_resigns
                an_operation_may_be_dropped
                several_records_of_a_key_are_built_and_never_put
                a_resignation_hands_the_heap_over
            }
            get_many {
                answers_and_counters_are_those_of_single_gets
                a_queue_that_is_too_short_for_the_batch_is_waited_for
                without_memory_for_buffers_every_lookup_says_so
                a_batch_may_be_dropped_at_any_turn
            }
            heap {
                blocks_that_one_client_frees_serve_another
                a_flush_leaves_the_rest_of_a_run_to_others
                clients_share_a_heap
            }
            hints {
                old_hints_change_no_answer
                a_known_cluster_is_read_at_once
            }
            hybrid {
                records_stand_in_their_slots_if_they_fit
            }
            linear_map {
                every_slot_kind_is_a_map
            }
            multi_key {
                every_slot_kind_is_a_multimap
            }
            relocation {
                of_records_of_linear_tables
                of_records_of_race_tables
                of_records_of_cuckoo_tables
                of_records_of_duo_tables
            }
            round_trips {
                words
                pairs
                inline_records
                records_out_of_band
                a_lookup_that_wraps_reads_many_once
            }
            sealed_map {
                a_table_is_the_map_that_it_was_built_from
                a_table_that_is_not_built_says_so_and_one_that_is_changes_no_more
                long_records_of_variable_size
            }
            several_clients {
                of_a_linear_table_are_linearizable
                of_a_cuckoo_table_are_linearizable
                of_a_race_table_are_linearizable
                of_a_duo_owners_threads_are_linearizable
                of_a_sealed_table_find_all_or_nothing
            }
            signatures {
                uses_come_round_and_records_stay
            }
            write_many {
                outcomes_and_records_are_those_of_a_map
                what_is_done_in_place_is_booked_as_single_writes
                records_out_of_band_are_written_at_once_and_booked_as_single_writes
                keys_of_a_race_table_come_and_go_at_once_and_are_booked_as_single_writes
                replaces_of_several_clients_count_every_success
                batches_of_several_classes_leave_side_by_side
                lookups_among_writes_are_answered_and_change_nothing
                a_key_that_several_clients_put_is_new_to_one_of_them
            }
        }
    }
}

/// What else holds for all fabrics alike: where a verb takes long, `scripts/test-verbs` leaves it
/// out unless asked.
mod properties {
    use crate::{
        bad_input, cache, cuckoo_costs, cuckoo_writers, get_many, heap, hints, hybrid, linear_map,
        round_trips, sealed_map, signatures,
    };

    farslot_testbed::suites! {
        every fabric
        {
            bad_input {
                empty_keys
                lengths_that_a_table_does_not_hold
                records_of_64_bits_in_word_slots
                the_one_pattern_that_stands_for_nothing
                short_fields_have_no_reserved_pattern
            }
            cache {
                a_cache_refuses_nothing
                what_is_read_stays_while_others_pass
                full_buckets_forget_too
                what_is_read_in_batches_stays
                what_does_not_end_stays
                values_that_seem_to_be_records_are_forgotten_too
            }
            cuckoo_costs {
                a_seal_spares_the_next_miss_its_look
                the_model_knows_what_a_miss_reads
            }
            cuckoo_writers {
                coroutines_of_one_client_become_the_writer_together
                a_sealed_table_refuses_writes_and_serves
                only_an_empty_table_is_built
                what_cannot_be_built_leaves_the_table_as_it_was
            }
            get_many {
                the_load_factor_is_asked_for_as_often_as_by_single_gets
                other_schemes_read_in_batches_as_by_single_gets
            }
            heap {
                a_client_for_each_put_fills_a_table
                a_heap_takes_any_sizes_at_any_time
                clients_that_flush_leave_nothing_behind
                a_refused_record_takes_nothing
                churn_of_one_size_needs_no_more_than_its_records
                churn_of_all_sizes_leaks_no_block
                churn_of_replaced_inline_records_leaks_no_block
            }
            hints {
                a_fixed_read_size_is_lengthened_too
                long_clusters_are_split
                an_old_hint_costs_one_more_read
                the_largest_clusters_are_kept
                short_clusters_are_read_as_before
            }
            hybrid {
                keys_of_all_lengths_share_a_table
                a_head_that_says_more_than_its_slot_holds_is_unreadable
                a_cuckoo_table_has_no_hybrid_slots
            }
            linear_map {
                a_full_table_refuses_new_keys_and_serves_the_others
                a_full_heap_refuses_records_and_serves_the_others
            }
            round_trips {
                chunks_are_round_trips_unless_the_next_is_asked_for_ahead
            }
            sealed_map {
                keys_of_other_sizes_are_refused_and_nothing_is_written
                every_key_can_be_stored_but_not_all_of_them_inline
                knuths_hash_serves_all_forms_and_orders
                a_key_may_have_very_many_records
            }
            signatures {
                churn_leaks_no_heap_bucket
            }
        }
    }
}
