"""The settings of a driver that was not started by spark-submit (docs/costs.md, "On a cluster")."""

from pipeline.usage.spark import ADDRESSES, LOCAL_DEFAULTS, of_a_plain_process


def test_the_driver_listens_on_this_machine_only_unless_it_has_a_cluster_to_answer() -> None:
    local = of_a_plain_process({}, {})
    assert {local[name] for name in ADDRESSES} == {"127.0.0.1"}
    assert local["spark.driver.memory"] == LOCAL_DEFAULTS["spark.driver.memory"]
    cluster = {"SPARK_MASTER": "spark://master:7077"}
    assert not set(ADDRESSES) & of_a_plain_process(cluster, {}).keys()
    addresses = {"SPARK_DRIVER_HOST": "10.0.0.5", "SPARK_DRIVER_BIND_ADDRESS": "0.0.0.0", "SPARK_DRIVER_PORT": "7001"}
    given = of_a_plain_process(cluster | addresses | {"SPARK_DRIVER_MEMORY": "9g"}, {})
    assert [given[name] for name in (*ADDRESSES, "spark.driver.port")] == ["10.0.0.5", "0.0.0.0", "7001"]
    assert given["spark.driver.memory"] == "9g"
