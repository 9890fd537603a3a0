//! Transactions: a coordinator, sends and settlements in one session.

use crate::client::{accepted, equal, name, next, text_of, Client, Fallible, QUEUE};
use crate::Done;
use fe2o3_amqp::transaction::{
    Controller, Transaction, TransactionDischarge, TransactionPosting, TransactionRetirement,
};

async fn controller(client: &mut Client) -> Fallible<Controller> {
    Ok(Controller::attach(&mut client.session, name()).await?)
}

pub async fn commits_a_send(client: &mut Client) -> Done {
    let (controller, mut sender) = (controller(client).await?, client.sender(QUEUE).await?);
    let transaction = Transaction::declare(&controller, None).await?;
    accepted(transaction.post(&mut sender, "a".to_string()).await?)?;
    accepted(transaction.post(&mut sender, "b".to_string()).await?)?;
    client.expect(QUEUE, &[]).await?;
    transaction.commit().await?;
    client.expect(QUEUE, &["a", "b"]).await?;
    sender.close().await?;
    Ok(controller.close().await?)
}

pub async fn rolls_back_a_send(client: &mut Client) -> Done {
    let (controller, mut sender) = (controller(client).await?, client.sender(QUEUE).await?);
    let transaction = Transaction::declare(&controller, None).await?;
    accepted(transaction.post(&mut sender, "never".to_string()).await?)?;
    transaction.rollback().await?;
    sender.close().await?;
    controller.close().await?;
    client.expect(QUEUE, &[]).await
}

pub async fn commits_a_settlement(client: &mut Client) -> Done {
    client.send(QUEUE, &["done"]).await?;
    let (controller, mut receiver) = (controller(client).await?, client.receiver(QUEUE).await?);
    let found = next(&mut receiver).await?;
    let transaction = Transaction::declare(&controller, None).await?;
    transaction.accept(&mut receiver, &found).await?;
    transaction.commit().await?;
    receiver.close().await?;
    controller.close().await?;
    client.expect(QUEUE, &[]).await
}

pub async fn receives_again_after_a_roll_back(client: &mut Client) -> Done {
    client.send(QUEUE, &["kept"]).await?;
    let (controller, mut receiver) = (controller(client).await?, client.receiver(QUEUE).await?);
    let found = next(&mut receiver).await?;
    let transaction = Transaction::declare(&controller, None).await?;
    transaction.accept(&mut receiver, &found).await?;
    transaction.rollback().await?;
    receiver.close().await?;
    // The library has forgotten the delivery: it comes again when its lock is over.
    let mut receiver = client.receiver(QUEUE).await?;
    let again = next(&mut receiver).await?;
    equal(text_of(&again)?, "kept".to_string())?;
    receiver.accept(&again).await?;
    receiver.close().await?;
    Ok(controller.close().await?)
}

pub async fn commits_sends_and_settlements_together(client: &mut Client) -> Done {
    client.send(QUEUE, &["asked"]).await?;
    let (controller, mut receiver) = (controller(client).await?, client.receiver(QUEUE).await?);
    let mut sender = client.sender(QUEUE).await?;
    let found = next(&mut receiver).await?;
    let transaction = Transaction::declare(&controller, None).await?;
    transaction.accept(&mut receiver, &found).await?;
    accepted(transaction.post(&mut sender, "answered".to_string()).await?)?;
    transaction.commit().await?;
    sender.close().await?;
    receiver.close().await?;
    controller.close().await?;
    client.expect(QUEUE, &["answered"]).await
}

pub async fn has_several_transactions_open(client: &mut Client) -> Done {
    let (controller, mut sender) = (controller(client).await?, client.sender(QUEUE).await?);
    let kept = Transaction::declare(&controller, None).await?;
    let left = Transaction::declare(&controller, None).await?;
    accepted(kept.post(&mut sender, "kept".to_string()).await?)?;
    accepted(left.post(&mut sender, "left".to_string()).await?)?;
    left.rollback().await?;
    kept.commit().await?;
    sender.close().await?;
    controller.close().await?;
    client.expect(QUEUE, &["kept"]).await
}

pub async fn rolls_back_when_the_coordinator_closes(client: &mut Client) -> Done {
    let (controller, mut sender) = (controller(client).await?, client.sender(QUEUE).await?);
    let transaction = Transaction::declare(&controller, None).await?;
    accepted(transaction.post(&mut sender, "never".to_string()).await?)?;
    std::mem::forget(transaction);
    controller.close().await?;
    sender.close().await?;
    client.expect(QUEUE, &[]).await
}
