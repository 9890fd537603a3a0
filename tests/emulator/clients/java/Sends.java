import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.qpid.proton.amqp.UnsignedByte;
import org.apache.qpid.proton.amqp.UnsignedInteger;
import org.apache.qpid.proton.amqp.UnsignedLong;
import org.apache.qpid.proton.amqp.UnsignedShort;

/** Makes one send of each line, `ENTITY ID BODY [ID BODY]…`, of base64: `accepted ID` or `failed ID reason`. */
public final class Sends {
    private static final Map<String, ServiceBusSenderClient> SENDERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            try {
                send(SENDERS.computeIfAbsent(words[0], Sends::open), words);
                System.out.println("accepted " + words[1]);
            } catch (RuntimeException failure) {
                System.out.println("failed " + words[1] + " " + failure.toString().replace('\n', ' '));
            }
        }
        System.exit(0);
    }

    private static ServiceBusSenderClient open(String entity) {
        String connection = System.getenv("SERVICEBUS_CONNECTION_STRING");
        String tryS = System.getenv().getOrDefault("TRY_S", "60");
        AmqpRetryOptions retries = new AmqpRetryOptions().setTryTimeout(Duration.ofSeconds(Long.parseLong(tryS)));
        return new ServiceBusClientBuilder().connectionString(connection).retryOptions(retries)
            .sender().queueName(entity).buildClient();
    }

    private static void send(ServiceBusSenderClient sender, String[] words) {
        List<ServiceBusMessage> messages = new ArrayList<>();
        for (int at = 1; at < words.length; at += 2) {
            ServiceBusMessage message = new ServiceBusMessage(Base64.getDecoder().decode(words[at + 1]));
            message.setMessageId(words[at]).setSubject(words[0]).getApplicationProperties()
                .putAll(Map.of("campaign-id", words[at], "ratio", 0.5, "due", new Date(1770091506789L),
                    "ubyte", UnsignedByte.valueOf((byte) 7), "ushort", UnsignedShort.valueOf((short) 7),
                    "byte", (byte) 7, "short", (short) 7, "int", 7, "long", 7L));
            message.getApplicationProperties()
                .putAll(Map.of("uint", UnsignedInteger.valueOf(7), "ulong", UnsignedLong.valueOf(7)));
            messages.add(message);
        }
        if (messages.size() == 1) {
            sender.sendMessage(messages.get(0));
        } else {
            sender.sendMessages(messages);
        }
    }
}
