import com.azure.core.amqp.exception.AmqpErrorCondition;
import com.azure.core.amqp.exception.AmqpException;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;

final class SessionSteps {
    private SessionSteps() {}

    static final List<ServiceBus.Step> STEPS = List.of(
        new ServiceBus.Step("accepts the next session, and peeks and defers in it", () -> {
            try (ServiceBusSessionReceiverClient accepting =
                        Clients.sessionsOf(Clients.SESSIONS, Duration.ofSeconds(20));
                    ServiceBusReceiverClient red = accepting.acceptNextSession()) {
                Checks.equal(red.getSessionId(), "red");
                Checks.equal(red.peekMessage().getBody().toString(), "red");
                ServiceBusReceivedMessage found = Checks.next(red);
                red.defer(found);
                Checks.equal(Checks.peek(red, found.getSequenceNumber(), 1).get(0).getState(),
                    ServiceBusMessageState.DEFERRED);
                ServiceBusReceivedMessage later = red.receiveDeferredMessage(found.getSequenceNumber());
                Checks.equal(later.getSessionId(), "red");
                red.complete(later);
            }
        }),
        new ServiceBus.Step("renews the lock of a session", () -> {
            try (ServiceBusReceiverClient blue = Clients.session("blue")) {
                OffsetDateTime before = blue.renewSessionLock();
                Thread.sleep(20);
                Checks.check(blue.renewSessionLock().isAfter(before), "it was not renewed");
            }
        }),
        new ServiceBus.Step("finds the state of a session again, and clears it", () -> {
            try (ServiceBusReceiverClient blue = Clients.session("blue")) {
                Checks.equal(new String(blue.getSessionState()), "step 5");
                blue.setSessionState(null);
                Checks.equal(blue.getSessionState(), null);
            }
        }),
        new ServiceBus.Step("cannot accept a session that is locked", () -> {
            try (ServiceBusReceiverClient blue = Clients.session("blue")) {
                Checks.equal(blue.getSessionId(), "blue");
                try {
                    Clients.session("blue");
                    throw new AssertionError("it was accepted twice");
                } catch (AmqpException failure) {
                    Checks.equal(failure.getErrorCondition(), AmqpErrorCondition.SESSION_CANNOT_BE_LOCKED);
                }
            }
        }),
        new ServiceBus.Step("finds no next session where there is none", () -> {
            try (ServiceBusSessionReceiverClient impatient =
                    Clients.sessionsOf(Clients.SESSIONS, Duration.ofSeconds(2))) {
                Checks.fails(IllegalStateException.class, impatient::acceptNextSession);
            }
        }),
        new ServiceBus.Step("is refused a queue with sessions without one", () -> {
            try (ServiceBusReceiverClient without = Clients.receiver(Clients.SESSIONS)) {
                Checks.fails(RuntimeException.class, () -> Checks.receive(without, 1, Duration.ofSeconds(5)));
            }
        }));
}
