"""The Celery worker of anygpu: it starts agents on its machine and reports what runs there."""
