// Package suites names the modules whose own tests run on given brokers (suites.py beside this
// folder).
package suites

import _ "github.com/twmb/franz-go/pkg/kgo"
