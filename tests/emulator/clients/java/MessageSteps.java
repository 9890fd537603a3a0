import com.azure.core.amqp.models.AmqpMessageBody;
import com.azure.core.amqp.models.AmqpMessageBodyType;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.IntStream;

final class MessageSteps {
    private MessageSteps() {}

    /** What comes of a message with this body, which is completed. */
    private static AmqpMessageBody body(AmqpMessageBody sent) {
        ServiceBusReceivedMessage found = Checks.sendAndReceive(new ServiceBusMessage(sent));
        Clients.receiver.complete(found);
        return found.getRawAmqpMessage().getBody();
    }

    static final List<ServiceBus.Step> STEPS = List.of(
        new ServiceBus.Step("sends bodies of no bytes and of many", () -> {
            for (byte[] sent : List.of(new byte[0], new byte[] {0, -1, 10}, new byte[200_000])) {
                ServiceBusReceivedMessage found = Checks.sendAndReceive(new ServiceBusMessage(sent));
                Checks.equal(found.getBody().toBytes().length, sent.length);
                Clients.receiver.complete(found);
            }
        }),
        new ServiceBus.Step("sends AMQP messages with a value", () -> {
            for (Object value : List.of("text", 5, 1.5, true, Map.of("a", 1L))) {
                Checks.equal(body(AmqpMessageBody.fromValue(value)).getValue(), value);
            }
        }),
        new ServiceBus.Step("sends AMQP messages with a sequence", () -> {
            AmqpMessageBody found = body(AmqpMessageBody.fromSequence(List.of(1L, "b")));
            Checks.equal(found.getBodyType(), AmqpMessageBodyType.SEQUENCE);
            Checks.equal(found.getSequence(), List.of(1L, "b"));
        }),
        new ServiceBus.Step("keeps the types of properties", () -> {
            Map<String, Object> properties = Map.of("byte", (byte) 1, "short", (short) 2, "float", 0.5f, "char", 'x',
                "uuid", UUID.randomUUID(), "time", new Date(1_700_000_000_123L));
            ServiceBusMessage message = Checks.text("x");
            message.getApplicationProperties().putAll(properties);
            ServiceBusReceivedMessage found = Checks.sendAndReceive(message);
            Checks.equal(found.getApplicationProperties(), properties);
            Clients.receiver.complete(found);
        }),
        new ServiceBus.Step("settles a message that was sent without an id", () -> {
            ServiceBusReceivedMessage found = Checks.sendAndReceive(Checks.text("no id"));
            Checks.equal(found.getMessageId().length(), 32);
            Clients.receiver.complete(found);
        }),
        new ServiceBus.Step("sends a list of messages and receives them in order", () -> {
            List<String> bodies = IntStream.range(0, 100).mapToObj(Integer::toString).toList();
            Clients.sender.sendMessages(bodies.stream().map(Checks::text).toList());
            List<String> found = new ArrayList<>();
            while (found.size() < 100) {
                for (var each : Checks.receive(Clients.receiver, 100 - found.size(), Duration.ofSeconds(5))) {
                    found.add(each.getBody().toString());
                    Clients.receiver.complete(each);
                }
            }
            Checks.equal(found, bodies);
            Checks.equal(Checks.messagesIn(Clients.QUEUE), 0L);
        }),
        new ServiceBus.Step("is refused a message that is too large", () ->
            Checks.failsWith(ServiceBusFailureReason.MESSAGE_SIZE_EXCEEDED,
                () -> Clients.sender.sendMessage(new ServiceBusMessage(new byte[300_000])))),
        new ServiceBus.Step("receives nothing from an empty queue", () -> {
            Checks.equal(Checks.receive(Clients.receiver, 1, Duration.ofMillis(500)).size(), 0);
            Checks.equal(Checks.peek(Clients.receiver, 0, 1).size(), 0);
        }),
        new ServiceBus.Step("receives and deletes", () -> {
            try (ServiceBusSenderClient through = Clients.sender(Clients.PAIR);
                    ServiceBusReceiverClient deleting = Clients.deleting(Clients.PAIR)) {
                through.sendMessage(Checks.text("gone"));
                ServiceBusReceivedMessage found = Checks.next(deleting);
                Checks.fails(UnsupportedOperationException.class, () -> deleting.complete(found));
            }
            Checks.equal(Checks.messagesIn(Clients.PAIR), 0L);
        }),
        new ServiceBus.Step("receives scheduled messages when they are due", () -> {
            OffsetDateTime due = OffsetDateTime.now(ZoneOffset.UTC).plusSeconds(2).truncatedTo(ChronoUnit.MILLIS);
            Clients.sender.scheduleMessage(Checks.text("a"), due);
            Clients.sender.sendMessage(Checks.text("b").setScheduledEnqueueTime(due));
            for (int count = 0; count < 2; count++) {
                ServiceBusReceivedMessage found = Checks.next(Clients.receiver);
                Checks.check(!found.getEnqueuedTime().isBefore(due), "it came too early");
                Clients.receiver.complete(found);
            }
        }),
        new ServiceBus.Step("recognises duplicates", () -> {
            String once = Clients.PREFIX + "once";
            Clients.administration.createQueue(once, new CreateQueueOptions().setDuplicateDetectionRequired(true));
            try (ServiceBusSenderClient through = Clients.sender(once)) {
                through.sendMessage(Checks.text("same").setMessageId("same"));
                through.sendMessage(Checks.text("same").setMessageId("same"));
            }
            Checks.equal(Checks.messagesIn(once), 1L);
        }),
        new ServiceBus.Step("dead-letters messages that expire", () -> {
            String brief = Clients.PREFIX + "brief";
            Clients.administration.createQueue(brief,
                new CreateQueueOptions().setDeadLetteringOnMessageExpiration(true));
            try (ServiceBusSenderClient through = Clients.sender(brief);
                    ServiceBusReceiverClient expired = Clients.deadLetters(brief)) {
                through.sendMessage(Checks.text("old").setTimeToLive(Duration.ofMillis(200)));
                Checks.equal(Checks.next(expired).getDeadLetterReason(), "TTLExpiredException");
            }
        }));
}
