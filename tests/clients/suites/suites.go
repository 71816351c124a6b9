// Package suites names the modules whose own tests run on given brokers (suites.py beside this
// folder), and what those tests need.
package suites

import (
	_ "github.com/IBM/sarama"
	_ "github.com/Shopify/toxiproxy/v2"
	_ "github.com/twmb/franz-go/pkg/kgo"
)
