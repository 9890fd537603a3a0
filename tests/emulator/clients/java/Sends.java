import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusSenderClient;

/** Sends COUNT numbered messages to the queue orders: `accepted N` or `failed N reason` for each. */
public final class Sends {
    public static void main(String[] arguments) throws Exception {
        ServiceBusSenderClient sender = new ServiceBusClientBuilder()
                .connectionString(System.getenv("SERVICEBUS_CONNECTION_STRING")).sender().queueName("orders").buildClient();
        int count = Integer.parseInt(System.getenv("COUNT"));
        for (int number = 0; number < count; number++) {
            String id = Integer.toString(number);
            try {
                sender.sendMessage(new ServiceBusMessage(id).setMessageId(id));
                System.out.println("accepted " + id);
            } catch (RuntimeException failure) {
                System.out.println("failed " + id + " " + failure);
            }
            Thread.sleep(100);
        }
        sender.close();
        System.exit(0);
    }
}
