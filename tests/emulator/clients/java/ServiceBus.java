import java.util.ArrayList;
import java.util.List;

/**
 * What azure-messaging-servicebus for Java can do, in numbered steps. The connection string is in
 * SERVICEBUS_CONNECTION_STRING; STEPS is the number of steps to walk, all by default. Without the hint that this is an
 * emulator, messaging is led to the host and port by customEndpointAddress, over TLS; JAVA_TOOL_OPTIONS names the trust store.
 */
public final class ServiceBus {
    interface Work {
        void run() throws Exception;
    }

    record Step(String name, Work work) {}

    public static void main(String[] arguments) throws Exception {
        List<Step> steps = new ArrayList<>(FirstSteps.STEPS);
        for (List<Step> more : List.of(AdministrationSteps.STEPS, MessageSteps.STEPS, SettlementSteps.STEPS,
                SessionSteps.STEPS, ReceivingSteps.STEPS, TransactionSteps.STEPS, RefusalSteps.STEPS)) {
            steps.addAll(more);
        }
        String wanted = System.getenv("STEPS");
        if (wanted != null) {
            steps = steps.subList(0, Integer.parseInt(wanted));
        }
        Clients.open();
        int passed = 0;
        for (int number = 1; number <= steps.size(); number++) {
            passed += walk(number, steps.get(number - 1)) ? 1 : 0;
        }
        System.out.printf("# pass %d%n", passed);
        System.exit(passed == steps.size() ? 0 : 1);
    }

    private static boolean walk(int number, Step step) {
        long began = System.nanoTime();
        try {
            step.work().run();
        } catch (Exception | AssertionError failure) {
            System.out.printf("not ok %d %s: %s%n", number, step.name(), failure);
            return false;
        }
        System.out.printf("ok %d %s (%.1f s)%n", number, step.name(), (System.nanoTime() - began) / 1e9);
        return true;
    }
}
