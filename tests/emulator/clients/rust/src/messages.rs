//! Messages there and back, credit, sessions of AMQP.

use crate::client::{accepted, equal, next, nothing, text_of, Client, OTHER, QUEUE};
use crate::Done;
use fe2o3_amqp::link::delivery::Sendable;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::types::messaging::{
    AmqpSequence, AmqpValue, ApplicationProperties, Batch, Body, Data, Header, Message, MessageId, Priority, Properties,
};
use fe2o3_amqp::types::primitives::{Binary, Timestamp, Value};
use fe2o3_amqp::{Sender, Session};

fn value(value: impl Into<Value>) -> Message<Body<Value>> {
    Message::from(Body::Value(AmqpValue(value.into())))
}

pub async fn sends_a_text_and_receives_it(client: &mut Client) -> Done {
    client.send(QUEUE, &["größe"]).await?;
    client.expect(QUEUE, &["größe"]).await
}

pub async fn sends_values_of_every_kind(client: &mut Client) -> Done {
    let values = [Value::Bool(true), Value::Ubyte(1), Value::Ushort(2), Value::Uint(3), Value::Ulong(u64::MAX)];
    let more =
        [Value::Byte(-1), Value::Short(-2), Value::Int(-3), Value::Long(i64::MIN), Value::Char('x'), Value::Null];
    for sent in values.into_iter().chain(more) {
        let found = client.there(value(sent.clone())).await?;
        equal(found.body(), &Body::Value(AmqpValue(sent)))?;
    }
    Ok(())
}

pub async fn sends_data_of_no_bytes_and_of_many(client: &mut Client) -> Done {
    for bytes in [vec![], vec![0, 255, 10], vec![7; 200_000]] {
        let sent = Body::Data(Batch::new(vec![Data(Binary::from(bytes))]));
        equal(client.there(Message::from(sent.clone())).await?.body(), &sent)?;
    }
    Ok(())
}

pub async fn sends_a_sequence(client: &mut Client) -> Done {
    let sent = Body::Sequence(Batch::new(vec![AmqpSequence(vec![Value::Long(1), Value::from("b")])]));
    equal(client.there(Message::from(sent.clone())).await?.body(), &sent)
}

pub async fn keeps_properties_and_their_types(client: &mut Client) -> Done {
    let mut sent = value("x");
    let properties = ApplicationProperties::builder()
        .insert("long", 7i64)
        .insert("int", 7i32)
        .insert("ulong", u64::MAX)
        .insert("time", Timestamp::from_milliseconds(1_700_000_000_123))
        .insert("text", "é")
        .build();
    sent.application_properties = Some(properties.clone());
    equal(client.there(sent).await?.message().application_properties.as_ref(), Some(&properties))
}

pub async fn keeps_header_and_ids(client: &mut Client) -> Done {
    let mut sent = value("x");
    sent.header = Some(Header { durable: true, priority: Priority(7), ..Default::default() });
    let properties =
        Properties::builder().message_id(u64::MAX).correlation_id("c".to_string()).subject("s").to("t").build();
    sent.properties = Some(properties);
    let found = client.there(sent).await?;
    let properties = found.message().properties.as_ref().ok_or("no properties")?;
    equal(properties.message_id.as_ref(), Some(&MessageId::Ulong(u64::MAX)))?;
    equal(properties.subject.as_deref(), Some("s"))?;
    equal(found.message().header.as_ref().map(|header| header.priority.0), Some(7))
}

pub async fn gives_an_id_to_a_message_without_one(client: &mut Client) -> Done {
    let found = client.there(value("x")).await?;
    let id = found.message().properties.as_ref().and_then(|properties| properties.message_id.as_ref());
    match id {
        Some(MessageId::String(id)) => equal(id.len(), 32),
        other => Err(format!("{other:?} is no id").into()),
    }
}

pub async fn annotates_what_it_delivers(client: &mut Client) -> Done {
    let found = client.there(value("x")).await?;
    let annotations = format!("{:?}", found.message().message_annotations);
    for name in ["x-opt-sequence-number", "x-opt-enqueued-time", "x-opt-locked-until"] {
        equal((name, annotations.contains(name)), (name, true))?;
    }
    Ok(())
}

pub async fn sends_without_waiting_for_outcomes(client: &mut Client) -> Done {
    let mut sender = client.sender(QUEUE).await?;
    let mut outcomes = Vec::new();
    for text in ["1", "2", "3"] {
        outcomes.push(sender.send_batchable(text.to_string()).await?);
    }
    for outcome in outcomes {
        accepted(outcome.await?)?;
    }
    sender.close().await?;
    client.expect(QUEUE, &["1", "2", "3"]).await
}

pub async fn sends_settled_messages(client: &mut Client) -> Done {
    let mut sender = client.sender(QUEUE).await?;
    let sendable = Sendable::builder().message("settled".to_string()).settled(true).build();
    sender.send(sendable).await?;
    sender.close().await?;
    client.expect(QUEUE, &["settled"]).await
}

pub async fn receives_in_order(client: &mut Client) -> Done {
    let texts: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    client.send(QUEUE, &texts).await?;
    client.expect(QUEUE, &texts).await
}

pub async fn grants_credit_itself(client: &mut Client) -> Done {
    client.send(QUEUE, &["1", "2"]).await?;
    let mut receiver = client.receiver(QUEUE).await?;
    receiver.set_credit_mode(CreditMode::Manual);
    receiver.set_credit(1).await?;
    for text in ["1", "2"] {
        let found = next(&mut receiver).await?;
        equal(text_of(&found)?, text.to_string())?;
        receiver.accept(&found).await?;
        receiver.set_credit(1).await?;
    }
    Ok(receiver.close().await?)
}

pub async fn drains_an_empty_queue(client: &mut Client) -> Done {
    let mut receiver = client.receiver(QUEUE).await?;
    receiver.set_credit_mode(CreditMode::Manual);
    receiver.set_credit(5).await?;
    receiver.drain().await?;
    nothing(&mut receiver).await?;
    Ok(receiver.close().await?)
}

pub async fn sends_to_several_queues_in_one_session(client: &mut Client) -> Done {
    let (mut one, mut other) = (client.sender(QUEUE).await?, client.sender(OTHER).await?);
    accepted(one.send("one".to_string()).await?)?;
    accepted(other.send("other".to_string()).await?)?;
    one.close().await?;
    other.close().await?;
    client.expect(QUEUE, &["one"]).await?;
    client.expect(OTHER, &["other"]).await
}

pub async fn sends_in_several_sessions(client: &mut Client) -> Done {
    for text in ["1", "2", "3"] {
        let mut session = Session::begin(&mut client.connection).await?;
        let mut sender = Sender::attach(&mut session, crate::client::name(), QUEUE).await?;
        accepted(sender.send(text.to_string()).await?)?;
        sender.close().await?;
        session.end().await?;
    }
    client.expect(QUEUE, &["1", "2", "3"]).await
}
