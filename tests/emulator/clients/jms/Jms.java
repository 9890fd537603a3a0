import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.qpid.jms.JmsConnectionFactory;

/**
 * What Qpid JMS can do, in numbered steps. The connection string in SERVICEBUS_CONNECTION_STRING is of a namespace with
 * the queues jms, jms-other and jms-sessions (with sessions), and the topic jms-topic with the subscription all.
 */
public final class Jms {
    interface Work {
        void run() throws Exception;
    }

    interface InSession {
        void run(Session session) throws Exception;
    }

    record Step(String name, Work work) {}

    static final String CONNECTION = System.getenv("SERVICEBUS_CONNECTION_STRING");
    static final URI ENDPOINT = URI.create(CONNECTION.replaceFirst("Endpoint=([^;]+);.*", "$1"));
    static final int INDIVIDUAL_ACKNOWLEDGE = 101;
    static final long SOON = 20_000, BRIEFLY = 300;

    static Connection connection;

    private Jms() {}

    public static void main(String[] arguments) throws Exception {
        connection = connected(field("SharedAccessKey"), "");
        List<Step> steps = new ArrayList<>(MessageSteps.STEPS);
        steps.addAll(SettlementSteps.STEPS);
        steps.addAll(TransactionSteps.STEPS);
        steps.addAll(RefusalSteps.STEPS);
        int passed = 0;
        for (int number = 1; number <= steps.size(); number++) {
            passed += walk(number, steps.get(number - 1)) ? 1 : 0;
        }
        System.out.printf("# pass %d%n", passed);
        System.exit(passed == steps.size() ? 0 : 1);
    }

    private static boolean walk(int number, Step step) {
        try {
            step.work().run();
        } catch (Exception | AssertionError failure) {
            System.out.printf("not ok %d %s: %s%n", number, step.name(), failure);
            return false;
        }
        System.out.printf("ok %d %s%n", number, step.name());
        return true;
    }

    static String field(String name) {
        return CONNECTION.replaceFirst(".*[;]" + name + "=([^;]*).*", "$1");
    }

    /** A started connection; the options are those of a URI of the library. */
    static Connection connected(String key, String options) throws JMSException {
        boolean isPlain = CONNECTION.contains("UseDevelopmentEmulator=true");
        String uri = (isPlain ? "amqp://" : "amqps://") + ENDPOINT.getAuthority() + "?jms.prefetchPolicy.all=0" + options;
        JmsConnectionFactory factory = new JmsConnectionFactory(field("SharedAccessKeyName"), key, uri);
        Connection opened = factory.createConnection();
        opened.start();
        return opened;
    }

    static void in(int mode, InSession work) throws Exception {
        try (Session session = connection.createSession(mode)) {
            work.run(session);
        }
    }

    static void send(Session session, String queue, Message... messages) throws JMSException {
        try (MessageProducer producer = session.createProducer(session.createQueue(queue))) {
            for (Message message : messages) {
                producer.send(message);
            }
        }
    }

    static void send(String... bodies) throws Exception {
        in(Session.AUTO_ACKNOWLEDGE, session -> {
            for (String body : bodies) {
                send(session, "jms", session.createTextMessage(body));
            }
        });
    }

    static MessageConsumer consumer(Session session, String queue) throws JMSException {
        return session.createConsumer(session.createQueue(queue));
    }

    /** The next message, which has to come. */
    static Message next(MessageConsumer consumer) throws JMSException {
        return Objects.requireNonNull(consumer.receive(SOON), "no message came");
    }

    /** Receives messages with these bodies, in this order, and no more. */
    static void expect(String queue, String... bodies) throws Exception {
        in(Session.AUTO_ACKNOWLEDGE, session -> {
            try (MessageConsumer consumer = consumer(session, queue)) {
                for (String body : bodies) {
                    equal(next(consumer).getBody(String.class), body);
                }
                equal(consumer.receive(BRIEFLY), null);
            }
        });
    }

    static void equal(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError(found + " is not " + wanted);
        }
    }

    static void fails(Class<? extends Exception> kind, Work work) throws Exception {
        try {
            work.run();
        } catch (Exception failure) {
            equal(kind.isInstance(failure) ? "" : failure.toString(), "");
            return;
        }
        throw new AssertionError("there was no " + kind.getSimpleName());
    }
}
