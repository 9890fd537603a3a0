import jakarta.jms.IllegalStateException;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.util.List;

final class RefusalSteps {
    private RefusalSteps() {}

    private static Jms.Step step(String name, Class<? extends Exception> kind, Jms.InSession work) {
        return new Jms.Step(name, () -> Jms.in(Session.AUTO_ACKNOWLEDGE, session ->
            Jms.fails(kind, () -> work.run(session))));
    }

    static final List<Jms.Step> STEPS = List.of(
        step("is refused a wrong key", JMSSecurityException.class, session -> Jms.connected("wrong", "")),
        step("is told of a queue to send to that does not exist", InvalidDestinationException.class,
            session -> Jms.send(session, "jms-none", session.createTextMessage("x"))),
        step("is told of a queue to receive from that does not exist", InvalidDestinationException.class,
            session -> Jms.consumer(session, "jms-none")),
        step("is refused a message that is too large", JMSException.class,
            session -> Jms.send(session, "jms", session.createTextMessage("x".repeat(300_000)))),
        step("is refused a selector", JMSException.class,
            session -> session.createConsumer(session.createQueue("jms"), "colour = 'red'")),
        step("is refused a queue with sessions without one", JMSException.class,
            session -> Jms.consumer(session, "jms-sessions")),
        step("is refused a temporary queue", JMSException.class, Session::createTemporaryQueue),
        step("is refused a delay of delivery", JMSException.class, session -> {
            try (MessageProducer producer = session.createProducer(session.createQueue("jms"))) {
                producer.setDeliveryDelay(1000);
                producer.send(session.createTextMessage("later"));
            }
        }),
        step("cannot commit outside of a transaction", IllegalStateException.class, Session::commit));
}
