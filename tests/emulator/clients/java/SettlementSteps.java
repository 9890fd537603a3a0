import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.models.AbandonOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;

final class SettlementSteps {
    private SettlementSteps() {}

    static final List<ServiceBus.Step> STEPS = List.of(
        new ServiceBus.Step("finds among the dead what was abandoned as often as allowed", () -> {
            Clients.sender.sendMessage(Checks.text("poison"));
            for (int count = 0; count < 3; count++) {
                Clients.receiver.abandon(Checks.next(Clients.receiver));
            }
            ServiceBusReceivedMessage found = Checks.next(Clients.dead);
            Checks.equal(List.of(found.getBody().toString(), found.getDeadLetterReason()),
                List.of("poison", "MaxDeliveryCountExceeded"));
            Clients.dead.complete(found);
        }),
        new ServiceBus.Step("dead-letters without a reason", () -> {
            Clients.receiver.deadLetter(Checks.sendAndReceive(Checks.text("bad")));
            ServiceBusReceivedMessage found = Checks.next(Clients.dead);
            Checks.equal(found.getDeadLetterReason(), null);
            Clients.dead.complete(found);
        }),
        new ServiceBus.Step("settles deferred messages in every other way too", () -> {
            ServiceBusReceivedMessage found = Checks.sendAndReceive(Checks.text("deferred"));
            long number = found.getSequenceNumber();
            Clients.receiver.defer(found);
            Clients.receiver.abandon(Clients.receiver.receiveDeferredMessage(number),
                new AbandonOptions().setPropertiesToModify(Map.of("abandoned", true)));
            ServiceBusReceivedMessage again = Clients.receiver.receiveDeferredMessage(number);
            Checks.equal(again.getApplicationProperties(), Map.of("abandoned", true));
            Clients.receiver.defer(again);
            Clients.receiver.deadLetter(Clients.receiver.receiveDeferredMessageBatch(List.of(number)).stream()
                .findFirst().orElseThrow(), new DeadLetterOptions().setDeadLetterReason("enough"));
            ServiceBusReceivedMessage last = Checks.next(Clients.dead);
            Checks.equal(last.getDeadLetterReason(), "enough");
            Clients.dead.complete(last);
        }),
        new ServiceBus.Step("gets nothing for a deferred message that is not there", () ->
            Checks.equal(Clients.receiver.receiveDeferredMessageBatch(List.of(999_999L)).stream().toList(), List.of())),
        new ServiceBus.Step("renews a lock", () -> {
            ServiceBusReceivedMessage found = Checks.sendAndReceive(Checks.text("slow"));
            OffsetDateTime before = found.getLockedUntil();
            Thread.sleep(20);
            Checks.check(Clients.receiver.renewMessageLock(found).isAfter(before), "it was not renewed");
            Clients.receiver.complete(found);
        }),
        new ServiceBus.Step("cannot settle a message whose lock is lost", () -> {
            String quick = Clients.PREFIX + "quick";
            Clients.administration.createQueue(quick,
                new CreateQueueOptions().setLockDuration(Duration.ofSeconds(1)).setMaxDeliveryCount(1));
            try (ServiceBusSenderClient through = Clients.sender(quick);
                    ServiceBusReceiverClient lapsed = Clients.deadLetters(quick);
                    ServiceBusReceiverClient late = Clients.builder().receiver().queueName(quick).disableAutoComplete()
                        .maxAutoLockRenewDuration(Duration.ZERO).buildClient()) {
                through.sendMessage(Checks.text("lost"));
                ServiceBusReceivedMessage found = Checks.next(late);
                Checks.equal(Checks.next(lapsed).getDeadLetterReason(), "MaxDeliveryCountExceeded");
                Checks.failsWith(ServiceBusFailureReason.MESSAGE_LOCK_LOST, () -> late.complete(found));
                Checks.failsWith(ServiceBusFailureReason.MESSAGE_LOCK_LOST, () -> late.renewMessageLock(found));
            }
        }),
        new ServiceBus.Step("cancels one scheduled message; the SDK reports none that is not there", () -> {
            long number = Clients.sender.scheduleMessage(Checks.text("never"), OffsetDateTime.now().plusDays(1));
            Clients.sender.cancelScheduledMessage(number);
            Checks.equal(Checks.messagesIn(Clients.QUEUE), 0L);
            Clients.sender.cancelScheduledMessage(number);
        }));
}
