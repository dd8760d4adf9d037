//! Stores in the hands of several threads and real processes, some of which are killed: each
//! function of these suites is a test over each fabric that processes can share, `cargo test -p
//! farslot --test processes tcp::` for instance.

mod alive;
mod banks;
#[path = "../common/mod.rs"]
mod common;
mod examples;
mod killed;
mod nodes;
mod one_node;
mod queues;
mod rights;
mod roles;
mod sets;
mod threads;
mod together;

/// Not a test of its own: what another process does.
#[test]
fn other_process() {
    roles::play();
}

farslot_testbed::suites! {
    {
        shm: crate::common::Shm,
        tcp: crate::common::Tcp,
    }
    {
        killed {
            a_client_leaves_whole_records_and_a_table_that_serves
            an_owner_is_named_and_its_address_is_free
            an_owner_that_ends_by_itself_frees_its_address_too
            a_writer_that_was_alone_is_replaced_and_nothing_is_lost
            a_writer_that_was_alone_and_ends_by_itself_leaves_the_table_to_the_next
            readers_beside_a_writer_never_miss_what_it_moves
            a_builder_leaves_a_table_that_says_so
        }
        alive {
            a_writer_that_is_alive_is_replaced_by_force_alone
            a_writer_that_was_killed_is_replaced_though_nobody_has_waited_for_it
        }
        rights {
            a_reader_answers_and_is_refused_every_write
            a_reader_of_a_sealed_table_needs_no_more
            a_reader_of_a_queue_sees_its_front_and_changes_nothing
        }
        queues {
            who_is_killed_takes_one_item_along_at_the_most
        }
        sets {
            who_is_killed_leaves_whole_elements_that_others_find
        }
        threads {
            share_a_table
            large_values_leave_room_for_smaller_ones
            a_hot_key_is_never_unreadable
            of_many_creators_of_one_name_one_wins
        }
        together {
            eight_processes_open_and_use_every_scheme
        }
    }
}
