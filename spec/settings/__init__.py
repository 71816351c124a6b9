"""Settings of producers, consumers and brokers that concern exactly-once."""
