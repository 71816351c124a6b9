"""Kafka's wire protocol: messages of any version, SASL, connections and a listener."""
