"""What happened: frozen event types, the state machine, and fold(events) -> JobView."""
