import com.azure.core.util.BinaryData;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusMessageBatch;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.EntityStatus;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.CreateMessageBatchOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import com.azure.messaging.servicebus.models.ServiceBusMessageState;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** One of each kind. */
final class FirstSteps {
    private FirstSteps() {}

    static final List<ServiceBus.Step> STEPS = List.of(
        new ServiceBus.Step("creates queues with their properties", () -> {
            Clients.administration.createQueue(Clients.QUEUE, new CreateQueueOptions().setMaxDeliveryCount(3)
                .setLockDuration(Duration.ofSeconds(10)).setUserMetadata("größe & <x>"));
            Clients.administration.createQueue(Clients.PAIR);
            Clients.administration.createQueue(Clients.SESSIONS, new CreateQueueOptions().setSessionRequired(true));
            QueueProperties found = Clients.administration.getQueue(Clients.QUEUE);
            Checks.equal(List.of(found.getMaxDeliveryCount(), found.getLockDuration(), found.getUserMetadata(),
                found.isSessionRequired(), found.getStatus()),
                List.of(3, Duration.ofSeconds(10), "größe & <x>", false, EntityStatus.ACTIVE));
        }),
        new ServiceBus.Step("sends a message and receives it with all its properties", () -> {
            Clients.sender = Clients.sender(Clients.QUEUE);
            Clients.receiver = Clients.receiver(Clients.QUEUE);
            Clients.dead = Clients.deadLetters(Clients.QUEUE);
            Map<String, Object> properties = Map.of("text", "é", "whole", 7, "long", 7L, "part", 1.5, "yes", true);
            ServiceBusMessage sent = new ServiceBusMessage(BinaryData.fromString("body")).setMessageId("m-1")
                .setCorrelationId("c-1").setSubject("subject").setTo("to").setReplyTo("reply")
                .setReplyToSessionId("reply-session").setContentType("text/plain").setPartitionKey("key")
                .setTimeToLive(Duration.ofMinutes(1));
            sent.getApplicationProperties().putAll(properties);
            ServiceBusReceivedMessage found = Checks.sendAndReceive(sent);
            Checks.equal(List.of(found.getBody().toString(), found.getMessageId(), found.getCorrelationId(),
                found.getSubject(), found.getTo(), found.getReplyTo(), found.getReplyToSessionId()),
                List.of("body", "m-1", "c-1", "subject", "to", "reply", "reply-session"));
            Checks.equal(List.of(found.getContentType(), found.getPartitionKey(), found.getTimeToLive(),
                found.getDeliveryCount(), found.getState()),
                List.of("text/plain", "key", Duration.ofMinutes(1), 0L, ServiceBusMessageState.ACTIVE));
            Checks.equal(found.getApplicationProperties(), properties);
            Checks.check(found.getLockedUntil().isAfter(OffsetDateTime.now()), "it is not locked");
            Checks.equal(Duration.between(found.getEnqueuedTime(), found.getExpiresAt()), Duration.ofMinutes(1));
            Clients.receiver.complete(found);
        }),
        new ServiceBus.Step("fills a batch until it is full, and sends it", () -> {
            ServiceBusMessageBatch batch = Clients.sender.createMessageBatch(
                new CreateMessageBatchOptions().setMaximumSizeInBytes(2000));
            while (batch.tryAddMessage(Checks.text("x".repeat(100)))) {
                continue;
            }
            Checks.check(batch.getCount() > 5 && batch.getSizeInBytes() <= 2000, "it holds " + batch.getCount());
            Clients.sender.sendMessages(batch);
            for (int count = 0; count < batch.getCount(); count++) {
                Clients.receiver.complete(Checks.next(Clients.receiver));
            }
        }),
        new ServiceBus.Step("schedules messages, and cancels them", () -> {
            OffsetDateTime tomorrow = OffsetDateTime.now(ZoneOffset.UTC).plusDays(1).truncatedTo(ChronoUnit.MILLIS);
            // Each walk over the numbers that the SDK returns schedules the messages again.
            List<Long> numbers = new ArrayList<>();
            Clients.sender.scheduleMessages(List.of(Checks.text("a"), Checks.text("b")), tomorrow)
                .forEach(numbers::add);
            ServiceBusReceivedMessage found = Checks.peek(Clients.receiver, numbers.get(0), 1).get(0);
            Checks.equal(List.of(found.getState(), found.getScheduledEnqueueTime()),
                List.of(ServiceBusMessageState.SCHEDULED, tomorrow));
            Clients.sender.cancelScheduledMessages(numbers);
            Checks.equal(Checks.peek(Clients.receiver, 0, 5).size(), 0);
        }),
        new ServiceBus.Step("abandons with properties, which are merged and count a delivery", () -> {
            ServiceBusMessage message = Checks.text("again");
            message.getApplicationProperties().putAll(Map.of("kept", 1, "changed", "old"));
            Clients.receiver.abandon(Checks.sendAndReceive(message),
                new AbandonOptions().setPropertiesToModify(Map.of("changed", "new", "added", true)));
            ServiceBusReceivedMessage found = Checks.next(Clients.receiver);
            Checks.equal(found.getApplicationProperties(), Map.of("kept", 1, "changed", "new", "added", true));
            Checks.equal(found.getDeliveryCount(), 1L);
            Clients.receiver.complete(found);
        }),
        new ServiceBus.Step("defers, and receives by sequence number", () -> {
            ServiceBusReceivedMessage found = Checks.sendAndReceive(Checks.text("later"));
            Clients.receiver.defer(found, new DeferOptions().setPropertiesToModify(Map.of("step", "two")));
            Checks.equal(Checks.peek(Clients.receiver, found.getSequenceNumber(), 1).get(0).getState(),
                ServiceBusMessageState.DEFERRED);
            ServiceBusReceivedMessage later = Clients.receiver.receiveDeferredMessage(found.getSequenceNumber());
            Checks.equal(later.getApplicationProperties().get("step"), "two");
            Clients.receiver.complete(later);
        }),
        new ServiceBus.Step("dead-letters with a reason and properties", () -> {
            Clients.receiver.deadLetter(Checks.sendAndReceive(Checks.text("bad")), new DeadLetterOptions()
                .setDeadLetterReason("broken").setDeadLetterErrorDescription("cannot be read")
                .setPropertiesToModify(Map.of("attempt", 3)));
            ServiceBusReceivedMessage found = Checks.next(Clients.dead);
            Checks.equal(List.of(found.getDeadLetterReason(), found.getDeadLetterErrorDescription(),
                found.getApplicationProperties().get("attempt")), List.of("broken", "cannot be read", 3));
            Clients.dead.complete(found);
        }),
        new ServiceBus.Step("peeks without taking", () -> {
            Clients.sender.sendMessages(List.of(Checks.text("first"), Checks.text("second")));
            ServiceBusReceivedMessage first = Checks.peek(Clients.receiver, 0, 1).get(0);
            List<ServiceBusReceivedMessage> rest = Checks.peek(Clients.receiver, first.getSequenceNumber() + 1, 5);
            Checks.equal(List.of(first.getBody().toString(), rest.get(0).getBody().toString()),
                List.of("first", "second"));
            Checks.expect(Clients.receiver, "first", "second");
        }),
        new ServiceBus.Step("accepts a session by its id, receives in order, and keeps its state", () -> {
            try (ServiceBusSenderClient through = Clients.sender(Clients.SESSIONS)) {
                for (String body : List.of("1", "2", "3")) {
                    through.sendMessage(Checks.text(body).setSessionId("blue"));
                }
                through.sendMessage(Checks.text("red").setSessionId("red"));
            }
            try (ServiceBusReceiverClient blue = Clients.session("blue")) {
                Checks.equal(blue.getSessionId(), "blue");
                Checks.expect(blue, "1", "2", "3");
                Checks.equal(blue.getSessionState(), null);
                blue.setSessionState("step 5".getBytes());
                Checks.equal(new String(blue.getSessionState()), "step 5");
            }
        }),
        new ServiceBus.Step("receives from subscriptions what their rules let pass", () -> {
            Clients.administration.createTopic(Clients.TOPIC);
            Clients.administration.createSubscription(Clients.TOPIC, "all");
            SqlRuleFilter big = new SqlRuleFilter("size > 5 AND sys.Label = @subject");
            big.getParameters().put("@subject", "parcel");
            Clients.administration.createSubscription(Clients.TOPIC, "some", "big", new CreateSubscriptionOptions(),
                new CreateRuleOptions(big).setAction(new SqlRuleAction("SET big = 'yes'")));
            try (ServiceBusSenderClient through = Clients.publisher();
                    ServiceBusReceiverClient all = Clients.subscribed("all");
                    ServiceBusReceiverClient some = Clients.subscribed("some")) {
                for (Map.Entry<String, Integer> each : List.of(Map.entry("small", 1), Map.entry("large", 10))) {
                    ServiceBusMessage message = Checks.text(each.getKey()).setSubject("parcel");
                    message.getApplicationProperties().put("size", each.getValue());
                    through.sendMessage(message);
                }
                Checks.expect(all, "small", "large");
                ServiceBusReceivedMessage large = Checks.next(some);
                Checks.equal(List.of(large.getBody().toString(), large.getApplicationProperties().get("big")),
                    List.of("large", "yes"));
                some.complete(large);
            }
        }));
}
