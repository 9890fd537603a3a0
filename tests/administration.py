"""The administration of local namespaces, for tests."""

from azure.servicebus.management import ServiceBusAdministrationClient

from pairing import emulator_transport


def administration_of(connection_string: str, **options: int) -> ServiceBusAdministrationClient:
    transport = emulator_transport()
    return ServiceBusAdministrationClient.from_connection_string(connection_string, transport=transport, **options)
