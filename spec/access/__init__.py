"""Access control: ACLs, and the requests that need them."""
