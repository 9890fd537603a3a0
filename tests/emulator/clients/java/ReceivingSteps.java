import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusProcessorClient;
import com.azure.messaging.servicebus.ServiceBusReceivedMessageContext;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusRuleManagerClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleAction;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Processors, streams, prefetching, and rules over AMQP. */
final class ReceivingSteps {
    private ReceivingSteps() {}

    /** Runs a processor until it has this many messages and the queue is empty. */
    private static void processes(String queue, ServiceBusProcessorClient processor, BlockingQueue<String> bodies,
            int count) throws Exception {
        try (processor) {
            processor.start();
            for (int came = 0; came < count; came++) {
                Checks.check(bodies.poll(20, TimeUnit.SECONDS) != null, "nothing came");
            }
            for (int tries = 0; tries < 500 && Checks.messagesIn(queue) > 0; tries++) {
                Thread.sleep(20);
            }
        }
        Checks.equal(Checks.messagesIn(queue), 0L);
    }

    static final List<ServiceBus.Step> STEPS = List.of(
        new ServiceBus.Step("processes messages, several at a time", () -> {
            Clients.sender.sendMessages(List.of(Checks.text("1"), Checks.text("2"), Checks.text("3")));
            BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
            processes(Clients.QUEUE, Clients.builder().processor().queueName(Clients.QUEUE).maxConcurrentCalls(2)
                .prefetchCount(3).processMessage(context -> bodies.add(context.getMessage().getBody().toString()))
                .processError(context -> System.out.println("# " + context.getException())).buildProcessorClient(),
                bodies, 3);
        }),
        new ServiceBus.Step("processes sessions side by side", () -> {
            try (ServiceBusSenderClient through = Clients.sender(Clients.SESSIONS)) {
                through.sendMessage(Checks.text("a").setSessionId("one"));
                through.sendMessage(Checks.text("b").setSessionId("two"));
            }
            BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
            processes(Clients.SESSIONS, Clients.builder().sessionProcessor().queueName(Clients.SESSIONS)
                .maxConcurrentSessions(2).disableAutoComplete()
                .processMessage((ServiceBusReceivedMessageContext context) -> {
                    context.complete();
                    bodies.add(context.getMessage().getSessionId());
                }).processError(context -> System.out.println("# " + context.getException())).buildProcessorClient(),
                bodies, 2);
        }),
        new ServiceBus.Step("receives what was prefetched", () -> {
            Clients.sender.sendMessages(List.of(Checks.text("1"), Checks.text("2")));
            try (ServiceBusReceiverClient fetching = Clients.builder().receiver().queueName(Clients.QUEUE)
                    .prefetchCount(10).receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient()) {
                Checks.equal(Checks.next(fetching).getBody().toString(), "1");
                Checks.equal(Checks.next(fetching).getBody().toString(), "2");
            }
        }),
        new ServiceBus.Step("manages rules over AMQP", () -> {
            try (ServiceBusRuleManagerClient rules = Clients.builder().ruleManager().topicName(Clients.TOPIC)
                    .subscriptionName("all").buildClient()) {
                CorrelationRuleFilter subject = new CorrelationRuleFilter().setCorrelationId("c");
                subject.getProperties().put("a", "b");
                rules.createRule("colour", new CreateRuleOptions(new SqlRuleFilter("colour = 'red'"))
                    .setAction(new SqlRuleAction("SET seen = 'yes'")));
                rules.createRule("subject", new CreateRuleOptions(subject));
                List<RuleProperties> found = rules.listRules().stream().toList();
                Checks.equal(found.stream().map(RuleProperties::getName).sorted().toList(),
                    List.of("$Default", "colour", "subject"));
                CorrelationRuleFilter back = (CorrelationRuleFilter) found.stream()
                    .filter(rule -> rule.getName().equals("subject")).findFirst().orElseThrow().getFilter();
                Checks.equal(List.of(back.getCorrelationId(), back.getProperties()), List.of("c", Map.of("a", "b")));
                rules.deleteRule("$Default");
                rules.deleteRule("subject");
            }
        }),
        new ServiceBus.Step("receives what a rule that was made over AMQP lets pass", () -> {
            try (ServiceBusSenderClient through = Clients.publisher();
                    ServiceBusReceiverClient all = Clients.subscribed("all")) {
                for (String colour : List.of("blue", "red")) {
                    ServiceBusMessage message = Checks.text(colour);
                    message.getApplicationProperties().put("colour", colour);
                    through.sendMessage(message);
                }
                Checks.expect(all, "red");
            }
        }));
}
