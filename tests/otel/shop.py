"""The first service of the shop: an order with its customer, lines and delivery.

Flask, SQLAlchemy on PostgreSQL, redis and requests, traced by `opentelemetry-instrument flask --app shop run`.
The header `shop-cause` of a request names why some of all requests are slow, in this service or in those behind it.
With `?pickup=true`, a pickup is booked by gRPC. Settings: SHOP_DATABASE, SHOP_REDIS, SHOP_DELIVERY (URLs) and
SHOP_PICKUPS (an address). The modules of pickups.proto must be on the path.
"""

import os
import random
import threading
import time

import grpc
import pickups_pb2
import pickups_pb2_grpc
import redis
import requests
from flask import Flask, jsonify, request
from opentelemetry import baggage, trace
from opentelemetry.processor.baggage import ALLOW_ALL_BAGGAGE_KEYS, BaggageSpanProcessor
from sqlalchemy import ForeignKey, create_engine, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

LONG_S = 0.25
TENANTS = 10
# The order with very many lines.
LARGE = 1000
# Requests of the warm-up, and the first ones after it that find no cache; the number of a request is that of its order.
WARM_UP = 30
COLD = 8

engine = create_engine(os.environ["SHOP_DATABASE"], pool_size=10)
# For what may be read a little late.
replica = create_engine(os.environ["SHOP_DATABASE"], pool_size=1, max_overflow=0)
sessions = redis.Redis.from_url(os.environ["SHOP_REDIS"])
delivery = os.environ["SHOP_DELIVERY"]
pickups = pickups_pb2_grpc.PickupsStub(grpc.insecure_channel(os.environ["SHOP_PICKUPS"]))
local = threading.local()
app = Flask(__name__)

# Whatever came as baggage stands on every span.
trace.get_tracer_provider().add_span_processor(BaggageSpanProcessor(ALLOW_ALL_BAGGAGE_KEYS))


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    lines: Mapped[list["Line"]] = relationship(order_by="Line.id")


class Line(Base):
    __tablename__ = "line"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))
    product_id: Mapped[int] = mapped_column(ForeignKey("product.id"))
    product: Mapped["Product"] = relationship()


class Product(Base):
    """A view: what there is of a product is the sum of all that came and went."""

    __tablename__ = "product"
    id: Mapped[int] = mapped_column(primary_key=True)
    stock: Mapped[int]


class Customer(Base):
    """Has a partition for each tenant; that of one tenant has no index."""

    __tablename__ = "customer"
    tenant: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str] = mapped_column(primary_key=True)


class Invoices(Base):
    """The number of the next invoice of a tenant."""

    __tablename__ = "invoices"
    tenant: Mapped[int] = mapped_column(primary_key=True)
    next_number: Mapped[int]


def is_planted(name):
    return request.headers.get("shop-cause") == name


def drawn(name, share):
    return is_planted(name) and random.random() < share


def meanwhile(work):
    """Runs `work(begun)` beside the request, from when it says that it has begun."""
    begun = threading.Event()
    threading.Thread(target=work, args=(begun,), daemon=True).start()
    begun.wait(5)


def export(begun):
    """Holds the only connection to the replica."""
    with replica.connect():
        begun.set()
        time.sleep(LONG_S)


def audit(tenant):
    """Holds the row that every order of the tenant needs."""

    def work(begun):
        with Session(engine) as session:
            session.execute(text("SELECT 1 FROM invoices WHERE tenant = :tenant FOR UPDATE"), {"tenant": tenant})
            begun.set()
            time.sleep(LONG_S)

    return work


def http():
    if not hasattr(local, "http"):
        local.http = requests.Session()
    return local.http


@app.get("/orders/<int:number>")
def order(number):
    tenant = int(str(baggage.get_baggage("tenant") or "tenant-0").rsplit("-", 1)[1]) % TENANTS
    # Other tenants' addresses are found in their index.
    customer_tenant = tenant if is_planted("index") or tenant != 3 else 0
    sessions.get(f"session:{tenant}")
    if drawn("pool", 0.03):
        meanwhile(export)
    with Session(replica) as session:
        known = session.get(Order, number % 200 + 1) is not None
    with Session(engine) as session:
        wanted = select(Customer).where(Customer.tenant == customer_tenant, Customer.email == f"c{number}@shop.example")
        known = known and session.scalars(wanted).one_or_none() is not None
        ordered = session.get(Order, LARGE if drawn("n_plus_one", 0.09) else number % 200 + 1)
        stock = [line.product.stock for line in ordered.lines]
        if drawn("lock", 0.09):
            meanwhile(audit(tenant))
        invoices = session.get(Invoices, tenant, with_for_update=True)
        invoices.next_number += 1
        session.commit()
    if is_planted("cold") and WARM_UP <= number < WARM_UP + COLD:
        time.sleep(LONG_S)
    if drawn("large", 0.09):
        stock *= 30_000
        time.sleep(2 * LONG_S)
    region = f"region-{tenant}"
    planted = {"shop-cause": request.headers.get("shop-cause", "none")}
    quote = http().get(f"{delivery}/quote", params={"items": 7, "region": region}, headers=planted, timeout=30)
    quote.raise_for_status()
    answer = {"known": known, "stock": stock if is_planted("large") else stock[:5], "delivery": quote.json()}
    if "pickup" in request.args:
        wanted = pickups_pb2.BookRequest(order=number, region=region)
        answer["pickup"] = pickups.Book(wanted, metadata=tuple(planted.items()), timeout=30).hour
    return jsonify(answer)
