import com.azure.core.exception.ResourceNotFoundException;
import com.azure.messaging.servicebus.ServiceBusFailureReason;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.time.Duration;
import java.util.List;

final class RefusalSteps {
    private RefusalSteps() {}

    static final List<ServiceBus.Step> STEPS = List.of(
        new ServiceBus.Step("is told of entities that do not exist", () -> {
            try (ServiceBusSenderClient nowhere = Clients.sender(Clients.PREFIX + "none")) {
                Checks.failsWith(ServiceBusFailureReason.MESSAGING_ENTITY_NOT_FOUND,
                    () -> nowhere.sendMessage(Checks.text("x")));
            }
        }),
        new ServiceBus.Step("is told of keys that are wrong", () -> {
            String wrong = Clients.CONNECTION.replaceFirst("SharedAccessKey=[^;]*", "SharedAccessKey=wrong");
            try (ServiceBusSenderClient stranger = Clients.builder(wrong, Duration.ofSeconds(20)).sender()
                    .queueName(Clients.QUEUE).buildClient()) {
                Checks.failsWith(ServiceBusFailureReason.UNAUTHORIZED, () -> stranger.sendMessage(Checks.text("x")));
            }
        }),
        new ServiceBus.Step("deletes what it made", () -> {
            for (String name : List.of("queue", "sessions", "from", "pair", "once", "brief", "quick")) {
                Clients.administration.deleteQueue(Clients.PREFIX + name);
            }
            Clients.administration.deleteSubscription(Clients.TOPIC, "some");
            Clients.administration.deleteTopic(Clients.TOPIC);
            Checks.equal(Clients.administration.getTopicExists(Clients.TOPIC), false);
            Checks.fails(ResourceNotFoundException.class, () -> Clients.administration.deleteQueue(Clients.QUEUE));
        }));
}
