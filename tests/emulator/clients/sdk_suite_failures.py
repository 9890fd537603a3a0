"""The SDK's own tests that cannot pass against the emulator, by name, each with the reason. All of them must fail."""

_STUB = "its stub of settle_messages lacks the argument await_outcome, with which this version of the SDK calls it"
_WAIT = (
    "it expects a call with max_wait_time=5 to wait for more than 65 s, but this version of the SDK ends it after 5 s"
)

FAILURES = {
    "test_queue_operation_negative": _STUB,
    "test_async_queue_operation_negative": _STUB,
    "test_next_available_session_timeout_value": _WAIT,
    "test_async_next_available_session_timeout_value": _WAIT,
}

OVER_WEBSOCKETS = {
    "test_queue_message_amqp_over_websocket",
    "test_queue_send_twice",
    "test_async_queue_send_twice",
    "test_queue_send_timeout",
    "test_async_queue_send_timeout",
    "test_queue_send_large_message_receive",
    "test_async_queue_send_large_message_receive",
    "test_sb_client_with_ssl_context[ws-pyamqp]",
    "test_sb_client_with_ssl_context_async[ws-pyamqp]",
}
"""Those that connect with WebSockets, among others: skipped where port 443 cannot be opened."""
