"""The Celery app of anygpu's workers.

For Flower: `celery -A anygpu.backends.celery.app flower`, with the broker's URL in CELERY_BROKER_URL.
"""

import os
from typing import Any

from celery import Celery
from kombu import Exchange, Queue

from anygpu.backends.celery.broker import BrokerAddress, parse_broker

APP_NAME = "anygpu"
BROKER_VARIABLE = "CELERY_BROKER_URL"


def make_queue(name: str) -> Queue:
    """Return a queue without an exchange, so that the broker keeps nothing about it while it is empty."""
    return Queue(name, exchange=Exchange(""), routing_key=name)


def make_app(address: BrokerAddress, *queues: str, answer_timeout_s: float | None = None) -> Celery:
    """Return a Celery app that accepts only JSON, keeps no results and acknowledges messages early.

    With `answer_timeout_s`, an answer of the broker that takes longer is an error. A worker waits for messages longer.
    """
    limits = {} if answer_timeout_s is None else {"socket_timeout": answer_timeout_s}
    made = Celery(APP_NAME, set_as_current=False)
    made.conf.update(
        **address.celery_settings(),
        accept_content=["json"],
        task_serializer="json",
        event_serializer="json",
        result_backend=None,
        task_ignore_result=True,
        task_acks_late=False,
        task_default_queue=queues[0] if queues else APP_NAME,
        task_queues=[make_queue(name) for name in queues] or None,
        task_create_missing_queues=False,
        task_send_sent_event=True,
        worker_send_task_events=True,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        worker_enable_remote_control=True,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={"socket_connect_timeout": 5, "socket_keepalive": True, **limits},
        enable_utc=True,
    )
    return made


def _ambient_app() -> Celery:
    return make_app(parse_broker(os.environ.get(BROKER_VARIABLE) or "redis://127.0.0.1:6379/0"))


def __getattr__(name: str) -> Any:
    if name == "app":
        return _ambient_app()
    raise AttributeError(name)
