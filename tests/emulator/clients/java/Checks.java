import com.azure.messaging.servicebus.ServiceBusException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import java.time.Duration;
import java.util.List;
import java.util.Objects;

/** What steps do again and again: send, receive what has to come, compare, expect errors. */
final class Checks {
    private Checks() {}

    static void equal(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError(found + " is not " + wanted);
        }
    }

    static void check(boolean holds, String otherwise) {
        equal(holds ? "" : otherwise, "");
    }

    static void failsWith(ServiceBusFailureReason reason, ServiceBus.Work work) throws Exception {
        try {
            work.run();
        } catch (ServiceBusException failure) {
            check(failure.getReason().equals(reason), "another error: " + failure);
            return;
        }
        throw new AssertionError("there was no error " + reason);
    }

    static void fails(Class<? extends Exception> kind, ServiceBus.Work work) throws Exception {
        try {
            work.run();
        } catch (Exception failure) {
            check(kind.isInstance(failure), "another error: " + failure);
            return;
        }
        throw new AssertionError("there was no " + kind.getSimpleName());
    }

    static ServiceBusMessage text(String body) {
        return new ServiceBusMessage(body);
    }

    static List<ServiceBusReceivedMessage> receive(ServiceBusReceiverClient from, int count, Duration wait) {
        return from.receiveMessages(count, wait).stream().toList();
    }

    /** The next message, which has to come. */
    static ServiceBusReceivedMessage next(ServiceBusReceiverClient from) {
        List<ServiceBusReceivedMessage> messages = receive(from, 1, Duration.ofSeconds(20));
        equal(messages.size(), 1);
        return messages.get(0);
    }

    static ServiceBusReceivedMessage sendAndReceive(ServiceBusMessage message) {
        Clients.sender.sendMessage(message);
        return next(Clients.receiver);
    }

    /** Receives messages with these bodies, in this order, and completes them. */
    static void expect(ServiceBusReceiverClient from, String... bodies) {
        for (String body : bodies) {
            ServiceBusReceivedMessage found = next(from);
            equal(found.getBody().toString(), body);
            from.complete(found);
        }
    }

    static List<ServiceBusReceivedMessage> peek(ServiceBusReceiverClient from, long number, int count) {
        return from.peekMessages(count, number).stream().toList();
    }

    static long messagesIn(String queue) {
        return Clients.administration.getQueueRuntimeProperties(queue).getTotalMessageCount();
    }
}
