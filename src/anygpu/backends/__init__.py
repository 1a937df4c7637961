"""How it starts: the contract, and one file or folder per place."""
