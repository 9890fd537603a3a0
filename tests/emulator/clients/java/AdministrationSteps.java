import com.azure.core.exception.ResourceExistsException;
import com.azure.core.exception.ResourceNotFoundException;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.models.CorrelationRuleFilter;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateRuleOptions;
import com.azure.messaging.servicebus.administration.models.QueueProperties;
import com.azure.messaging.servicebus.administration.models.QueueRuntimeProperties;
import com.azure.messaging.servicebus.administration.models.RuleProperties;
import com.azure.messaging.servicebus.administration.models.SqlRuleFilter;
import com.azure.messaging.servicebus.administration.models.TopicRuntimeProperties;
import java.time.Duration;
import java.util.List;
import java.util.Map;

final class AdministrationSteps {
    private AdministrationSteps() {}

    static final List<ServiceBus.Step> STEPS = List.of(
        new ServiceBus.Step("refuses to create a queue twice", () ->
            Checks.fails(ResourceExistsException.class, () -> Clients.administration.createQueue(Clients.QUEUE))),
        new ServiceBus.Step("updates a queue", () -> {
            QueueProperties found = Clients.administration.getQueue(Clients.PAIR);
            found.setDefaultMessageTimeToLive(Duration.ofDays(1));
            Checks.equal(Clients.administration.updateQueue(found).getDefaultMessageTimeToLive(), Duration.ofDays(1));
        }),
        new ServiceBus.Step("finds out what exists", () -> {
            Checks.equal(List.of(Clients.administration.getQueueExists(Clients.QUEUE),
                Clients.administration.getQueueExists(Clients.PREFIX + "none"),
                Clients.administration.getTopicExists(Clients.TOPIC),
                Clients.administration.getSubscriptionExists(Clients.TOPIC, "all")),
                List.of(true, false, true, true));
            Checks.fails(ResourceNotFoundException.class,
                () -> Clients.administration.getQueue(Clients.PREFIX + "none"));
        }),
        new ServiceBus.Step("lists queues, topics and subscriptions, with counts", () -> {
            List<String> names = Clients.administration.listQueues().stream().map(QueueProperties::getName).toList();
            Checks.check(names.containsAll(List.of(Clients.QUEUE, Clients.PAIR, Clients.SESSIONS)), names.toString());
            Checks.check(Clients.administration.listTopics().stream()
                .anyMatch(topic -> topic.getName().equals(Clients.TOPIC)), "the topic is not listed");
            Checks.equal(Clients.administration.listSubscriptions(Clients.TOPIC).stream()
                .map(each -> each.getSubscriptionName()).toList(), List.of("all", "some"));
            QueueRuntimeProperties counts = Clients.administration.getQueueRuntimeProperties(Clients.QUEUE);
            Checks.equal(List.of(counts.getActiveMessageCount(), counts.getDeadLetterMessageCount()), List.of(0, 0));
        }),
        new ServiceBus.Step("creates, reads, updates, lists and deletes rules", () -> {
            CorrelationRuleFilter filter = new CorrelationRuleFilter().setLabel("red").setCorrelationId("c");
            filter.getProperties().putAll(Map.of("colour", "red"));
            Clients.administration.createRule(Clients.TOPIC, "red", "all", new CreateRuleOptions(filter));
            RuleProperties rule = Clients.administration.getRule(Clients.TOPIC, "all", "red");
            CorrelationRuleFilter found = (CorrelationRuleFilter) rule.getFilter();
            Checks.equal(List.of(found.getLabel(), found.getCorrelationId(), found.getProperties()),
                List.of("red", "c", Map.of("colour", "red")));
            rule.setFilter(new SqlRuleFilter("a = 1"));
            RuleProperties updated = Clients.administration.updateRule(Clients.TOPIC, "all", rule);
            Checks.equal(((SqlRuleFilter) updated.getFilter()).getSqlExpression(), "a = 1");
            Checks.equal(Clients.administration.listRules(Clients.TOPIC, "all").stream()
                .map(RuleProperties::getName).toList(), List.of("$Default", "red"));
            Clients.administration.deleteRule(Clients.TOPIC, "all", "red");
        }),
        new ServiceBus.Step("reads the namespace, and counts of a topic", () -> {
            Checks.equal(Clients.administration.getNamespaceProperties().getMessagingSku().toString(), "Standard");
            TopicRuntimeProperties counts = Clients.administration.getTopicRuntimeProperties(Clients.TOPIC);
            Checks.equal(counts.getSubscriptionCount(), 2);
        }),
        new ServiceBus.Step("forwards from one queue to another", () -> {
            String from = Clients.PREFIX + "from";
            Clients.administration.createQueue(from, new CreateQueueOptions().setForwardTo(Clients.PAIR));
            try (ServiceBusSenderClient through = Clients.sender(from);
                    ServiceBusReceiverClient receiver = Clients.receiver(Clients.PAIR)) {
                through.sendMessage(Checks.text("forwarded"));
                Checks.expect(receiver, "forwarded");
            }
        }));
}
