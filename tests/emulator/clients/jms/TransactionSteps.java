import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import java.util.List;

/** Transacted sessions. */
final class TransactionSteps {
    private TransactionSteps() {}

    private static Jms.Step step(String name, Jms.InSession work) {
        return new Jms.Step(name, () -> Jms.in(Session.SESSION_TRANSACTED, work));
    }

    static final List<Jms.Step> STEPS = List.of(
        step("sends what is received once it is committed", session -> {
            Jms.send(session, "jms", session.createTextMessage("a"), session.createTextMessage("b"));
            Jms.expect("jms");
            session.commit();
            Jms.expect("jms", "a", "b");
        }),
        step("sends what is never received once it is rolled back", session -> {
            Jms.send(session, "jms", session.createTextMessage("never"));
            session.rollback();
            Jms.send(session, "jms", session.createTextMessage("after"));
            session.commit();
            Jms.expect("jms", "after");
        }),
        step("receives for good what it commits", session -> {
            Jms.send("1", "2");
            try (MessageConsumer consumer = Jms.consumer(session, "jms")) {
                Jms.next(consumer);
                Jms.next(consumer);
                session.commit();
            }
            Jms.expect("jms");
        }),
        step("receives again what it rolls back", session -> {
            Jms.send("again");
            try (MessageConsumer consumer = Jms.consumer(session, "jms")) {
                Jms.next(consumer);
                session.rollback();
                Message found = Jms.next(consumer);
                Jms.equal(found.getJMSRedelivered(), true);
                session.commit();
            }
            Jms.expect("jms");
        }),
        step("receives and answers in one transaction", session -> {
            Jms.send("asked");
            try (MessageConsumer consumer = Jms.consumer(session, "jms")) {
                Jms.next(consumer);
                Jms.send(session, "jms", session.createTextMessage("answered"));
                session.commit();
            }
            Jms.expect("jms", "answered");
        }),
        step("goes on after several transactions", session -> {
            for (int count = 0; count < 20; count++) {
                Jms.send(session, "jms", session.createTextMessage("x"));
                if (count % 2 == 0) {
                    session.rollback();
                } else {
                    session.commit();
                }
            }
            Jms.expect("jms", "x", "x", "x", "x", "x", "x", "x", "x", "x", "x");
        }),
        new Jms.Step("rolls back a session that closes", () -> {
            Jms.in(Session.SESSION_TRANSACTED,
                session -> Jms.send(session, "jms", session.createTextMessage("never")));
            Jms.expect("jms");
        }));
}
