"""Systems of one partition: its replicas, its readers."""
