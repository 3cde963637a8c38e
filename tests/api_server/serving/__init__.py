"""The API over HTTP: requests, watches, faults, and the thread that serves them."""
