"""Who may do what: ACLs, and the requests that need them."""
