"""Run agents on Celery workers: the backend, and the worker that starts agents on its machine.

The broker is Redis or Valkey. It carries the messages that start attempts and the reports of the workers. It never
has the only copy of a job.
"""
