"""Who hands out producer ids: brokers by ZooKeeper, or the controller in blocks."""
