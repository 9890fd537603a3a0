import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusTransactionContext;
import com.azure.messaging.servicebus.models.CompleteOptions;
import com.azure.messaging.servicebus.models.DeadLetterOptions;
import com.azure.messaging.servicebus.models.DeferOptions;
import java.time.OffsetDateTime;
import java.util.List;

/** Transactions: the clients of one builder share a connection, to which a transaction belongs. */
final class TransactionSteps {
    interface Work {
        void run(ServiceBusSenderClient sender, ServiceBusReceiverClient receiver) throws Exception;
    }

    private TransactionSteps() {}

    private static void together(Work work) throws Exception {
        ServiceBusClientBuilder builder = Clients.builder();
        try (ServiceBusSenderClient sender = builder.sender().queueName(Clients.QUEUE).buildClient();
                ServiceBusReceiverClient receiver = builder.receiver().queueName(Clients.QUEUE).disableAutoComplete()
                    .buildClient()) {
            work.run(sender, receiver);
        }
    }

    static final List<ServiceBus.Step> STEPS = List.of(
        new ServiceBus.Step("sends in a transaction what is seen once it is committed", () ->
            together((sender, receiver) -> {
                ServiceBusTransactionContext transaction = sender.createTransaction();
                sender.sendMessage(Checks.text("a"), transaction);
                sender.sendMessages(List.of(Checks.text("b"), Checks.text("c")), transaction);
                Checks.equal(Checks.peek(receiver, 0, 5).size(), 0);
                sender.commitTransaction(transaction);
                Checks.expect(receiver, "a", "b", "c");
            })),
        new ServiceBus.Step("sends in a transaction what is never seen once it is rolled back", () ->
            together((sender, receiver) -> {
                ServiceBusTransactionContext transaction = sender.createTransaction();
                sender.sendMessage(Checks.text("never"), transaction);
                sender.rollbackTransaction(transaction);
                sender.sendMessage(Checks.text("after"));
                Checks.expect(receiver, "after");
            })),
        new ServiceBus.Step("completes and sends in one transaction", () ->
            together((sender, receiver) -> {
                sender.sendMessage(Checks.text("asked"));
                ServiceBusReceivedMessage asked = Checks.next(receiver);
                ServiceBusTransactionContext transaction = receiver.createTransaction();
                receiver.complete(asked, new CompleteOptions().setTransactionContext(transaction));
                sender.sendMessage(Checks.text("answered"), transaction);
                receiver.commitTransaction(transaction);
                Checks.expect(receiver, "answered");
                Checks.equal(Checks.messagesIn(Clients.QUEUE), 0L);
            })),
        new ServiceBus.Step("receives again what a rolled back transaction had completed, when its lock is over", () ->
            together((sender, receiver) -> {
                sender.sendMessage(Checks.text("kept"));
                ServiceBusReceivedMessage kept = Checks.next(receiver);
                ServiceBusTransactionContext transaction = receiver.createTransaction();
                receiver.complete(kept, new CompleteOptions().setTransactionContext(transaction));
                receiver.rollbackTransaction(transaction);
                Checks.equal(Checks.messagesIn(Clients.QUEUE), 1L);
                Checks.expect(receiver, "kept");
            })),
        new ServiceBus.Step("defers, dead-letters and schedules in a transaction", () ->
            together((sender, receiver) -> {
                sender.sendMessages(List.of(Checks.text("deferred"), Checks.text("dead")));
                ServiceBusReceivedMessage first = Checks.next(receiver);
                ServiceBusReceivedMessage second = Checks.next(receiver);
                ServiceBusTransactionContext transaction = sender.createTransaction();
                receiver.defer(first, new DeferOptions().setTransactionContext(transaction));
                receiver.deadLetter(second, new DeadLetterOptions().setTransactionContext(transaction));
                long number = sender.scheduleMessage(Checks.text("due"), OffsetDateTime.now().plusDays(1), transaction);
                sender.commitTransaction(transaction);
                receiver.complete(receiver.receiveDeferredMessage(first.getSequenceNumber()));
                Checks.expect(Clients.dead, "dead");
                sender.cancelScheduledMessage(number);
                Checks.equal(Checks.messagesIn(Clients.QUEUE), 0L);
            })),
        new ServiceBus.Step("moves a message from one queue to another in a transaction of several entities", () -> {
            ServiceBusClientBuilder builder = Clients.builder().enableCrossEntityTransactions();
            Clients.sender.sendMessage(Checks.text("moved"));
            try (ServiceBusReceiverClient from = builder.receiver().queueName(Clients.QUEUE).disableAutoComplete()
                        .buildClient();
                    ServiceBusSenderClient onwards = builder.sender().queueName(Clients.PAIR).buildClient();
                    ServiceBusReceiverClient there = Clients.receiver(Clients.PAIR)) {
                ServiceBusReceivedMessage found = Checks.next(from);
                ServiceBusTransactionContext transaction = from.createTransaction();
                from.complete(found, new CompleteOptions().setTransactionContext(transaction));
                onwards.sendMessage(new ServiceBusMessage(found), transaction);
                from.commitTransaction(transaction);
                Checks.expect(there, "moved");
            }
            Checks.equal(Checks.messagesIn(Clients.QUEUE), 0L);
        }));
}
