"""A Kafka server for tests: librdkafka's mock cluster behind a relay that can be shut.

The cluster keeps topics, groups and offsets in memory. It advertises an address of its own, so the relay puts its own
port wherever that address is told. It also does what the cluster does in a way that only librdkafka understands: it
answers requests for versions from a newer client, and takes apart a request of several members to leave their group.

Arguments: the library and the port. Each line on standard input is an order: `down` ends all connections and refuses
new ones, `up` takes them again. Each is answered with one line.
"""

import ctypes
import select
import socket
import struct
import sys
import threading

LEAVE_GROUP = 13
API_VERSIONS = 18
API_VERSIONS_MAX = 2
UNSUPPORTED_VERSION = 35
# The cluster offers later versions of these as well, and ends the connection of whoever uses them as the protocol says.
VERSIONS_MAX = {8: 7, 9: 5, 10: 2, 11: 5, 12: 3, 13: 3, 14: 3}


def cluster(library):
    """Starts a cluster of one broker; answers its port. It ends with the process."""
    lib = ctypes.CDLL(library)
    pointer, number = ctypes.c_void_p, ctypes.c_int
    lib.rd_kafka_conf_new.restype = pointer
    lib.rd_kafka_conf_set.argtypes = [pointer, ctypes.c_char_p, ctypes.c_char_p, pointer, ctypes.c_size_t]
    lib.rd_kafka_new.restype = pointer
    lib.rd_kafka_new.argtypes = [number, pointer, pointer, ctypes.c_size_t]
    lib.rd_kafka_mock_cluster_new.restype = pointer
    lib.rd_kafka_mock_cluster_new.argtypes = [pointer, number]
    lib.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    lib.rd_kafka_mock_cluster_bootstraps.argtypes = [pointer]
    lib.rd_kafka_mock_set_apiversion.argtypes = [pointer, ctypes.c_int16, ctypes.c_int16, ctypes.c_int16]
    conf = lib.rd_kafka_conf_new()
    lib.rd_kafka_conf_set(conf, b"log_level", b"0", None, 0)
    client = lib.rd_kafka_new(0, conf, None, 0)
    mock = lib.rd_kafka_mock_cluster_new(client, 1)
    lib.rd_kafka_mock_group_initial_rebalance_delay_ms.argtypes = [pointer, ctypes.c_int32]
    lib.rd_kafka_mock_group_initial_rebalance_delay_ms(mock, 50)
    for kind, version in VERSIONS_MAX.items():
        lib.rd_kafka_mock_set_apiversion(mock, kind, 0, version)
    return int(lib.rd_kafka_mock_cluster_bootstraps(mock).decode().rsplit(":", 1)[1])


def exactly(connection, size):
    got = b""
    while len(got) < size:
        part = connection.recv(size - len(got))
        if not part:
            raise OSError("the other side has ended")
        got += part
    return got


def frame(connection):
    (size,) = struct.unpack(">i", exactly(connection, 4))
    return exactly(connection, size)


def send(connection, body):
    connection.sendall(struct.pack(">i", len(body)) + body)


class Relay:
    def __init__(self, port, target):
        self.port, self.target = port, target
        self.lock = threading.Lock()
        self.open = set()
        self.listener = None
        told, own = (b"127.0.0.1" + struct.pack(">i", number) for number in (target, port))
        self.rename = lambda body: body.replace(told, own)

    def up(self):
        if self.listener is None:
            self.listener = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
            threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def down(self):
        listener, self.listener = self.listener, None
        if listener is not None:
            # Wakes whoever waits in `accept`, which closing alone does not.
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self.lock:
            for connection in self.open:
                end(connection)

    def accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        with self.lock:
            self.open.add(near)
        try:
            with near, socket.create_connection(("127.0.0.1", self.target)) as far:
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.exchange(near, far)
        except OSError:
            pass
        finally:
            with self.lock:
                self.open.discard(near)

    def exchange(self, near, far):
        leaving = {}
        while True:
            ready, _, _ = select.select([near, far], [], [])
            if far in ready:
                told = frame(far)
                send(near, self.rename(told) + leaving.pop(told[:4], b""))
            if near in ready:
                asked = frame(near)
                kind, version, number = struct.unpack(">hhi", asked[:8])
                if kind == API_VERSIONS and version > API_VERSIONS_MAX:
                    told = (number, UNSUPPORTED_VERSION, 1, API_VERSIONS, 0, API_VERSIONS_MAX)
                    send(near, struct.pack(">ihihhh", *told))
                elif kind == LEAVE_GROUP:
                    head, member = leave(asked)
                    # One member, without an instance id and without an error.
                    leaving[asked[4:8]] = struct.pack(">i", 1) + member + struct.pack(">hh", -1, 0)
                    send(far, struct.pack(">hh", LEAVE_GROUP, 1) + head + member)
                else:
                    send(far, asked)


def leave(asked):
    """Number, client and group of a request of version 3; and its first member."""
    at = 8
    for _ in range(2):
        (size,) = struct.unpack(">h", asked[at : at + 2])
        at += 2 + max(size, 0)
    (size,) = struct.unpack(">h", asked[at + 4 : at + 6])
    return asked[4:at], asked[at + 4 : at + 6 + size]


def end(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def main():
    library, port = sys.argv[1], int(sys.argv[2])
    relay = Relay(port, cluster(library))
    relay.up()
    print("up", flush=True)
    for order in sys.stdin:
        relay.up() if order.strip() == "up" else relay.down()
        print(order.strip(), flush=True)


main()
