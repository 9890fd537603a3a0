//! A connection with a session, and what steps do again and again.

use crate::Done;
use fe2o3_amqp::connection::ConnectionHandle;
use fe2o3_amqp::link::delivery::Delivery;
use fe2o3_amqp::sasl_profile::SaslProfile;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::messaging::{Body, Message, Outcome};
use fe2o3_amqp::types::primitives::Value;
use fe2o3_amqp::{Connection, Receiver, Sender, Session};
use std::error::Error;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::timeout;

pub const QUEUE: &str = "rust";
pub const OTHER: &str = "rust-other";
pub const SESSIONS: &str = "rust-sessions";
pub const DEAD: &str = "rust/$DeadLetterQueue";
const SOON: Duration = Duration::from_secs(20);
const BRIEFLY: Duration = Duration::from_millis(300);

pub type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;
pub type Received = Delivery<Body<Value>>;

static LINKS: AtomicU32 = AtomicU32::new(0);

pub struct Client {
    pub connection: ConnectionHandle<()>,
    pub session: SessionHandle<()>,
}

impl Client {
    /// Connects with the key of the connection string, or with another.
    pub async fn open(key: Option<&str>) -> Fallible<Client> {
        let text = std::env::var("SERVICEBUS_CONNECTION_STRING")?;
        let field = |name: &str| {
            let found = text.split(';').find_map(|part| part.strip_prefix(name));
            found.unwrap_or_default().to_string()
        };
        let password = key.map(str::to_string).unwrap_or_else(|| field("SharedAccessKey="));
        let scheme = if text.contains("UseDevelopmentEmulator=true") { "amqp" } else { "amqps" };
        let mut connection = Connection::builder()
            .container_id("rust")
            .alt_tls_establishment(true)
            .sasl_profile(SaslProfile::Plain { username: field("SharedAccessKeyName="), password })
            .open(format!("{scheme}://{}", field("Endpoint=sb://")).as_str())
            .await?;
        let session = Session::begin(&mut connection).await?;
        Ok(Client { connection, session })
    }

    pub async fn close(mut self) -> Done {
        self.session.end().await?;
        Ok(self.connection.close().await?)
    }

    pub async fn sender(&mut self, queue: &str) -> Fallible<Sender> {
        Ok(Sender::attach(&mut self.session, name(), queue).await?)
    }

    pub async fn receiver(&mut self, queue: &str) -> Fallible<Receiver> {
        Ok(Receiver::attach(&mut self.session, name(), queue).await?)
    }

    /// Sends texts to a queue.
    pub async fn send(&mut self, queue: &str, texts: &[&str]) -> Done {
        let mut sender = self.sender(queue).await?;
        for text in texts {
            accepted(sender.send(text.to_string()).await?)?;
        }
        Ok(sender.close().await?)
    }

    /// Receives messages with these texts in this order, accepts them, and finds no more.
    pub async fn expect(&mut self, queue: &str, texts: &[&str]) -> Done {
        let mut receiver = self.receiver(queue).await?;
        for text in texts {
            let found = next(&mut receiver).await?;
            equal(text_of(&found)?, text.to_string())?;
            receiver.accept(&found).await?;
        }
        nothing(&mut receiver).await?;
        Ok(receiver.close().await?)
    }

    /// Sends a message and accepts the one that comes.
    pub async fn there(&mut self, message: Message<Body<Value>>) -> Fallible<Received> {
        let mut sender = self.sender(QUEUE).await?;
        accepted(sender.send(message).await?)?;
        sender.close().await?;
        let mut receiver = self.receiver(QUEUE).await?;
        let found = next(&mut receiver).await?;
        receiver.accept(&found).await?;
        receiver.close().await?;
        Ok(found)
    }
}

/// A name that no other link has.
pub fn name() -> String {
    format!("link-{}", LINKS.fetch_add(1, Ordering::Relaxed))
}

/// The next message, which has to come.
pub async fn next(receiver: &mut Receiver) -> Fallible<Received> {
    Ok(timeout(SOON, receiver.recv::<Body<Value>>()).await.map_err(|_| "no message came")??)
}

pub async fn nothing(receiver: &mut Receiver) -> Done {
    match timeout(BRIEFLY, receiver.recv::<Body<Value>>()).await {
        Err(_) => Ok(()),
        Ok(found) => Err(format!("there is more: {:?}", found?.body()).into()),
    }
}

pub fn text_of(found: &Received) -> Fallible<String> {
    match found.body() {
        Body::Value(value) => match &value.0 {
            Value::String(text) => Ok(text.clone()),
            other => Err(format!("{other:?} is no text").into()),
        },
        other => Err(format!("{other:?} is no value").into()),
    }
}

/// How often a message was given back as failed.
pub fn failures(found: &Received) -> u32 {
    found.message().header.as_ref().map_or(0, |header| header.delivery_count)
}

pub fn accepted(outcome: Outcome) -> Done {
    match outcome {
        Outcome::Accepted(_) => Ok(()),
        other => Err(format!("{other:?} is not accepted").into()),
    }
}

pub fn equal<T: PartialEq + Debug>(found: T, wanted: T) -> Done {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{found:?} is not {wanted:?}").into())
}

/// Expects an error whose text has this in it.
pub fn says<T, E: Debug>(text: &str, outcome: Result<T, E>) -> Done {
    match outcome {
        Err(error) if format!("{error:?}").contains(text) => Ok(()),
        Err(error) => Err(format!("{error:?} does not say {text}").into()),
        Ok(_) => Err(format!("there was no error {text}").into()),
    }
}
