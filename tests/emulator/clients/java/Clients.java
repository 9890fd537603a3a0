import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.AmqpTransportType;
import com.azure.core.http.HttpClient;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.ServiceBusSessionReceiverClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.net.URI;
import java.time.Duration;

/** The clients of the SDK that the steps share, and the names of their entities. */
final class Clients {
    static final String CONNECTION = System.getenv("SERVICEBUS_CONNECTION_STRING");
    /** Another one behind a gateway, which passes on messaging alone. */
    private static final String ADMINISTERED =
        System.getenv().getOrDefault("ADMINISTRATION_CONNECTION_STRING", CONNECTION);
    static final String PREFIX = "java-" + System.nanoTime() + "-";
    static final String QUEUE = PREFIX + "queue", PAIR = PREFIX + "pair";
    static final String SESSIONS = PREFIX + "sessions", TOPIC = PREFIX + "topic";
    private static final URI ENDPOINT = endpoint(CONNECTION), ADMINISTRATION = endpoint(ADMINISTERED);

    static ServiceBusAdministrationClient administration;
    static ServiceBusSenderClient sender;
    static ServiceBusReceiverClient receiver, dead;

    private Clients() {}

    static void open() {
        HttpClient real = HttpClient.createDefault();
        String plain = "http://" + ADMINISTRATION.getHost() + ":" + ADMINISTRATION.getPort();
        administration = new ServiceBusAdministrationClientBuilder().connectionString(named(ADMINISTERED))
            .httpClient(request -> real.send(request.setUrl(
                request.getUrl().toString().replaceFirst("https?://[^/]+", plain)))).buildClient();
    }

    private static URI endpoint(String connection) {
        return URI.create(connection.replaceFirst("Endpoint=([^;]+);.*", "$1"));
    }

    static boolean isEmulator() {
        return CONNECTION.contains("UseDevelopmentEmulator=true");
    }

    /** A connection string with the name of a namespace in place of a host and port. */
    private static String named(String connection) {
        String name = System.getenv().getOrDefault("NAMESPACE", "contoso.servicebus.windows.net");
        return connection.replaceFirst("sb://[^;]+", "sb://" + name)
            .replace("UseDevelopmentEmulator=true;", "");
    }

    static ServiceBusClientBuilder builder(String connection, Duration patience) {
        AmqpRetryOptions options = new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(patience);
        ServiceBusClientBuilder builder = new ServiceBusClientBuilder().retryOptions(options);
        if (isEmulator()) {
            return builder.connectionString(connection);
        }
        if ("1".equals(System.getenv("OVER_WEBSOCKETS"))) {
            builder.transportType(AmqpTransportType.AMQP_WEB_SOCKETS);
        }
        return builder.connectionString(named(connection))
            .customEndpointAddress("https://" + ENDPOINT.getHost() + ":" + ENDPOINT.getPort());
    }

    static ServiceBusClientBuilder builder() {
        return builder(CONNECTION, Duration.ofSeconds(20));
    }

    static ServiceBusSenderClient sender(String entity) {
        return builder().sender().queueName(entity).buildClient();
    }

    static ServiceBusSenderClient publisher() {
        return builder().sender().topicName(TOPIC).buildClient();
    }

    static ServiceBusReceiverClient receiver(String queue) {
        return builder().receiver().queueName(queue).disableAutoComplete().buildClient();
    }

    static ServiceBusReceiverClient deleting(String queue) {
        return builder().receiver().queueName(queue).receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE)
            .buildClient();
    }

    static ServiceBusReceiverClient deadLetters(String queue) {
        return builder().receiver().queueName(queue).subQueue(SubQueue.DEAD_LETTER_QUEUE).disableAutoComplete()
            .buildClient();
    }

    static ServiceBusReceiverClient subscribed(String name) {
        return builder().receiver().topicName(TOPIC).subscriptionName(name).disableAutoComplete().buildClient();
    }

    static ServiceBusSessionReceiverClient sessionsOf(String queue, Duration patience) {
        return builder(CONNECTION, patience).sessionReceiver().queueName(queue).disableAutoComplete().buildClient();
    }

    static ServiceBusReceiverClient session(String id) {
        return sessionsOf(SESSIONS, Duration.ofSeconds(20)).acceptSession(id);
    }
}
