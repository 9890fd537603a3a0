//! What is refused, with the condition of the error. Each has a connection of its own, for after the refusal of a link
//! the library may go on with another that has the same handle before the refused one has ended.

use crate::client::{name, says, Client, QUEUE, SESSIONS};
use crate::settlements::in_session;
use crate::Done;
use fe2o3_amqp::types::messaging::Target;
use fe2o3_amqp::types::primitives::Value;
use fe2o3_amqp::Sender;

pub async fn a_wrong_key(_: &mut Client) -> Done {
    says("Auth", Client::open(Some("wrong")).await.map(|_| ()))
}

pub async fn a_queue_to_send_to_that_does_not_exist(_: &mut Client) -> Done {
    let mut client = Client::open(None).await?;
    says("NotFound", client.sender("rust-none").await.map(|_| ()))
}

pub async fn a_queue_to_receive_from_that_does_not_exist(_: &mut Client) -> Done {
    let mut client = Client::open(None).await?;
    says("NotFound", client.receiver("rust-none").await.map(|_| ()))
}

pub async fn a_queue_with_sessions_without_one(_: &mut Client) -> Done {
    let mut client = Client::open(None).await?;
    says("NotAllowed", client.receiver(SESSIONS).await.map(|_| ()))
}

pub async fn a_session_that_is_locked(_: &mut Client) -> Done {
    let mut client = Client::open(None).await?;
    let _holder = in_session(&mut client, Value::from("held")).await?;
    says("IncomingSourceIsNone", in_session(&mut client, Value::from("held")).await.map(|_| ()))
}

pub async fn a_message_that_is_too_large(_: &mut Client) -> Done {
    let mut client = Client::open(None).await?;
    let mut sender = client.sender(QUEUE).await?;
    says("MessageSizeExceeded", sender.send("x".repeat(300_000)).await.map(|outcome| format!("{outcome:?}")))
}

pub async fn a_dynamic_node(_: &mut Client) -> Done {
    let mut client = Client::open(None).await?;
    let target = Target::builder().dynamic(true).build();
    says("argument-error", Sender::builder().name(name()).target(target).attach(&mut client.session).await.map(|_| ()))
}
