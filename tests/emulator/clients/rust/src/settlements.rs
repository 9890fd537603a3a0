//! Every outcome, receive and delete, and sessions of Service Bus.

use crate::client::{equal, failures, name, next, nothing, text_of, Client, Fallible, Received, DEAD, QUEUE, SESSIONS};
use crate::Done;
use fe2o3_amqp::types::definitions::{AmqpError, Error, SenderSettleMode};
use fe2o3_amqp::types::messaging::{AmqpValue, Body, Message, Modified, Properties, Source};
use fe2o3_amqp::types::primitives::{OrderedMap, Symbol, Value};
use fe2o3_amqp::Receiver;

fn modified(failed: bool, undeliverable: bool) -> Modified {
    Modified { delivery_failed: Some(failed), undeliverable_here: Some(undeliverable), message_annotations: None }
}

/// Sends a text; returns a receiver, and what it received.
async fn received(client: &mut Client, text: &str) -> Fallible<(Receiver, Received)> {
    client.send(QUEUE, &[text]).await?;
    let mut receiver = client.receiver(QUEUE).await?;
    let found = next(&mut receiver).await?;
    Ok((receiver, found))
}

/// Accepts the message when it comes again.
async fn again(mut receiver: Receiver) -> Fallible<Received> {
    let found = next(&mut receiver).await?;
    receiver.accept(&found).await?;
    receiver.close().await?;
    Ok(found)
}

pub async fn accepts(client: &mut Client) -> Done {
    let (receiver, found) = received(client, "done").await?;
    receiver.accept(&found).await?;
    receiver.close().await?;
    client.expect(QUEUE, &[]).await
}

pub async fn accepts_many_at_once(client: &mut Client) -> Done {
    client.send(QUEUE, &["1", "2", "3"]).await?;
    let mut receiver = client.receiver(QUEUE).await?;
    let mut found = Vec::new();
    for _ in 0..3 {
        found.push(next(&mut receiver).await?);
    }
    receiver.accept_all(&found).await?;
    receiver.close().await?;
    client.expect(QUEUE, &[]).await
}

pub async fn rejects_with_an_error(client: &mut Client) -> Done {
    let (receiver, found) = received(client, "bad").await?;
    receiver.reject(&found, Error::new(AmqpError::InvalidField, "broken".to_string(), None)).await?;
    receiver.close().await?;
    client.expect(DEAD, &["bad"]).await
}

pub async fn rejects_without_an_error(client: &mut Client) -> Done {
    let (receiver, found) = received(client, "bad").await?;
    receiver.reject(&found, None).await?;
    receiver.close().await?;
    client.expect(DEAD, &["bad"]).await
}

pub async fn releases_which_does_not_count(client: &mut Client) -> Done {
    let (receiver, found) = received(client, "back").await?;
    receiver.release(&found).await?;
    equal(failures(&again(receiver).await?), 0)
}

pub async fn modifies_which_counts(client: &mut Client) -> Done {
    let (receiver, found) = received(client, "failed").await?;
    receiver.modify(&found, modified(true, false)).await?;
    equal(failures(&again(receiver).await?), 1)
}

pub async fn modifies_with_properties(client: &mut Client) -> Done {
    let (receiver, found) = received(client, "x").await?;
    let mut changed = modified(true, false);
    changed.message_annotations = Some([(Symbol::from("step").into(), Value::Long(2))].into_iter().collect());
    receiver.modify(&found, changed).await?;
    let found = again(receiver).await?;
    let properties = found.message().application_properties.as_ref().ok_or("no properties")?;
    equal(format!("{:?}", properties.0.get("step")), "Some(Long(2))".to_string())
}

pub async fn defers(client: &mut Client) -> Done {
    let (mut receiver, found) = received(client, "later").await?;
    receiver.modify(&found, modified(true, true)).await?;
    nothing(&mut receiver).await?;
    Ok(receiver.close().await?)
}

pub async fn buries_what_failed_as_often_as_allowed(client: &mut Client) -> Done {
    client.send(QUEUE, &["poison"]).await?;
    let mut receiver = client.receiver(QUEUE).await?;
    for _ in 0..3 {
        let found = next(&mut receiver).await?;
        receiver.modify(&found, modified(true, false)).await?;
    }
    receiver.close().await?;
    client.expect(DEAD, &["poison"]).await
}

pub async fn receives_and_deletes(client: &mut Client) -> Done {
    client.send(QUEUE, &["gone"]).await?;
    let builder = Receiver::builder().name(name()).source(QUEUE).sender_settle_mode(SenderSettleMode::Settled);
    let mut receiver = builder.attach(&mut client.session).await?;
    equal(text_of(&next(&mut receiver).await?)?, "gone".to_string())?;
    receiver.close().await?;
    client.expect(QUEUE, &[]).await
}

/// A receiver of a session by its id, or of the next one.
pub async fn in_session(client: &mut Client, id: Value) -> Fallible<Receiver> {
    let mut filter = OrderedMap::new();
    filter.insert(Symbol::from("com.microsoft:session-filter"), id);
    let source = Source::builder().address(SESSIONS).filter(filter).build();
    Ok(Receiver::builder().name(name()).source(source).attach(&mut client.session).await?)
}

async fn sent_in_session(client: &mut Client, id: &str) -> Done {
    let mut sender = client.sender(SESSIONS).await?;
    let mut message = Message::from(Body::<Value>::Value(AmqpValue(Value::from(id))));
    message.properties = Some(Properties::builder().group_id(id.to_string()).build());
    crate::client::accepted(sender.send(message).await?)?;
    Ok(sender.close().await?)
}

pub async fn receives_in_a_session(client: &mut Client) -> Done {
    sent_in_session(client, "blue").await?;
    let receiver = in_session(client, Value::from("blue")).await?;
    equal(text_of(&again(receiver).await?)?, "blue".to_string())
}

pub async fn receives_the_next_session(client: &mut Client) -> Done {
    sent_in_session(client, "red").await?;
    let receiver = in_session(client, Value::Null).await?;
    let granted = format!("{:?}", receiver.source().as_ref().and_then(|source| source.filter.as_ref()));
    equal(granted.contains("red"), true)?;
    equal(text_of(&again(receiver).await?)?, "red".to_string())
}
