"""The relay: how agents that have no route to the server exchange messages with it, through mailboxes."""
