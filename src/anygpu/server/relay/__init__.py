"""The server's side of the relay: find the requests of agents in their mailboxes, and answer them."""
