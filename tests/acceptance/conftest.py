"""One demo for all stories that do not end it."""

from collections.abc import Iterator

import pytest

from tests.acceptance.visitor import PASSWORD, Demo, Visitor


@pytest.fixture(scope="session")
def running_demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A demo that is ready; it ends with the stories, cleanly, and leaves nothing behind."""
    demo = Demo(tmp_path_factory.mktemp("demo") / "here", DEMO_PASSWORD=PASSWORD)
    try:
        demo.await_ready()
        yield demo
    finally:
        code = demo.end()
        print(demo.last_words())
    assert code == 0
    assert not demo.processes()
    assert demo.redis_is_gone()


@pytest.fixture(scope="session")
def visitor(running_demo: Demo) -> Iterator[Visitor]:
    """The operator at the browser."""
    visitor = Visitor(running_demo, f"http://127.0.0.1:{running_demo.port}/", PASSWORD)
    yield visitor
    visitor.http.close()
