//! What every fabric over the memory of a node must do, written once, and what each does besides.
//! One program, since each would link the whole library. Tests that count a process's files or
//! memory run themselves again in a process of their own.

mod alone;
mod attacked;
#[path = "../common/authority.rs"]
mod authority;
mod bed;
mod calls;
mod exchange;
mod freed;
#[path = "../common/fuzz.rs"]
mod fuzz;
mod later;
mod memory;
mod processes;
#[path = "../common/proxy.rs"]
mod proxy;
#[path = "../common/raw.rs"]
mod raw;
mod served;
mod shm_alone;
mod shm_processes;
mod sim_calls;
mod sim_endpoint;
mod sim_faults;
mod sim_later;
mod sim_memory;
mod sim_timing;
mod sim_trace;
mod tcp_admission;
mod tcp_alone;
mod tcp_attacks;
mod tcp_batches;
mod tcp_errors;
mod tcp_fences;
mod tcp_fuzz;
mod tcp_half_open;
mod tcp_hostile;
mod tcp_later;
mod tcp_many_connections;
mod tcp_rates;
mod tcp_reconnect;
mod tcp_siege;
mod tcp_tls;

/// What the memory of nodes does, whoever executes the verbs.
mod over_memory {
    use crate::memory;

    farslot_testbed::suites! {
        {
            shm: crate::bed::Shm,
            tcp: crate::bed::Tcp,
            tls: crate::bed::Tls,
            #[ignore = "needs an RDMA device: scripts/test-verbs runs it"]
            verbs: crate::bed::Verbs,
        }
        {
            memory {
                every_verb_does_what_it_says
                bounds_rights_and_alignment_are_checked
                a_full_send_queue_waits_and_one_doorbell_carries_many_verbs
                round_trips_are_the_longest_chain_of_completions
                what_is_read_with_a_change_is_read_behind_it_and_booked_with_it
                dropped_verbs_and_timeouts_leave_everything_usable
                only_time_that_is_waited_counts_as_waiting
                a_mailbox_that_nobody_empties_refuses_in_time
                a_gather_into_too_small_a_buffer_is_refused
                a_gather_goes_to_one_node
            }
        }
    }
}

/// What an agent of another process and its clients do, by whichever network.
mod over_network {
    use crate::processes;

    farslot_testbed::suites! {
        {
            tcp: crate::bed::Tcp,
            #[ignore = "needs an RDMA device: scripts/test-verbs runs it"]
            verbs: crate::bed::Verbs,
        }
        {
            processes {
                a_killed_node_is_noticed_at_once_and_its_successor_is_told_apart
                an_idle_client_knows_that_its_node_was_killed
                some_nodes_may_be_down_at_first_and_come_later
            }
        }
    }
}

/// What an agent and its clients of this process do, by whichever network.
mod over_network_in_one_process {
    use crate::{calls, exchange, later, memory};

    farslot_testbed::suites! {
        {
            tcp: crate::bed::Tcp,
            tls: crate::bed::Tls,
            #[ignore = "needs an RDMA device: scripts/test-verbs runs it"]
            verbs: crate::bed::Verbs,
        }
        {
            memory {
                random_verbs_do_what_a_model_does
            }
            calls {
                calls_that_are_refused_are_counted_and_told
            }
            later {
                an_agent_that_ends_leaves_calls_in_doubt_and_tickets_void
            }
            exchange {
                a_batch_of_large_verbs_arrives_whole
                verbs_of_all_kinds_complete_in_the_order_of_their_posting
                atomics_are_atomic_against_those_of_all_clients
                words_are_read_and_written_whole
                messages_of_several_clients_arrive_once_in_the_order_of_each
                messages_that_nobody_took_outlast_their_sender_and_the_agent
                dropped_reads_write_into_nobody_elses_buffer
                only_those_who_know_the_secret_are_let_in_and_the_others_are_told_why
                a_revoked_grant_ends_at_once_for_those_who_have_it_and_for_nobody_else
            }
        }
    }
}

/// What calls do where the owner's processors answer them.
mod over_calls {
    use crate::{calls, later};

    farslot_testbed::suites! {
        {
            shm: crate::bed::Shm,
            attached: crate::bed::Attached,
            tcp: crate::bed::Tcp,
            tls: crate::bed::Tls,
            #[ignore = "needs an RDMA device: scripts/test-verbs runs it"]
            verbs: crate::bed::Verbs,
        }
        {
            calls {
                a_call_is_answered_with_what_its_handler_says
                calls_of_several_clients_are_each_executed_once_in_the_order_of_each
                calls_and_other_verbs_complete_with_their_own_answers
            }
            later {
                answers_that_come_later_reach_their_own_callers
                a_ticket_that_is_dropped_fails_its_call_and_no_other
                an_answer_that_is_to_come_holds_back_its_own_connection_alone
                a_client_that_leaves_frees_what_its_calls_hold
            }
        }
    }
}

/// What calls do that travel to their owner.
mod over_connections {
    use crate::later;

    farslot_testbed::suites! {
        {
            attached: crate::bed::Attached,
            tcp: crate::bed::Tcp,
            tls: crate::bed::Tls,
            #[ignore = "needs an RDMA device: scripts/test-verbs runs it"]
            verbs: crate::bed::Verbs,
        }
        {
            later {
                more_calls_than_may_wait_are_not_taken_and_none_is_lost
            }
        }
    }
}
