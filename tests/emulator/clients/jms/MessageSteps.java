import jakarta.jms.BytesMessage;
import jakarta.jms.CompletionListener;
import jakarta.jms.DeliveryMode;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

final class MessageSteps {
    interface Check<M extends Message> {
        void of(M message) throws Exception;
    }

    private MessageSteps() {}

    /** Sends a message and checks the one that comes. */
    @SuppressWarnings("unchecked")
    private static <M extends Message> void there(Session session, M message, Check<M> check) throws Exception {
        Jms.send(session, "jms", message);
        try (MessageConsumer consumer = Jms.consumer(session, "jms")) {
            check.of((M) Jms.next(consumer));
        }
    }

    private static Jms.Step step(String name, Jms.InSession work) {
        return new Jms.Step(name, () -> Jms.in(Session.AUTO_ACKNOWLEDGE, work));
    }

    static final List<Jms.Step> STEPS = List.of(
        step("sends a text", session ->
            there(session, session.createTextMessage("größe"), found -> Jms.equal(found.getText(), "größe"))),
        step("sends bytes", session -> {
            BytesMessage sent = session.createBytesMessage();
            sent.writeBytes(new byte[] {0, -1, 10});
            there(session, sent, found -> Jms.equal(found.getBodyLength(), 3L));
        }),
        step("sends a map", session -> {
            MapMessage sent = session.createMapMessage();
            sent.setInt("n", 5);
            sent.setString("s", "x");
            there(session, sent, found -> Jms.equal(found.getBody(Map.class), Map.of("n", 5, "s", "x")));
        }),
        step("sends a stream", session -> {
            StreamMessage sent = session.createStreamMessage();
            sent.writeLong(7);
            sent.writeString("x");
            there(session, sent, found -> {
                Jms.equal(found.readLong(), 7L);
                Jms.equal(found.readString(), "x");
            });
        }),
        step("sends an object", session ->
            there(session, session.createObjectMessage("text"), found -> Jms.equal(found.getObject(), "text"))),
        step("sends a message without a body", session ->
            there(session, session.createMessage(), found -> Jms.equal(found.isBodyAssignableTo(Map.class), true))),
        step("keeps ids, type, priority and reply address", session -> {
            Message sent = session.createTextMessage("x");
            sent.setJMSCorrelationID("c-1");
            sent.setJMSType("subject");
            sent.setJMSReplyTo(session.createQueue("jms-other"));
            there(session, sent, found -> {
                Jms.equal(List.of(found.getJMSMessageID(), found.getJMSCorrelationID(), found.getJMSType()),
                    List.of(sent.getJMSMessageID(), "c-1", "subject"));
                Jms.equal(((Queue) found.getJMSReplyTo()).getQueueName(), "jms-other");
                Jms.equal(found.getJMSDeliveryMode(), DeliveryMode.PERSISTENT);
                Jms.equal(found.getJMSTimestamp(), sent.getJMSTimestamp());
            });
        }),
        step("keeps the types of properties", session -> {
            Message sent = session.createTextMessage("x");
            Map<String, Object> properties = Map.of("b", true, "y", (byte) 1, "h", (short) 2, "i", 3, "l", 4L,
                "f", 0.5f, "d", 1.5, "s", "é");
            for (Map.Entry<String, Object> each : properties.entrySet()) {
                sent.setObjectProperty(each.getKey(), each.getValue());
            }
            there(session, sent, found -> {
                for (Map.Entry<String, Object> each : properties.entrySet()) {
                    Jms.equal(found.getObjectProperty(each.getKey()), each.getValue());
                }
            });
        }),
        step("keeps the priority and the expiration", session -> {
            try (MessageProducer producer = session.createProducer(session.createQueue("jms"));
                    MessageConsumer consumer = Jms.consumer(session, "jms")) {
                producer.send(session.createTextMessage("x"), DeliveryMode.NON_PERSISTENT, 7, 60_000);
                Message found = Jms.next(consumer);
                Jms.equal(List.of(found.getJMSPriority(), found.getJMSDeliveryMode()),
                    List.of(7, DeliveryMode.NON_PERSISTENT));
                Jms.equal(found.getJMSExpiration() > System.currentTimeMillis(), true);
            }
        }),
        step("does not receive what has expired", session -> {
            try (MessageProducer producer = session.createProducer(session.createQueue("jms"))) {
                producer.send(session.createTextMessage("old"), DeliveryMode.PERSISTENT, 4, 1);
            }
            Thread.sleep(20);
            Jms.expect("jms");
        }),
        step("sends without waiting for the outcome", session -> {
            CompletableFuture<Message> outcome = new CompletableFuture<>();
            try (MessageProducer producer = session.createProducer(session.createQueue("jms"))) {
                producer.send(session.createTextMessage("later"), new CompletionListener() {
                    @Override
                    public void onCompletion(Message message) {
                        outcome.complete(message);
                    }

                    @Override
                    public void onException(Message message, Exception failure) {
                        outcome.completeExceptionally(failure);
                    }
                });
                outcome.get(20, TimeUnit.SECONDS);
            }
            Jms.expect("jms", "later");
        }),
        step("sends without a destination of the producer", session -> {
            try (MessageProducer producer = session.createProducer(null)) {
                for (String queue : List.of("jms", "jms-other")) {
                    producer.send(session.createQueue(queue), session.createTextMessage(queue));
                    Jms.expect(queue, queue);
                }
            }
        }),
        step("receives in order, and nothing from an empty queue", session -> {
            Jms.send("1", "2", "3");
            Jms.expect("jms", "1", "2", "3");
            try (MessageConsumer consumer = Jms.consumer(session, "jms")) {
                Jms.equal(consumer.receiveNoWait(), null);
            }
        }),
        step("listens to messages", session -> {
            CountDownLatch came = new CountDownLatch(3);
            try (MessageConsumer consumer = Jms.consumer(session, "jms")) {
                consumer.setMessageListener(message -> came.countDown());
                Jms.send("1", "2", "3");
                Jms.equal(came.await(20, TimeUnit.SECONDS), true);
            }
        }),
        step("sends 200,000 characters", session -> {
            TextMessage sent = session.createTextMessage("x".repeat(200_000));
            there(session, sent, found -> Jms.equal(found.getText().length(), 200_000));
        }),
        step("publishes to a topic, and receives from a subscription by its path", session -> {
            try (MessageProducer producer = session.createProducer(session.createTopic("jms-topic"))) {
                producer.send(session.createTextMessage("news"));
            }
            Jms.expect("jms-topic/Subscriptions/all", "news");
        }),
        step("sends in a group, which is a session", session -> {
            Message sent = session.createTextMessage("in a session");
            sent.setStringProperty("JMSXGroupID", "blue");
            Jms.send(session, "jms-sessions", sent);
        }));
}
