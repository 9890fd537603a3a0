import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.List;

final class SettlementSteps {
    private static final int ACCEPTED = 1, REJECTED = 2, RELEASED = 3, FAILED = 4, UNDELIVERABLE = 5;
    private static final String DEAD = "jms/$DeadLetterQueue";

    private SettlementSteps() {}

    /** Receives one message and acknowledges it with this outcome. */
    private static void acknowledge(int outcome) throws Exception {
        Jms.in(Jms.INDIVIDUAL_ACKNOWLEDGE, session -> {
            try (MessageConsumer consumer = Jms.consumer(session, "jms")) {
                Message found = Jms.next(consumer);
                found.setIntProperty("JMS_AMQP_ACK_TYPE", outcome);
                found.acknowledge();
            }
        });
    }

    private static int deliveries(String body) throws Exception {
        List<Integer> counts = new ArrayList<>();
        Jms.in(Session.AUTO_ACKNOWLEDGE, session -> {
            try (MessageConsumer consumer = Jms.consumer(session, "jms")) {
                Message found = Jms.next(consumer);
                Jms.equal(found.getBody(String.class), body);
                Jms.equal(found.getJMSRedelivered(), found.getIntProperty("JMSXDeliveryCount") > 1);
                counts.add(found.getIntProperty("JMSXDeliveryCount"));
            }
        });
        return counts.get(0);
    }

    private static void takesAll(int mode) throws Exception {
        Jms.send("1", "2");
        Jms.in(mode, session -> {
            try (MessageConsumer consumer = Jms.consumer(session, "jms")) {
                Jms.next(consumer);
                Jms.next(consumer).acknowledge();
            }
        });
        Jms.expect("jms");
    }

    static final List<Jms.Step> STEPS = List.of(
        new Jms.Step("acknowledges by itself", () -> takesAll(Session.AUTO_ACKNOWLEDGE)),
        new Jms.Step("acknowledges when it comes to it", () -> takesAll(Session.DUPS_OK_ACKNOWLEDGE)),
        new Jms.Step("acknowledges all of a session", () -> takesAll(Session.CLIENT_ACKNOWLEDGE)),
        new Jms.Step("recovers what was not acknowledged", () -> {
            Jms.send("again");
            Jms.in(Session.CLIENT_ACKNOWLEDGE, session -> {
                try (MessageConsumer consumer = Jms.consumer(session, "jms")) {
                    Jms.next(consumer);
                    session.recover();
                    Message found = Jms.next(consumer);
                    Jms.equal(found.getJMSRedelivered(), true);
                    found.acknowledge();
                }
            });
            Jms.expect("jms");
        }),
        new Jms.Step("accepts one message", () -> {
            Jms.send("done", "left");
            acknowledge(ACCEPTED);
            Jms.expect("jms", "left");
        }),
        new Jms.Step("rejects a message, which is then dead", () -> {
            Jms.send("bad");
            acknowledge(REJECTED);
            Jms.expect("jms");
            Jms.expect(DEAD, "bad");
        }),
        new Jms.Step("releases a message, which does not count", () -> {
            Jms.send("back");
            acknowledge(RELEASED);
            Jms.equal(deliveries("back"), 1);
        }),
        new Jms.Step("gives a message back as failed, which counts", () -> {
            Jms.send("failed");
            acknowledge(FAILED);
            Jms.equal(deliveries("failed"), 2);
        }),
        new Jms.Step("finds among the dead what failed as often as allowed", () -> {
            Jms.send("poison");
            for (int count = 0; count < 3; count++) {
                acknowledge(FAILED);
            }
            Jms.expect(DEAD, "poison");
        }),
        new Jms.Step("defers a message, which does not come again", () -> {
            Jms.send("deferred");
            acknowledge(UNDELIVERABLE);
            Jms.expect("jms");
        }),
        new Jms.Step("receives again what was prefetched by a consumer that closed, when its lock is over", () -> {
            Jms.send("1", "2", "3");
            try (Connection fetching = Jms.connected(Jms.field("SharedAccessKey"), "&jms.prefetchPolicy.all=10");
                    Session session = fetching.createSession();
                    MessageConsumer consumer = Jms.consumer(session, "jms")) {
                Jms.equal(Jms.next(consumer).getBody(String.class), "1");
            }
            Jms.expect("jms", "2", "3");
        }),
        new Jms.Step("receives in several sessions of a connection", () -> {
            Jms.send("1", "2");
            Jms.in(Session.AUTO_ACKNOWLEDGE, one -> Jms.in(Session.AUTO_ACKNOWLEDGE, two -> {
                try (MessageConsumer first = Jms.consumer(one, "jms");
                        MessageConsumer second = Jms.consumer(two, "jms")) {
                    Jms.equal(Jms.next(first).getBody(String.class), "1");
                    Jms.equal(Jms.next(second).getBody(String.class), "2");
                }
            }));
        }));
}
