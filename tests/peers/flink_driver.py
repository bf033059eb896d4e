"""Runs in PyFlink's Python: one JVM with Flink's batch and streaming table environments, driven by tests.peers.flink.

Rows leave the JVM as JSON that Jackson writes there, whole results at a time: dates, times, timestamps and decimals as
their Java strings, bytes as base64; a row is {"kind": ..., "fieldByPosition": [...]}. tests.peers.flink decodes them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError
from pyflink import java_gateway
from tests.peers.paimon_api import PaimonApi
from tests.peers.rpc import Failure, serve

LOG4J = """\
rootLogger.level = ERROR
rootLogger.appenderRef.err.ref = err
appender.err.name = err
appender.err.type = CONSOLE
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d %p %c{1} - %m%n
"""
SESSION = {
    "table.dml-sync": "true",
    "table.local-time-zone": "UTC",
    "parallelism.default": os.environ.get("PEER_PARALLELISM", "1"),
    "restart-strategy.type": "disable",
}
STREAMING = {"execution.checkpointing.interval": "500 ms"}


def launch() -> Any:
    """Start the JVM and return its py4j gateway; the JVM ends when this process does."""
    folder = Path(tempfile.mkdtemp(prefix="flink-peer-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "log4j.properties").write_text(LOG4J)
    os.environ["LOG4J_PROPERTIES"] = str(folder / "log4j.properties")
    os.environ["FLINK_LOG_DIR"] = str(folder)
    original = java_gateway.launch_gateway_server_process

    def drained(*args: Any) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = original(*args)
        processes.append(process)
        return process

    processes: list[subprocess.Popen[bytes]] = []
    java_gateway.launch_gateway_server_process = drained
    gateway = java_gateway.launch_gateway()
    threading.Thread(target=_drain, args=(processes[0],), daemon=True).start()
    # PyFlink's server ends itself a few seconds after its start unless it finds a watchdog to call back.
    callbacks = gateway.get_callback_server()
    gateway.jvm.org.apache.flink.client.python.PythonEnvUtils.resetCallbackClient(
        gateway.java_gateway_server, callbacks.get_listening_address(), callbacks.get_listening_port()
    )
    gateway.entry_point.put("Watchdog", java_gateway.Watchdog())
    return gateway


def _drain(process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        os.write(2, line)


class Flink:
    """The operations that tests.peers.flink calls."""

    def __init__(self) -> None:
        self._gateway = launch()
        self._jvm = self._gateway.jvm
        self._mapper = self._new_mapper()
        self._cluster = self._new_cluster()
        self._send_procedures_to_cluster()
        self._environments = {mode: self._new_environment(mode) for mode in ("batch", "streaming")}
        self._catalogs: dict[str, str] = {}
        self._api = PaimonApi(self._jvm)

    def _new_mapper(self) -> Any:
        jackson = self._jvm.org.apache.flink.shaded.jackson2.com.fasterxml.jackson
        module = jackson.databind.module.SimpleModule()
        text = jackson.databind.ser.std.ToStringSerializer.instance
        for name in ("java.time.LocalDate", "java.time.LocalTime", "java.time.LocalDateTime", "java.time.Instant"):
            module.addSerializer(self._class(name), text)
        module.addSerializer(self._class("java.math.BigDecimal"), text)
        mapper = jackson.databind.ObjectMapper()
        mapper.registerModule(module)
        accessor, visibility = jackson.annotation.PropertyAccessor, jackson.annotation.JsonAutoDetect.Visibility
        mapper.setVisibility(accessor.ALL, visibility.NONE)
        mapper.setVisibility(accessor.FIELD, visibility.ANY)
        return mapper

    def _class(self, name: str) -> Any:
        return self._jvm.java.lang.Class.forName(name)

    def _new_cluster(self) -> Any:
        """One embedded cluster for the whole session: a job then costs a fraction of a second."""
        jvm = self._jvm
        configuration = jvm.org.apache.flink.configuration.Configuration()
        for key, value in {
            "rest.bind-address": "localhost",
            "rest.address": "localhost",
            "rest.bind-port": "0",
            "taskmanager.memory.managed.size": "128m",
            "taskmanager.memory.network.min": "64m",
            "taskmanager.memory.network.max": "64m",
            "heartbeat.timeout": "600000",
        }.items():
            configuration.setString(key, value)
        builder = jvm.org.apache.flink.runtime.minicluster.MiniClusterConfiguration.Builder()
        builder = builder.setConfiguration(configuration).setNumTaskManagers(1).setNumSlotsPerTaskManager(8)
        cluster = jvm.org.apache.flink.runtime.minicluster.MiniCluster(builder.build())
        cluster.start()
        return cluster

    def _options(self, mode: str) -> dict[str, str]:
        port = str(self._cluster.getRestAddress().get().getPort())
        remote = {"execution.target": "remote", "rest.address": "localhost", "rest.port": port}
        return {**SESSION, **remote, **(STREAMING if mode == "streaming" else {})}

    def _send_procedures_to_cluster(self) -> None:
        """Procedures take the context's environment, not the session's; else each would start a cluster of its own."""
        jvm = self._jvm
        configuration = jvm.org.apache.flink.configuration.Configuration()
        for key, value in self._options("batch").items():
            configuration.setString(key, value)
        jvm.org.apache.flink.client.program.StreamContextEnvironment.setAsContext(
            jvm.org.apache.flink.core.execution.DefaultExecutorServiceLoader(),
            configuration,
            jvm.java.lang.Thread.currentThread().getContextClassLoader(),
            False,
            False,
        )

    def _new_environment(self, mode: str) -> Any:
        settings = self._jvm.org.apache.flink.table.api.EnvironmentSettings.newInstance()
        settings = settings.inBatchMode() if mode == "batch" else settings.inStreamingMode()
        environment = self._jvm.org.apache.flink.table.api.TableEnvironment.create(settings.build())
        for key, value in self._options(mode).items():
            environment.getConfig().set(key, value)
        return environment

    def use(self, warehouse: str) -> str:
        """Make `warehouse` current in both environments; returns its catalog's name."""
        if warehouse not in self._catalogs:
            name = f"peer{len(self._catalogs)}"
            path = warehouse.replace("'", "''")
            for environment in self._environments.values():
                # Without its cache, or the catalog would miss what other engines did to the warehouse.
                self._execute(
                    environment,
                    f"CREATE CATALOG {name} WITH ('type'='paimon', 'warehouse'='file:{path}', 'cache-enabled'='false')",
                )
            self._catalogs[warehouse] = name
        for environment in self._environments.values():
            self._execute(environment, f"USE CATALOG {self._catalogs[warehouse]}")
        return self._catalogs[warehouse]

    def configure(self, options: dict[str, str]) -> None:
        """Set Flink options in both environments."""
        for environment in self._environments.values():
            for key, value in options.items():
                environment.getConfig().set(key, value)

    def zone(self, name: str) -> None:
        """The JVM's default time zone."""
        self._jvm.java.util.TimeZone.setDefault(self._jvm.java.util.TimeZone.getTimeZone(name))

    def api(self, method: str, args: dict[str, Any]) -> Any:
        """What a method of PaimonApi returns."""
        try:
            return getattr(self._api, method)(**args)
        except Py4JJavaError as error:
            raise Failure(_chain(error)) from error

    def run(self, statements: list[str], mode: str) -> list[dict[str, Any]]:
        """Every statement's whole result; stops at the first failure."""
        return [self._whole(self._execute(self._environments[mode], text)) for text in statements]

    def collect(self, sql: str, limit_rows: int, timeout: float) -> dict[str, Any]:
        """The first `limit_rows` rows of a streaming query, or those that came within `timeout` seconds."""
        result = self._execute(self._environments["streaming"], sql)
        rows = self._jvm.java.util.concurrent.CopyOnWriteArrayList()
        self._gateway.entry_point.put("iterator", result.collect())
        self._gateway.entry_point.put("rows", rows)
        failures: list[list[str]] = []
        reader = threading.Thread(target=self._pump, args=(limit_rows, failures), daemon=True)
        reader.start()
        reader.join(timeout)
        self._cancel(result)
        if failures:
            raise Failure(failures[0])
        return {**self._head(result), "rows": self._mapper.writeValueAsString(rows)}

    def _pump(self, limit_rows: int, failures: list[list[str]]) -> None:
        """Move rows from the shared iterator to the shared list until there are `limit_rows`, or the job ends.

        Uses connections of its own: the planner answers only the JVM thread that made it, and a connection is one.
        """
        port = self._gateway.gateway_parameters.port
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        try:
            iterator, rows = gateway.entry_point.get("iterator"), gateway.entry_point.get("rows")
            while rows.size() < limit_rows and iterator.hasNext():
                rows.add(iterator.next())
        except Py4JJavaError as error:
            chain = _chain(error)
            if not any("CancellationException" in link for link in chain):
                failures.append(chain)
        finally:
            gateway.close()

    def _cancel(self, result: Any) -> None:
        client = result.getJobClient()
        if not client.isPresent():
            return
        with contextlib.suppress(Py4JJavaError):  # it ended by itself
            client.get().cancel().get()

    def _execute(self, environment: Any, text: str) -> Any:
        try:
            return environment.executeSql(text)
        except Py4JJavaError as error:
            raise Failure(_chain(error)) from error

    def _whole(self, result: Any) -> dict[str, Any]:
        try:
            rows = self._jvm.org.apache.flink.util.CollectionUtil.iteratorToList(result.collect())
            return {**self._head(result), "rows": self._mapper.writeValueAsString(rows)}
        except Py4JJavaError as error:
            raise Failure(_chain(error)) from error

    def _head(self, result: Any) -> dict[str, Any]:
        schema = result.getResolvedSchema()
        types = [data_type.getLogicalType() for data_type in schema.getColumnDataTypes()]
        return {"columns": list(schema.getColumnNames()), "types": [_type(each) for each in types]}


def _type(logical: Any) -> dict[str, Any]:
    """A logical type as {"root", "text", "children"}, precision where it has one."""
    root = logical.getTypeRoot().name()
    described = {"root": root, "text": logical.asSummaryString(), "children": []}
    if root in ("ARRAY", "MAP", "MULTISET", "ROW"):
        described["children"] = [_type(child) for child in logical.getChildren()]
    if root.startswith("TIME"):
        described["precision"] = logical.getPrecision()
    return described


def _chain(error: Py4JJavaError) -> list[str]:
    """The messages of a Java throwable and its causes, the outermost first."""
    chain: list[str] = []
    link = error.java_exception
    while link is not None and len(chain) < 30:
        chain.append(link.toString())
        link = link.getCause()
    return chain


def start() -> dict[str, Callable[..., Any]]:
    """The JVM, started, as operations by name."""
    flink = Flink()
    return {
        "use": flink.use,
        "run": flink.run,
        "collect": flink.collect,
        "configure": flink.configure,
        "zone": flink.zone,
        "api": flink.api,
    }


if __name__ == "__main__":
    serve(start)
