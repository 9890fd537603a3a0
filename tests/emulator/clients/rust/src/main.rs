//! What a general AMQP 1.0 library for Rust, fe2o3-amqp, can do, in numbered steps. The connection string in
//! SERVICEBUS_CONNECTION_STRING is of a namespace with the queues rust, rust-other and rust-sessions (with sessions).

mod client;
mod messages;
mod refusals;
mod settlements;
mod transactions;

use client::Client;
use std::error::Error;

/// What a step returns: it fails with the text of its error.
pub type Done = Result<(), Box<dyn Error + Send + Sync>>;

/// Walks the functions of modules as steps, which are named as they are.
macro_rules! walk {
    ($client:ident: $($module:ident::{$($step:ident),* $(,)?})*) => {{
        let (mut number, mut passed) = (0, 0);
        $($(
            number += 1;
            match $module::$step(&mut $client).await {
                Ok(()) => {
                    passed += 1;
                    println!("ok {number} {}", stringify!($step).replace('_', " "));
                }
                Err(error) => println!("not ok {number} {}: {error}", stringify!($step).replace('_', " ")),
            }
        )*)*
        println!("# pass {passed}");
        passed == number
    }};
}

#[tokio::main]
async fn main() -> Done {
    let mut client = Client::open(None).await?;
    let all_passed = walk!(client:
        messages::{
            sends_a_text_and_receives_it,
            sends_values_of_every_kind,
            sends_data_of_no_bytes_and_of_many,
            sends_a_sequence,
            keeps_properties_and_their_types,
            keeps_header_and_ids,
            gives_an_id_to_a_message_without_one,
            annotates_what_it_delivers,
            sends_without_waiting_for_outcomes,
            sends_settled_messages,
            receives_in_order,
            grants_credit_itself,
            drains_an_empty_queue,
            sends_to_several_queues_in_one_session,
            sends_in_several_sessions,
        }
        settlements::{
            accepts,
            accepts_many_at_once,
            rejects_with_an_error,
            rejects_without_an_error,
            releases_which_does_not_count,
            modifies_which_counts,
            modifies_with_properties,
            defers,
            buries_what_failed_as_often_as_allowed,
            receives_and_deletes,
            receives_in_a_session,
            receives_the_next_session,
        }
        refusals::{
            a_wrong_key,
            a_queue_to_send_to_that_does_not_exist,
            a_queue_to_receive_from_that_does_not_exist,
            a_queue_with_sessions_without_one,
            a_session_that_is_locked,
            a_message_that_is_too_large,
            a_dynamic_node,
        }
        transactions::{
            commits_a_send,
            rolls_back_a_send,
            commits_a_settlement,
            receives_again_after_a_roll_back,
            commits_sends_and_settlements_together,
            has_several_transactions_open,
            rolls_back_when_the_coordinator_closes,
        }
    );
    client.close().await?;
    std::process::exit(if all_passed { 0 } else { 1 });
}
