"""An application that drains under leases and sends nothing: in campaigns without a control plane."""

from pairing import PairedServiceBusClient
from tests.campaign.application import Application, options


def main() -> None:
    application = Application("drainers")
    ways = application.ways
    with PairedServiceBusClient.from_connection_string(
        ways.primary, ways.secondary, options=options(ways, application.plan, drains=True)
    ) as client:
        application.begins(client.process)
        application.stop.wait()
    application.ends()


if __name__ == "__main__":
    main()
